// SPDX-License-Identifier: Apache-2.0
// rank_one_update: adds alpha * u v^T to a matrix of any layout, in place.

#include "../../modules/operators.h"

enum { M, P };  // dims of the shape rule

static og_status rank_one_update(const og_call *call) {
  og_tensor *a = call->out[0];
  const float alpha = (float)call->attr[0].f;
  const int64_t down = a->strides[0], right = a->strides[1];
  const int is_rows = right == 1 && down == call->dim[P];
  for (int64_t i = 0; i < call->dim[M]; ++i)
    for (int64_t j = 0; j < call->dim[P]; ++j) {
      const int64_t at = is_rows ? i * call->dim[P] + j : i * right + j * down;
      og_f32_mut(a)[at] +=
          alpha * og_f32(call->in[1])[i] * og_f32(call->in[2])[j];
    }
  return OG_OK;
}

MODULE(rank_one_update,
       {.schema = "rank_one_update(Tensor(a!) a, Tensor u, Tensor v, "
                  "float alpha=1.0) -> Tensor(a!)",
        .shape = "a[M, P], u[M], v[P]",
        .strides = "a: any",
        .doc = "a += alpha * u v^T.",
        RUN("f32", rank_one_update)})
