// SPDX-License-Identifier: Apache-2.0
// The coordinates of the elements that are not zero: a data-dependent row count
// and as many columns as x has dims.

#include "../../modules/operators.h"

enum { N, K };

static int is_nonzero(const og_tensor *x, int64_t i) {
  if (og_is(x, OG_CODE_FLOAT, 32)) return og_f32(x)[i] != 0;
  if (og_is(x, OG_CODE_INT, 64)) return og_i64(x)[i] != 0;
  return og_bool(x)[i] != 0;
}

static og_status nonzero(const og_call *call) {
  const og_tensor *x = call->in[0];
  int64_t *row = og_i64_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < og_numel(x); ++i) {
    if (!is_nonzero(x, i)) continue;
    int64_t rest = i;
    for (int32_t d = x->ndim - 1; d >= 0; --d) {
      row[d] = rest % x->shape[d];
      rest /= x->shape[d];
    }
    row += x->ndim;
    ++count;
  }
  og_set_dim(call, K, count);
  return OG_OK;
}

MODULE(nonzero, {.schema = "nonzero(Tensor x) -> Tensor",
                 .shape = "x[*N] -> [K <= prod(N), rank(N)]",
                 .dtype = "x: f32|i64|bool -> i64",
                 RUN("f32|i64|bool", nonzero)})
