// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels do nothing, for what a call costs beside its work.
#include <opgraft/op.h>

static og_status nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}

static const og_kernel kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = nothing},
    {.device = OG_EXT_DEV, .dtypes = "f32", .run = nothing},
};
static const og_op ops[] = {
    {.schema = "hold(Tensor x) -> Tensor",
     .shape = "x[*N] -> [*N]",
     .kernels = OG_KERNELS(kernels)},
    {.schema = "join(Tensor x, Tensor y) -> Tensor",
     .shape = "x[*N], y[*N] -> [*N]",
     .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(hold, ops)
