// SPDX-License-Identifier: Apache-2.0
// The running maximum inside each block of 32; every block begins anew.

#include "../../modules/operators.h"

enum { N, D };
enum { BLOCK = 32 };

static og_status max_within(const og_call *call) {
  const int64_t width = call->dim[D];
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    for (int64_t i = 0; i < width; ++i)
      y[i] = i % BLOCK != 0 && y[i - 1] > x[i] ? y[i - 1] : x[i];
  }
  return OG_OK;
}

MODULE(max_within_blocks, {.schema = "max_within(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N, D]",
                           RUN("f32", max_within)})
