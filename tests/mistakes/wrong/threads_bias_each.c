// SPDX-License-Identifier: Apache-2.0
// mistake: Each thread adds the start value into the result, so that it counts once per thread.
// expect: sum_from - threads|thread_count

#include "../../modules/operators.h"

enum { N };

static og_status sum_from(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  double sum = 0;
  for (int32_t t = 0; t < call->threads; ++t) {
    sum += call->attr[0].f;
    for (int64_t i = t; i < call->dim[N]; i += call->threads)
      sum += (double)x[i];
  }
  y[0] = (float)sum;
  return OG_OK;
}

MODULE(threads_bias_each,
       {.schema = "sum_from(Tensor x, float start=1.0) -> Tensor",
        .shape = "x[N] -> []",
        RUN("f32", sum_from)})
