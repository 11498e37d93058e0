// SPDX-License-Identifier: Apache-2.0
// mean_of_sixteen: the mean of each sixteen neighbours, fewer at the end.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { GROUP = 16 };

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], groups = (width + GROUP - 1) / GROUP;
  for (int64_t i = begin * groups; i < end * groups; ++i) {
    const float *x = og_f32(call->in[0]) + i / groups * width;
    const int64_t first = i % groups * GROUP;
    const int64_t count = width - first < GROUP ? width - first : GROUP;
    float sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += x[first + j];
    og_f32_mut(call->out[0])[i] = sum / (float)count;
  }
}

static og_status mean_of_sixteen(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(mean_of_sixteen,
       {.schema = "mean_of_sixteen(Tensor x) -> Tensor",
        .shape = "x[*N, D] -> [*N, ceildiv(D, 16)]",
        .doc = "Means of groups of sixteen; the last group may be smaller.",
        RUN("f32", mean_of_sixteen)})
