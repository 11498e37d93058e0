// SPDX-License-Identifier: Apache-2.0
// Whether each row is in order: false of nearly every long one.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static og_status is_sorted_f32(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  uint8_t *y = og_bool_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r, x += width) {
    y[r] = 1;
    for (int64_t i = 1; i < width; ++i)
      if (x[i] < x[i - 1]) y[r] = 0;
  }
  return OG_OK;
}

static const og_kernel is_sorted_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = is_sorted_f32},
};

static const og_op ops[] = {
    {
        .schema = "is_sorted(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .dtype = "x: f32 -> bool",
        .backward = "none",
        .kernels = OG_KERNELS(is_sorted_kernels),
    },
};
OG_MODULE(is_sorted, ops)
