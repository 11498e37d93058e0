// SPDX-License-Identifier: Apache-2.0
// Every second element; the rule says one less for odd sizes.

#include <opgraft/op.h>

enum { N };

static og_status every_second(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = (call->dim[N] + 1) / 2;
  if (og_numel(call->out[0]) != count)
    return og_fail(call, OG_INTERNAL, "the result has another size");
  for (int64_t i = 0; i < count; ++i) y[i] = x[2 * i];
  return OG_OK;
}

static const og_kernel every_second_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = every_second},
};

static const og_op ops[] = {
    {
        .schema = "every_second(Tensor x) -> Tensor",
#ifndef REPAIRED
        .shape = "x[N] -> [N // 2]",
#else
        .shape = "x[N] -> [ceildiv(N, 2)]",
#endif
        .kernels = OG_KERNELS(every_second_kernels),
    },
};
OG_MODULE(rule_disagrees, ops)
