// SPDX-License-Identifier: Apache-2.0
// mistake: The host positions are not compared with the cache length, so that a row may be stored outside.
// expect: store_rows_ cache out_of_bounds_write|write|crash|index

#include "../../modules/operators.h"

enum { L, D, N };

static og_status store_rows(const og_call *call) {
  const float *rows = og_f32(call->in[1]);
  float *cache = og_f32_mut(call->out[0]);
  const og_attr *positions = &call->attr[0];
  const int64_t width = call->dim[D];
  for (int64_t n = 0; n < positions->count; ++n)
    for (int64_t i = 0; i < width; ++i)
      cache[positions->ints[n] * width + i] = rows[n * width + i];
  return OG_OK;
}

MODULE(write_positions_unchecked,
       {.schema =
            "store_rows_(Tensor(a!) cache, Tensor rows, int[] positions) -> ()",
        .shape = "cache[L, D], rows[N, D] ->",
        .where = "len(positions) == N",
        RUN("f32", store_rows)})
