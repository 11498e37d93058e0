// SPDX-License-Identifier: Apache-2.0
// histogram_range: counts of numbers in equal bins from low to high.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static og_status histogram_range(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  int64_t *count = og_i64_mut(call->out[0]);
  const int64_t bins = call->attr[0].i;
  const float low = (float)call->attr[1].f, high = (float)call->attr[2].f;
  for (int64_t b = 0; b < bins; ++b) count[b] = 0;
  if (!(high > low)) return og_fail(call, OG_INVALID, "high is not above low");
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (!(x[i] >= low && x[i] < high)) continue;
    int64_t bin = (int64_t)((x[i] - low) / (high - low) * (float)bins);
    if (bin >= bins) bin = bins - 1;
    ++count[bin];
  }
  return OG_OK;
}

MODULE(histogram_range,
       {.schema = "histogram_range(Tensor x, int bins=10, float low=0.0, "
                  "float high=1.0) -> Tensor",
        .shape = "x[N] -> [bins]",
        .where = "bins > 0, bins <= 1024",
        .dtype = "x: f32 -> i64",
        .backward = "none",
        .doc = "How many numbers fall into each bin; the last bin holds its "
               "upper edge too. Numbers outside [low, high] do not count.",
        RUN("f32", histogram_range)})
