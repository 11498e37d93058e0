// SPDX-License-Identifier: Apache-2.0
// mistake: The means of windows of a given width take as width what the sizes suggest, N divided by the count of windows.
// expect: window_means width unused_argument

#include "../../modules/operators.h"

enum { N };

static og_status window_means(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t count = call->out[0]->shape[0];
  const int64_t width = count > 0 ? call->dim[N] / count : 0;
  for (int64_t w = 0; w < count; ++w) {
    float sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[w * width + i];
    y[w] = sum / (float)width;
  }
  return OG_OK;
}

MODULE(ignored_width, {.schema = "window_means(Tensor x, int width) -> Tensor",
                       .shape = "x[N] -> [N // width]",
                       .where = "width > 0",
                       RUN("f32", window_means)})
