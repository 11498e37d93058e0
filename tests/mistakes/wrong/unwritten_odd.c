// SPDX-License-Identifier: Apache-2.0
// mistake: Pairs are swapped; the last column of an odd row is never written.
// expect: swap_pairs - unwritten

#include "../../modules/operators.h"

enum { N, D };

static void swap_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < width / 2; ++i) {
      y[r * width + 2 * i] = x[r * width + 2 * i + 1];
      y[r * width + 2 * i + 1] = x[r * width + 2 * i];
    }
  }
}

static og_status swap_pairs(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, swap_rows);
}

MODULE(unwritten_odd, {.schema = "swap_pairs(Tensor x) -> Tensor",
                       .shape = "x[*N, D] -> [*N, D]",
                       RUN("f32", swap_pairs)})
