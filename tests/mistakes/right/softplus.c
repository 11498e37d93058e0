// SPDX-License-Identifier: Apache-2.0
// softplus with a derived in-place form: each element is read once, before it
// is overwritten.

#include "../../modules/operators.h"

enum { N };

static void forward_share(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = begin; i < end; ++i)
    y[i] = (float)(fmax((double)x[i], 0) + log1p(exp(-fabs((double)x[i]))));
}

static og_status forward(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 8, forward_share);
}
// 1 - exp(-y) is the gradient, so that the overwritten x is not needed.
static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i)
    dx[i] = (float)(-(double)grad[i] * expm1(-(double)y[i]));
  return OG_OK;
}

MODULE(softplus,
       {.schema = "softplus(Tensor x) -> Tensor",
        .shape = "x[*N] -> [*N]",
        .backward = "softplus_backward(grad, result) -> x",
        .inplace = "x",
        RUN("f32", forward)},
       {.schema = "softplus_backward(Tensor grad, Tensor y) -> Tensor",
        .shape = "grad[*N], y[*N] -> [*N]",
        RUN("f32", backward)})
