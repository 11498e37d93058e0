// SPDX-License-Identifier: Apache-2.0
// mistake: Rows of one column are skipped as having nothing to sort.
// expect: sort_rows - unwritten

#include "../../modules/operators.h"

enum { N, D };

static og_status sort_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  if (width == 1) return OG_OK;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float *row = y + r * width;
    for (int64_t i = 0; i < width; ++i) {
      int64_t k = i;
      for (; k > 0 && row[k - 1] > x[r * width + i]; --k) row[k] = row[k - 1];
      row[k] = x[r * width + i];
    }
  }
  return OG_OK;
}

MODULE(unwritten_size_one, {.schema = "sort_rows(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N, D]",
                            RUN("f32", sort_rows)})
