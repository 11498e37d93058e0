// SPDX-License-Identifier: Apache-2.0
// Sums over the dims of a list, which are dropped or kept as 1, and the
// gradient.

#include "../../modules/operators.h"

// Position in the reduced tensor of element i of the full one. dims may count
// from the end; an empty list means all.
static int is_reduced(const og_attr *dims, int32_t d, int32_t rank) {
  for (int64_t k = 0; k < dims->count; ++k)
    if (dims->ints[k] == d || dims->ints[k] + rank == d) return 1;
  return dims->count == 0;
}

static int64_t reduced_place(const og_tensor *full, const og_attr *dims,
                             int64_t i) {
  int64_t at = 0, step = 1;
  for (int32_t d = full->ndim - 1; d >= 0; --d) {
    const int64_t k = i % full->shape[d];
    i /= full->shape[d];
    if (is_reduced(dims, d, full->ndim)) continue;
    at += k * step;
    step *= full->shape[d];
  }
  return at;
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *y = og_f32_mut(call->out[0]);
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) y[i] = 0;
  for (int64_t i = 0; i < og_numel(call->in[0]); ++i)
    y[reduced_place(call->in[0], &call->attr[0], i)] += x[i];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const og_tensor *x = call->in[0];
  int64_t count = 1;
  for (int32_t d = 0; d < x->ndim; ++d)
    if (!is_reduced(&call->attr[0], d, x->ndim)) count *= x->shape[d];
  if (count != og_numel(call->in[1]))
    return og_fail(call, OG_SHAPE,
                   "sum_dims_backward: grad has not the size of the sums");
  for (int64_t i = 0; i < og_numel(x); ++i)
    dx[i] = grad[reduced_place(x, &call->attr[0], i)];
  return OG_OK;
}

MODULE(
    sum_dims,
    {.schema = "sum_dims(Tensor x, int[] dims) -> Tensor",
     .shape = "x[*N] -> [*drop(N, dims)]",
     .backward = "sum_dims_backward(x, grad, dims) -> x",
     RUN("f32", forward)},
    {.schema = "sum_dims.keep(Tensor x, int[] dims) -> Tensor",
     .shape = "x[*N] -> [*keep(N, dims)]",
     .where = "len(dims) > 0",
     .backward = "sum_dims_backward(x, grad, dims) -> x",
     RUN("f32", forward)},
    {.schema = "sum_dims_backward(Tensor x, Tensor grad, int[] dims) -> Tensor",
     .shape = "x[*N], grad[*G] -> [*N]",
     RUN("f32", backward),
     .flags = OG_BATCH_LOOP})
