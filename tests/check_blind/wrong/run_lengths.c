// SPDX-License-Identifier: Apache-2.0
// run_lengths: runs of equal numbers, their values and their lengths.

#include "../../modules/operators.h"

enum { N, K };  // dims of the shape rule

static og_status run_lengths(const og_call *call) {
  const int32_t *x = og_i32(call->in[0]);
  int32_t *value = og_i32_mut(call->out[0]);
  int64_t *length = og_i64_mut(call->out[1]);
  int64_t runs = 0, first = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (i > 0 && x[i] == x[i - 1]) continue;
    if (runs > 0) length[runs - 1] = i - first;
    value[runs++] = x[i];
    first = i;
  }
  og_set_dim(call, K, runs);
  return OG_OK;
}

MODULE(run_lengths,
       {.schema = "run_lengths(Tensor x) -> (Tensor value, Tensor length)",
        .shape = "x[N] -> [K <= N], [K]",
        .dtype = "x: i32 -> x, i64",
        .backward = "none",
        .doc = "The value and the length of each run, in order.",
        RUN("i32", run_lengths)})
