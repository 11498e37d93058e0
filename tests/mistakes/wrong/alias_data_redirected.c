// SPDX-License-Identifier: Apache-2.0
// mistake: Instead of copying, the kernel points the result at the memory of the input.
// expect: identity - alias|redirect

#include <opgraft/op.h>

static og_status identity(const og_call *call) {
  call->out[0]->data = call->in[0]->data;
  call->out[0]->byte_offset = call->in[0]->byte_offset;
  return OG_OK;
}

static const og_kernel identity_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = identity},
};

static const og_op ops[] = {
    {
        .schema = "identity(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .kernels = OG_KERNELS(identity_kernels),
    },
};
OG_MODULE(alias_data_redirected, ops)
