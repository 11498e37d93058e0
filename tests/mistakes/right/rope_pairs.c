// SPDX-License-Identifier: Apache-2.0
// Columns 2 i and 2 i + 1 turned by an angle of i; an odd last one stays.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void rope_pairs_row(const og_call *call, const float *x, float *y,
                           int64_t n) {
  (void)call;
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const float c = cosf(0.1f * (float)i + 0.3f),
                s = sinf(0.1f * (float)i + 0.3f);
    y[i] = x[i] * c - x[i + 1] * s;
    y[i + 1] = x[i] * s + x[i + 1] * c;
  }
  if (n % 2 == 1) y[n - 1] = x[n - 1];
}

static og_status rope_pairs_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    rope_pairs_row(call, og_f32(call->in[0]) + r * n,
                   og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel rope_pairs_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = rope_pairs_f32},
};

static const og_op ops[] = {
    {
        .schema = "rope_pairs(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(rope_pairs_kernels),
    },
};
OG_MODULE(rope_pairs, ops)
