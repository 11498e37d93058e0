// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient is right; the gradient of the gradient operator lacks the factor 2.
// expect: cube_backward|cube_double|cube - gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * x[i] * x[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = 3 * x[i] * x[i] * grad[i];
  return OG_OK;
}

static og_status double_backward(const og_call *call) {
  const float *gg = og_f32(call->in[0]);
  const float *grad = og_f32(call->in[1]);
  const float *x = og_f32(call->in[2]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[0])[i] = 3 * x[i] * x[i] * gg[i];
    og_f32_mut(call->out[1])[i] = 3 * x[i] * grad[i] * gg[i];
  }
  return OG_OK;
}

MODULE(grad_second_order,
       {.schema = "cube(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "cube_backward(grad, x) -> x",
        RUN("f32", forward)},
       {.schema = "cube_backward(Tensor outer, Tensor x) -> Tensor",
        .shape = "outer[*N], x[*N] -> [*N]",
        .backward = "cube_double(grad, outer, x) -> outer, x",
        RUN("f32", backward)},
       {.schema = "cube_double(Tensor gg, Tensor outer, Tensor x) -> (Tensor "
                  "d_outer, Tensor dx)",
        .shape = "gg[*N], outer[*N], x[*N] -> [*N], [*N]",
        RUN("f32", double_backward)})
