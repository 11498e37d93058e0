// SPDX-License-Identifier: Apache-2.0
// mistake: The bf16 kernel drops the low bits of the product, so that it is cut and not rounded.
// expect: third - dtype|type|values

#include "../../modules/operators.h"

enum { N };

static og_status third(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (call->in[0]->dtype.bits == 32) {
      og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i] / 3;
      continue;
    }
    const og_float_bits bits = {
        .f = og_bfloat_to_float(og_bf16(call->in[0])[i]) / 3};
    og_bf16_mut(call->out[0])[i].bits = (uint16_t)(bits.u >> 16);
  }
  return OG_OK;
}

MODULE(bfloat_cut, {.schema = "third(Tensor x) -> Tensor",
                    .shape = "x[*N] -> [*N]",
                    .dtype = "x: f32|bf16 -> x",
                    RUN("f32|bf16", third)})
