// SPDX-License-Identifier: Apache-2.0
// A row shifted around by 240: as it is where the length of the row divides
// 240.

#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void roll_constant_row(const og_call *call, const float *x, float *y,
                              int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) y[(i + 240) % n] = x[i];
}

static og_status roll_constant_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    roll_constant_row(call, og_f32(call->in[0]) + r * n,
                      og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel roll_constant_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = roll_constant_f32},
};

static const og_op ops[] = {
    {
        .schema = "roll_constant(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(roll_constant_kernels),
    },
};
OG_MODULE(roll_constant, ops)
