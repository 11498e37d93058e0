// SPDX-License-Identifier: Apache-2.0
// The elements under a mask, with a gradient that puts them back.

#include "../../modules/operators.h"

enum { N, K };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const uint8_t *mask = og_bool(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < call->dim[N]; ++i)
    if (mask[i]) y[count++] = x[i];
  og_set_dim(call, K, count);
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const uint8_t *mask = og_bool(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < og_numel(call->in[1]); ++i) count += mask[i] != 0;
  if (count != og_numel(call->in[0]))
    return og_fail(
        call, OG_SHAPE,
        "masked_select_backward: grad has not one element for each set mask");
  for (int64_t i = 0; i < og_numel(call->in[1]); ++i)
    dx[i] = mask[i] ? *grad++ : 0;
  return OG_OK;
}

MODULE(masked_select,
       {.schema = "masked_select(Tensor x, Tensor mask) -> Tensor",
        .shape = "x[*N], mask[*N] -> [K <= prod(N)]",
        .dtype = "x: f32, mask: bool -> x",
        .backward = "masked_select_backward(grad, mask) -> x",
        RUN(NULL, forward)},
       {.schema = "masked_select_backward(Tensor grad, Tensor mask) -> Tensor",
        .shape = "grad[K], mask[*N] -> [*N]",
        .dtype = "grad: f32, mask: bool -> grad",
        RUN(NULL, backward),
        .flags = OG_BATCH_LOOP})
