// SPDX-License-Identifier: Apache-2.0
// take of flat positions, which may count from the end; one outside the tensor
// is refused before anything is written.

#include "../../modules/operators.h"

enum { N, M };

static int has_bad_index(const og_tensor *index, int64_t size) {
  const int64_t *at = og_i64(index);
  for (int64_t i = 0; i < og_numel(index); ++i)
    if (at[i] < -size || at[i] >= size) return 1;
  return 0;
}

static og_status forward(const og_call *call) {
  const float *x = og_f32(call->in[0]);
  const int64_t *at = og_i64(call->in[1]);
  float *y = og_f32_mut(call->out[0]);
  const int64_t size = call->dim[N];
  if (has_bad_index(call->in[1], size))
    return og_fail(call, OG_INVALID, "take: index is out of range");
  for (int64_t i = 0; i < call->dim[M]; ++i)
    y[i] = x[at[i] < 0 ? at[i] + size : at[i]];
  return OG_OK;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const int64_t *at = og_i64(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t size = og_numel(call->in[1]), count = og_numel(call->in[2]);
  if (has_bad_index(call->in[2], size))
    return og_fail(call, OG_INVALID, "take_backward: index is out of range");
  for (int64_t i = 0; i < size; ++i) dx[i] = 0;
  for (int64_t i = 0; i < count; ++i)
    dx[at[i] < 0 ? at[i] + size : at[i]] += grad[i];
  return OG_OK;
}

MODULE(
    take,
    {.schema = "take(Tensor x, Tensor index) -> Tensor",
     .shape = "x[*N], index[*M] -> [*M]",
     .dtype = "x: f32, index: i64 -> x",
     .backward = "take_backward(grad, x, index) -> x",
     RUN(NULL, forward),
     .flags = OG_BATCH_LOOP},
    {.schema = "take_backward(Tensor grad, Tensor x, Tensor index) -> Tensor",
     .shape = "grad[*M], x[*N], index[*M] -> [*N]",
     .dtype = "grad: f32, x: grad, index: i64 -> x",
     RUN(NULL, backward),
     .flags = OG_BATCH_LOOP})
