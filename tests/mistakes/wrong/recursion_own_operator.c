// SPDX-License-Identifier: Apache-2.0
// mistake: The kernel calls its own operator, as a wrapper that fell back to itself does.
// expect: gelu - recursion|crash|stack

#include "../../modules/operators.h"

enum { N };

const og_module *opgraft_module(uint32_t max_abi);
static og_status gelu(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
  const og_status status =
      opgraft_module(OG_ABI_VERSION)->ops[0].kernels[0].run(call);
  return status == OG_OK ? call->dim[N] >= 0 ? OG_OK : OG_SHAPE : status;
}

MODULE(recursion_own_operator, {.schema = "gelu(Tensor x) -> Tensor",
                                .shape = "x[*N] -> [*N]",
                                RUN("f32", gelu)})
