// SPDX-License-Identifier: Apache-2.0
// A broadcast copy to given sizes; sizes to which x does not broadcast are
// refused by the kernel, since the rule cannot say that.

#include "../../modules/operators.h"

static int is_expandable(const og_tensor *from, const og_tensor *to) {
  const int32_t lead = to->ndim - from->ndim;
  for (int32_t d = 0; d < from->ndim; ++d)
    if (from->shape[d] != 1 && from->shape[d] != to->shape[d + lead]) return 0;
  return lead >= 0;
}

static int64_t source(const og_tensor *from, const og_tensor *to, int64_t i) {
  int64_t at = 0, step = 1;
  for (int32_t d = to->ndim - 1; d >= to->ndim - from->ndim; --d) {
    const int64_t size = from->shape[d - (to->ndim - from->ndim)];
    at += size == 1 ? 0 : i % to->shape[d] * step;
    step *= size;
    i /= to->shape[d];
  }
  return at;
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  if (!is_expandable(call->in[0], call->out[0]))
    return og_fail(call, OG_SHAPE,
                   "expand_copy: x does not broadcast to sizes");
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    y[i] = x[source(call->in[0], call->out[0], i)];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  if (!is_expandable(call->out[0], call->in[0]))
    return og_fail(call, OG_SHAPE,
                   "expand_copy_backward: x does not broadcast to grad");
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) dx[i] = 0;
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    dx[source(call->out[0], call->in[0], i)] += grad[i];
  return OG_OK;
}

MODULE(expand_copy,
       {.schema = "expand_copy(Tensor x, int[] sizes) -> Tensor",
        .shape = "x[*N] -> [*sizes]",
        .where = "len(sizes) >= rank(N)",
        .backward = "expand_copy_backward(grad, x) -> x",
        RUN("f32", forward)},
       {.schema = "expand_copy_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[*G], x[*N] -> [*N]",
        .where = "rank(G) >= rank(N)",
        RUN("f32", backward),
        .flags = OG_BATCH_LOOP})
