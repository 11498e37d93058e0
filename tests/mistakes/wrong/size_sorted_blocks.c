// SPDX-License-Identifier: Apache-2.0
// mistake: The last, partial block of four is not sorted in.
// expect: size_sorted_blocks - size_dependent
//
// A row in rising order.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void size_sorted_blocks_row(const og_call *call, const float *x,
                                   float *y, int64_t n) {
  (void)call;
  const int64_t whole = n / 4 * 4;
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    int64_t j = i;
    for (; i < whole && j > 0 && y[j - 1] > v; --j) y[j] = y[j - 1];
    y[j] = v;
  }
}

static og_status size_sorted_blocks_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    size_sorted_blocks_row(call, og_f32(call->in[0]) + r * n,
                           og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel size_sorted_blocks_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = size_sorted_blocks_f32},
};

static const og_op ops[] = {
    {
        .schema = "size_sorted_blocks(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(size_sorted_blocks_kernels),
    },
};
OG_MODULE(size_sorted_blocks, ops)
