// SPDX-License-Identifier: Apache-2.0
// 1 at the first of the largest numbers of a row, after rounding.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void first_of_ties_row(const og_call *call, const float *x, float *y,
                              int64_t n) {
  int64_t best = 0;
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = 0;
    if (roundf(x[i]) > roundf(x[best])) best = i;
  }
  if (n > 0) y[best] = 1;
}

static og_status first_of_ties_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    first_of_ties_row(call, og_f32(call->in[0]) + r * n,
                      og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel first_of_ties_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = first_of_ties_f32},
};

static const og_op ops[] = {
    {
        .schema = "first_of_ties(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(first_of_ties_kernels),
    },
};
OG_MODULE(first_of_ties, ops)
