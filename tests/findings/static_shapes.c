// SPDX-License-Identifier: Apache-2.0
// A copy whose shape a C function computes.

#include <opgraft/op.h>

#ifndef REPAIRED
static og_status same_shape(const og_infer_call *call) {
  call->ndim[0] = call->in[0]->ndim;
  for (int32_t d = 0; d < call->ndim[0]; ++d)
    call->shape[0][d] = call->in[0]->shape[d];
  return OG_OK;
}

#endif
static og_status copy(const og_call *call) {
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
  return OG_OK;
}

static const og_kernel copy_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = copy},
};

static const og_op ops[] = {
    {
        .schema = "copy(Tensor x) -> Tensor",
#ifndef REPAIRED
        .infer = same_shape,
#else
        .shape = "x[*N] -> [*N]",
#endif
        .kernels = OG_KERNELS(copy_kernels),
    },
};
OG_MODULE(static_shapes, ops)
