// SPDX-License-Identifier: Apache-2.0
// A gate that opens where the sum of squares is above 100: many numbers open it
// always, few never.

#include <opgraft/op.h>

enum { N };

static og_status energy_gate(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float sum = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum += x[i] * x[i];
  *og_f32_mut(call->out[0]) = sum > 100 ? 1 : 0;
  return OG_OK;
}

static const og_kernel energy_gate_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = energy_gate},
};

static const og_op ops[] = {
    {
        .schema = "energy_gate(Tensor x) -> Tensor",
        .shape = "x[N] -> []",
        .kernels = OG_KERNELS(energy_gate_kernels),
    },
};
OG_MODULE(energy_gate, ops)
