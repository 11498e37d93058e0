// SPDX-License-Identifier: Apache-2.0
// Each element modulo an argument, which may be zero.

#include <opgraft/op.h>

enum { N };

static og_status remainder_of(const og_call *call) {
  const int64_t *x = og_i64(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  const int64_t by = call->attr[0].i;
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] % by;
  return OG_OK;
}

static const og_kernel remainder_of_kernels[] = {
    {.device = OG_CPU, .dtypes = "i64", .run = remainder_of},
};

static const og_op ops[] = {
    {
        .schema = "remainder_of(Tensor x, int by) -> Tensor",
        .shape = "x[N] -> [N]",
#ifdef REPAIRED
        .where = "by > 0",
#endif
        .kernels = OG_KERNELS(remainder_of_kernels),
    },
};
OG_MODULE(crash, ops)
