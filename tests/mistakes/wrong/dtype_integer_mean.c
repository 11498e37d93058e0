// SPDX-License-Identifier: Apache-2.0
// mistake: The rule gives an i32 result for i32 rows, but the kernel stores the mean as a float there.
// expect: mean_rows - dtype_rule|dtype

#include "../../modules/operators.h"

enum { N, D };

static float row_mean(const og_tensor *x, int64_t first, int64_t width) {
  double sum = 0;
  for (int64_t i = first; i < first + width; ++i)
    sum +=
        og_is(x, OG_CODE_INT, 32) ? (double)og_i32(x)[i] : (double)og_f32(x)[i];
  return (float)(sum / (double)width);
}

static og_status mean_rows(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r)
    y[r] = row_mean(call->in[0], r * width, width);
  return OG_OK;
}

MODULE(dtype_integer_mean, {.schema = "mean_rows(Tensor x) -> Tensor",
                            .shape = "x[*N, D] -> [*N]",
                            .where = "D > 0",
                            .dtype = "x: f32|i32 -> x",
                            RUN("f32|i32", mean_rows)})
