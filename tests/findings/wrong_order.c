// SPDX-License-Identifier: Apache-2.0
// A transposed copy, written in the order of the argument.

#include <opgraft/op.h>

enum { R, C };

static og_status transpose(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t rows = call->dim[R], columns = call->dim[C];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
#ifndef REPAIRED
      y[r * columns + c] = x[r * columns + c];
#else
      y[c * rows + r] = x[r * columns + c];
#endif
  return OG_OK;
}

static const og_kernel transpose_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = transpose},
};

static const og_op ops[] = {
    {
        .schema = "transpose(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [C, R]",
        .kernels = OG_KERNELS(transpose_kernels),
    },
};
OG_MODULE(wrong_order, ops)
