// SPDX-License-Identifier: Apache-2.0
// reglu: the first half of a row, rectified, times the second half.

#include "../../modules/operators.h"

enum { N, D2 };  // dims of the shape rules

static og_status reglu(const og_call *call) {
  const int64_t half = call->dim[D2] / 2;
  for (int64_t i = 0; i < call->dim[N] * half; ++i) {
    const float *x = og_f32(call->in[0]) + i / half * 2 * half + i % half;
    og_f32_mut(call->out[0])[i] = x[0] > 0 ? x[0] * x[half] : 0;
  }
  return OG_OK;
}

static og_status reglu_backward(const og_call *call) {
  const int64_t half = call->dim[D2] / 2;
  for (int64_t i = 0; i < call->dim[N] * half; ++i) {
    const int64_t at = i / half * 2 * half + i % half;
    const float *x = og_f32(call->in[1]) + at;
    float *y = og_f32_mut(call->out[0]) + at;
    const float g = x[0] > 0 ? og_f32(call->in[0])[i] : 0;
    y[0] = g * x[0];
    y[half] = g * x[half];
  }
  return OG_OK;
}

MODULE(reglu,
       {.schema = "reglu(Tensor x) -> Tensor",
        .shape = "x[*N, D2] -> [*N, D2 // 2]",
        .where = "D2 % 2 == 0",
        .backward = "reglu_backward(grad, x) -> x",
        .doc = "A gated rectifier: max(gate, 0) * up.",
        RUN("f32", reglu)},
       {.schema = "reglu_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*N, D2 // 2], x[*N, D2] -> [*N, D2]",
        .where = "D2 % 2 == 0",
        .doc = "The gradient of reglu.",
        RUN("f32", reglu_backward)})
