// SPDX-License-Identifier: Apache-2.0
// Set bits of integers of four sizes.

#include "../../modules/operators.h"

enum { N };

static og_status bit_count(const og_call *call) {
  const og_tensor *x = call->in[0];
  const int64_t item = x->dtype.bits / 8;
  const uint8_t *bytes = (const uint8_t *)og_data(x);
  uint8_t *y = og_u8_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    int count = 0;
    for (int64_t k = i * item; k < (i + 1) * item; ++k)
      for (unsigned rest = bytes[k]; rest != 0; rest &= rest - 1) ++count;
    y[i] = (uint8_t)count;
  }
  return OG_OK;
}

MODULE(bit_count, {.schema = "bit_count(Tensor x) -> Tensor",
                   .shape = "x[*N] -> [*N]",
                   .dtype = "x: u8|i16|i32|i64 -> u8",
                   RUN("u8|i16|i32|i64", bit_count)})
