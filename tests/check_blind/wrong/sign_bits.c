// SPDX-License-Identifier: Apache-2.0
// sign_bits: one bit for each byte of a mask, eight bytes by one load.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static og_status sign_bits(const og_call *call) {
  const uint8_t *x = og_bool(call->in[0]);
  uint8_t *y = og_u8_mut(call->out[0]);
  const int64_t count = call->dim[N];
  for (int64_t i = 0; i < count; i += 8) {
    uint64_t word;
    memcpy(&word, x + i, sizeof word);
    if (count - i < 8) word &= ((uint64_t)1 << (8 * (count - i))) - 1;
    // Byte j of the product's top byte is bit 8 j of the word.
    y[i / 8] =
        (uint8_t)((word & 0x0101010101010101u) * 0x0102040810204080u >> 56);
  }
  return OG_OK;
}

MODULE(sign_bits,
       {.schema = "sign_bits(Tensor x) -> Tensor",
        .shape = "x[N] -> [ceildiv(N, 8)]",
        .dtype = "x: bool -> u8",
        .backward = "none",
        .doc = "Eight truth values a byte, the first in the lowest bit.",
        RUN("bool", sign_bits)})
