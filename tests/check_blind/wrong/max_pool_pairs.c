// SPDX-License-Identifier: Apache-2.0
// max_pool_pairs: the larger of each two neighbours.

#include "../../modules/operators.h"

enum { N, L };  // dims of the shape rule

static void lines(const og_call *call, int64_t begin, int64_t end) {
  const int64_t length = call->dim[L], places = (length + 1) / 2;
  for (int64_t n = begin; n < end; ++n) {
    const float *x = og_f32(call->in[0]) + n * length;
    for (int64_t i = 0; 2 * i + 1 < length; ++i)
      og_f32_mut(call->out[0])[n * places + i] =
          x[2 * i] > x[2 * i + 1] ? x[2 * i] : x[2 * i + 1];
  }
}

static og_status max_pool_pairs(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, lines);
}

MODULE(max_pool_pairs, {.schema = "max_pool_pairs(Tensor x) -> Tensor",
                        .shape = "x[*N, L] -> [*N, ceildiv(L, 2)]",
                        .doc = "Half as many elements, each the larger of two.",
                        RUN("f32", max_pool_pairs)})
