// SPDX-License-Identifier: Apache-2.0

#include "exec/fast/matmul_cut.h"

#include "base/grain.h"

enum {
  TASKS_PER_WORKER = 8,
  LEAST_ROWS = 16,
  // So many rows use a panel often enough that each task may read it anew.
  TASK_ROWS = 128,
  // A worker has rows of its own from so many on, and reads at most so many
  // bytes of weights for them.
  OWN_ROWS = 64,
  OWN_BYTES = 16 << 20,
  FEW_ROWS = 6,  // which the kernel runs over several panels at once
  // Columns of a task of few rows, at most. One row and 64 columns of int4 are
  // over in 2 us, of which its making shows.
  FEW_COLUMNS = 8 * OG_CUT_COLUMNS,
  // Multiply-adds of a task whose weights are packed, where it can be so small:
  // at the end of a loop the workers wait for the last one.
  TASK_PRODUCTS = 2 * OG_GRAIN_PRODUCTS,
  // Of a tall result, where the panels of b stay in a second-level cache.
  TALL_ROWS = 56,
  TALL_LEAST = 128,
  TALL_BYTES = 256 * 1024,
};

static int64_t parts_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

// --- Of a cut ----------------------------------------------------------------

int64_t og_cut_tasks(const og_contraction *of, const og_matmul_cut *cut) {
  return of->batches * cut->row_tasks * cut->column_tasks;
}

static int64_t task_products(const og_contraction *of,
                             const og_matmul_cut *cut) {
  const int64_t rows = of->m < cut->rows ? of->m : cut->rows;
  const int64_t columns = of->n < cut->columns ? of->n : cut->columns;
  return rows * columns * of->k;
}

// Few rows take as long as FEW_ROWS, while weights are read.
int64_t og_cut_grain(const og_contraction *of, const og_matmul_cut *cut) {
  const int64_t products = task_products(of, cut);
  const int64_t times = of->m < FEW_ROWS ? FEW_ROWS : 1;
  return parts_of(OG_GRAIN_PRODUCTS, products * times);
}

int64_t og_cut_column(const og_matmul_cut *cut, int64_t index) {
  const int64_t in_batch = index % (cut->row_tasks * cut->column_tasks);
  return (cut->is_by_rows ? in_batch % cut->column_tasks
                          : in_batch / cut->row_tasks) *
         cut->columns;
}

int64_t og_cut_row(const og_matmul_cut *cut, int64_t index) {
  const int64_t in_batch = index % (cut->row_tasks * cut->column_tasks);
  return (cut->is_by_rows ? in_batch / cut->column_tasks
                          : in_batch % cut->row_tasks) *
         cut->rows;
}

bool og_cut_has_next(const og_matmul_cut *cut) {
  return cut->is_by_rows || cut->row_tasks == 1;
}

int64_t og_cut_joined_most(const og_matmul_cut *cut) {
  return cut->columns < OG_CUT_COLUMNS ? OG_CUT_COLUMNS / cut->columns : 1;
}

int64_t og_cut_joined(const og_matmul_cut *cut, int64_t index, int64_t count) {
  const int64_t most = og_cut_joined_most(cut);
  const int64_t in_batch = cut->column_tasks - index % cut->column_tasks;
  if (!og_cut_has_next(cut)) return 1;
  if (count > in_batch) count = in_batch;
  return count < most ? count : most;
}

// --- Cuts --------------------------------------------------------------------

static void rows_cut(const og_contraction *of, int64_t parts,
                     og_matmul_cut *cut) {
  cut->rows = parts > 1 ? parts_of(of->m, parts) : of->m;
  if (cut->rows < LEAST_ROWS) cut->rows = LEAST_ROWS;
  cut->row_tasks = parts_of(of->m, cut->rows);
}

static void columns_cut(const og_contraction *of, int64_t columns,
                        og_matmul_cut *cut) {
  cut->columns = columns;
  cut->column_tasks = parts_of(of->n, columns);
}

// Few tasks are cut into rows as well, no fewer than a tile is worth. Where
// each task packs its columns, rows that are cut pack them again.
og_matmul_cut og_cut_apart(const og_contraction *of, int64_t tasks) {
  og_matmul_cut cut = {0};
  rows_cut(of, 1, &cut);
  columns_cut(of, OG_CUT_COLUMNS, &cut);
  const int64_t count = og_cut_tasks(of, &cut);
  if (count < tasks) rows_cut(of, parts_of(tasks, count), &cut);
  return cut;
}

// Rows enough for every worker to take its own, of all columns: where it took
// the same rows of the step before, they are in its caches. Columns that are
// cut instead are read by all workers, each from the other's cache.
static bool own_cut(const og_contraction *of, int element, int32_t workers,
                    int64_t least, og_matmul_cut *cut) {
  const int64_t each = of->m / workers;
  const size_t bytes = og_packed_bytes(of->n, of->k, element);
  if (workers == 1 || each < OWN_ROWS || bytes > OWN_BYTES) return false;
  rows_cut(of, workers * (each > TASK_ROWS ? each / TASK_ROWS : 1), cut);
  columns_cut(of, least, cut);
  cut->is_by_rows = true;
  return true;
}

bool og_cut_tall(const og_contraction *of, int element, int32_t workers,
                 og_matmul_cut *out) {
  enum { TASKS = 4, ROWS_MIN = TALL_ROWS / 4 };
  if (element != OG_F32 || of->batches != 1 || of->m < TALL_LEAST ||
      of->n <= OG_CUT_COLUMNS ||
      og_packed_bytes(of->n, of->k, element) > TALL_BYTES)
    return false;
  *out = (og_matmul_cut){.rows = TALL_ROWS};
  while (out->rows > ROWS_MIN && parts_of(of->m, out->rows) < workers * TASKS)
    out->rows /= 2;
  out->row_tasks = parts_of(of->m, out->rows);
  columns_cut(of, of->n, out);
  return true;
}

static bool is_coarse(const og_contraction *of, int64_t wanted,
                      const og_matmul_cut *cut) {
  return og_cut_tasks(of, cut) < wanted ||
         (cut->row_tasks == 1 && task_products(of, cut) > TASK_PRODUCTS);
}

// Of a task of few rows.
static int64_t few_columns(const og_contraction *of, int64_t tasks) {
  const int64_t each = of->n / tasks / OG_CUT_COLUMNS * OG_CUT_COLUMNS;
  return each < OG_CUT_COLUMNS ? OG_CUT_COLUMNS
         : each > FEW_COLUMNS  ? FEW_COLUMNS
                               : each;
}

// Weights that are packed are read once where columns alone are cut.
og_matmul_cut og_cut_packed(const og_contraction *of, int element,
                            int32_t workers) {
  const int64_t tasks = workers > 1 ? workers * TASKS_PER_WORKER : 1;
  const int64_t tile = og_gemm(element)->tile_columns;
  const bool is_few = of->m <= FEW_ROWS;
  const int64_t most = is_few ? few_columns(of, tasks) : OG_CUT_COLUMNS;
  const int64_t least = is_few ? most : tile > OG_PANEL ? tile : OG_PANEL;
  og_matmul_cut cut = {0};
  if (own_cut(of, element, workers, least, &cut)) return cut;
  rows_cut(of, of->m / TASK_ROWS, &cut);
  columns_cut(of, most, &cut);
  while (cut.columns > least && is_coarse(of, tasks, &cut))
    columns_cut(of, cut.columns / 2, &cut);
  const og_matmul_cut apart = og_cut_apart(of, tasks);
  return og_cut_tasks(of, &cut) < tasks &&
                 og_cut_tasks(of, &cut) < og_cut_tasks(of, &apart)
             ? apart
             : cut;
}
