// SPDX-License-Identifier: Apache-2.0
// weave_halves: the two halves of a row, one entry of each in turn.

#include "../../modules/operators.h"

enum { N, D, E };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], bytes = call->dim[E];
  const int64_t first = (width + 1) / 2;
  for (int64_t i = begin * width; i < end * width; ++i) {
    const int64_t d = i % width;
    const int64_t from = d % 2 == 0 ? d / 2 : first + d / 2;
    memcpy(og_u8_mut(call->out[0]) + i * bytes,
           og_u8(call->in[0]) + (i - d + from) * bytes, (size_t)bytes);
  }
}

static og_status weave_halves(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(weave_halves,
       {.schema = "weave_halves(Tensor x) -> Tensor",
        .shape = "x[*N, D, E] -> [*N, D, E]",
        .backward = "none",
        .doc = "Groups of E bytes: 0, h, 1, h + 1, ... with h = ceil(D / 2).",
        RUN("u8", weave_halves)})
