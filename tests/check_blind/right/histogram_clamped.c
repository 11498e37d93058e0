// SPDX-License-Identifier: Apache-2.0
// histogram_clamped: counts in unit bins, what is outside at the ends.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static og_status histogram_clamped(const og_call *call) {
  const double *x = og_f64(call->in[0]);
  int64_t *count = og_i64_mut(call->out[0]);
  const int64_t bins = call->attr[0].i;
  memset(count, 0, (size_t)bins * sizeof *count);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    int64_t bin = 0;
    if (x[i] != x[i]) continue;
    if (x[i] >= (double)bins)
      bin = bins - 1;
    else if (x[i] > 0)
      bin = (int64_t)x[i];
    ++count[bin];
  }
  return OG_OK;
}

MODULE(histogram_clamped,
       {.schema = "histogram_clamped(Tensor x, int bins=8) -> Tensor",
        .shape = "x[N] -> [bins]",
        .where = "bins > 0, bins <= 4096",
        .dtype = "x: f64 -> i64",
        .backward = "none",
        .doc = "Bin b counts b <= x < b + 1; the first and the last bin count "
               "what is below and above too. NaN does not count.",
        RUN("f64", histogram_clamped)})
