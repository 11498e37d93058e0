// SPDX-License-Identifier: Apache-2.0
// mistake: The mutated argument may have any strides, but the kernel writes it flat.
// expect: fill_ x strides|layout|out_of_bounds_write

#include "../../modules/operators.h"

enum { N };

static og_status fill(const og_call *call) {
  float *x = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) x[i] = (float)call->attr[0].f;
  return OG_OK;
}

MODULE(strides_mutated_flat,
       {.schema = "fill_(Tensor(a!) x, float value) -> ()",
        .shape = "x[*N] ->",
        .strides = "any",
        RUN("f32", fill)})
