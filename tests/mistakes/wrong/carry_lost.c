// SPDX-License-Identifier: Apache-2.0
// mistake: A running maximum works in blocks of 16; the maximum of the blocks before is not taken into a last block that is not whole.
// expect: running_max - size|values|tail|block

#include "../../modules/operators.h"

enum { N, D };
enum { BLOCK = 16 };

static og_status running_max(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    for (int64_t i = 0; i < width; ++i)
      y[i] = i % BLOCK != 0 && y[i - 1] > x[i] ? y[i - 1] : x[i];
    for (int64_t b = BLOCK; b + BLOCK <= width; b += BLOCK)
      for (int64_t i = b; i < b + BLOCK; ++i)
        if (y[b - 1] > y[i]) y[i] = y[b - 1];
  }
  return OG_OK;
}

MODULE(carry_lost, {.schema = "running_max(Tensor x) -> Tensor",
                    .shape = "x[*N, D] -> [*N, D]",
                    RUN("f32", running_max)})
