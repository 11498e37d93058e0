// SPDX-License-Identifier: Apache-2.0
// mistake: The backward operator wants (grad, x, y) and is called with the two saved tensors swapped.
// expect: divide|divide_backward - gradient|saved

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) z[i] = x[i] / (1 + y[i] * y[i]);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  const float *y = og_f32(call->in[2]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    const float scale = 1 / (1 + y[i] * y[i]);
    og_f32_mut(call->out[0])[i] = grad[i] * scale;
    og_f32_mut(call->out[1])[i] = -2 * grad[i] * x[i] * y[i] * scale * scale;
  }
  return OG_OK;
}

MODULE(grad_swapped_saved,
       {.schema = "divide(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*N], y[*N] -> [*N]",
        .backward = "divide_backward(grad, y, x) -> x, y",
        RUN("f32", forward)},
       {.schema = "divide_backward(Tensor grad, Tensor x, Tensor y) -> (Tensor "
                  "dx, Tensor dy)",
        .shape = "grad[*N], x[*N], y[*N] -> [*N], [*N]",
        RUN("f32", backward)})
