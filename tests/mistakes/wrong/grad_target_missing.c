// SPDX-License-Identifier: Apache-2.0
// mistake: The backward map names x only, though the result depends on weight, which then never trains.
// expect: scale_rows|scale_rows_backward weight gradient|missing_gradient|target

#include "../../modules/operators.h"

enum { N, D };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *w = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D];
  for (int64_t i = 0; i < call->dim[N] * width; ++i) y[i] = x[i] * w[i % width];
  return OG_OK;
}

MODULE(grad_target_missing,
       {.schema = "scale_rows(Tensor x, Tensor weight) -> Tensor",
        .shape = "x[*N, D], weight[D] -> [*N, D]",
        .backward = "scale_rows_backward(grad, weight) -> x",
        RUN("f32", forward)},
       {.schema = "scale_rows_backward(Tensor grad, Tensor weight) -> Tensor",
        .shape = "grad[*N, D], weight[D] -> [*N, D]",
        RUN("f32", forward)})
