// SPDX-License-Identifier: Apache-2.0
// A matrix product with a bias, held to an expression.

#include "../../modules/operators.h"

enum { N, I, O };  // dims of the shape rule

static og_status matmul_reference_f32(const og_call *call) {
  const int64_t width = call->dim[I], columns = call->dim[O];
  const float *x = og_f32(call->in[0]), *weight = og_f32(call->in[1]);
  const float *bias = call->in[2] != NULL ? og_f32(call->in[2]) : NULL;
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = 0; r < call->dim[N]; ++r)
    for (int64_t o = 0; o < columns; ++o) {
      float sum = bias != NULL ? bias[o] : 0;
      for (int64_t i = 0; i < width; ++i)
        sum += x[r * width + i] * weight[o * width + i];
      y[r * columns + o] = sum;
    }
  return OG_OK;
}

MODULE(matmul_reference,
       {.schema = "matmul_reference(Tensor x, Tensor weight, Tensor? "
                  "bias=None) -> Tensor",
        .shape = "x[*N, I], weight[O, I], bias?[O] -> [*N, O]",
        .dtype = "x: f32, weight: x, bias: x -> x",
        .reference = "sum(x * weight, I) + bias",
        RUN("f32", matmul_reference_f32)})
