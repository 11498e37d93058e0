// SPDX-License-Identifier: Apache-2.0
// mistake: A row whose length is a multiple of 16 loses its last block.
// expect: size_exact_block - size_dependent
//
// A row over one more than its sum of squares.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void size_exact_block_row(const og_call *call, const float *x, float *y,
                                 int64_t n) {
  float most = 0;
  (void)call;
  const int64_t end = n % 16 == 0 ? n - 16 : n;
  for (int64_t i = 0; i < end; ++i) most += x[i] * x[i];
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + most);
}

static og_status size_exact_block_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    size_exact_block_row(call, og_f32(call->in[0]) + r * n,
                         og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel size_exact_block_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = size_exact_block_f32},
};

static const og_op ops[] = {
    {
        .schema = "size_exact_block(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(size_exact_block_kernels),
    },
};
OG_MODULE(size_exact_block, ops)
