// SPDX-License-Identifier: Apache-2.0
// relu, abs and clamp: gradients with kinks.

#include "../../modules/operators.h"

enum { N };

static og_status relu(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] < 0 ? 0 : x[i];
  return OG_OK;
}

static og_status relu_back(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = x[i] > 0 ? grad[i] : 0;
  return OG_OK;
}

static og_status absolute(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = fabsf(x[i]);
  return OG_OK;
}

static og_status absolute_back(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    dx[i] = x[i] > 0 ? grad[i] : x[i] < 0 ? -grad[i] : 0;
  return OG_OK;
}

static og_status clamp(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float low = (float)call->attr[0].f, high = (float)call->attr[1].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] > high ? high : x[i] < low ? low : x[i];
  return OG_OK;
}

static og_status clamp_back(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const float low = (float)call->attr[0].f, high = (float)call->attr[1].f;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    dx[i] = x[i] > high || x[i] < low ? 0 : grad[i];
  return OG_OK;
}

MODULE(kinks,
       {.schema = "relu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "relu_backward(grad, x) -> x",
        .inplace = "x",
        RUN("f32", relu)},
       {.schema = "relu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", relu_back)},
       {.schema = "absolute(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "absolute_backward(grad, x) -> x",
        RUN("f32", absolute)},
       {.schema = "absolute_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", absolute_back)},
       {.schema = "clamp(Tensor x, float low=-1.0, float high=1.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "clamp_backward(grad, x, low, high) -> x",
        RUN("f32", clamp)},
       {.schema = "clamp_backward(Tensor grad, Tensor x, float low, float "
                  "high) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        RUN("f32", clamp_back)})
