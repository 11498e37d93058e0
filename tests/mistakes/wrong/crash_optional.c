// SPDX-License-Identifier: Apache-2.0
// mistake: The optional bias is dereferenced without a look at whether it was given.
// expect: add_optional bias crash|optional|null

#include "../../modules/operators.h"

enum { N, D };

static og_status add_optional(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *bias = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    y[i] = x[i] + bias[i % width];
  return OG_OK;
}

MODULE(crash_optional,
       {.schema = "add_optional(Tensor x, Tensor? bias=None) -> Tensor",
        .shape = "x[*N, D], bias?[D] -> [*N, D]",
        RUN("f32", add_optional)})
