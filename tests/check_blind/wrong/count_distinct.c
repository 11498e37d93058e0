// SPDX-License-Identifier: Apache-2.0
// count_distinct: how many different numbers a row holds, by hashing.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status count_distinct(const og_call *call) {
  const int64_t width = call->dim[D], slots = 2 * width + 1;
  int32_t *table = call->workspace;  // [slots], then whether each is taken
  int32_t *taken = table + slots;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const int32_t *x = og_i32(call->in[0]) + r * width;
    int32_t distinct = 0;
    memset(taken, 0, (size_t)slots);
    for (int64_t i = 0; i < width; ++i) {
      int64_t at = (int64_t)((uint32_t)x[i] * 2654435761u) % slots;
      for (int64_t tries = 0; tries < slots; ++tries) {
        if (taken[at] == 0 || table[at] == x[i]) break;
        at = (at + 1) % slots;
      }
      distinct += taken[at] == 0;
      taken[at] = 1;
      table[at] = x[i];
    }
    og_i32_mut(call->out[0])[r] = distinct;
  }
  return OG_OK;
}

MODULE(count_distinct,
       {.schema = "count_distinct(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .dtype = "x: i32 -> i32",
        .workspace = "(2 * D + 1) * 8",
        .backward = "none",
        .doc = "The number of different entries of the last axis.",
        RUN("i32", count_distinct)})
