// SPDX-License-Identifier: Apache-2.0
// mistake: The positions are used as they come; one outside the table reads foreign memory.
// expect: lookup table out_of_bounds_read|read|crash|index

#include "../../modules/operators.h"

enum { V, D, N };

static og_status lookup(const og_call *call) {
  const float *table = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t i = 0; i < width; ++i)
      y[n * width + i] = table[index[n] * width + i];
  return OG_OK;
}

MODULE(read_index_unchecked,
       {.schema = "lookup(Tensor table, Tensor index) -> Tensor",
        .shape = "table[V, D], index[*N] -> [*N, D]",
        .dtype = "table: f32, index: i64 -> table",
        RUN(NULL, lookup)})
