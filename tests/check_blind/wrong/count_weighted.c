// SPDX-License-Identifier: Apache-2.0
// count_weighted: sum of counts times an integer price of each column.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const uint32_t *price = og_data(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const uint32_t *count = (const uint32_t *)og_data(call->in[0]) + r * width;
    int64_t sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += count[i] * price[i];
    og_i64_mut(call->out[0])[r] = sum;
  }
}

static og_status count_weighted(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 16, rows);
}

MODULE(count_weighted,
       {.schema = "count_weighted(Tensor count, Tensor price) -> Tensor",
        .shape = "count[*N, D], price[D] -> [*N]",
        .dtype = "count: u32, price: u32 -> i64",
        .backward = "none",
        .doc = "The sum over the last axis of count * price, in 64 bits.",
        RUN("u32", count_weighted)})
