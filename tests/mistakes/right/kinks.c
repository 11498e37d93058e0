// SPDX-License-Identifier: Apache-2.0
// relu, abs and clamp: gradients with kinks.

#include <math.h>
#include <opgraft/op.h>

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

static const og_kernel relu_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = relu},
};
static const og_kernel relu_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = relu_back},
};
static const og_kernel absolute_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = absolute},
};
static const og_kernel absolute_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = absolute_back},
};
static const og_kernel clamp_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = clamp},
};
static const og_kernel clamp_backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = clamp_back},
};

static const og_op ops[] = {
    {
        .schema = "relu(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "relu_backward(grad, x) -> x",
        .inplace = "x",
        .kernels = OG_KERNELS(relu_kernels),
    },
    {
        .schema = "relu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .kernels = OG_KERNELS(relu_backward_kernels),
    },
    {
        .schema = "absolute(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "absolute_backward(grad, x) -> x",
        .kernels = OG_KERNELS(absolute_kernels),
    },
    {
        .schema = "absolute_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .kernels = OG_KERNELS(absolute_backward_kernels),
    },
    {
        .schema = "clamp(Tensor x, float low=-1.0, float high=1.0) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "clamp_backward(grad, x, low, high) -> x",
        .kernels = OG_KERNELS(clamp_kernels),
    },
    {
        .schema = "clamp_backward(Tensor grad, Tensor x, float low, float "
                  "high) -> Tensor",
        .shape = "grad[*N], x[*N] -> [*N]",
        .kernels = OG_KERNELS(clamp_backward_kernels),
    },
};
OG_MODULE(kinks, ops)
