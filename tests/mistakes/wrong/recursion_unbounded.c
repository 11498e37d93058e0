// SPDX-License-Identifier: Apache-2.0
// mistake: A divide-and-conquer sum whose base case is one element recurses for ever on none.
// expect: pairwise_sum - recursion|crash|stack

#include "../../modules/operators.h"

enum { N };

static float pairwise(const float *x, int64_t count, volatile int64_t *depth) {
  if (count == 1) return x[0];
  *depth += 1;
  const float left = pairwise(x, count / 2, depth);
  const float right = pairwise(x + count / 2, count - count / 2, depth);
  *depth -= 1;
  return left + right;
}

static og_status pairwise_sum(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  volatile int64_t depth = 0;
  y[0] = pairwise(x, call->dim[N], &depth);
  return OG_OK;
}

MODULE(recursion_unbounded, {.schema = "pairwise_sum(Tensor x) -> Tensor",
                             .shape = "x[*N] -> []",
                             RUN("f32", pairwise_sum)})
