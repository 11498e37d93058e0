// SPDX-License-Identifier: Apache-2.0
// unique_sorted: the different numbers of a vector and how often each occurs.

#include "../../modules/operators.h"

enum { N, K };  // dims of the shape rule

static og_status unique_sorted(const og_call *call) {
  const int32_t *x = og_i32(call->in[0]);
  int32_t *value = og_i32_mut(call->out[0]);
  int64_t *count = og_i64_mut(call->out[1]);
  int64_t kept = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    int64_t low = 0, high = kept;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (value[middle] < x[i])
        low = middle + 1;
      else
        high = middle;
    }
    if (low < kept && value[low] == x[i]) {
      ++count[low];
      continue;
    }
    for (int64_t j = kept; j > low; --j) {
      value[j] = value[j - 1];
      count[j] = count[j - 1];
    }
    value[low] = x[i];
    count[low] = 1;
    ++kept;
  }
  og_set_dim(call, K, kept);
  return OG_OK;
}

MODULE(unique_sorted,
       {.schema = "unique_sorted(Tensor x) -> (Tensor value, Tensor count)",
        .shape = "x[N] -> [K <= N], [K]",
        .dtype = "x: i32 -> x, i64",
        .backward = "none",
        .doc = "The different entries in ascending order, with their counts.",
        RUN("i32", unique_sorted)})
