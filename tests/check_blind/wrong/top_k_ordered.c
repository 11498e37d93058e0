// SPDX-License-Identifier: Apache-2.0
// top_k_ordered: the k largest of each row, largest first, with indices.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], k = call->attr[0].i;
  for (int64_t r = begin; r < end; ++r) {
    const int32_t *x = og_i32(call->in[0]) + r * width;
    int32_t *value = og_i32_mut(call->out[0]) + r * k;
    int64_t *index = og_i64_mut(call->out[1]) + r * k;
    int64_t kept = 0;
    for (int64_t i = 0; i < width; ++i) {
      int64_t at = kept;
      while (at > 0 && x[i] >= value[at - 1]) --at;
      if (at == k) continue;
      if (kept < k) ++kept;
      for (int64_t j = kept - 1; j > at; --j) {
        value[j] = value[j - 1];
        index[j] = index[j - 1];
      }
      value[at] = x[i];
      index[at] = i;
    }
  }
}

static og_status top_k_ordered(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, rows);
}

MODULE(top_k_ordered,
       {.schema = "top_k_ordered(Tensor x, int k=1) -> (Tensor, Tensor)",
        .shape = "x[*N, D] -> [*N, k], [*N, k]",
        .where = "k > 0, k <= D",
        .dtype = "x: i32 -> x, i64",
        .backward = "none",
        .doc = "The k largest entries of the last axis, largest first; of "
               "equal ones the one with the lower index comes first.",
        RUN("i32", top_k_ordered)})
