// SPDX-License-Identifier: Apache-2.0
// Columns to zero mean across the rows: rows depend on each other, so a batch
// is a loop, as the flag says.

#include "../../modules/operators.h"

enum { N, D };

static og_status normalize_columns(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t rows = call->dim[N], width = call->dim[D];
  for (int64_t c = 0; c < width; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += (double)x[r * width + c];
    for (int64_t r = 0; r < rows; ++r)
      y[r * width + c] = (float)((double)x[r * width + c] - sum / (double)rows);
  }
  return OG_OK;
}

MODULE(normalize_columns,
       {.schema = "normalize_columns(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .backward = "normalize_columns_backward(grad) -> x",
        RUN("f32", normalize_columns),
        .flags = OG_BATCH_LOOP},
       {.schema = "normalize_columns_backward(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        RUN("f32", normalize_columns),
        .flags = OG_BATCH_LOOP})
