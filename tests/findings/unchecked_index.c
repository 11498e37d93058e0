// SPDX-License-Identifier: Apache-2.0
// Elements by index, whatever the index is.

#include <opgraft/op.h>

enum { N, K };

static og_status take(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[K]; ++i) {
#ifdef REPAIRED
    if (index[i] < 0 || index[i] >= call->dim[N])
      return og_fail(call, OG_INVALID, "an index is out of range");
#endif
    y[i] = x[index[i]];
  }
  return OG_OK;
}

static const og_kernel take_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = take},
};

static const og_op ops[] = {
    {
        .schema = "take(Tensor x, Tensor index) -> Tensor",
        .shape = "x[N], index[K] -> [K]",
        .dtype = "x: f32, index: i64 -> x",
        .kernels = OG_KERNELS(take_kernels),
    },
};
OG_MODULE(unchecked_index, ops)
