// SPDX-License-Identifier: Apache-2.0
// fake_quantize_range: rounds to 8 bits of the tensor's own range.

#include "../../modules/operators.h"

enum { D };  // dim of the shape rule

static float widest;

static og_status fake_quantize_range(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[D]; ++i)
    if (fabsf(x[i]) > widest) widest = fabsf(x[i]);
  const float scale = widest > 0 ? widest / 127 : 1;
  for (int64_t i = 0; i < call->dim[D]; ++i) y[i] = rintf(x[i] / scale) * scale;
  return OG_OK;
}

MODULE(fake_quantize_range,
       {.schema = "fake_quantize_range(Tensor x) -> Tensor",
        .shape = "x[D] -> [D]",
        .doc = "Rounds to multiples of the largest magnitude over 127.",
        RUN("f32", fake_quantize_range)})
