// SPDX-License-Identifier: Apache-2.0
// mistake: A running sum whose shares read the last value of the share before, as if that had run already.
// expect: cumsum - chunk_order|chunk|race|threads

#include "../../modules/operators.h"

enum { D };

static void cumsum_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i) y[i] = i > 0 ? y[i - 1] + x[i] : x[i];
}

static og_status cumsum(const og_call *call) {
  return og_parallel_for(call, call->dim[D], 1, cumsum_share);
}

MODULE(chunk_order, {.schema = "cumsum(Tensor x) -> Tensor",
                     .shape = "x[D] -> [D]",
                     RUN("f32", cumsum)})
