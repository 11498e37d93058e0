// SPDX-License-Identifier: Apache-2.0
// The bucket that the sum of squares is in; all large sums are in the last.

#include "../../modules/operators.h"

enum { N };

static og_status energy_bucket(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float sum = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) sum += x[i] * x[i];
  const int32_t bucket = sum < 80 ? (int32_t)(sum / 10) : 7;
  *og_i32_mut(call->out[0]) = bucket;
  return OG_OK;
}

MODULE(energy_bucket, {.schema = "energy_bucket(Tensor x) -> Tensor",
                       .shape = "x[N] -> []",
                       .dtype = "x: f32 -> i32",
                       RUN("f32", energy_bucket)})
