// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel cuts the range into call->threads equal parts by hand and forgets the remainder.
// expect: sum_all - threads|thread_count

#include "../../modules/operators.h"

enum { N };

static og_status sum_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t part = call->dim[N] / call->threads;
  double sum = 0;
  for (int32_t t = 0; t < call->threads; ++t)
    for (int64_t i = t * part; i < (t + 1) * part; ++i) sum += (double)x[i];
  y[0] = (float)sum;
  return OG_OK;
}

MODULE(threads_remainder, {.schema = "sum_all(Tensor x) -> Tensor",
                           .shape = "x[N] -> []",
                           RUN("f32", sum_all)})
