// SPDX-License-Identifier: Apache-2.0
// The greatest value and its first position along a dim; the gradient goes to
// that position, also where there are ties. NaN wins.

#include "../../modules/operators.h"

enum { A, D, B };

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  float *values = og_f32_mut(call->out[0]);
  int64_t *indices = og_i64_mut(call->out[1]);
  const int64_t length = call->dim[D], inner = call->dim[B];
  for (int64_t line = 0; line < call->dim[A] * inner; ++line) {
    const float *first = x + line / inner * length * inner + line % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < length && !isnan(first[best * inner]); ++k)
      if (first[k * inner] > first[best * inner] || isnan(first[k * inner]))
        best = k;
    values[line] = first[best * inner];
    indices[line] = best;
  }
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[1]);
  const int64_t *indices = og_i64(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t length = call->dim[D], inner = call->dim[B];
  const int64_t lines = call->dim[A] * inner;
  for (int64_t line = 0; line < lines; ++line)
    if (indices[line] < 0 || indices[line] >= length)
      return og_fail(call, OG_INVALID,
                     "max_dim_backward: indices are outside of the dim");
  for (int64_t i = 0; i < lines * length; ++i) dx[i] = 0;
  for (int64_t line = 0; line < lines; ++line)
    dx[(line / inner * length + indices[line]) * inner + line % inner] =
        grad[line];
  return OG_OK;
}

MODULE(
    max_dim,
    {.schema =
         "max_dim(Tensor x, int dim=-1) -> (Tensor values, Tensor indices)",
     .shape = "x[*A, D@dim, *B] -> [*A, *B], [*A, *B]",
     .where = "D > 0",
     .dtype = "x: f32 -> x, i64",
     .backward = "max_dim_backward(x, grad_values, indices, dim) -> x",
     RUN(NULL, forward)},
    {.schema = "max_dim_backward(Tensor x, Tensor grad, Tensor indices, int "
               "dim) -> Tensor",
     .shape = "x[*A, D@dim, *B], grad[*A, *B], indices[*A, *B] -> [*A, D, *B]",
     .where = "D > 0",
     .dtype = "x: f32, grad: x, indices: i64 -> x",
     RUN(NULL, backward)})
