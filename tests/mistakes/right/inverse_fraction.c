// SPDX-License-Identifier: Apache-2.0
// One over the fraction of each number, which has a pole at the integers: large
// numbers of bf16 all are integers.

#include "../../modules/operators.h"

enum { N };

static og_status inverse_fraction(const og_call *call) {
  const og_bfloat *x = og_bf16(call->in[0]);
  og_bfloat *y = og_bf16_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const float value = og_bfloat_to_float(x[i]);
    y[i] = og_bfloat_from_float(1 / (value - floorf(value)));
  }
  return OG_OK;
}

MODULE(inverse_fraction, {.schema = "inverse_fraction(Tensor x) -> Tensor",
                          .shape = "x[*N] -> [*N]",
                          RUN("bf16", inverse_fraction)})
