// SPDX-License-Identifier: Apache-2.0
// Reference matrix products: [.., M, K] x [.., K, N] -> [.., M, N], alone or as
// beta * c + alpha * a b. Floats accumulate in double, integers in int64.

#include <string.h>

#include "base/grain.h"
#include "exec/step/contraction.h"

typedef struct matmul {
  og_contraction of;
  bool is_whole;
  double *scratch;  // for each worker, ROWS + 1 rows of the result
} matmul;

enum { ROWS = 16 };

static const char *at(const og_tensor *t, int64_t offset, int64_t row,
                      int64_t column) {
  return og_bytes(t) + offset +
         (row * t->strides[t->ndim - 2] + column * t->strides[t->ndim - 1]) *
             og_item_bytes(t);
}

// Rows of one batch: each row of b is converted once for all of them, and its
// products are added up in the order of k, as one element alone would.
static void real_rows(const matmul *s, const int64_t *offset, int64_t row,
                      int64_t rows, double *scratch) {
  const og_tensor *out = s->of.io.out[0];
  double *line = scratch, *sums = line + s->of.n;
  memset(sums, 0, (size_t)(rows * s->of.n) * sizeof *sums);
  for (int64_t k = 0; k < s->of.k; ++k) {
    og_get_doubles(s->of.b, at(s->of.b, offset[2], k, 0),
                   s->of.b->strides[s->of.b->ndim - 1] * og_item_bytes(s->of.b),
                   s->of.n, line);
    for (int64_t r = 0; r < rows; ++r) {
      const double a =
          og_element_double(s->of.a->dtype, at(s->of.a, offset[1], row + r, k));
      double *sum = sums + r * s->of.n;
      for (int64_t i = 0; i < s->of.n; ++i) sum[i] += a * line[i];
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    double *sum = sums + r * s->of.n;
    for (int64_t i = 0; i < s->of.n; ++i) {
      sum[i] *= s->of.alpha;
      if (s->of.c != NULL && s->of.beta != 0)
        sum[i] += s->of.beta *
                  og_element_double(s->of.c->dtype,
                                    at(&s->of.shift, offset[3], row + r, i));
    }
    og_put_doubles(out, (char *)(uintptr_t)at(out, offset[0], row + r, 0),
                   out->strides[out->ndim - 1] * og_item_bytes(out), s->of.n,
                   sum);
  }
}

static void whole_element(const matmul *s, const int64_t *offset, int64_t row,
                          int64_t column) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < s->of.k; ++k)
    sum += (uint64_t)og_element_int(s->of.a->dtype,
                                    at(s->of.a, offset[1], row, k)) *
           (uint64_t)og_element_int(s->of.b->dtype,
                                    at(s->of.b, offset[2], k, column));
  sum *= (uint64_t)og_double_to_int(s->of.alpha);
  if (s->of.c != NULL)
    sum += (uint64_t)og_double_to_int(s->of.beta) *
           (uint64_t)og_element_int(s->of.c->dtype,
                                    at(&s->of.shift, offset[3], row, column));
  og_element_set_int(
      s->of.io.out[0]->dtype,
      (char *)(uintptr_t)at(s->of.io.out[0], offset[0], row, column),
      (int64_t)sum);
}

// Shares are rows of the result, all batches counted.
static void share_rows(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  matmul *s = state;
  double *scratch = s->scratch + worker * (ROWS + 1) * s->of.n;
  for (int64_t i = begin; i < end;) {
    int64_t offset[OG_NEST_OPERANDS];
    const int64_t row = i % s->of.m;
    int64_t rows = s->of.m - row < end - i ? s->of.m - row : end - i;
    if (rows > ROWS) rows = ROWS;
    og_contraction_batch(&s->of, i / s->of.m, offset);
    if (!s->is_whole) real_rows(s, offset, row, rows, scratch);
    for (int64_t r = 0; s->is_whole && r < rows; ++r)
      for (int64_t column = 0; column < s->of.n; ++column)
        whole_element(s, offset, row + r, column);
    i += rows;
  }
}

static og_status run_matmul(void *state, const og_run *run) {
  matmul *s = state;
  og_contraction_bind(&s->of);
  int64_t grain = og_grain(OG_GRAIN_PRODUCTS, s->of.n * (s->of.k + 1));
  // A share of few rows converts b for few.
  if (grain < ROWS && s->of.m >= ROWS) grain = ROWS;
  return og_run_parallel(run, s->of.batches * s->of.m, grain, share_rows,
                         state);
}

og_status og_prepare_matmul(og_prep *prep) {
  matmul *s = og_state_begin(prep, sizeof *s, run_matmul);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_contraction_read(prep, &s->of));
  s->is_whole = og_is_int(prep->out[0]);
  if (og_numel(prep->out[0]) == 0) {
    prep->step.run = NULL;
    return OG_OK;
  }
  if (s->is_whole) return OG_OK;
  s->scratch =
      og_prep_doubles(prep, prep->executable->threads * (ROWS + 1) * s->of.n);
  return s->scratch != NULL ? OG_OK : og_prep_memory(prep);
}
