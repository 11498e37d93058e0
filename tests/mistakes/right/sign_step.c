// SPDX-License-Identifier: Apache-2.0
// sign and floor, whose gradient is zero wherever there is one, as the author
// says.

#include <math.h>
#include <opgraft/op.h>

enum { N };

static og_status sign(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] > 0 ? 1.0f : x[i] < 0 ? -1.0f : 0.0f;
  return OG_OK;
}

static og_status floor_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = floorf(x[i]);
  return OG_OK;
}

static const og_kernel sign_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sign},
};
static const og_kernel floor_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = floor_all},
};

static const og_op ops[] = {
    {
        .schema = "sign(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "none",
        .kernels = OG_KERNELS(sign_kernels),
    },
    {
        .schema = "floor(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "none",
        .kernels = OG_KERNELS(floor_kernels),
    },
};
OG_MODULE(sign_step, ops)
