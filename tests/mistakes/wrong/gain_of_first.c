// SPDX-License-Identifier: Apache-2.0
// mistake: Every batch takes the gains of the first one.
// expect: apply_gain gain unused|end|ignored

#include "../../modules/operators.h"

enum { B, T, C };

static og_status apply_gain(const og_call *call) {
  const float *gain = og_f32(call->in[1]);
  const int64_t places = call->dim[B] * call->dim[T];
  for (int64_t i = 0; i < places * call->dim[C]; ++i)
    og_f32_mut(call->out[0])[i] =
        og_f32(call->in[0])[i] * gain[i % call->dim[C]];
  return OG_OK;
}

MODULE(gain_of_first, {.schema = "apply_gain(Tensor x, Tensor gain) -> Tensor",
                       .shape = "x[B, T, C], gain[B, C] -> [B, T, C]",
                       RUN("f32", apply_gain)})
