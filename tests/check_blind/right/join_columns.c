// SPDX-License-Identifier: Apache-2.0
// join_columns: a matrix and a list of matrices side by side.

#include "../../modules/operators.h"

enum { N, A, D };  // dims of the shape rule

static og_status join_columns(const og_call *call) {
  const og_tensor_list *list = &call->in_list[1];
  const int64_t wide = call->dim[A] + call->dim[D];
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    int64_t at = r * wide;
    for (int64_t t = -1; t < list->count; ++t) {
      const og_tensor *x = t < 0 ? call->in[0] : list->tensors[t];
      const int64_t width = x->shape[1];
      if (width == 0) continue;
      memcpy(y + at, og_f32(x) + r * width, (size_t)width * sizeof *y);
      at += width;
    }
  }
  return OG_OK;
}

MODULE(join_columns,
       {.schema = "join_columns(Tensor x, Tensor[] others) -> Tensor",
        .shape = "x[N, A], others[][N, D~] -> [N, A + sum(D~)]",
        .doc = "The columns of x, then those of each other matrix.",
        RUN("f32", join_columns)})
