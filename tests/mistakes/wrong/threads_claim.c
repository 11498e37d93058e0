// SPDX-License-Identifier: Apache-2.0
// mistake: The operator is flagged OG_DETERMINISTIC, but its f32 sum is cut by the thread count, so that its last bits change with it.
// expect: sum_all - threads|thread_count|deterministic

#include "../../modules/operators.h"

enum { N };

static og_status sum_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[N];
  float sum = 0;
  for (int32_t t = 0; t < call->threads; ++t) {
    float part = 0;
    for (int64_t i = t; i < count; i += call->threads) part += x[i];
    sum += part;
  }
  y[0] = sum;
  return OG_OK;
}

MODULE(threads_claim, {.schema = "sum_all(Tensor x) -> Tensor",
                       .shape = "x[N] -> []",
                       RUN("f32", sum_all),
                       .flags = OG_DETERMINISTIC})
