// SPDX-License-Identifier: Apache-2.0
// The means of windows of a given width, which the kernel has to read: the
// sizes leave it open.

#include "../../modules/operators.h"

enum { N };

static og_status window_means(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->attr[0].i;
  for (int64_t w = 0; w < call->out[0]->shape[0]; ++w) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[w * width + i];
    y[w] = sum / (float)width;
  }
  return OG_OK;
}

MODULE(window_means, {.schema = "window_means(Tensor x, int width) -> Tensor",
                      .shape = "x[N] -> [N // width]",
                      .where = "width > 0",
                      RUN("f32", window_means)})
