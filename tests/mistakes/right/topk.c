// SPDX-License-Identifier: Apache-2.0
// The k greatest of each row in falling order, first positions first among
// equals.

#include "../../modules/operators.h"

enum { N, D };

static int goes_before(const float *row, int64_t a, int64_t b) {
  if (isnan(row[a]) || isnan(row[b]))
    return isnan(row[a]) && (!isnan(row[b]) || a < b);
  return row[a] > row[b] || (!(row[a] < row[b]) && a < b);
}

static void topk_rows(const og_call *call, int64_t begin, int64_t end) {
  const float *x = og_f32(call->in[0]);
  float *values = og_f32_mut(call->out[0]);
  int64_t *indices = og_i64_mut(call->out[1]);
  const int64_t width = call->dim[D], k = call->attr[0].i;
  for (int64_t r = begin; r < end; ++r) {
    const float *row = x + r * width;
    int64_t *order = indices + r * k, count = 0;
    for (int64_t i = 0; i < width && k > 0; ++i) {
      if (count == k && !goes_before(row, i, order[k - 1])) continue;
      int64_t at = count < k ? count++ : k - 1;
      for (; at > 0 && goes_before(row, i, order[at - 1]); --at)
        order[at] = order[at - 1];
      order[at] = i;
    }
    for (int64_t i = 0; i < k; ++i) values[r * k + i] = row[order[i]];
  }
}

static og_status topk(const og_call *call) {
  return og_parallel_for(call, call->dim[N], 2, topk_rows);
}
static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[1]);
  const int64_t *indices = og_i64(call->in[2]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t rows = call->dim[N], width = call->dim[D], k = call->attr[0].i;
  for (int64_t i = 0; i < rows * k; ++i)
    if (indices[i] < 0 || indices[i] >= width)
      return og_fail(call, OG_INVALID,
                     "topk_backward: indices are outside of the row");
  for (int64_t i = 0; i < rows * width; ++i) dx[i] = 0;
  for (int64_t i = 0; i < rows * k; ++i)
    dx[i / k * width + indices[i]] += grad[i];
  return OG_OK;
}

MODULE(topk,
       {.schema = "topk(Tensor x, int k) -> (Tensor values, Tensor indices)",
        .shape = "x[*N, D] -> [*N, k], [*N, k]",
        .where = "k >= 0, k <= D",
        .dtype = "x: f32 -> x, i64",
        .backward = "topk_backward(x, grad_values, indices, k) -> x",
        RUN(NULL, topk)},
       {.schema = "topk_backward(Tensor x, Tensor grad, Tensor indices, int k) "
                  "-> Tensor",
        .shape = "x[*N, D], grad[*N, k], indices[*N, k] -> [*N, D]",
        .where = "k >= 0, k <= D",
        .dtype = "x: f32, grad: x, indices: i64 -> x",
        RUN(NULL, backward)})
