// SPDX-License-Identifier: Apache-2.0
// unpool_rows: pooled values go back to the places that they came from.

#include "../../modules/operators.h"

enum { N, K };  // dims of the shape rule

static og_status unpool_rows(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *index = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t kept = call->dim[K], length = call->attr[0].i;
  for (int64_t i = 0; i < call->dim[N] * kept; ++i)
    if (index[i] < 0 || index[i] >= length)
      return og_fail(call, OG_INVALID, "an index is outside [0, length)");
  for (int64_t i = 0; i < call->dim[N] * kept; ++i)
    y[i / kept * length + index[i]] += x[i];
  return OG_OK;
}

MODULE(unpool_rows,
       {.schema = "unpool_rows(Tensor x, Tensor index, SymInt length) -> "
                  "Tensor",
        .shape = "x[*N, K], index[*N, K] -> [*N, length]",
        .where = "length >= 0",
        .dtype = "x: f32, index: i64 -> x",
        .doc = "Adds x[..., i] to place index[..., i] of a row of zeros.",
        RUN("f32", unpool_rows)})
