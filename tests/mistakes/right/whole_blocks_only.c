// SPDX-License-Identifier: Apache-2.0
// Whole blocks of 16 are centered, the rest of a row stays as it is.

#include "../../modules/operators.h"

enum { N, D };
enum { BLOCK = 16 };

static og_status center_blocks(const og_call *call) {
  const int64_t width = call->dim[D], whole = width / BLOCK * BLOCK;
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const double *x = og_f64(call->in[0]) + r * width;
    double *y = og_f64_mut(call->out[0]) + r * width;
    for (int64_t b = 0; b < whole; b += BLOCK) {
      double sum = 0;
      for (int64_t i = b; i < b + BLOCK; ++i) sum += x[i];
      for (int64_t i = b; i < b + BLOCK; ++i) y[i] = x[i] - sum / BLOCK;
    }
    for (int64_t i = whole; i < width; ++i) y[i] = x[i];
  }
  return OG_OK;
}

MODULE(whole_blocks_only, {.schema = "center_blocks(Tensor x) -> Tensor",
                           .shape = "x[*N, D] -> [*N, D]",
                           RUN("f64", center_blocks)})
