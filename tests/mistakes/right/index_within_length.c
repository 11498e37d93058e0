// SPDX-License-Identifier: Apache-2.0
// An index has to lie below its row's own length.

#include "../../modules/operators.h"

enum { N, D };

static og_status pick_within(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]), *length = og_i64(call->in[2]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    if (length[r] < 0 || length[r] > width || index[r] < 0 ||
        index[r] > length[r] || index[r] >= width)
      return og_fail(call, OG_INVALID, "an index is beyond its row's length");
    og_f32_mut(call->out[0])[r] = og_f32(call->in[0])[r * width + index[r]];
  }
  return OG_OK;
}

MODULE(
    index_within_length,
    {.schema = "pick_within(Tensor x, Tensor index, Tensor length) -> Tensor",
     .shape = "x[N, D], index[N], length[N] -> [N]",
     .dtype = "x: f32, index: i64, length: i64 -> x",
     RUN("f32", pick_within)})
