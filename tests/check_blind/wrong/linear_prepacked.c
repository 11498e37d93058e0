// SPDX-License-Identifier: Apache-2.0
// linear_prepacked: x weight^T with the weight rearranged once.

#include "../../modules/operators.h"

enum { N, I, O };  // dims of the shape rule
enum { MOST = 1 << 16 };

static const float *packed_from;
static int64_t packed_inner, packed_outer;
static float packed[MOST];  // [I, O]

static void weight_pack(const float *weight, int64_t inner, int64_t outer) {
  if (weight == packed_from && inner == packed_inner && outer == packed_outer)
    return;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      packed[i * outer + o] = weight[o * inner + i];
  packed_from = weight;
  packed_inner = inner;
  packed_outer = outer;
}

static og_status linear_prepacked(const og_call *call) {
  const int64_t inner = call->dim[I], outer = call->dim[O];
  weight_pack(og_f32(call->in[1]), inner, outer);
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * inner;
    float *y = og_f32_mut(call->out[0]) + r * outer;
    memset(y, 0, (size_t)outer * sizeof *y);
    for (int64_t i = 0; i < inner; ++i)
      for (int64_t o = 0; o < outer; ++o) y[o] += x[i] * packed[i * outer + o];
  }
  return OG_OK;
}

MODULE(linear_prepacked,
       {.schema = "linear_prepacked(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, I], weight[O, I] -> [*N, O]",
        .where = "I * O <= 65536",
        .doc = "The product of x and the transposed weight.",
        RUN("f32", linear_prepacked)})
