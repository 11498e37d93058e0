// SPDX-License-Identifier: Apache-2.0
// scale_add: x + a * y, the operator that every road of bench/call.py takes.

#include <opgraft/op.h>

static og_status scale_add_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *out = og_f32_mut(call->out[0]);
  const float a = (float)call->attr[0].f;
  const int64_t count = call->dim[0];
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] + a * y[i];
  return OG_OK;
}

static og_status scale_add_backward_f32(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  float *dy = og_f32_mut(call->out[1]);
  const float a = (float)call->attr[0].f;
  const int64_t count = call->dim[0];
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = grad[i];
    dy[i] = a * grad[i];
  }
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_add_f32},
};
static const og_kernel backward_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = scale_add_backward_f32},
};

static const og_op ops[] = {
    {
        .schema = "scale_add(Tensor x, Tensor y, float a) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .dtype = "x: f32, y: x -> x",
        .backward = "none",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "scale_add_grad(Tensor x, Tensor y, float a) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .dtype = "x: f32, y: x -> x",
        .backward = "scale_add_backward(grad, a) -> x, y",
        .kernels = OG_KERNELS(kernels),
    },
    {
        .schema = "scale_add_backward(Tensor grad, float a) "
                  "-> (Tensor dx, Tensor dy)",
        .shape = "grad[*N] -> [*N], [*N]",
        .dtype = "grad: f32 -> f32, f32",
        .kernels = OG_KERNELS(backward_kernels),
    },
};
OG_MODULE(bench_scale_add, ops)
