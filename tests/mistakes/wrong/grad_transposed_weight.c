// SPDX-License-Identifier: Apache-2.0
// mistake: The gradient of the matrix is written transposed.
// expect: matvec|matvec_backward a gradient

#include "../../modules/operators.h"

enum { R, C };

static og_status forward(const og_call *call) {
  const float *a = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t r = 0; r < call->dim[R]; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < call->dim[C]; ++c)
      sum += a[r * call->dim[C] + c] * x[c];
    y[r] = sum;
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[2]);
  const float *a = og_f32(call->in[0]);
  const float *x = og_f32(call->in[1]);
  float *da = og_f32_mut(call->out[0]);
  float *dx = og_f32_mut(call->out[1]);
  const int64_t rows = call->dim[R], columns = call->dim[C];
  for (int64_t c = 0; c < columns; ++c) dx[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      da[c * rows + r] = grad[r] * x[c];
      dx[c] += grad[r] * a[r * columns + c];
    }
  }
  return OG_OK;
}

MODULE(grad_transposed_weight,
       {.schema = "matvec(Tensor a, Tensor x) -> Tensor",
        .shape = "a[R, C], x[C] -> [R]",
        .backward = "matvec_backward(a, x, grad) -> a, x",
        RUN("f32", forward)},
       {.schema = "matvec_backward(Tensor a, Tensor x, Tensor grad) -> (Tensor "
                  "da, Tensor dx)",
        .shape = "a[R, C], x[C], grad[R] -> [R, C], [C]",
        RUN("f32", backward)})
