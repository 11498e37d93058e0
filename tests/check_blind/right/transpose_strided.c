// SPDX-License-Identifier: Apache-2.0
// transpose_strided: the transpose of a matrix of any layout.

#include "../../modules/operators.h"

enum { H, W };  // dims of the shape rule

static void columns(const og_call *call, int64_t begin, int64_t end) {
  const og_tensor *x = call->in[0];
  const int64_t height = call->dim[H];
  for (int64_t w = begin; w < end; ++w)
    for (int64_t h = 0; h < height; ++h)
      og_f32_mut(call->out[0])[w * height + h] =
          og_f32(x)[h * x->strides[0] + w * x->strides[1]];
}

static og_status transpose_strided(const og_call *call) {
  return og_parallel_for(call, call->dim[W], 4, columns);
}

MODULE(transpose_strided, {.schema = "transpose_strided(Tensor x) -> Tensor",
                           .shape = "x[H, W] -> [W, H]",
                           .strides = "any",
                           .doc = "Result (w, h) is x[h, w].",
                           RUN("f32", transpose_strided)})
