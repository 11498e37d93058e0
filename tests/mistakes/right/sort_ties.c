// SPDX-License-Identifier: Apache-2.0
// A row in rising order, after rounding: many of its numbers are equal.

#include <math.h>
#include <opgraft/op.h>

enum { N, D };  // dims of the shape rule

static void sort_ties_row(const og_call *call, const float *x, float *y,
                          int64_t n) {
  (void)call;
  for (int64_t i = 0; i < n; ++i) {
    const float v = roundf(x[i]);
    int64_t j = i;
    for (; j > 0 && y[j - 1] > v; --j) y[j] = y[j - 1];
    y[j] = v;
  }
}

static og_status sort_ties_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    sort_ties_row(call, og_f32(call->in[0]) + r * n,
                  og_f32_mut(call->out[0]) + r * n, n);
  return OG_OK;
}

static const og_kernel sort_ties_kernels[] = {
    {.device = OG_CPU, .dtypes = "f32", .run = sort_ties_f32},
};

static const og_op ops[] = {
    {
        .schema = "sort_ties(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .dtype = "x: f32 -> x",
        .kernels = OG_KERNELS(sort_ties_kernels),
    },
};
OG_MODULE(sort_ties, ops)
