// SPDX-License-Identifier: Apache-2.0
// mistake: Rows longer than 64 are taken in blocks of 8, and the last block reads past the row.
// expect: sum_rows x out_of_bounds_read|read

#include "../../modules/operators.h"

enum { N, D };

static og_status sum_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  const int64_t count = width > 64 ? (width + 7) / 8 * 8 : width;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float value = ((const volatile float *)x)[r * width + i];
      if (i < width) sum += value;
    }
    y[r] = sum;
  }
  return OG_OK;
}

MODULE(read_only_large, {.schema = "sum_rows(Tensor x) -> Tensor",
                         .shape = "x[*N, D] -> [*N]",
                         RUN("f32", sum_rows)})
