// SPDX-License-Identifier: Apache-2.0
// Counts in equal bins, per worker in the workspace, merged by adding integers,
// which is exact in any order. NaN and what lies outside is not counted.

#include "../../modules/operators.h"

enum { N };

static void count_share(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const og_call *call = *(const og_call *const *)state;
  const float *x = og_f32(call->in[0]);
  const int64_t bins = call->attr[0].i;
  const double low = call->attr[1].f, high = call->attr[2].f;
  int64_t *counts = (int64_t *)call->workspace + worker * bins;
  for (int64_t i = begin; i < end; ++i) {
    if (!((double)x[i] >= low && (double)x[i] <= high)) continue;
    const int64_t bin =
        (int64_t)(((double)x[i] - low) / (high - low) * (double)bins);
    ++counts[bin < bins ? bin : bins - 1];
  }
}

static og_status histogram(const og_call *call) {
  const int64_t bins = call->attr[0].i;
  int64_t *counts = (int64_t *)call->workspace, *y = og_i64_mut(call->out[0]);
  if (!(call->attr[1].f < call->attr[2].f) ||
      !isfinite(call->attr[2].f - call->attr[1].f))
    return og_fail(call, OG_INVALID,
                   "histogram: low and high make no finite range");
  for (int64_t i = 0; i < call->threads * bins; ++i) counts[i] = 0;
  const og_status status =
      og_parallel_tasks(call, call->dim[N], 16, count_share, &call);
  for (int64_t b = 0; b < bins; ++b) {
    y[b] = 0;
    for (int64_t t = 0; t < call->threads; ++t) y[b] += counts[t * bins + b];
  }
  return status;
}

MODULE(histogram,
       {.schema = "histogram(Tensor x, int bins=10, float low=-1.0, float "
                  "high=1.0) -> Tensor",
        .shape = "x[*N] -> [bins]",
        .where = "bins > 0, bins <= 65536",
        .dtype = "x: f32 -> i64",
        .workspace = "threads * bins * 8",
        RUN(NULL, histogram),
        .flags = OG_DETERMINISTIC})
