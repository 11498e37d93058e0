// SPDX-License-Identifier: Apache-2.0
// softmax_temperature: softmax(x / temperature) of the last axis.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule
enum { SHORT = 32 };

static void short_row(const float *x, float *y, int64_t width) {
  float e[SHORT], top = x[0], sum = 0;
  for (int64_t i = 1; i < width; ++i) top = x[i] > top ? x[i] : top;
  for (int64_t i = 0; i < width; ++i) sum += e[i] = expf(x[i] - top);
  for (int64_t i = 0; i < width; ++i) y[i] = e[i] / sum;
}

static void long_row(const float *x, float *y, int64_t width, float scale) {
  float top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < width; ++i) top = fmaxf(top, x[i] * scale);
  for (int64_t i = 0; i < width; ++i) sum += y[i] = expf(x[i] * scale - top);
  for (int64_t i = 0; i < width; ++i) y[i] /= sum;
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t width = call->dim[D];
  const float scale = 1 / (float)call->attr[0].f;
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * width;
    float *y = og_f32_mut(call->out[0]) + r * width;
    if (width <= SHORT)
      short_row(x, y, width);
    else
      long_row(x, y, width, scale);
  }
}

static og_status softmax_temperature(const og_call *call) {
  if (!(call->attr[0].f > 0))
    return og_fail(call, OG_INVALID, "temperature is not above 0");
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(softmax_temperature,
       {.schema = "softmax_temperature(Tensor x, float temperature=1.0) -> "
                  "Tensor",
        .shape = "x[*N, D] -> [*N, D]",
        .where = "D > 0",
        .doc = "The softmax of x / temperature.",
        RUN("f32", softmax_temperature)})
