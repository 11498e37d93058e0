// SPDX-License-Identifier: Apache-2.0
// blend_u8: (x * alpha + y * (255 - alpha)) / 255 of two images.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void pixels(const og_call *call, int64_t begin, int64_t end) {
  const uint8_t *x = og_u8(call->in[0]), *y = og_u8(call->in[1]);
  uint8_t *out = og_u8_mut(call->out[0]);
  const int64_t alpha = call->attr[0].i;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t mixed = x[i] * alpha + y[i] * (255 - alpha);
    const uint16_t twice = (uint16_t)(2 * mixed + 255);
    out[i] = (uint8_t)(twice / 510);
  }
}

static og_status blend_u8(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4096, pixels);
}

MODULE(blend_u8,
       {.schema = "blend_u8(Tensor x, Tensor y, int alpha=128) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .where = "alpha >= 0, alpha <= 255",
        .backward = "none",
        .doc = "A mix of two images, (x * alpha + y * (255 - alpha)) / 255, "
               "rounded to the nearest integer, half upwards.",
        RUN("u8", blend_u8)})
