// SPDX-License-Identifier: Apache-2.0
// The outer product and its gradients.

#include "../../modules/operators.h"

enum { A, B };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t a = 0; a < call->dim[A]; ++a)
    for (int64_t b = 0; b < call->dim[B]; ++b)
      z[a * call->dim[B] + b] = x[a] * y[b];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *x = og_f32(call->in[1]);
  const float *y = og_f32(call->in[2]);
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  float *dy = og_f32_mut(call->out[1]);
  const int64_t rows = call->dim[A], columns = call->dim[B];
  for (int64_t b = 0; b < columns; ++b) dy[b] = 0;
  for (int64_t a = 0; a < rows; ++a) {
    dx[a] = 0;
    for (int64_t b = 0; b < columns; ++b) {
      dx[a] += grad[a * columns + b] * y[b];
      dy[b] += grad[a * columns + b] * x[a];
    }
  }
  return OG_OK;
}

MODULE(outer,
       {.schema = "outer(Tensor x, Tensor y) -> Tensor",
        .shape = "x[A], y[B] -> [A, B]",
        .backward = "outer_backward(grad, x, y) -> x, y",
        RUN("f32", forward)},
       {.schema = "outer_backward(Tensor grad, Tensor x, Tensor y) -> (Tensor, "
                  "Tensor)",
        .shape = "grad[A, B], x[A], y[B] -> [A], [B]",
        RUN("f32", backward)})
