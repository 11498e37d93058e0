// SPDX-License-Identifier: Apache-2.0
// scale_to_unit: divides by the largest magnitude of the vector.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void elements(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float top = 0;
  for (int64_t i = begin; i < end; ++i) top = fmaxf(top, fabsf(x[i]));
  for (int64_t i = begin; i < end; ++i)
    og_f32_mut(call->out[0])[i] = top > 0 ? x[i] / top : 0;
}

static og_status scale_to_unit(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 256, elements);
}

MODULE(scale_to_unit, {.schema = "scale_to_unit(Tensor x) -> Tensor",
                       .shape = "x[N] -> [N]",
                       .doc = "x over its largest magnitude; zeros stay zeros.",
                       RUN("f32", scale_to_unit)})
