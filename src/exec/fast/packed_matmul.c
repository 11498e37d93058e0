// SPDX-License-Identifier: Apache-2.0
// matmul and addmm over the packed contraction of src/kernel.
//
// A task is a few columns and rows of one batch: it packs the columns of b into
// panels of its worker's scratch and runs its rows over them. A constant b is
// packed once for all calls, and so is a weight that stays (packs.h); a task
// then may be narrow, since neighbours run as one. Where there are rows enough
// a worker takes rows, the same ones in each contraction (matmul_cut.c). Where
// b is small and the result tall, all of b is packed first and a task has whole
// rows of the result: these are written one after the other, which takes about
// half as long as columns do whose lines are as far apart as rows. Rows of a
// whose elements do not stand together are copied first, and so are rows that
// share the sets of the first-level cache: those of a tile would evict one
// another. A worker takes its tasks one after the other from a range of its own
// (ranges.h), so the next one's weights are prefetched.
//
// Finished parts of a task are handed to a reader, where there is one
// (tile_reader.h). A result that nobody else reads is not written then.
// Source: panels as in GotoBLAS (Goto and van de Geijn, 2008).

#include "base/grain.h"
#include "exec/fast/matmul_cut.h"
#include "exec/fast/narrow.h"
#include "exec/fast/packs.h"
#include "exec/fast/ranges.h"
#include "exec/fast/tile_reader.h"
#include "exec/step/contraction.h"
#include "kernel/kernel.h"

enum {
  // First-level caches come round after so many bytes, and a set holds as many
  // lines at least.
  SETS_BYTES = 4096,
  SET_LINES = 8,
  // From so many on, rows of a in one set are worth a copy, and up to so many
  // bytes of them.
  SPREAD_ROWS = 32,
  SPREAD_COLUMNS = 4 * OG_CUT_COLUMNS,
  SPREAD_BYTES = 16 * 1024 * 1024,
  // A part of 16-bit results that nobody else reads.
  NARROW_BYTES = OG_GEMM_PART_ROWS * OG_CUT_COLUMNS * 2,
};

typedef struct packed_matmul {
  og_contraction of;
  int element;  // of operands and result
  // The precision that was asked for (OPGRAFT_OPTION_PRECISION_*): b becomes
  // bf16, or `narrow`, int8 or int4, where its panels stay; 0: neither.
  bool is_rounded;
  int narrow;
  bool has_short_rows;       // beside `narrow` rows of a have 8 bits, not 16
  bool is_int8;              // b is: its panels are, whoever packs them
  bool is_a_rounded;         // once for all tasks, as its rows are copied
  og_matmul_cut once, each;  // b is packed once for all rows, or by each task
  // Only columns are added, once: the contraction's own epilogue does it.
  bool is_direct;
  og_tile_reader reader;    // run is NULL: none
  const void *constant;     // all panels of b, or NULL
  const og_blocks *blocks;  // of the file that holds these, or NULL
  og_kept *kept;    // where they are if b is a weight that stays, or NULL
  char *first;      // all panels of b, packed before the tasks, or NULL
  bool may_repeat;  // no operand lies in the result's memory
  // The next such step of the lane: who is through with its range prefetches
  // what it will begin with there.
  const struct packed_matmul *following;
  const void *used;  // the panels of the last run, or NULL
  int32_t lane;
  og_range *ranges;  // by worker
  int32_t workers;
  char *quads;   // rows of a in 16 or 8 bits, all batches, for `narrow`
  char *copied;  // rows of a, all batches; NULL: in place
  int64_t copied_stride;  // elements
  char *scratch;          // worker_bytes for each worker
  int64_t worker_bytes;
} packed_matmul;

static int64_t stride_of(const og_tensor *t, int32_t from_end) {
  return t->strides[t->ndim - from_end];
}

static int64_t parts_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

// --- Rows of a ---------------------------------------------------------------

enum { COPIED_ROWS = 16 };  // of a batch, that a task copies

// Rows of 4-byte elements, whose columns stand together.
static bool is_transposed(const packed_matmul *s) {
  return s->element == OG_F32 && stride_of(s->of.a, 2) == 1;
}

static int copied_type(const packed_matmul *s) {
  return s->is_a_rounded ? OG_BF16 : s->element;
}

static int64_t copied_bytes(const packed_matmul *s) {
  return (int64_t)og_element_bytes(copied_type(s));
}

static void rows_copy(const packed_matmul *s, const char *from, int64_t rows,
                      char *to) {
  const og_contraction *of = &s->of;
  const int64_t item = og_item_bytes(of->a);
  const int64_t step = stride_of(of->a, 1);
  if (s->is_a_rounded) {
    for (int64_t r = 0; r < rows; ++r)
      og_rows()->from_f32(
          (const float *)(const void *)from + r * stride_of(of->a, 2),
          to + r * s->copied_stride * copied_bytes(s), of->k, OG_BF16);
    return;
  }
  if (is_transposed(s)) {
    og_gemm(OG_F32)->transpose((const float *)(const void *)from, step, rows,
                               of->k, (float *)(void *)to, s->copied_stride);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, to += s->copied_stride * item) {
    const char *at = from + r * stride_of(of->a, 2) * item;
    if (step == 1) {
      memcpy(to, at, (size_t)(of->k * item));
      continue;
    }
    for (int64_t k = 0; k < of->k; ++k, at += step * item)
      if (s->element == OG_F32)
        ((float *)(void *)to)[k] = *(const float *)(const void *)at;
      else
        ((uint16_t *)(void *)to)[k] = *(const uint16_t *)(const void *)at;
  }
}

static int64_t copies_of(const packed_matmul *s) {
  return s->copied != NULL ? s->of.batches * parts_of(s->of.m, COPIED_ROWS) : 0;
}

static void copy_run(const packed_matmul *s, int64_t index) {
  const og_contraction *of = &s->of;
  const int64_t item = og_item_bytes(of->a);
  const int64_t each = parts_of(of->m, COPIED_ROWS);
  const int64_t batch = index / each, row = index % each * COPIED_ROWS;
  const int64_t left = of->m - row;
  int64_t offset[OG_NEST_OPERANDS];
  og_contraction_batch(of, batch, offset);
  rows_copy(
      s, og_bytes(of->a) + offset[1] + row * stride_of(of->a, 2) * item,
      left < COPIED_ROWS ? left : COPIED_ROWS,
      s->copied + (batch * of->m + row) * s->copied_stride * copied_bytes(s));
}

static og_gemm_weights weights_of(const packed_matmul *s, const char *b,
                                  int64_t columns) {
  return (og_gemm_weights){.data = b,
                           .n = columns,
                           .k = s->of.k,
                           .n_stride = stride_of(s->of.b, 1),
                           .k_stride = stride_of(s->of.b, 2),
                           .element = s->is_int8 ? OG_I8 : s->element,
                           .is_rounded = s->is_rounded};
}

// The type of panels that each call packs, and of those that stay.
static int called_type(const packed_matmul *s) {
  return s->is_rounded ? OG_BF16 : s->element;
}

static int kept_type(const packed_matmul *s) {
  return s->narrow ? s->narrow : called_type(s);
}

static int64_t packs_of(const packed_matmul *s) {
  return s->first != NULL ? parts_of(s->of.n, OG_CUT_COLUMNS) : 0;
}

static void pack_run(const packed_matmul *s, int64_t index) {
  const int64_t begin = index * OG_CUT_PANELS;
  const int64_t most = parts_of(s->of.n, OG_PANEL);
  const og_gemm_weights b = weights_of(s, og_bytes(s->of.b), s->of.n);
  og_gemm_pack(
      &b, begin, begin + OG_CUT_PANELS < most ? begin + OG_CUT_PANELS : most,
      s->first + og_packed_bytes(begin * OG_PANEL, b.k, called_type(s)));
}

// Rows [begin, end) of all batches, in place or copied.
static void share_quads(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const packed_matmul *s = state;
  const og_contraction *of = &s->of;
  const int64_t item = og_item_bytes(of->a), bytes = og_gemm_row_bytes(of->k);
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    int64_t offset[OG_NEST_OPERANDS];
    og_contraction_batch(of, i / of->m, offset);
    const char *x = s->copied != NULL
                        ? s->copied + i * s->copied_stride * item
                        : og_bytes(of->a) + offset[1] +
                              i % of->m * stride_of(of->a, 2) * item;
    og_gemm(OG_I8)->quantize(x, of->k, s->element,
                             s->has_short_rows ? s->narrow : 0,
                             s->quads + i * bytes);
  }
}

// What comes before the tasks.
static void share_first(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const packed_matmul *s = state;
  const int64_t copies = copies_of(s);
  (void)worker;
  for (int64_t i = begin; i < end; ++i)
    if (i < copies)
      copy_run(s, i);
    else
      pack_run(s, i - copies);
}

// --- Tasks -------------------------------------------------------------------

typedef struct task {
  const void *packed;   // its columns of b, or NULL
  const float *scales;  // their scales, where they are int8 or int4
  const void *next;     // what its worker reads then, or NULL
  const char *x;
  int64_t x_stride;
  const char *b;  // column 0
  char *y;        // column 0
  const char *c;  // column 0, or NULL
  int64_t row, rows, column, columns;
  int64_t first_row;  // of the batch, in a dense result
  int32_t worker;
  char *scratch, *panels, *narrow;
} task;

// A finished part of a task, rows and columns counted from the task's first.
typedef struct part {
  char *y;
  int64_t y_stride, row, rows, column, columns;
} part;

// sums = alpha * sums + beta * c
static void sums_scale(const packed_matmul *s, const task *t, const part *p) {
  const og_contraction *of = &s->of;
  const float alpha = (float)of->alpha, beta = (float)of->beta;
  for (int64_t r = 0; r < p->rows; ++r) {
    float *sum = (float *)(void *)p->y + r * p->y_stride;
    for (int64_t i = 0; i < p->columns; ++i) sum[i] *= alpha;
    if (t->c == NULL) continue;
    const int64_t size = og_item_bytes(of->c);
    const int64_t step = stride_of(&of->shift, 1) * size;
    const char *c = t->c + (p->row + r) * stride_of(&of->shift, 2) * size +
                    p->column * step;
    for (int64_t i = 0; i < p->columns; ++i, c += step)
      sum[i] += beta * (float)og_element_double(of->c->dtype, c);
  }
}

static bool keeps_result(const packed_matmul *s) {
  return s->reader.run == NULL || s->reader.keeps_result;
}

// Whether the kernel leaves sums in its scratch, not results where they
// belong.
static bool is_lent(const packed_matmul *s) {
  return !s->is_direct || !keeps_result(s);
}

// Rounds sums to where the result belongs, or for the reader alone.
static void sums_store(const packed_matmul *s, const task *t, part *p) {
  const og_tensor *out = s->of.io.out[0];
  const int64_t item = og_item_bytes(out);
  const bool is_kept = keeps_result(s);
  if (!is_kept && s->element == OG_F32) return;
  char *to = is_kept ? t->y + (p->row * stride_of(out, 2) + p->column) * item
                     : t->narrow;
  const int64_t stride = is_kept ? stride_of(out, 2) : OG_CUT_COLUMNS;
  for (int64_t r = 0; r < p->rows; ++r)
    og_rows()->from_f32((float *)(void *)p->y + r * p->y_stride,
                        to + r * stride * item, p->columns, s->element);
  p->y = to;
  p->y_stride = stride;
}

typedef struct finisher {
  const packed_matmul *of;
  const task *task;
} finisher;

static void part_finish(void *state, void *y, int64_t y_stride, int64_t row,
                        int64_t rows, int64_t column, int64_t columns,
                        int worker) {
  const finisher *f = state;
  const packed_matmul *s = f->of;
  const task *t = f->task;
  part p = {y, y_stride, row, rows, column, columns};
  if (!s->is_direct) sums_scale(s, t, &p);
  if (is_lent(s)) sums_store(s, t, &p);
  if (s->reader.run == NULL) return;
  const og_tile tile = {
      .data = p.y,
      .row_bytes = p.y_stride * og_item_bytes(s->of.io.out[0]),
      .row = t->first_row + t->row + row,
      .rows = rows,
      .column = t->column + column,
      .columns = columns};
  s->reader.run(s->reader.state, &tile, worker);
}

// A call: what it packed beforehand, and how it is cut.
typedef struct running {
  const packed_matmul *of;
  const void *panels;  // all of b, or NULL
  const og_matmul_cut *cut;
  // Whose panels they are, if nobody asked yet whether b was written: a share
  // more does, so that another worker computes meanwhile.
  const og_kept *tried;
  bool has_changed;  // b was written; that share's alone
  bool is_altered;   // atomic: a panel is not as the file's writer left it
} running;

// A task's columns of int8, and behind them their scales.
static const float *int8_pack(const og_gemm_weights *b, int64_t panels,
                              char *to) {
  double lost = 0, size = 0;
  float *scales = (float *)(void *)(to + og_packed_bytes(b->n, b->k, OG_I8));
  const og_gemm_narrow narrow = {OG_I8, 0, panels, (uint8_t *)to, scales};
  og_gemm_quantize(b, &narrow, &lost, &size);
  return scales;
}

static void task_run(const packed_matmul *s, const task *t) {
  const og_contraction *of = &s->of;
  const og_gemm_weights b = weights_of(s, t->b, t->columns);
  const int64_t panels = (t->columns + OG_PANEL - 1) / OG_PANEL;
  const float *scales = t->scales;
  if (t->packed == NULL && s->is_int8)
    scales = int8_pack(&b, panels, t->panels);
  else if (t->packed == NULL)
    og_gemm_pack(&b, 0, panels, t->panels);
  const void *packed = t->packed != NULL ? t->packed : t->panels;
  finisher f = {s, t};
  const bool has_hook = is_lent(s) || s->reader.run != NULL;
  const int weights = scales != NULL ? s->narrow : called_type(s);
  const og_epilogue e = {.scales = scales,
                         .bias = s->is_direct ? t->c : NULL,
                         .wide = is_lent(s) || s->is_a_rounded,
                         .wide_bias = s->is_a_rounded,
                         .has_short_rows = scales != NULL && s->has_short_rows,
                         .tile = has_hook ? part_finish : NULL,
                         .state = &f,
                         .worker = t->worker};
  og_gemm(weights)->run(t->x, t->x_stride, packed, t->rows, t->columns, of->k,
                        0, panels, t->next, is_lent(s) ? NULL : t->y,
                        stride_of(of->io.out[0], 2), e, t->scratch,
                        copied_type(s), weights);
}

static const void *panel_at(const packed_matmul *s, const void *panels,
                            int64_t column) {
  const int type = s->first != NULL ? called_type(s) : kept_type(s);
  return (const char *)panels + og_packed_bytes(column, s->of.k, type);
}

// What the worker reads after tasks [.., end), or NULL.
static const void *next_find(const running *r, int64_t end, int32_t worker) {
  const packed_matmul *s = r->of, *f = s->following;
  const og_matmul_cut *cut = r->cut;
  const int64_t count = og_cut_tasks(&s->of, cut);
  if (end != count * (worker + 1) / s->workers)
    return !og_cut_has_next(cut) || end == count
               ? NULL
               : panel_at(s, r->panels, og_cut_column(cut, end));
  if (f == NULL || f->used == NULL) return NULL;
  const int64_t first = og_cut_tasks(&f->of, &f->once) * worker / f->workers;
  return panel_at(f, f->used, og_cut_column(&f->once, first));
}

// Tasks [index, index + count) are columns side by side, or count is 1.
static task task_make(const running *r, int64_t index, int64_t count,
                      int32_t worker) {
  const packed_matmul *s = r->of;
  const og_matmul_cut *cut = r->cut;
  const og_contraction *of = &s->of;
  const og_tensor *out = of->io.out[0];
  const int64_t item = og_item_bytes(out);
  const int64_t each = cut->row_tasks * cut->column_tasks;
  const int64_t batch = index / each;
  int64_t offset[OG_NEST_OPERANDS];
  og_contraction_batch(of, batch, offset);
  char *scratch = s->scratch + worker * s->worker_bytes;
  task t = {.first_row = offset[0] / (of->n * item),
            .row = og_cut_row(cut, index),
            .column = og_cut_column(cut, index),
            .worker = worker,
            .scratch = scratch,
            .narrow = scratch + OG_GEMM_SCRATCH,
            .panels = scratch + OG_GEMM_SCRATCH + NARROW_BYTES};
  t.rows = of->m - t.row < cut->rows ? of->m - t.row : cut->rows;
  t.columns = count * cut->columns;
  if (t.columns > of->n - t.column) t.columns = of->n - t.column;
  if (r->panels != NULL) {
    t.packed = panel_at(s, r->panels, t.column);
    t.next = next_find(r, index + count, worker);
    if (s->narrow != 0)
      t.scales = og_packs_scales(r->panels, of->n, of->k, s->narrow) + t.column;
  }
  t.x_stride = s->copied != NULL ? s->copied_stride : stride_of(of->a, 2);
  t.x = s->copied != NULL
            ? s->copied + (batch * of->m + t.row) * t.x_stride * copied_bytes(s)
            : og_bytes(of->a) + offset[1] + t.row * t.x_stride * item;
  if (t.scales != NULL || s->is_int8) {
    t.x_stride = og_gemm_row_bytes(of->k);
    t.x = s->quads + (batch * of->m + t.row) * t.x_stride;
  }
  t.b = og_bytes(of->b) + offset[2] +
        t.column * stride_of(of->b, 1) * og_item_bytes(of->b);
  t.y =
      og_bytes(out) + offset[0] + (t.row * stride_of(out, 2) + t.column) * item;
  if (of->c != NULL && of->beta != 0)
    t.c = og_bytes(&of->shift) + offset[3] +
          (t.row * stride_of(&of->shift, 2) +
           t.column * stride_of(&of->shift, 1)) *
              og_item_bytes(of->c);
  return t;
}

// Panels of a file are checked right after their first use, while they are in
// the cache: products of altered ones are garbage, which no call gives.
static void task_check(running *r, const task *t) {
  const packed_matmul *s = r->of;
  if (s->blocks == NULL) return;
  if (og_blocks_hold(s->blocks, t->packed,
                     og_packed_bytes(t->columns, s->of.k, kept_type(s))) &&
      (t->scales == NULL ||
       og_blocks_hold(s->blocks, t->scales,
                      (size_t)og_packs_scales_bytes(t->columns))))
    return;
  __atomic_store_n(&r->is_altered, true, __ATOMIC_RELAXED);
}

// As many tasks as the share has, but the worker's own first. One share has one
// more than there are.
static void share_tasks(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  running *r = state;
  const int32_t workers = r->of->workers;
  const int64_t most = og_cut_joined_most(r->cut);
  for (int64_t left = end - begin, count, first; left > 0; left -= count) {
    count = og_ranges_take(r->of->ranges, workers, worker,
                           left < most ? left : most, &first);
    if (count == 0) {
      r->has_changed = r->tried != NULL && !og_kept_holds(r->tried);
      return;
    }
    for (int64_t i = 0, joined; i < count; i += joined) {
      joined = og_cut_joined(r->cut, first + i, count - i);
      const task t = task_make(r, first + i, joined, worker);
      task_run(r->of, &t);
      task_check(r, &t);
    }
  }
}

static og_status tasks_run(running *r, const og_run *run) {
  const packed_matmul *s = r->of;
  r->cut = r->panels != NULL && s->first == NULL ? &s->once : &s->each;
  const int64_t count = og_cut_tasks(&s->of, r->cut);
  og_ranges_begin(s->ranges, s->workers, count);
  return og_run_parallel(run, count + (r->tried != NULL),
                         og_cut_grain(&s->of, r->cut), share_tasks, r);
}

// Over a weight that stays: with the panels that are there, and again where it
// was written since they were made.
static og_status run_kept(packed_matmul *s, const og_run *run) {
  const bool may_repeat =
      s->may_repeat && (s->reader.run == NULL || s->reader.may_repeat);
  running r = {.of = s, .tried = s->kept};
  r.panels = may_repeat ? og_kept_try(s->kept, og_bytes(s->of.b)) : NULL;
  s->used = r.panels;
  if (r.panels != NULL) {
    const og_status status = tasks_run(&r, run);
    og_kept_leave(s->kept);
    if (status != OG_OK || !r.has_changed) return status;
  }
  r = (running){.of = s,
                .panels = og_kept_enter(s->kept, og_bytes(s->of.b), run)};
  const bool has_entered = r.panels != NULL;
  s->used = r.panels;
  const og_status status = tasks_run(&r, run);
  if (has_entered) og_kept_leave(s->kept);
  return status;
}

static og_status run_packed_matmul(void *state, const og_run *run) {
  packed_matmul *s = state;
  og_contraction_bind(&s->of);
  const int64_t first = copies_of(s) + packs_of(s);
  if (first > 0)
    OG_TRY(og_run_parallel(run, first,
                           og_grain(OG_GRAIN_LIGHT, COPIED_ROWS * s->of.k),
                           share_first, s));
  if (s->narrow != 0)
    OG_TRY(og_run_parallel(run, s->of.batches * s->of.m,
                           og_grain(OG_GRAIN_LIGHT, s->of.k), share_quads, s));
  if (s->kept != NULL) return run_kept(s, run);
  running r = {.of = s, .panels = s->first != NULL ? s->first : s->constant};
  s->used = s->constant;
  OG_TRY(tasks_run(&r, run));
  return r.is_altered ? og_blocks_altered(s->blocks, run->error) : OG_OK;
}

// --- Preparation -------------------------------------------------------------

static bool is_element(const og_tensor *t, int element) {
  const int32_t code = element == OG_BF16 ? OG_CODE_BFLOAT : OG_CODE_FLOAT;
  return t->dtype.code == code && t->dtype.lanes == 1 &&
         t->dtype.bits == (element == OG_F32 ? 32 : 16);
}

static bool is_taken(const og_prep *prep, packed_matmul *s) {
  const og_contraction *of = &s->of;
  const og_tensor *out = prep->out[0];
  s->element = og_element_of(out);
  s->is_int8 = og_contraction_is_int8(prep);
  return is_element(out, s->element) && is_element(of->a, s->element) &&
         (is_element(of->b, s->element) ||
          (s->is_int8 && s->element == OG_F32)) &&
         og_numel(out) > 0 && of->k > 0 && of->k <= OG_GEMM_MAX_K &&
         (of->n == 1 || stride_of(out, 1) == 1);
}

// int8 and int4 keep what b was, so they are for weights alone.
static void precision_take(const og_prep *prep, packed_matmul *s) {
  enum { FEW_ROWS = 6 };
  const uint32_t flags = og_precision_of(prep->plan->graph, prep->node);
  og_packing b;
  s->has_short_rows = (flags & OPGRAFT_OPTION_ACTIVATIONS_INT8) != 0;
  s->narrow = OG_I8;
  if (s->is_int8) return;
  const bool may = og_packing_of(&s->of, s->element, &b) &&
                   (prep->keeps_weights || og_packs_is_constant(prep, &b));
  s->narrow = may ? og_narrow_type(flags) : 0;
  s->is_rounded =
      s->element == OG_F32 && og_is_rounded(prep, s->of.m <= FEW_ROWS);
  s->is_a_rounded = s->is_rounded && s->of.m > FEW_ROWS &&
                    s->of.n > 2 * OG_CUT_COLUMNS &&
                    (s->of.k == 1 || stride_of(s->of.a, 1) == 1);
}

// Whether rows so many elements apart share the cache's sets.
static bool is_one_set(int64_t stride, int64_t item) {
  return stride * item % SETS_BYTES == 0;
}

// From one copied row to the next: whole lines, in other sets.
static int64_t copied_stride(const packed_matmul *s) {
  const int64_t line = 64 / copied_bytes(s);
  const int64_t stride = parts_of(s->of.k, line) * line;
  return is_one_set(stride, copied_bytes(s)) ? stride + line : stride;
}

// Whether rows of a are copied before the tasks. The kernel copies those of a
// task that has columns enough.
static bool is_copied(const packed_matmul *s, bool is_tall) {
  const og_contraction *of = &s->of;
  if (s->is_a_rounded || (of->k > 1 && stride_of(of->a, 1) != 1)) return true;
  return kept_type(s) == OG_F32 && og_gemm(OG_F32)->tile_rows > SET_LINES &&
         !is_tall && of->m >= SPREAD_ROWS && of->n >= SPREAD_COLUMNS &&
         of->batches * of->m <= SPREAD_BYTES / 4 / of->k &&
         is_one_set(stride_of(of->a, 2), og_item_bytes(of->a));
}

static bool memory_take(og_prep *prep, packed_matmul *s, bool is_tall) {
  const og_contraction *of = &s->of;
  const int64_t tall =
      is_tall ? (int64_t)og_packed_bytes(of->n, of->k, called_type(s)) : 0;
  const int64_t workers = s->workers;
  const int64_t shared = workers * (int64_t)sizeof *s->ranges;
  const bool copies = is_copied(s, is_tall);
  int64_t copied = 0, quads = 0;
  s->worker_bytes = OG_GEMM_SCRATCH + NARROW_BYTES;
  if (!is_tall)
    s->worker_bytes +=
        (int64_t)og_packed_bytes(OG_CUT_COLUMNS, of->k, called_type(s));
  s->copied_stride = copied_stride(s);
  if (copies && !og_i64_mul(of->batches * of->m,
                            s->copied_stride * copied_bytes(s), &copied))
    return false;
  copied = (copied + 63) / 64 * 64;
  if (s->narrow != 0 &&
      !og_i64_mul(of->batches * of->m, og_gemm_row_bytes(of->k), &quads))
    return false;
  char *memory =
      og_prep_scratch(prep, (size_t)(copied + quads + tall + shared +
                                     workers * s->worker_bytes + 64));
  if (memory == NULL) return false;
  memory += -(uintptr_t)memory % 64;
  s->copied = copies ? memory : NULL;
  s->quads = memory + copied;
  copied += quads;
  s->first = is_tall ? memory + copied : NULL;
  s->ranges = (og_range *)(void *)(memory + copied + tall);
  s->scratch = memory + copied + tall + shared;
  return true;
}

bool og_matmul_is_given_up(const og_step *step) {
  const packed_matmul *s = step->state;
  return step->run == run_packed_matmul && s->narrow != 0 && s->kept != NULL &&
         og_kept_is_over(s->kept);
}

bool og_matmul_is_narrow(const og_step *step) {
  const packed_matmul *s = step->state;
  return step->run == run_packed_matmul && (s->is_rounded || s->narrow != 0) &&
         !og_matmul_is_given_up(step);
}

og_tile_reader *og_matmul_reader(const og_step *step) {
  return step->run == run_packed_matmul
             ? &((packed_matmul *)step->state)->reader
             : NULL;
}

// The step before it of its lane, whose steps run one after the other.
static void follow(const og_prep *prep, packed_matmul *s) {
  const og_instance *instance = prep->instance;
  s->lane = prep->lane;
  for (int32_t i = instance->step_count - 1; i >= 0; --i) {
    packed_matmul *before = instance->steps[i].state;
    if (instance->steps[i].run != run_packed_matmul || before->lane != s->lane)
      continue;
    before->following = s;
    return;
  }
}

og_status og_prepare_packed_matmul(og_prep *prep) {
  packed_matmul *s = og_state_begin(prep, sizeof *s, run_packed_matmul);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_contraction_read(prep, &s->of));
  if (!is_taken(prep, s)) return OG_UNSUPPORTED;
  const og_contraction *of = &s->of;
  s->is_direct =
      of->alpha == 1 && (of->c == NULL || of->beta == 0 ||
                         (of->beta == 1 && is_element(of->c, s->element) &&
                          (of->m == 1 || stride_of(&of->shift, 2) == 0) &&
                          (of->n == 1 || stride_of(&of->shift, 1) == 1)));
  s->workers = prep->executable->threads;
  precision_take(prep, s);
  s->once = og_cut_packed(of, kept_type(s), s->workers);
  const bool is_tall = !prep->keeps_weights && !s->is_int8 &&
                       og_cut_tall(of, called_type(s), s->workers, &s->each);
  if (!is_tall) s->each = og_cut_apart(of, s->workers);
  if (og_cut_tasks(of, &s->once) > OG_RANGE_TASKS_MAX ||
      og_cut_tasks(of, &s->each) > OG_RANGE_TASKS_MAX)
    return OG_UNSUPPORTED;
  // The plain one needs less.
  if (!memory_take(prep, s, is_tall)) return OG_UNSUPPORTED;
  og_packing b;
  const bool is_single = og_packing_of(of, s->is_int8 ? OG_I8 : s->element, &b);
  b.of.is_rounded = s->is_rounded;
  b.narrow = s->narrow;
  if (is_single) og_packs_get(prep, &b, &s->constant);
  if (s->narrow != 0 && !s->is_int8 && !prep->keeps_weights &&
      s->constant == NULL) {
    s->narrow = b.narrow = 0;
    if (is_single) og_packs_get(prep, &b, &s->constant);
  }
  if (s->constant != NULL) s->first = NULL;
  s->blocks = og_blocks_have(&prep->plan->graph->blocks, s->constant)
                  ? &prep->plan->graph->blocks
                  : NULL;
  if (prep->keeps_weights) {
    s->kept = is_single ? og_kept_get(prep, &b) : NULL;
    s->may_repeat = !og_prep_is_in_place(prep);
    if (s->kept == NULL) return OG_UNSUPPORTED;
  }
  follow(prep, s);
  return OG_OK;
}
