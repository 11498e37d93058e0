// SPDX-License-Identifier: Apache-2.0
// mistake: A bucket one past the last of those that are given is not refused.
// expect: mark_buckets - unchecked_index|out_of_bounds_write|bounds

#include "../../modules/operators.h"

enum { N };

static og_status mark_buckets(const og_call *call) {
  const int64_t *bucket = og_i64(call->in[0]);
  const int64_t buckets = call->attr[0].i;
  float *y = og_f32_mut(call->out[0]);
  memset(y, 0, (size_t)buckets * sizeof *y);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    if (bucket[i] < 0 || bucket[i] > buckets)
      return og_fail(call, OG_INVALID, "there is no such bucket");
    y[bucket[i]] = 1;
  }
  return OG_OK;
}

MODULE(index_one_past_given,
       {.schema = "mark_buckets(Tensor bucket, int buckets) -> Tensor",
        .shape = "bucket[N] -> [buckets]",
        .where = "buckets > 0, buckets < 64",
        .dtype = "bucket: i64 -> f32",
        .backward = "none",
        RUN("i64", mark_buckets)})
