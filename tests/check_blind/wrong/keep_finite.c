// SPDX-License-Identifier: Apache-2.0
// keep_finite: the finite numbers of a vector, in order.

#include "../../modules/operators.h"

enum { N, K };  // dims of the shape rule

static og_status keep_finite(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  int64_t kept = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (isfinite(x[i])) y[kept++] = x[i];
  og_set_dim(call, K, kept);
  return OG_OK;
}

MODULE(keep_finite, {.schema = "keep_finite(Tensor x) -> Tensor",
                     .shape = "x[N] -> [K <= max(N - 1, 0)]",
                     .doc = "x without infinities and NaN.",
                     RUN("f32", keep_finite)})
