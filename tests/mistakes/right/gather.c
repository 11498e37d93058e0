// SPDX-License-Identifier: Apache-2.0
// gather along a dim with checked positions, and its gradient, which adds up
// where a position occurs twice.

#include "../../modules/operators.h"

enum { A, S, B, T };

static og_status check_index(const og_call *call, const og_tensor *index,
                             int64_t size) {
  const int64_t *at = og_i64(index);
  for (int64_t i = 0; i < og_numel(index); ++i)
    if (at[i] < 0 || at[i] >= size)
      return og_fail(call, OG_INVALID, "gather: index is outside of the dim");
  return OG_OK;
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *at = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t size = call->dim[S], inner = call->dim[B], lines = call->dim[T];
  const og_status status = check_index(call, call->in[1], size);
  if (status != OG_OK) return status;
  for (int64_t i = 0; i < call->dim[A] * lines * inner; ++i) {
    const int64_t outer = i / inner / lines;
    y[i] = x[(outer * size + at[i]) * inner + i % inner];
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const int64_t *at = og_i64(call->in[1]);
  const float *grad = og_f32(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t size = call->dim[S], inner = call->dim[B], lines = call->dim[T];
  const og_status status = check_index(call, call->in[1], size);
  if (status != OG_OK) return status;
  memset(dx, 0, (size_t)(call->dim[A] * size * inner) * sizeof *dx);
  for (int64_t i = 0; i < call->dim[A] * lines * inner; ++i) {
    const int64_t outer = i / inner / lines;
    dx[(outer * size + at[i]) * inner + i % inner] += grad[i];
  }
  return OG_OK;
}

MODULE(gather,
       {.schema = "gather(Tensor x, int dim, Tensor index) -> Tensor",
        .shape = "x[*A, S@dim, *B], index[*A, T@dim, *B] -> [*A, T, *B]",
        .dtype = "x: f32, index: i64 -> x",
        .backward = "gather_backward(x, dim, index, grad) -> x",
        RUN(NULL, forward)},
       {.schema = "gather_backward(Tensor x, int dim, Tensor index, Tensor "
                  "grad) -> Tensor",
        .shape = "x[*A, S@dim, *B], index[*A, T@dim, *B], grad[*A, T@dim, *B] "
                 "-> [*A, S, *B]",
        .dtype = "x: f32, index: i64, grad: x -> x",
        RUN(NULL, backward)})
