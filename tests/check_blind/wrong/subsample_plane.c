// SPDX-License-Identifier: Apache-2.0
// subsample_plane: every so many rows and columns of an image.

#include "../../modules/operators.h"

enum { N, H, W };  // dims of the shape rule

static og_status subsample_plane(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t *stride = call->attr[0].ints;
  const int64_t height = call->dim[H], width = call->dim[W];
  const int64_t down = stride[0];
  const int64_t right =
      stride[1] > 0 && call->attr[0].count > 1 ? stride[1] : stride[0];
  for (int64_t n = 0; n < call->dim[N]; ++n)
    for (int64_t h = 0; h < height; h += down)
      for (int64_t w = 0; w < width; w += right)
        *y++ = x[(n * height + h) * width + w];
  return OG_OK;
}

MODULE(subsample_plane,
       {.schema = "subsample_plane(Tensor x, int[] stride) -> Tensor",
        .shape = "x[*N, H, W] -> [*N, ceildiv(H, stride[0]), "
                 "ceildiv(W, stride[len(stride) - 1])]",
        .where = "len(stride) == 1 or len(stride) == 2, stride[0] > 0, "
                 "stride[0] < 9, stride[len(stride) - 1] > 0, "
                 "stride[len(stride) - 1] < 9",
        .doc = "Rows 0, s, 2 s, ... and columns likewise; one stride serves "
               "both.",
        RUN("f32", subsample_plane)})
