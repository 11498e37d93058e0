// SPDX-License-Identifier: Apache-2.0
// mistake: An index is compared with the end of the whole tensor, so that it may leave its row.
// expect: pick_one index index|unchecked_index|bounds

#include "../../modules/operators.h"

enum { N, D };

static og_status pick_one(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  const int64_t rows = call->dim[N], width = call->dim[D];
  for (int64_t r = 0; r < rows; ++r) {
    if (index[r] < 0 || r * width + index[r] >= rows * width)
      return og_fail(call, OG_INVALID, "an index is out of range");
    og_f32_mut(call->out[0])[r] = og_f32(call->in[0])[r * width + index[r]];
  }
  return OG_OK;
}

MODULE(index_of_all_rows,
       {.schema = "pick_one(Tensor x, Tensor index) -> Tensor",
        .shape = "x[N, D], index[N] -> [N]",
        .dtype = "x: f32, index: i64 -> x",
        .backward = "none",
        RUN("f32", pick_one)})
