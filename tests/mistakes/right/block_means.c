// SPDX-License-Identifier: Apache-2.0
// Each element becomes the mean of its block of 16: halves of a row are blocks
// of their own only where a block ends between them.

#include "../../modules/operators.h"

enum { N };

static og_status block_means(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t n = call->dim[N];
  for (int64_t b = 0; b < n; b += 16) {
    const int64_t end = b + 16 < n ? b + 16 : n;
    float sum = 0;
    for (int64_t i = b; i < end; ++i) sum += x[i];
    for (int64_t i = b; i < end; ++i) y[i] = sum / (float)(end - b);
  }
  return OG_OK;
}

MODULE(block_means, {.schema = "block_means(Tensor x) -> Tensor",
                     .shape = "x[N] -> [N]",
                     RUN("f32", block_means)})
