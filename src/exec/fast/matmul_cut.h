// SPDX-License-Identifier: Apache-2.0
// How a packed contraction is cut into tasks: a few columns and rows of one
// batch each. Tasks that are neighbours have the same columns, or, by rows, the
// same rows.

#ifndef OG_EXEC_FAST_MATMUL_CUT_H
#define OG_EXEC_FAST_MATMUL_CUT_H

#include "exec/step/contraction.h"
#include "kernel/kernel.h"

enum {
  OG_CUT_PANELS = 4,  // of a task, at most, unless it has all columns
  OG_CUT_COLUMNS = OG_CUT_PANELS * OG_PANEL,
};

typedef struct og_matmul_cut {
  int64_t rows, row_tasks;
  int64_t columns, column_tasks;  // of a task; how many of each
  bool is_by_rows;
} og_matmul_cut;

// Of panels that are there for all tasks, with the workers of one executable.
og_matmul_cut og_cut_packed(const og_contraction *of, int element,
                            int32_t workers);
// Where each task packs its own columns, of so many tasks if rows suffice.
og_matmul_cut og_cut_apart(const og_contraction *of, int64_t tasks);
// Whole rows of a tall result over all of b, which is packed first; false where
// b is too large, or used too seldom, for that.
bool og_cut_tall(const og_contraction *of, int element, int32_t workers,
                 og_matmul_cut *out);

int64_t og_cut_tasks(const og_contraction *of, const og_matmul_cut *cut);
// Tasks of a share, at least.
int64_t og_cut_grain(const og_contraction *of, const og_matmul_cut *cut);
// The first row, and the first column, of a task.
int64_t og_cut_row(const og_matmul_cut *cut, int64_t index);
int64_t og_cut_column(const og_matmul_cut *cut, int64_t index);
// Whether a task's neighbour has the next columns.
bool og_cut_has_next(const og_matmul_cut *cut);
// How many neighbours may run as one, at most; and of `count` from `index` on.
int64_t og_cut_joined_most(const og_matmul_cut *cut);
int64_t og_cut_joined(const og_matmul_cut *cut, int64_t index, int64_t count);

#endif  // OG_EXEC_FAST_MATMUL_CUT_H
