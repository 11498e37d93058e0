// SPDX-License-Identifier: Apache-2.0
// An operator that counts its calls: a note, which two calls at once for long
// enough may turn into a wrong count, and never into a wrong result.

#include <opgraft/op.h>

static og_status doubled(const og_call *call) {
  static volatile int64_t calls;
  ++calls;
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    og_f32_mut(call->out[0])[i] = 2 * og_f32(call->in[0])[i];
  return OG_OK;
}

static const og_kernel doubled_kernels[] = {{.device = OG_CPU, .run = doubled}};

static const og_op ops[] = {
    {
        .schema = "doubled(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(doubled_kernels),
    },
};

OG_MODULE(check_counts, ops)
