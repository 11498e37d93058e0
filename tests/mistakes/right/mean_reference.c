// SPDX-License-Identifier: Apache-2.0
// The mean square of a row, with an offset; held to an expression.

#include "../../modules/operators.h"

enum { N, D };  // dims of the shape rule

static og_status mean_reference_f32(const og_call *call) {
  const int64_t n = call->dim[D];
  const float *weight = og_f32(call->in[1]);
  for (int64_t r = 0; r < call->dim[N]; ++r) {
    const float *x = og_f32(call->in[0]) + r * n;
    float *y = og_f32_mut(call->out[0]) + r * n;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    const float scale = 1 / sqrtf(sum / (float)n + (float)call->attr[0].f);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
  }
  return OG_OK;
}

MODULE(mean_reference,
       {.schema =
            "mean_reference(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .where = "D > 0",
        .dtype = "x: f32, weight: x -> x",
        .reference = "x * rsqrt(mean(x * x, D) + eps) * weight",
        RUN("f32", mean_reference_f32)})
