// SPDX-License-Identifier: Apache-2.0
// The first half beside the second: of even sizes only, which the
// declaration does not say.

#include <opgraft/op.h>

enum { N };

static og_status halves(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t half = call->dim[N] / 2;
  if (call->dim[N] % 2 != 0) return og_fail(call, OG_SHAPE, "N is odd");
  for (int64_t i = 0; i < half; ++i) y[i] = x[i] * x[half + i];
  return OG_OK;
}

static const og_kernel halves_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = halves},
};

static const og_op ops[] = {
    {
        .schema = "halves(Tensor x) -> Tensor",
        .shape = "x[N] -> [N // 2]",
#ifdef REPAIRED
        .where = "N % 2 == 0",
#endif
        .kernels = OG_KERNELS(halves_kernels),
    },
};
OG_MODULE(refused_calls, ops)
