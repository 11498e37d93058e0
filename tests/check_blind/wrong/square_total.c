// SPDX-License-Identifier: Apache-2.0
// square_total: the sum of squares of a vector.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void share(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = state;
  const float *x = og_f32(call->in[0]);
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += (double)x[i] * (double)x[i];
  ((double *)call->workspace)[worker] = sum;
}

static og_status square_total(const og_call *call) {
  double *part = call->workspace, total = 0;
  for (int32_t t = 0; t < call->threads; ++t) part[t] = 0;
  const og_status status =
      og_parallel_tasks(call, call->dim[N], 64, share, (void *)(uintptr_t)call);
  for (int32_t t = 0; t < call->threads; ++t) total += part[t];
  *og_f32_mut(call->out[0]) = (float)total;
  return status;
}

MODULE(square_total, {.schema = "square_total(Tensor x) -> Tensor",
                      .shape = "x[N] -> []",
                      .workspace = "threads * 8",
                      .doc = "The sum of x^2, each thread's part in double.",
                      RUN("f32", square_total)})
