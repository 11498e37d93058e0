// SPDX-License-Identifier: Apache-2.0
// mistake: The count is one more than the rows that were written, where there is room for it.
// expect: rows_above - data_dependent|unwritten

#include "../../modules/operators.h"

enum { N, D, K };

static og_status rows_above(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t rows = call->dim[N], width = call->dim[D];
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r)
    if (x[r * width] > 0)
      memcpy(y + count++ * width, x + r * width, (size_t)width * sizeof *x);
  og_set_dim(call, K, count < rows ? count + 1 : rows);
  return OG_OK;
}

MODULE(found_one_more, {.schema = "rows_above(Tensor x) -> Tensor",
                        .shape = "x[N, D] -> [K <= N, D]",
                        .where = "D > 0",
                        RUN("f32", rows_above)})
