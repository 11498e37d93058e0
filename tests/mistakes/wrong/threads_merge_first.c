// SPDX-License-Identifier: Apache-2.0
// mistake: Each worker keeps its own partial sum, and the merge leaves the last worker out.
// expect: sum_all - threads|thread_count|chunk

#include "../../modules/operators.h"

enum { N };

typedef struct partial_state {
  const float *x;
  double *partial;
} partial_state;
static void partial_sum(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const partial_state *s = (const partial_state *)state;
  for (int64_t i = begin; i < end; ++i) s->partial[worker] += (double)s->x[i];
}

static og_status sum_all(const og_call *call) {
  partial_state state = {og_f32(call->in[0]), (double *)call->workspace};
  for (int32_t t = 0; t < call->threads; ++t) state.partial[t] = 0;
  const og_status status =
      og_parallel_tasks(call, call->dim[N], 1, partial_sum, &state);
  double sum = state.partial[0];
  for (int32_t t = 1; t < call->threads - 1; ++t) sum += state.partial[t];
  og_f32_mut(call->out[0])[0] = (float)sum;
  return status;
}

MODULE(threads_merge_first, {.schema = "sum_all(Tensor x) -> Tensor",
                             .shape = "x[N] -> []",
                             .workspace = "threads * 8",
                             RUN("f32", sum_all)})
