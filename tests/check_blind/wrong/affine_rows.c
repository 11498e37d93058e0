// SPDX-License-Identifier: Apache-2.0
// affine_rows: x * scale + shift with a scale and a shift for each row.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static void blocks(const og_call *call, int64_t begin, int64_t end) {
  const float *scale = og_f32(call->in[1]), *shift = og_f32(call->in[2]);
  const int64_t width = call->dim[D];
  for (int64_t block = begin; block < end; ++block)
    for (int64_t d = 0; d < width; ++d)
      for (int64_t r = block * 4; r < block * 4 + 4; ++r)
        og_f32_mut(call->out[0])[r * width + d] =
            og_f32(call->in[0])[r * width + d] * scale[r] + shift[r];
}

static og_status affine_rows(const og_call *call) {
  return og_parallel_for(call, call->dim[N] / 4, 4, blocks);
}

MODULE(affine_rows,
       {.schema = "affine_rows(Tensor x, Tensor scale, Tensor shift) -> Tensor",
        .shape = "x[N, D], scale[N], shift[N] -> [N, D]",
        .doc = "x * scale + shift of each row.",
        RUN("f32", affine_rows)})
