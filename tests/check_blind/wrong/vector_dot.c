// SPDX-License-Identifier: Apache-2.0
// vector_dot: the sum of products of two vectors.

#include "../../modules/operators.h"

enum { N };  // dim of the shape rule

static void blocks(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]), *y = og_f32(call->in[1]);
  float *part = call->workspace;
  const int64_t size = (call->dim[N] + call->threads - 1) / call->threads;
  for (int64_t b = begin; b < end; ++b) {
    float sum = 0;
    for (int64_t i = b * size; i < (b + 1) * size && i < call->dim[N]; ++i)
      sum += x[i] * y[i];
    part[b] = sum;
  }
}

static og_status vector_dot(const og_call *call) {
  const float *part = call->workspace;
  const og_status status = og_parallel_for(call, call->threads, 1, blocks);
  float sum = 0;
  for (int32_t t = 0; t < call->threads; ++t) sum += part[t];
  *og_f32_mut(call->out[0]) = sum;
  return status;
}

MODULE(vector_dot, {.schema = "vector_dot(Tensor x, Tensor y) -> Tensor",
                    .shape = "x[N], y[N] -> []",
                    .workspace = "threads * 4",
                    .flags = OG_DETERMINISTIC,
                    .doc = "The inner product.",
                    RUN("f32", vector_dot)})
