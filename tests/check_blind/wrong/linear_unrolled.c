// SPDX-License-Identifier: Apache-2.0
// linear_unrolled: y = x weight^T + bias, products unrolled by sixteen.

#include "../../modules/operators.h"

enum { N, I, O };  // dims of the shape rule

static float dot_short(const float *a, const float *b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static float dot_long(const float *a, const float *b, int64_t count) {
  float lane[16] = {0};
  for (int64_t block = 0; block < count / 16; ++block)
    for (int j = 0; j < 16; ++j)
      lane[j] += a[block * 16 + j] * b[block * 16 + j];
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const float *weight = og_f32(call->in[1]);
  const float *bias = call->in[2] != NULL ? og_f32(call->in[2]) : NULL;
  const int64_t inner = call->dim[I], outer = call->dim[O];
  for (int64_t r = begin; r < end; ++r) {
    const float *x = og_f32(call->in[0]) + r * inner;
    for (int64_t o = 0; o < outer; ++o) {
      const float *w = weight + o * inner;
      const float y =
          inner < 16 ? dot_short(x, w, inner) : dot_long(x, w, inner);
      og_f32_mut(call->out[0])[r * outer + o] =
          y + (bias != NULL ? bias[o] : 0);
    }
  }
}

static og_status linear_unrolled(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 4, rows);
}

MODULE(linear_unrolled,
       {.schema = "linear_unrolled(Tensor x, Tensor weight, Tensor? bias=None) "
                  "-> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .doc = "The product of x and the transposed weight, plus bias.",
        RUN("f32", linear_unrolled)})
