// SPDX-License-Identifier: Apache-2.0
// sum and mean over all dims but the last, as gradients of a bias are: rows are
// added up in double, a stretch of columns at a time.
//
// Threads share out stretches of columns, so that the order of a sum does not
// depend on their number.

#include "base/grain.h"
#include "base/loops.h"
#include "call/call.h"
#include "exec/step/operands.h"
#include "exec/step/run.h"
#include "kernel/kernel.h"

enum {
  COLUMNS = 256,
  ROWS = 4,  // that are added up before they meet the sums
};

typedef struct column_sums {
  og_operands io;
  int64_t rows, row_stride, columns;
  int element;
  bool is_mean;
} column_sums;

OG_LOOP_BODY void rows_add_body(const float *x, int64_t stride, int64_t n,
                                double *sums) {
  const float *b = x + stride, *c = b + stride, *d = c + stride;
  for (int64_t i = 0; i < n; ++i)
    sums[i] += ((double)x[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
}
OG_LOOP(rows_add, (const float *x, int64_t stride, int64_t n, double *sums),
        (x, stride, n, sums))

OG_LOOP_BODY void row_add_body(const float *x, int64_t n, double *sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += (double)x[i];
}
OG_LOOP(row_add, (const float *x, int64_t n, double *sums), (x, n, sums))

// Columns [column, column + n).
static void stretch_add(const column_sums *s, int64_t column, int64_t n,
                        double *sums) {
  float widened[ROWS * COLUMNS];
  for (int64_t r = 0; r < s->rows; r += ROWS) {
    const int64_t rows = s->rows - r < ROWS ? s->rows - r : ROWS;
    const void *at =
        og_at(og_bytes(s->io.in[0]), r * s->row_stride + column, s->element);
    const float *x = at;
    int64_t stride = s->row_stride;
    if (s->element != OG_F32) {
      for (int64_t i = 0; i < rows; ++i)
        og_rows()->to_f32(og_at(at, i * stride, s->element),
                          widened + i * COLUMNS, n, s->element);
      x = widened;
      stride = COLUMNS;
    }
    if (rows == ROWS)
      rows_add(x, stride, n, sums);
    else
      for (int64_t i = 0; i < rows; ++i) row_add(x + i * stride, n, sums);
  }
}

static void share_stretches(void *state, int64_t begin, int64_t end,
                            int32_t worker) {
  const column_sums *s = state;
  (void)worker;
  for (int64_t at = begin * COLUMNS; at < end * COLUMNS && at < s->columns;
       at += COLUMNS) {
    const int64_t left = s->columns - at, n = left < COLUMNS ? left : COLUMNS;
    double sums[COLUMNS] = {0};
    float results[COLUMNS];
    stretch_add(s, at, n, sums);
    for (int64_t i = 0; i < n; ++i)
      results[i] = (float)(s->is_mean ? sums[i] / (double)s->rows : sums[i]);
    og_rows()->from_f32(results, og_at(og_bytes(s->io.out[0]), at, s->element),
                        n, s->element);
  }
}

static og_status run_column_sums(void *state, const og_run *run) {
  const column_sums *s = state;
  return og_run_parallel(run, (s->columns + COLUMNS - 1) / COLUMNS,
                         og_grain(OG_GRAIN_MEDIUM, s->rows * COLUMNS),
                         share_stretches, state);
}

// Whether all dims but the last are reduced.
static og_status is_by_rows(og_prep *prep, bool *out_is) {
  const int32_t rank = prep->in[0]->ndim;
  int64_t dims[OPGRAFT_RANK_MAX];
  bool is_reduced[OPGRAFT_RANK_MAX] = {false};
  int32_t count, reduced = 0;
  OG_TRY(og_prep_ints(prep, 0, dims, OPGRAFT_RANK_MAX, &count));
  *out_is = rank > 1;
  for (int32_t i = 0; i < count && *out_is; ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
    *out_is = dim >= 0 && dim < rank - 1 && !is_reduced[dim];
    if (*out_is) is_reduced[dim] = true;
    ++reduced;
  }
  *out_is = *out_is && reduced == rank - 1;
  return OG_OK;
}

// Rows at equal distances; elements of a row, and of the result, side by side.
static bool is_laid_out(const og_prep *prep, column_sums *s) {
  const og_tensor *in = prep->in[0], *out = prep->out[0];
  const int32_t last = in->ndim - 1;
  s->columns = in->shape[last];
  s->rows = 1;
  s->row_stride = in->strides[last - 1];
  for (int32_t d = last - 1; d >= 0; --d) {
    if (in->shape[d] != 1 && in->strides[d] != s->row_stride * s->rows)
      return false;
    s->rows *= in->shape[d];
  }
  return s->rows > 0 && s->columns > 1 && in->strides[last] == 1 &&
         og_numel(out) == s->columns && og_tensor_is_contiguous(out);
}

og_status og_prepare_column_sums(og_prep *prep) {
  bool is_by;
  column_sums *s = og_state_begin(prep, sizeof *s, run_column_sums);
  if (s == NULL) return OG_MEMORY;
  const og_tensor *in = prep->in[0], *out = prep->out[0];
  OG_TRY(is_by_rows(prep, &is_by));
  if (!is_by || in->dtype.code != out->dtype.code ||
      in->dtype.bits != out->dtype.bits || in->dtype.lanes != 1 ||
      !is_laid_out(prep, s))
    return OG_UNSUPPORTED;
  const bool is_float = in->dtype.code == OG_CODE_FLOAT &&
                        (in->dtype.bits == 32 || in->dtype.bits == 16);
  const bool is_bf16 = in->dtype.code == OG_CODE_BFLOAT && in->dtype.bits == 16;
  if (!is_float && !is_bf16) return OG_UNSUPPORTED;
  s->element = og_element_of(in);
  s->is_mean = prep->node->op == OG_IR_mean;
  og_prep_work(prep, og_numel(in), 1);
  return OG_OK;
}
