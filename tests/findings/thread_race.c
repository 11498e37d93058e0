// SPDX-License-Identifier: Apache-2.0
// Elements in rising order, sorted in a buffer that all calls have in common.

#include <opgraft/op.h>

enum { N };

static og_status sort(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
#ifndef REPAIRED
  static float buffer[4096];
  if (n > 4096) return og_fail(call, OG_UNSUPPORTED, "more than 4096 elements");
#else
  float *buffer = (float *)call->workspace;
#endif
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = i;
    for (; at > 0 && buffer[at - 1] > x[i]; --at) buffer[at] = buffer[at - 1];
    buffer[at] = x[i];
  }
  for (int64_t i = 0; i < n; ++i) y[i] = buffer[i];
  return OG_OK;
}

static const og_kernel sort_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sort},
};

static const og_op ops[] = {
    {
        .schema = "sort(Tensor x) -> Tensor",
        .shape = "x[N] -> [N]",
#ifndef REPAIRED
        .where = "N <= 4096",
#else
        .workspace = "4 * N",
#endif
        .kernels = OG_KERNELS(sort_kernels),
    },
};
OG_MODULE(thread_race, ops)
