// SPDX-License-Identifier: Apache-2.0
// rms_norm over an operator's arguments.

#include "kernel/norm.h"

#include "kernel/kernel.h"

enum { N, D };  // dims of the shape rule, in order of first appearance

typedef struct norm {
  const og_call *call;
  int64_t width;
  float eps, offset;
  int element;
} norm;

static norm norm_of(const og_call *call, const og_tensor *x, float offset) {
  return (norm){
      .call = call,
      .width = call->dim[D],
      .eps = (float)call->attr[0].f,
      .offset = offset,
      .element = og_element_of(x),
  };
}

static const void *row_of(const norm *n, const og_tensor *t, int64_t row) {
  return og_at(og_data(t), row * n->width, n->element);
}

// Rows are independent, so they are what the host's threads share out.
static void rows_forward(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const norm *n = state;
  (void)worker;
  for (int64_t r = begin; r < end; ++r)
    og_rows()->rms_norm(
        row_of(n, n->call->in[0], r), og_data(n->call->in[1]),
        og_at(og_data(n->call->out[0]), r * n->width, n->element), n->width,
        n->eps, n->offset, n->element);
}

og_status og_rms_norm_run(const og_call *call, float offset) {
  norm n = norm_of(call, call->in[0], offset);
  return og_parallel_tasks(call, call->dim[N], 1 + 16384 / n.width,
                           rows_forward, &n);
}

// --- Gradient

enum { GRAD, X, WEIGHT };

// grad_x row by row. Each row's 1 / sqrt(mean(x^2) + eps) is kept for the
// second pass.
static void rows_backward(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const norm *n = state;
  float *rstd = n->call->workspace;
  (void)worker;
  for (int64_t r = begin; r < end; ++r)
    rstd[r] = og_rows()->rms_norm_grad(
        row_of(n, n->call->in[GRAD], r), row_of(n, n->call->in[X], r),
        og_data(n->call->in[WEIGHT]),
        og_at(og_data(n->call->out[0]), r * n->width, n->element), n->width,
        n->eps, n->offset, n->element);
}

// grad_weight sums over rows. Threads share out columns, so that the order of
// a sum does not depend on their number.
enum { COLUMNS = OG_CARRY_COLUMNS };

static void columns_backward(void *state, int64_t begin, int64_t end,
                             int32_t worker) {
  const norm *n = state;
  const float *rstd = n->call->workspace;
  (void)worker;
  for (int64_t c = begin * COLUMNS; c < end * COLUMNS && c < n->width;
       c += COLUMNS) {
    const int64_t left = n->width - c, count = left < COLUMNS ? left : COLUMNS;
    og_column_sums sums = {.part = {0}};
    for (int64_t r = 0; r < n->call->dim[N]; ++r) {
      og_rows()->norm_weight_grad(
          og_at(row_of(n, n->call->in[GRAD], r), c, n->element),
          og_at(row_of(n, n->call->in[X], r), c, n->element), 0, rstd[r],
          sums.part, NULL, count, n->element);
      og_column_sums_step(&sums, r, n->call->dim[N], count);
    }
    og_column_sums_store(&sums, og_at(og_data(n->call->out[1]), c, n->element),
                         count, n->element);
  }
}

og_status og_rms_norm_grad_run(const og_call *call, float offset) {
  norm n = norm_of(call, call->in[X], offset);
  const og_status status = og_parallel_tasks(
      call, call->dim[N], 1 + 8192 / n.width, rows_backward, &n);
  if (status != OG_OK) return status;
  return og_parallel_tasks(call, (n.width + COLUMNS - 1) / COLUMNS, 1,
                           columns_backward, &n);
}
