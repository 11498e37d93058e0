// SPDX-License-Identifier: Apache-2.0
// linear_columns: x weight + bias, eight columns at a time.

#include "../../modules/operators.h"

enum { N, I, O };  // dims of the shape rule

static void block_run(const float *x, const float *weight, const float *bias,
                      float *y, int64_t inner, int64_t outer) {
  float sum[8];
  for (int j = 0; j < 8; ++j) sum[j] = bias != NULL ? bias[j] : 0;
  for (int64_t i = 0; i < inner; ++i)
    for (int j = 0; j < 8; ++j) sum[j] += x[i] * weight[i * outer + j];
  for (int j = 0; j < 8; ++j) y[j] = sum[j];
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t inner = call->dim[I], outer = call->dim[O];
  const float *weight = og_f32(call->in[1]);
  const float *bias = call->in[2] != NULL ? og_f32(call->in[2]) : NULL;
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * inner;
    float *y = og_f32_mut(call->out[0]) + r * outer;
    int64_t o = 0;
    for (; o + 8 <= outer; o += 8)
      block_run(x, weight + o, bias != NULL ? bias + o : NULL, y + o, inner,
                outer);
    for (; o < outer; ++o) {
      y[o] = 0;
      for (int64_t i = 0; i < inner; ++i) y[o] += x[i] * weight[i * outer + o];
    }
  }
}

static og_status linear_columns(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, rows);
}

MODULE(linear_columns,
       {.schema = "linear_columns(Tensor x, Tensor weight, Tensor? bias=None) "
                  "-> Tensor",
        .shape = "x[*N, I], weight[I, O], bias?[O] -> [*N, O]",
        .doc = "The product of x and weight, plus bias.",
        RUN("f32", linear_columns)})
