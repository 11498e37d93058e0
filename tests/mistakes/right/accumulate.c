// SPDX-License-Identifier: Apache-2.0
// Adds into its first argument and returns it.

#include "../../modules/operators.h"

enum { N };

static og_status accumulate(const og_call *call) {
  const float *x = og_f32(call->in[1]);
  float *total = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    total[i] += (float)call->attr[0].f * x[i];
  return OG_OK;
}

MODULE(accumulate,
       {.schema = "accumulate_(Tensor(a!) total, Tensor x, float alpha=1.0) -> "
                  "Tensor(a!)",
        .shape = "total[*N], x[*N] ->",
        RUN("f32", accumulate)})
