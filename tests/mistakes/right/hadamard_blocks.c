// SPDX-License-Identifier: Apache-2.0
// Sums and differences of the columns of each whole block of 16; the rest
// stays.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void hadamard_blocks_row(const og_call *call, const float *x, float *y,
                                int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) y[i] = x[i];
  for (int64_t b = 0; b + 16 <= n; b += 16)
    for (int64_t half = 1; half < 16; half *= 2)
      for (int64_t i = 0; i < 16; ++i) {
        if (i & half) continue;
        const float p = y[b + i], q = y[b + i + half];
        y[b + i] = p + q;
        y[b + i + half] = p - q;
      }
}

static og_status hadamard_blocks_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    hadamard_blocks_row(call, og_f32(call->in[0]) + r * n,
                        og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel hadamard_blocks_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = hadamard_blocks_f32},
};

static const og_op ops[] = {
    {
        .schema = "hadamard_blocks(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(hadamard_blocks_kernels),
    },
};
OG_MODULE(hadamard_blocks, ops)
