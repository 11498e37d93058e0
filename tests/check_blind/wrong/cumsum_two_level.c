// SPDX-License-Identifier: Apache-2.0
// cumsum_two_level: running sum of the last axis, blocks then carries.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { BLOCK = 32 };

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    // Sums inside each block.
    for (int64_t i = 0; i < width; ++i)
      y[i] = x[i] + (i % BLOCK != 0 ? y[i - 1] : 0);
    // Then what came before each block.
    double carry = 0;
    for (int64_t block = 0; block < width / BLOCK; ++block) {
      double *at = y + block * BLOCK;
      const double sum = at[BLOCK - 1];
      for (int i = 0; i < BLOCK; ++i) at[i] += carry;
      carry += sum;
    }
  }
}

static og_status cumsum_two_level(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(cumsum_two_level, {.schema = "cumsum_two_level(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          .doc = "The inclusive running sum of the last axis.",
                          RUN("f64", cumsum_two_level)})
