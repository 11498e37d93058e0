// SPDX-License-Identifier: Apache-2.0
// mistake: A Scalar that arrives as an integer is read as a double.
// expect: times_scalar|times_scalar_backward by dtype|scalar|gradient|attribute

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  const float by = (float)call->attr[0].f;
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = x[i] * by;
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const og_attr *by = &call->attr[0];
  const float scale = by->kind == OG_ATTR_FLOAT ? (float)by->f : (float)by->i;
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) dx[i] = grad[i] * scale;
  return OG_OK;
}

MODULE(type_scalar_as_float,
       {.schema = "times_scalar(Tensor x, Scalar by=2) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "times_scalar_backward(grad, by) -> x",
        RUN("f32", forward)},
       {.schema = "times_scalar_backward(Tensor grad, Scalar by) -> Tensor",
        .shape = "grad[*N] -> [*N]",
        RUN("f32", backward)})
