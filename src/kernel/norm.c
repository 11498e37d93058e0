// SPDX-License-Identifier: Apache-2.0
// rms_norm of rows and its gradient.

#include "kernel/norm.h"

#include "base/grain.h"
#include "kernel/kernel.h"

static void *row_of(const og_rms_norm *n, const void *rows, int64_t row) {
  return og_at(rows, row * n->width, n->element);
}

// Rows are independent, so the threads share them out.
static void rows_forward(void *state, int64_t begin, int64_t end,
                         int32_t worker) {
  const og_rms_norm *n = state;
  (void)worker;
  for (int64_t r = begin; r < end; ++r)
    og_rows()->rms_norm(row_of(n, n->x, r), n->weight, row_of(n, n->y, r),
                        n->width, n->eps, n->offset, n->element);
}

og_status og_rms_norm_run(const og_kernel_env *env, const og_rms_norm *norm) {
  return og_env_parallel(env, norm->rows, og_grain(OG_GRAIN_LIGHT, norm->width),
                         rows_forward, (void *)(uintptr_t)norm);
}

// --- Gradient

typedef struct gradient {
  const og_rms_norm *of;
  const void *grad;
  void *grad_x, *grad_weight;
  float *rstd;  // [rows] 1 / sqrt(mean(x^2) + eps), for the second pass
} gradient;

// grad_x row by row.
static void rows_backward(void *state, int64_t begin, int64_t end,
                          int32_t worker) {
  const gradient *g = state;
  const og_rms_norm *n = g->of;
  (void)worker;
  for (int64_t r = begin; r < end; ++r)
    g->rstd[r] = og_rows()->rms_norm_grad(
        row_of(n, g->grad, r), row_of(n, n->x, r), n->weight,
        row_of(n, g->grad_x, r), n->width, n->eps, n->offset, n->element);
}

// grad_weight sums over rows. Threads share out columns, so that the order of
// a sum does not depend on their number.
enum { COLUMNS = OG_CARRY_COLUMNS };

static void columns_backward(void *state, int64_t begin, int64_t end,
                             int32_t worker) {
  const gradient *g = state;
  const og_rms_norm *n = g->of;
  (void)worker;
  for (int64_t c = begin * COLUMNS; c < end * COLUMNS && c < n->width;
       c += COLUMNS) {
    const int64_t left = n->width - c, count = left < COLUMNS ? left : COLUMNS;
    og_column_sums sums = {.part = {0}};
    for (int64_t r = 0; r < n->rows; ++r) {
      og_rows()->norm_weight_grad(og_at(row_of(n, g->grad, r), c, n->element),
                                  og_at(row_of(n, n->x, r), c, n->element), 0,
                                  g->rstd[r], sums.part, NULL, count,
                                  n->element);
      og_column_sums_step(&sums, r, n->rows, count);
    }
    og_column_sums_store(&sums, og_at(g->grad_weight, c, n->element), count,
                         n->element);
  }
}

og_status og_rms_norm_grad_run(const og_kernel_env *env,
                               const og_rms_norm *norm, const void *grad,
                               void *grad_x, void *grad_weight) {
  gradient g = {norm, grad, grad_x, grad_weight, env->workspace};
  const og_status status =
      og_env_parallel(env, norm->rows, og_grain(OG_GRAIN_MEDIUM, norm->width),
                      rows_backward, &g);
  if (status != OG_OK) return status;
  return og_env_parallel(env, (norm->width + COLUMNS - 1) / COLUMNS, 1,
                         columns_backward, &g);
}
