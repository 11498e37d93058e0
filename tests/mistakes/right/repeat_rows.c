// SPDX-License-Identifier: Apache-2.0
// Repeats each row by a host count.

#include "../../modules/operators.h"

enum { N, D };

static og_status repeat_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const og_attr *counts = &call->attr[0];
  const size_t size = (size_t)call->dim[D] * sizeof *x;
  for (int64_t n = 0; n < counts->count; ++n)
    if (counts->ints[n] < 0)
      return og_fail(call, OG_INVALID, "repeat_rows: a count is negative");
  for (int64_t n = 0; n < counts->count && size > 0; ++n)
    for (int64_t k = 0; k < counts->ints[n]; ++k, y += call->dim[D])
      memcpy(y, x + n * call->dim[D], size);
  return OG_OK;
}

MODULE(repeat_rows, {.schema = "repeat_rows(Tensor x, int[] counts) -> Tensor",
                     .shape = "x[N, D] -> [sum(counts), D]",
                     .where = "len(counts) == N, sum(counts) >= 0",
                     RUN("f32", repeat_rows)})
