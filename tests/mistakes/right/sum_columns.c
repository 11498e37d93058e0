// SPDX-License-Identifier: Apache-2.0
// Column sums by per-worker partial rows; the merge adds the workers in order,
// so that only rounding depends on the thread count, which the flags do not
// deny.

#include "../../modules/operators.h"

enum { R, C };

static void column_share(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const og_call *call = *(const og_call *const *)state;
  const float *x = og_f32(call->in[0]);
  const int64_t width = call->dim[C];
  float *sum = (float *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < width; ++c) sum[c] += x[r * width + c];
}

static og_status forward(const og_call *call) {
  float *partial = (float *)call->workspace, *y = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[C];
  for (int64_t i = 0; i < call->threads * width; ++i) partial[i] = 0;
  const og_status status =
      og_parallel_tasks(call, call->dim[R], 1, column_share, &call);
  for (int64_t c = 0; c < width; ++c) {
    y[c] = 0;
    for (int64_t t = 0; t < call->threads; ++t) y[c] += partial[t * width + c];
  }
  return status;
}

static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[0];
  for (int64_t i = 0; i < og_numel(call->out[0]); ++i) dx[i] = grad[i % width];
  return OG_OK;
}

MODULE(sum_columns,
       {.schema = "sum_columns(Tensor x) -> Tensor",
        .shape = "x[R, C] -> [C]",
        .backward = "sum_columns_backward(grad, x) -> x",
        .workspace = "threads * C * 4",
        RUN("f32", forward)},
       {.schema = "sum_columns_backward(Tensor grad, Tensor x) -> Tensor",
        .shape = "grad[C], x[R, C] -> [R, C]",
        RUN("f32", backward)})
