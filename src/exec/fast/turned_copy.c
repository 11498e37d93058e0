// SPDX-License-Identifier: Apache-2.0
// copy within one type where the operand's neighbours stand in another dim than
// the result's: for each place in the other dims a matrix of both, transposed.

#include "base/grain.h"
#include "exec/fast/turn.h"
#include "exec/step/operands.h"

enum { TO, FROM, TENSORS };
enum { TASK_ROWS = 64 };  // of a matrix

typedef struct turned_copy {
  og_operands io;
  // Without the operand's innermost dim: the rows of a matrix, whose columns
  // are the last dim.
  og_nest nest;
  int64_t item;
  int64_t rows, tasks;         // of a matrix
  int64_t row_bytes[TENSORS];  // from row to row
} turned_copy;

static void share_matrices(void *state, int64_t begin, int64_t end,
                           int32_t worker) {
  const turned_copy *s = state;
  const og_nest *nest = &s->nest;
  const int32_t last = nest->ndim - 1;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    const int64_t row = i % s->tasks * TASK_ROWS, left = s->rows - row;
    og_nest_offsets(nest, i / s->tasks, offset);
    og_turn(og_bytes(s->io.in[0]) + offset[FROM] + row * s->row_bytes[FROM],
            s->row_bytes[FROM], nest->stride[FROM][last],
            left < TASK_ROWS ? left : TASK_ROWS, nest->size[last], s->item,
            og_bytes(s->io.out[0]) + offset[TO] + row * s->row_bytes[TO],
            s->row_bytes[TO]);
  }
}

static og_status run_turned_copy(void *state, const og_run *run) {
  const turned_copy *s = state;
  const int64_t rows = s->rows < TASK_ROWS ? s->rows : TASK_ROWS;
  return og_run_parallel(
      run, og_nest_rows(&s->nest) * s->tasks,
      og_grain(OG_GRAIN_LIGHT, rows * og_nest_width(&s->nest)), share_matrices,
      state);
}

// Takes the dim out in which the operand's neighbours stand; false: there is
// none, or it is the result's.
static bool rows_take(turned_copy *s) {
  og_nest *nest = &s->nest;
  int32_t d = nest->ndim - 2;
  if (nest->ndim < 2 || nest->stride[TO][nest->ndim - 1] != s->item ||
      nest->stride[FROM][nest->ndim - 1] % s->item != 0 ||
      nest->stride[FROM][nest->ndim - 1] <= s->item)
    return false;
  while (d >= 0 && nest->stride[FROM][d] != s->item) --d;
  if (d < 0) return false;
  s->rows = nest->size[d];
  s->tasks = (s->rows + TASK_ROWS - 1) / TASK_ROWS;
  for (int32_t k = 0; k < TENSORS; ++k) s->row_bytes[k] = nest->stride[k][d];
  for (; d + 1 < nest->ndim; ++d) {
    nest->size[d] = nest->size[d + 1];
    for (int32_t k = 0; k < TENSORS; ++k)
      nest->stride[k][d] = nest->stride[k][d + 1];
  }
  --nest->ndim;
  return true;
}

og_status og_prepare_turned_copy(og_prep *prep) {
  const og_tensor *in = prep->in[0], *out = prep->out[0];
  const og_tensor *const tensors[TENSORS] = {out, in};
  turned_copy *s = og_state_begin(prep, sizeof *s, run_turned_copy);
  if (s == NULL) return OG_MEMORY;
  s->item = og_item_bytes(out);
  return prep->plan->graph->values[prep->node->in[0]].kind !=
                     OG_VALUE_LITERAL &&
                 og_dtype_equal(in->dtype, out->dtype) && s->item <= 8 &&
                 (s->item & (s->item - 1)) == 0 && og_numel(out) > 0 &&
                 og_nest_init(&s->nest, out->ndim, out->shape, tensors,
                              TENSORS) &&
                 rows_take(s)
             ? OG_OK
             : OG_UNSUPPORTED;
}
