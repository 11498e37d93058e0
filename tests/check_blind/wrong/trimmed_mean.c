// SPDX-License-Identifier: Apache-2.0
// trimmed_mean: mean of each row without its smallest and largest part.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { MOST = 4096 };

static float line[MOST];

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D], cut = call->attr[0].i;
  for (int64_t r = begin; r < end; ++r) {
    memcpy(line, og_f32(call->in[0]) + r * width, (size_t)width * 4);
    for (int64_t i = 1; i < width; ++i)
      for (int64_t j = i; j > 0 && line[j] < line[j - 1]; --j) {
        const float swap = line[j];
        line[j] = line[j - 1];
        line[j - 1] = swap;
      }
    float sum = 0;
    for (int64_t i = cut; i < width - cut; ++i) sum += line[i];
    og_f32_mut(call->out[0])[r] = sum / (float)(width - 2 * cut);
  }
}

static og_status trimmed_mean(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, rows);
}

MODULE(trimmed_mean,
       {.schema = "trimmed_mean(Tensor x, int cut=1) -> Tensor",
        .shape = "x[*N, D] -> [*N]",
        .where = "cut >= 0, D > 2 * cut, D <= 4096",
        .doc = "The mean of the last axis without its cut smallest and cut "
               "largest entries.",
        RUN("f32", trimmed_mean)})
