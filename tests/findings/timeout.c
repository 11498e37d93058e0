// SPDX-License-Identifier: Apache-2.0
// How often the size can be halved: without end where it is zero.

#include <opgraft/op.h>

enum { N };

static og_status levels(const og_call *call) {
  volatile int64_t left = call->dim[N];
  int64_t count = 0;
#ifndef REPAIRED
  for (; left != 1; left /= 2) ++count;
#else
  for (; left > 1; left /= 2) ++count;
#endif
  og_i64_mut(call->out[0])[0] = count;
  return OG_OK;
}

static const og_kernel levels_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = levels},
};

static const og_op ops[] = {
    {
        .schema = "levels(Tensor x) -> Tensor",
        .shape = "x[N] -> []",
        .dtype = "x: f32 -> i64",
        .kernels = OG_KERNELS(levels_kernels),
    },
};
OG_MODULE(timeout, ops)
