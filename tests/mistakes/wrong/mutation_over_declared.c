// SPDX-License-Identifier: Apache-2.0
// mistake: The state is declared to be written, but the kernel only reads it.
// expect: add_state state over_declared|over-declared|mutation|never_written

#include <opgraft/op.h>

enum { N };

static og_status add_state(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *state = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] + state[i];
  return OG_OK;
}

static const og_kernel add_state_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = add_state},
};

static const og_op ops[] = {
    {
        .schema = "add_state(Tensor x, Tensor(a!) state) -> Tensor",
        .shape = "x[*N], state[*N] -> [*N]",
        .kernels = OG_KERNELS(add_state_kernels),
    },
};
OG_MODULE(mutation_over_declared, ops)
