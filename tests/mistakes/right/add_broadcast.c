// SPDX-License-Identifier: Apache-2.0
// A broadcasting sum with a gradient that adds up over the broadcast dims.

#include "../../modules/operators.h"

static int64_t source(const og_tensor *of, const og_tensor *result, int64_t i) {
  int64_t at = 0, step = 1;
  for (int32_t d = result->ndim - 1; d >= 0; --d) {
    const int64_t k = i % result->shape[d];
    const int32_t own = d - (result->ndim - of->ndim);
    i /= result->shape[d];
    if (own < 0) continue;
    if (of->shape[own] != 1) at += k * step;
    step *= of->shape[own];
  }
  return at;
}

static float alpha_of(const og_call *call) {
  const og_attr *alpha = &call->attr[0];
  return alpha->kind == OG_ATTR_FLOAT ? (float)alpha->f : (float)alpha->i;
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  if (call->attr[0].kind == OG_ATTR_COMPLEX)
    return og_fail(call, OG_INVALID, "add_broadcast: alpha is complex");
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    z[i] = x[source(call->in[0], call->out[0], i)] +
           alpha_of(call) * y[source(call->in[1], call->out[0], i)];
  return OG_OK;
}

static int is_broadcast_of(const og_tensor *t, const og_tensor *result) {
  const int32_t lead = result->ndim - t->ndim;
  for (int32_t d = 0; lead >= 0 && d < t->ndim; ++d)
    if (t->shape[d] != 1 && t->shape[d] != result->shape[d + lead]) return 0;
  return lead >= 0;
}

static void sum_to(og_tensor *to, const og_tensor *grad, float scale) {
  float *d = og_f32_mut(to);
  for (int64_t i = 0; i < og_numel(to); ++i) d[i] = 0;
  for (int64_t i = 0; i < og_numel(grad); ++i)
    d[source(to, grad, i)] += scale * og_f32(grad)[i];
}

static og_status backward(const og_call *call) {
  if (call->attr[0].kind == OG_ATTR_COMPLEX)
    return og_fail(call, OG_INVALID,
                   "add_broadcast_backward: alpha is complex");
  if (!is_broadcast_of(call->out[0], call->in[0]) ||
      !is_broadcast_of(call->out[1], call->in[0]))
    return og_fail(call, OG_SHAPE,
                   "add_broadcast_backward: grad is no broadcast of x and y");
  sum_to(call->out[0], call->in[0], 1);
  sum_to(call->out[1], call->in[0], alpha_of(call));
  return OG_OK;
}

MODULE(
    add_broadcast,
    {.schema = "add_broadcast(Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor",
     .shape = "x[*A], y[*B] -> [*broadcast(A, B)]",
     .backward = "add_broadcast_backward(grad, x, y, alpha) -> x, y",
     RUN("f32", forward)},
    {.schema = "add_broadcast_backward(Tensor grad, Tensor x, Tensor y, "
               "Scalar alpha) -> (Tensor, Tensor)",
     .shape = "grad[*G], x[*A], y[*B] -> [*A], [*B]",
     RUN("f32", backward),
     .flags = OG_BATCH_LOOP})
