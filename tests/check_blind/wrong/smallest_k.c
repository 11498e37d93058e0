// SPDX-License-Identifier: Apache-2.0
// smallest_k: the k smallest entries of each row, smallest first.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], k = call->attr[0].i;
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * k;
    int64_t kept = 0;
    for (int64_t i = 0; i < width; ++i) {
      if (kept == k && !(x[i] < y[k - 1])) continue;
      if (kept < k) ++kept;
      int64_t at = kept - 1;
      for (; at > 0 && y[at - 1] > x[i]; --at) y[at] = y[at - 1];
      y[at] = x[i];
    }
  }
}

static og_status smallest_k(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, rows);
}

MODULE(smallest_k, {.schema = "smallest_k(Tensor x, int k=4) -> Tensor",
                    .shape = "x[*N, D] -> [*N, k]",
                    .where = "k > 0",
                    .doc = "The k smallest entries of the last axis.",
                    RUN("f32", smallest_k)})
