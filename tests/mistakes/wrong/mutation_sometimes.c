// SPDX-License-Identifier: Apache-2.0
// mistake: The weight of the first column is overwritten, but only where rows have three columns or more.
// expect: normalize weight undeclared_mutation|mutation

#include "../../modules/operators.h"

enum { N, D };

static og_status normalize(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *weight = (float *)og_data(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    y[i] = x[i] * weight[i % width];
  if (width >= 3) weight[0] = 1;
  return OG_OK;
}

MODULE(mutation_sometimes,
       {.schema = "normalize(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        RUN("f32", normalize)})
