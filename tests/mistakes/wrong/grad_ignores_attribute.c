// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient leaves alpha out, which shows only where alpha is not its default of 1.
// expect: add_scaled|add_scaled_backward y gradient

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    z[i] = x[i] + (float)call->attr[0].f * y[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
    og_f32_mut(call->out[1])[i] = og_f32(call->in[0])[i];
  }
  return OG_OK;
}

MODULE(grad_ignores_attribute,
       {.schema = "add_scaled(Tensor x, Tensor y, float alpha=1.0) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .backward = "add_scaled_backward(grad) -> x, y",
        RUN("f32", forward)},
       {.schema = "add_scaled_backward(Tensor grad) -> (Tensor dx, Tensor dy)",
        .shape = "grad[*N] -> [*N], [*N]",
        RUN("f32", backward)})
