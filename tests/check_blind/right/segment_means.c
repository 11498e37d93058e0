// SPDX-License-Identifier: Apache-2.0
// segment_means: means of the rows between offsets.

#include "../../modules/operators.h"

enum { N, D, B1 };  // dims of the shape rule

static og_status segment_means(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int32_t *offset = og_i32(call->in[1]);
  const int64_t width = call->dim[D], segments = call->dim[B1] - 1;
  for (int64_t b = 0; b <= segments; ++b)
    if (offset[b] < (b > 0 ? offset[b - 1] : 0) || offset[b] > call->dim[N])
      return og_fail(call, OG_INVALID, "offsets fall or leave the rows");
  for (int64_t i = 0; i < segments * width; ++i) {
    const int64_t b = i / width, rows = offset[b + 1] - offset[b];
    float sum = 0;
    for (int64_t r = offset[b]; r < offset[b + 1]; ++r)
      sum += x[r * width + i % width];
    og_f32_mut(call->out[0])[i] = rows > 0 ? sum / (float)rows : 0;
  }
  return OG_OK;
}

static og_status sample(const og_sample_call *call) {
  const int64_t rows = call->dim[N], segments = call->dim[B1] - 1;
  if (call->step == OG_SAMPLE_SIZES) return OG_OK;
  for (int64_t b = 0; b <= segments; ++b)
    og_i32_mut(call->in[1])[b] =
        (int32_t)(segments > 0 ? rows * b / segments : rows / 2);
  return OG_OK;
}

MODULE(segment_means,
       {.schema = "segment_means(Tensor x, Tensor offset) -> Tensor",
        .shape = "x[N, D], offset[B1] -> [B1 - 1, D]",
        .where = "B1 > 0",
        .dtype = "x: f32, offset: i32 -> x",
        .doc = "Row b is the mean of rows offset[b] to offset[b + 1] - 1, 0 "
               "where there are none.",
        .sample = sample,
        RUN("f32", segment_means)})
