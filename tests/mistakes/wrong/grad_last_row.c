// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of the weight is overwritten by every row instead of summed over the rows.
// expect: scale_rows|scale_rows_backward weight gradient

#include "../../modules/operators.h"

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i] * w[i % width];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *w = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  float *dw = og_f32_mut(call->out[1]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) dw[i] = 0;
  for (int64_t i = 0; i < call->dim[N] * width; ++i) {
    dx[i] = grad[i] * w[i % width];
    dw[i % width] = grad[i] * x[i];
  }
  return OG_OK;
}

MODULE(grad_last_row,
       {.schema = "scale_rows(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .backward = "scale_rows_backward(grad, x, weight) -> x, weight",
        RUN("f32", forward)},
       {.schema = "scale_rows_backward(Tensor grad, Tensor x, Tensor weight) "
                  "-> (Tensor dx, Tensor dw)",
        .shape = "grad[*N, D], x[*N, D], weight[D] -> [*N, D], [D]",
        RUN("f32", backward)})
