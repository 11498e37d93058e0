// SPDX-License-Identifier: Apache-2.0
// pick_each: entries of each row by an index of its own.

#include "../../modules/operators.h"

enum { N, D, K };  // dims of the shape rule

static og_status pick_each(const og_call *call) {
  const int64_t *index = og_i64(call->in[1]);
  const int64_t width = call->dim[D], picks = call->dim[K];
  const int64_t limit = call->dim[N] * width;
  for (int64_t i = 0; i < call->dim[N] * picks; ++i) {
    const int64_t from = i / picks * width + index[i];
    if (index[i] < 0 || from >= limit)
      return og_fail(call, OG_INVALID, "an index is outside its row");
    og_f64_mut(call->out[0])[i] = og_f64(call->in[0])[from];
  }
  return OG_OK;
}

MODULE(pick_each,
       {.schema = "pick_each(Tensor x, Tensor index) -> Tensor",
        .shape = "x[*N, D], index[*N, K] -> [*N, K]",
        .dtype = "x: f64, index: i64 -> x",
        .doc = "Result (n, k) is x[n, index[n, k]]; an index outside [0, D) is "
               "an error.",
        RUN("f64", pick_each)})
