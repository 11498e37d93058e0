// SPDX-License-Identifier: Apache-2.0
// x * weight + bias over the last dim, both optional, with gradients for all
// three.

#include "../../modules/operators.h"

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = call->in[1] ? og_f32(call->in[1]) : NULL;
  const float *bias = call->in[2] ? og_f32(call->in[2]) : NULL;
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i)
    y[i] = x[i] * (w ? w[i % width] : 1) + (bias ? bias[i % width] : 0);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *w = call->in[2] ? og_f32(call->in[2]) : NULL;
  float *dx = og_f32_mut(call->out[0]);
  float *dw = og_f32_mut(call->out[1]);
  float *db = og_f32_mut(call->out[2]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < width; ++i) dw[i] = db[i] = 0;
  for (int64_t i = 0; i < call->dim[N] * width; ++i) {
    dx[i] = grad[i] * (w ? w[i % width] : 1);
    dw[i % width] += grad[i] * x[i];
    db[i % width] += grad[i];
  }
  return OG_OK;
}

MODULE(affine,
       {.schema = "affine(Tensor x, Tensor? weight=None, Tensor? bias=None) -> "
                  "Tensor",
        .shape = "x[*N, D], weight?[D], bias?[D] -> [*N, D]",
        .backward = "affine_backward(grad, x, weight) -> x, weight, bias",
        RUN("f32", forward)},
       {.schema = "affine_backward(Tensor grad, Tensor x, Tensor? weight) -> "
                  "(Tensor, Tensor, Tensor)",
        .shape = "grad[*N, D], x[*N, D], weight?[D] -> [*N, D], [D], [D]",
        RUN("f32", backward)})
