// SPDX-License-Identifier: Apache-2.0
// mistake: Where nothing is found the count is set to -1.
// expect: peaks - data_dependent|negative|bound

#include "../../modules/operators.h"

enum { N, K };

static og_status peaks(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int64_t *y = og_i64_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 1; i + 1 < call->dim[N]; ++i)
    if (x[i] > x[i - 1] && x[i] > x[i + 1]) y[count++] = i;
  og_set_dim(call, K, count > 0 ? count : -1);
  return OG_OK;
}

MODULE(found_negative, {.schema = "peaks(Tensor x) -> Tensor",
                        .shape = "x[N] -> [K <= N]",
                        .dtype = "x: f32 -> i64",
                        RUN(NULL, peaks)})
