// SPDX-License-Identifier: Apache-2.0
// int8_linear: int8 rows times int8 weights, scaled to floats.

#include "../../modules/operators.h"

enum { N, I, O };  // dims of the shape rule

static void rows(const og_call *call, int64_t begin, int64_t end) {
  const int64_t inner = call->dim[I], outer = call->dim[O];
  const float scale = (float)call->attr[0].f;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t o = 0; o < outer; ++o) {
      const int8_t *x = og_i8(call->in[0]) + r * inner;
      const int8_t *weight = og_i8(call->in[1]) + o * inner;
      int32_t sum = 0;
      for (int64_t i = 0; i < inner; ++i) sum += x[i] * weight[i];
      og_f32_mut(call->out[0])[r * outer + o] =
          (float)sum * scale * og_f32(call->in[2])[o];
    }
}

static og_status int8_linear(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 1, rows);
}

MODULE(int8_linear,
       {.schema = "int8_linear(Tensor x, Tensor weight, Tensor weight_scale, "
                  "float x_scale=1.0) -> Tensor",
        .shape = "x[*N, I], weight[O, I], weight_scale[O] -> [*N, O]",
        .where = "I <= 100000",
        .dtype = "x: i8, weight: i8, weight_scale: f32 -> weight_scale",
        .doc = "x weight^T * x_scale * weight_scale.",
        RUN("i8", int8_linear)})
