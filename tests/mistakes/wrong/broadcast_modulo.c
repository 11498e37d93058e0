// SPDX-License-Identifier: Apache-2.0
// mistake: Operands are read at the flat position modulo their size, right for leading dims only: a column is taken for a row. The gradient is right.
// expect: add_broadcast|add_broadcast_backward - broadcast|gradient|value|batch

#include "../../modules/operators.h"

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const float *y = og_f32(call->in[1]);
  float *z = og_f32_mut(call->out[0]);
  const int64_t x_count = og_numel(call->in[0]);
  const int64_t y_count = og_numel(call->in[1]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i)
    z[i] = 2 * x[i % x_count] + y[i % y_count];
  return OG_OK;
}

static int64_t source(const og_tensor *to, const og_tensor *from, int64_t i) {
  int64_t at = 0, step = 1;
  for (int32_t d = from->ndim - 1; d >= 0; --d) {
    const int64_t index = i % from->shape[d];
    const int32_t k = d - (from->ndim - to->ndim);
    i /= from->shape[d];
    if (k < 0) continue;
    if (to->shape[k] != 1) at += index * step;
    step *= to->shape[k];
  }
  return at;
}

static void sum_to(og_tensor *to, const og_tensor *grad, float scale) {
  float *d = og_f32_mut(to);
  for (int64_t i = 0; i < og_numel(to); ++i) d[i] = 0;
  for (int64_t i = 0; i < og_numel(grad); ++i)
    d[source(to, grad, i)] += scale * og_f32(grad)[i];
}

static og_status backward(const og_call *call) {
  sum_to(call->out[0], call->in[0], 2);
  sum_to(call->out[1], call->in[0], 1);
  return OG_OK;
}

MODULE(broadcast_modulo,
       {.schema = "add_broadcast(Tensor x, Tensor y) -> Tensor",
        .shape = "x[*A], y[*B] -> [*broadcast(A, B)]",
        .backward = "add_broadcast_backward(grad, x, y) -> x, y",
        RUN("f32", forward)},
       {.schema = "add_broadcast_backward(Tensor grad, Tensor x, Tensor y) -> "
                  "(Tensor dx, Tensor dy)",
        .shape = "grad[*G], x[*A], y[*B] -> [*A], [*B]",
        RUN("f32", backward)})
