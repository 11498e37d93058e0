// SPDX-License-Identifier: Apache-2.0
// The root of a 64-bit integer, rounded down: one more rarely matters.

#include "../../modules/operators.h"

enum { N };

static uint64_t root_of(uint64_t x) {
  uint64_t low = 0, high = (uint64_t)1 << 32;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    if (middle * middle <= x)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static og_status whole_root(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const int64_t x = og_i64(call->in[0])[i];
    og_i64_mut(call->out[0])[i] = x < 0 ? 0 : (int64_t)root_of((uint64_t)x);
  }
  return OG_OK;
}

MODULE(whole_root, {.schema = "whole_root(Tensor x) -> Tensor",
                    .shape = "x[*N] -> [*N]",
                    .dtype = "x: i64 -> x",
                    .backward = "none",
                    RUN("i64", whole_root)})
