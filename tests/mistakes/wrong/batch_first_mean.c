// SPDX-License-Identifier: Apache-2.0
// mistake: Every row is centred with the mean of the first.
// expect: center_rows - batch

#include "../../modules/operators.h"

enum { N, D };

static og_status center_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  float mean = 0;
  for (int64_t i = 0; i < width && call->dim[N] > 0; ++i)
    mean += x[i] / (float)width;
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i] - mean;
  return OG_OK;
}

MODULE(batch_first_mean, {.schema = "center_rows(Tensor x) -> Tensor",
                          .shape = "x[*N, D] -> [*N, D]",
                          RUN("f32", center_rows)})
