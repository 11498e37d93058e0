// SPDX-License-Identifier: Apache-2.0
// offsets_of: where each of several lengths begins when they are joined.

#include "../../modules/operators.h"

enum { B };  // dim of the shape rule

static og_status offsets_of(const og_call *call) {
  const int32_t *length = og_i32(call->in[0]);
  int64_t *offset = og_i64_mut(call->out[0]);
  int64_t total = 0;
  for (int64_t b = 0; b < call->dim[B]; ++b) {
    offset[b] = total;
    total += length[b];
  }
  offset[call->dim[B]] = total;
  return OG_OK;
}

MODULE(offsets_of, {.schema = "offsets_of(Tensor length) -> Tensor",
                    .shape = "length[B] -> [B]",
                    .dtype = "length: i32 -> i64",
                    .backward = "none",
                    .doc = "The exclusive running sum of the lengths.",
                    RUN("i32", offsets_of)})
