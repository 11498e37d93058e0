// SPDX-License-Identifier: Apache-2.0
// The first of k equal parts: the kernel needs only the size of the result, its
// backward operator, whose result has the size of x, needs k.

#include "../../modules/operators.h"

enum { N };

static og_status first_part(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->out[0]->shape[0]; ++i) y[i] = x[i];
  return OG_OK;
}

static og_status first_part_backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *grad_x = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N], count = n / call->attr[0].i;
  for (int64_t i = 0; i < n; ++i) grad_x[i] = i < count ? grad[i] : 0;
  return OG_OK;
}

MODULE(first_part,
       {.schema = "first_part(Tensor x, int k) -> Tensor",
        .shape = "x[N] -> [N // k]",
        .where = "k > 0",
        .backward = "first_part_backward(grad, x, k) -> x",
        RUN("f32", first_part)},
       {.schema = "first_part_backward(Tensor grad, Tensor x, int k) -> Tensor",
        .shape = "grad[N // k], x[N] -> [N]",
        .where = "k > 0",
        RUN("f32", first_part_backward)})
