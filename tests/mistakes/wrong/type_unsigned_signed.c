// SPDX-License-Identifier: Apache-2.0
// mistake: The u8 path reads signed bytes: values from 128 on come out negative.
// expect: to_float - dtype|type|u8|value

#include "../../modules/operators.h"

enum { N };

static og_status to_float(const og_call *call) {
  float *y = og_f32_mut(call->out[0]);
  const og_tensor *x = call->in[0];
  for (int64_t i = 0; i < call->dim[N]; ++i)
    y[i] = og_is(x, OG_CODE_INT, 32) ? (float)og_i32(x)[i] : (float)og_i8(x)[i];
  return OG_OK;
}

MODULE(type_unsigned_signed, {.schema = "to_float(Tensor x) -> Tensor",
                              .shape = "x[*N] -> [*N]",
                              .dtype = "x: i32|u8 -> f32",
                              RUN("i32|u8", to_float)})
