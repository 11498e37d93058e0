// SPDX-License-Identifier: Apache-2.0
// pixel_shuffle: channels become blocks of r x r pixels.

#include "../../modules/operators.h"

enum { N, C, H, W };  // dims of the shape rule

static og_status pixel_shuffle(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t r = call->attr[0].i;
  const int64_t height = call->dim[H], width = call->dim[W];
  const int64_t channels = call->dim[C] / (r * r);
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t a = 0; a < r; ++a)
        for (int64_t b = 0; b < r; ++b) {
          const int64_t from = (n * channels + c) * r * r + a * r + b;
          for (int64_t h = 0; h < height; ++h)
            for (int64_t w = 0; w < width; ++w) {
              const int64_t row = (n * channels + c) * height * r + h * r + b;
              y[row * width * r + w * r + a] =
                  x[(from * height + h) * width + w];
            }
        }
  return OG_OK;
}

MODULE(pixel_shuffle,
       {.schema = "pixel_shuffle(Tensor x, int r=2) -> Tensor",
        .shape = "x[*N, C, H, W] -> [*N, C // (r * r), H * r, W * r]",
        .where = "r > 0, r <= 3, C % max(r * r, 1) == 0",
        .doc = "Channel c r r + a r + b of cell (h, w) becomes pixel (h r + a, "
               "w r + b) of channel c.",
        RUN("f32", pixel_shuffle)})
