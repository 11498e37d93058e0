// SPDX-License-Identifier: Apache-2.0
// mistake: The gradients of a and b are right but go to each other.
// expect: mix|mix_backward - gradient|target

#include "../../modules/operators.h"

enum { N };

static og_status forward(const og_call *call) {
  const float *a = og_f32(call->in[0]);
  const float *b = og_f32(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < call->dim[N]; ++i) y[i] = a[i] * a[i] + 3 * b[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const float *a = og_f32(call->in[1]);
  for (int64_t i = 0; i < call->dim[N]; ++i) {
    og_f32_mut(call->out[0])[i] = 2 * a[i] * grad[i];
    og_f32_mut(call->out[1])[i] = 3 * grad[i];
  }
  return OG_OK;
}

MODULE(
    grad_swapped_targets,
    {.schema = "mix(Tensor a, Tensor b) -> Tensor",
     .shape = "a[*N], b[*N] -> [*N]",
     .backward = "mix_backward(grad, a) -> b, a",
     RUN("f32", forward)},
    {.schema = "mix_backward(Tensor grad, Tensor a) -> (Tensor da, Tensor db)",
     .shape = "grad[*N], a[*N] -> [*N], [*N]",
     RUN("f32", backward)})
