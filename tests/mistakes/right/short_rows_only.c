// SPDX-License-Identifier: Apache-2.0
// A local array, and a condition that says how long rows may be.

#include "../../modules/operators.h"

enum { N, D };
enum { MOST = 1024 };

static og_status turn_short(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float row[MOST];
    float *y = og_f32_mut(call->out[0]) + r * width;
    memcpy(row, og_f32(call->in[0]) + r * width, (size_t)width * sizeof *row);
    for (int64_t i = 0; i < width; ++i) y[i] = row[width - 1 - i];
  }
  return OG_OK;
}

MODULE(short_rows_only, {.schema = "turn_short(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N, D]",
                         .where = "D <= 1024",
                         RUN("f32", turn_short)})
