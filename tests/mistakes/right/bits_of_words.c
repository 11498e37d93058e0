// SPDX-License-Identifier: Apache-2.0
// How many bits are set: more of a negative number in 64 bits than in 32.

#include "../../modules/operators.h"

enum { N };

static int64_t bits_of(uint64_t x) {
  int64_t count = 0;
  for (; x != 0; x &= x - 1) ++count;
  return count;
}

static og_status bits_of_words(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (call->in[0]->dtype.bits == 32)
      og_i32_mut(call->out[0])[i] =
          (int32_t)bits_of((uint32_t)og_i32(call->in[0])[i]);
    else
      og_i64_mut(call->out[0])[i] = bits_of((uint64_t)og_i64(call->in[0])[i]);
  }
  return OG_OK;
}

MODULE(bits_of_words, {.schema = "bits_of_words(Tensor x) -> Tensor",
                       .shape = "x[*N] -> [*N]",
                       .dtype = "x: i32|i64 -> x",
                       .backward = "none",
                       RUN("i32|i64", bits_of_words)})
