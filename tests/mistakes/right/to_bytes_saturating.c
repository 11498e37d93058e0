// SPDX-License-Identifier: Apache-2.0
// Rounded and clamped in float, then stored in a byte.

#include <math.h>
#include <opgraft/op.h>

enum { N };

static og_status to_bytes(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_u8_mut(call->out[0])[i] =
        (uint8_t)rintf(fminf(fmaxf(16 * og_f32(call->in[0])[i], 0), 255));
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = to_bytes},
};

static const og_op ops[] = {
    {
        .schema = "to_bytes(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> u8",
        .backward = "none",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(to_bytes_saturating, ops)
