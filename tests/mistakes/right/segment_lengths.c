// SPDX-License-Identifier: Apache-2.0
// Lengths of segments from their bounds, of which the first element counts by
// its difference only, and the index is the result.

#include "../../modules/operators.h"

enum { B };

static og_status segment_lengths(const og_call *call) {
  const int64_t *bound = og_i64(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  for (int64_t i = 0; i + 1 < call->dim[B]; ++i) y[i] = bound[i + 1] - bound[i];
  return OG_OK;
}

MODULE(segment_lengths, {.schema = "segment_lengths(Tensor bound) -> Tensor",
                         .shape = "bound[B] -> [B - 1]",
                         .where = "B > 0",
                         .dtype = "bound: i64 -> bound",
                         RUN("i64", segment_lengths)})
