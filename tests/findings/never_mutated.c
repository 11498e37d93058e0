// SPDX-License-Identifier: Apache-2.0
// Declares that it clears the argument, and does not.

#include <opgraft/op.h>

enum { N };

static og_status clear_(const og_call *call) {
#ifndef REPAIRED
  (void)call;
#else
  float *x = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) x[i] = 0;
#endif
  return OG_OK;
}

static const og_kernel clear__kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = clear_},
};

static const og_op ops[] = {
    {
        .schema = "clear_(Tensor(a!) x) -> Tensor(a!)",
        .shape = "x[N]",
        .kernels = OG_KERNELS(clear__kernels),
    },
};
OG_MODULE(never_mutated, ops)
