// SPDX-License-Identifier: Apache-2.0
// vector_total: the sum of a vector in blocks of a fixed size.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule
enum { BLOCK = 1024 };

static void blocks(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  for (int64_t b = begin; b < end; ++b) {
    double sum = 0;
    for (int64_t i = b * BLOCK; i < (b + 1) * BLOCK && i < call->dim[N]; ++i)
      sum += (double)x[i];
    ((double *)call->workspace)[b] = sum;
  }
}

static og_status vector_total(const og_call *call) {
  const int64_t count = (call->dim[N] + BLOCK - 1) / BLOCK;
  const og_status status = og_parallel_for(call, count, 1, blocks);
  double total = 0;
  for (int64_t b = 0; b < count; ++b) total += ((double *)call->workspace)[b];
  *og_f32_mut(call->out[0]) = (float)total;
  return status;
}

MODULE(vector_total, {.schema = "vector_total(Tensor x) -> Tensor",
                      .shape = "x[N] -> []",
                      .workspace = "ceildiv(N, 1024) * 8",
                      .flags = OG_DETERMINISTIC,
                      .doc = "The sum of x, in double until the end.",
                      RUN("f32", vector_total)})
