// SPDX-License-Identifier: Apache-2.0
// sign and floor, whose gradient is zero wherever there is one, as the author
// says.

#include "../../modules/operators.h"

enum { N };

static og_status sign(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = x[i] > 0 ? 1.0f : x[i] < 0 ? -1.0f : 0.0f;
  return OG_OK;
}

static og_status floor_all(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = floorf(x[i]);
  return OG_OK;
}

MODULE(sign_step,
       {.schema = "sign(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "none",
        RUN("f32", sign)},
       {.schema = "floor(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "none",
        RUN("f32", floor_all)})
