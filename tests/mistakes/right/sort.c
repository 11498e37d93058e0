// SPDX-License-Identifier: Apache-2.0
// Stable merge sort of the last dim with the positions; NaN is the greatest.
// Each worker merges in its own part of the workspace.

#include "../../modules/operators.h"

enum { N, D };

static int is_before(float a, float b, int descending) {
  if (isnan(a) || isnan(b))
    return descending ? isnan(a) && !isnan(b) : !isnan(a) && isnan(b);
  return descending ? a > b : a < b;
}

static void merge(const float *x, const int64_t *from, int64_t *to, int64_t low,
                  int64_t middle, int64_t high, int descending) {
  int64_t left = low, right = middle;
  for (int64_t k = low; k < high; ++k) {
    const int take_right =
        left >= middle ||
        (right < high && is_before(x[from[right]], x[from[left]], descending));
    to[k] = take_right ? from[right++] : from[left++];
  }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static void sort_row(const float *x, float *values, int64_t *order,
                     int64_t *spare, int64_t width, int descending) {
  for (int64_t i = 0; i < width; ++i) order[i] = i;
  for (int64_t run = 1; run < width; run *= 2) {
    for (int64_t low = 0; low < width; low += 2 * run)
      merge(x, order, spare, low, smaller(low + run, width),
            smaller(low + 2 * run, width), descending);
    memcpy(order, spare, (size_t)width * sizeof *order);
  }
  for (int64_t i = 0; i < width; ++i) values[i] = x[order[i]];
}

static void sort_rows(void *state, int64_t begin, int64_t end, int32_t worker) {
  const og_call *call = *(const og_call *const *)state;
  const int64_t width = call->dim[D];
  int64_t *spare = (int64_t *)call->workspace + worker * width;
  for (int64_t r = begin; r < end; ++r)
    sort_row(og_f32(call->in[0]) + r * width,
             og_f32_mut(call->out[0]) + r * width,
             (int64_t *)og_data(call->out[1]) + r * width, spare, width,
             call->attr[0].i != 0);
}

static og_status forward(const og_call *call) {
  return og_parallel_tasks(call, call->dim[N], 1, sort_rows, &call);
}
static og_status backward(const og_call *call) {
  const float *grad = og_f32(call->in[0]);
  const int64_t *order = og_i64(call->in[1]);
  float *dx = og_f32_mut(call->out[0]);
  const int64_t width = call->dim[D], count = call->dim[N] * width;
  for (int64_t i = 0; i < count; ++i)
    if (order[i] < 0 || order[i] >= width)
      return og_fail(call, OG_INVALID,
                     "sort_backward: indices are no positions of a row");
  for (int64_t i = 0; i < count; ++i) dx[i] = 0;
  for (int64_t i = 0; i < count; ++i)
    dx[i / width * width + order[i]] += grad[i];
  return OG_OK;
}

MODULE(sort,
       {.schema = "sort(Tensor x, bool descending=False) -> (Tensor values, "
                  "Tensor indices)",
        .shape = "x[*N, D] -> [*N, D], [*N, D]",
        .dtype = "x: f32 -> x, i64",
        .backward = "sort_backward(grad_values, indices) -> x",
        .workspace = "threads * D * 8",
        RUN(NULL, forward)},
       {.schema = "sort_backward(Tensor grad, Tensor indices) -> Tensor",
        .shape = "grad[*N, D], indices[*N, D] -> [*N, D]",
        .dtype = "grad: f32, indices: i64 -> grad",
        RUN(NULL, backward)})
