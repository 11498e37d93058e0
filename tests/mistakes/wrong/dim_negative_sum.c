// SPDX-License-Identifier: Apache-2.0
// mistake: Every negative dim is taken for the last one.
// expect: sum_dim - dim|unwritten|out_of_bounds_write|out_of_bounds_read|value

#include "../../modules/operators.h"

static og_status sum_dim(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const og_tensor *t = call->in[0];
  const int64_t dim = call->attr[0].i < 0 ? t->ndim - 1 : call->attr[0].i;
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= t->shape[d];
  for (int64_t d = dim + 1; d < t->ndim; ++d) inner *= t->shape[d];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < t->shape[dim]; ++k)
        sum += x[(o * t->shape[dim] + k) * inner + i];
      y[o * inner + i] = sum;
    }
  }
  return OG_OK;
}

MODULE(dim_negative_sum, {.schema = "sum_dim(Tensor x, int dim=-1) -> Tensor",
                          .shape = "x[*A, D@dim, *B] -> [*A, *B]",
                          RUN("f32", sum_dim)})
