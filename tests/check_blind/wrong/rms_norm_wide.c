// SPDX-License-Identifier: Apache-2.0
// rms_norm_wide: y = x / sqrt(mean(x^2) + eps) * weight, eight lanes.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { LANES = 8 };

static float square_sum(const float *row, int64_t width) {
  float lane[LANES] = {0};
  float sum = 0;
  for (int64_t i = 0; i + LANES <= width; i += LANES)
    for (int j = 0; j < LANES; ++j) lane[j] += row[i + j] * row[i + j];
  for (int j = 0; j < LANES; ++j) sum += lane[j];
  return sum;
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const float *weight = og_f32(call->in[1]);
  const int64_t width = call->dim[D];
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    const float mean = square_sum(x, width) / (float)width;
    const float scale = 1 / sqrtf(mean + (float)call->attr[0].f);
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * weight[i];
  }
}

static og_status rms_norm_wide(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, rows);
}

MODULE(rms_norm_wide,
       {.schema = "rms_norm_wide(Tensor x, Tensor weight, float eps=1e-6) "
                  "-> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .doc = "Root mean square normalisation of the last axis.",
        RUN("f32", rms_norm_wide)})
