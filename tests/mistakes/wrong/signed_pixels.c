// SPDX-License-Identifier: Apache-2.0
// mistake: Pixels are unsigned, the kernel reads them as signed.
// expect: brighten - dtype|type|values

#include "../../modules/operators.h"

enum { N };

static og_status brighten(const og_call *call) {
  const int8_t *x = og_data(call->in[0]);
  const float gain = og_f32(call->in[1])[0];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    og_f32_mut(call->out[0])[i] = (float)x[i] * gain;
  return OG_OK;
}

MODULE(signed_pixels, {.schema = "brighten(Tensor x, Tensor gain) -> Tensor",
                       .shape = "x[N], gain[1] -> [N]",
                       .dtype = "x: u8, gain: f32 -> gain",
                       .backward = "none",
                       RUN("u8", brighten)})
