// SPDX-License-Identifier: Apache-2.0
// attention over the packed contraction of src/kernel, in f32.
//
// Keys and values of each head are packed into panels first, or by the task
// that alone reads them. A task is a few queries of one head: scores by one
// contraction, weights (softmax that is not divided yet) row by row, values by
// the other, divided last. What is not f32, or whose rows do not stand
// together, is copied as f32 before.
//
// Neighbours are heads of the same queries where a worker's cache keeps the
// panels of all heads: so a worker reads and writes the rows that it has in the
// steps before and after.

#include <math.h>
#include <string.h>

#include "base/loops.h"
#include "exec/fast/direct_attention.h"
#include "exec/step/heads.h"
#include "kernel/kernel.h"

enum {
  TASK_ROWS = 64,          // at most
  SCORES_MAX = 1 << 18,    // of a task, where fewer rows can do
  SCORES_ALIGN = 16,       // rows of scores are padded to it
  CACHED_BYTES = 1 << 20,  // of panels that a worker's cache keeps
};

// Where an operand's rows of `width` floats lie.
typedef struct rows {
  const og_tensor *tensor;
  float *copy;  // dense, or NULL: in place
  int64_t width;
} rows;

typedef struct packed_attention {
  og_heads of;
  rows q, k, v;
  // By key pair: of keys, then of values. NULL: each task packs its own.
  char *panels;
  int64_t key_panel_bytes, pair_bytes;
  int64_t task_rows, tasks;  // of a pair
  int64_t neighbours;        // pairs whose tasks take turns
  bool has_lse;
  int64_t scores_stride;
  char *scratch;
  int64_t worker_bytes;
} packed_attention;

// --- Rows as f32 -------------------------------------------------------------

static const char *row_of(const og_tensor *t, int64_t batch, int64_t head,
                          int64_t row) {
  return og_bytes(t) +
         (batch * t->strides[0] + head * t->strides[1] + row * t->strides[2]) *
             og_item_bytes(t);
}

// Shares are pairs of one operand.
static void share_copy(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const rows *s = state;
  const og_tensor *t = s->tensor;
  const int64_t heads = t->shape[1], count = t->shape[2];
  const int64_t item = og_item_bytes(t), step = t->strides[3] * item;
  (void)worker;
  for (int64_t i = begin * count; i < end * count; ++i) {
    const int64_t pair = i / count;
    const char *from = row_of(t, pair / heads, pair % heads, i % count);
    float *to = s->copy + i * s->width;
    if (step == item && !og_dtype_is_f32(t->dtype))
      og_rows()->to_f32(from, to, s->width, og_element_of(t));
    else
      for (int64_t e = 0; e < s->width; ++e)
        to[e] = (float)og_element_double(t->dtype, from + e * step);
  }
}

static og_status rows_ready(const og_run *run, rows *s) {
  if (s->copy == NULL) return OG_OK;
  return og_run_parallel(run, s->tensor->shape[0] * s->tensor->shape[1], 1,
                         share_copy, s);
}

// Row `row` of a pair, and how far the next one is, in elements.
static const float *row_at(const rows *s, int64_t pair, int64_t row,
                           int64_t *out_stride) {
  const int64_t heads = s->tensor->shape[1];
  *out_stride = s->copy != NULL ? s->width : s->tensor->strides[2];
  if (s->copy != NULL)
    return s->copy + (pair * s->tensor->shape[2] + row) * s->width;
  return (const float *)(const void *)row_of(s->tensor, pair / heads,
                                             pair % heads, row);
}

// --- Panels ------------------------------------------------------------------

static void keys_pack(const packed_attention *s, int64_t pair, char *to) {
  og_gemm_weights keys = {
      .n = s->of.keys, .k = s->of.width, .k_stride = 1, .element = OG_F32};
  keys.data = row_at(&s->k, pair, 0, &keys.n_stride);
  og_gemm_pack(&keys, 0, (keys.n + OG_PANEL - 1) / OG_PANEL, to);
}

static void values_pack(const packed_attention *s, int64_t pair, char *to) {
  og_gemm_weights values = {.n = s->of.value_width,
                            .k = s->of.keys,
                            .n_stride = 1,
                            .element = OG_F32};
  values.data = row_at(&s->v, pair, 0, &values.k_stride);
  og_gemm_pack(&values, 0, (values.n + OG_PANEL - 1) / OG_PANEL,
               to + s->key_panel_bytes);
}

// Two shares of each pair: its keys, its values.
static void share_pack(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const packed_attention *s = state;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    char *to = s->panels + i / 2 * s->pair_bytes;
    if (i % 2 == 0)
      keys_pack(s, i / 2, to);
    else
      values_pack(s, i / 2, to);
  }
}

// --- Tasks -------------------------------------------------------------------

// Queries [query, query + count) of a pair, and its worker's scratch.
typedef struct task {
  int64_t pair, query, count;
  int64_t keys;  // that its queries see
  const char *panels;
  char *gemm;
  float *scores, *values;
  float *scaled;         // queries times the scale, where a mask is added
  float sum[TASK_ROWS];  // by which a row's values are divided
  float lse[TASK_ROWS];  // where it is a result
} task;

static int64_t floats_padded(int64_t count) { return (count + 15) / 16 * 16; }

static task task_make(const packed_attention *s, int64_t index,
                      int32_t worker) {
  const og_heads *of = &s->of;
  const int64_t group = s->tasks * s->neighbours;
  const int64_t query = index % group / s->neighbours * s->task_rows;
  const int64_t left = of->queries - query;
  char *scratch = s->scratch + worker * s->worker_bytes;
  task t = {.pair = index / group * s->neighbours + index % s->neighbours,
            .query = query,
            .count = left < s->task_rows ? left : s->task_rows,
            .keys = of->keys,
            .gemm = scratch,
            .scores = (float *)(void *)(scratch + OG_GEMM_SCRATCH)};
  t.values = t.scores + s->task_rows * s->scores_stride;
  t.scaled = t.values + floats_padded(s->task_rows * of->value_width);
  if (s->panels != NULL) {
    t.panels = s->panels + og_heads_key_pair(of, t.pair) * s->pair_bytes;
  } else {
    char *own = (char *)(t.scaled + floats_padded(s->task_rows * of->width));
    keys_pack(s, t.pair, own);
    values_pack(s, t.pair, own);
    t.panels = own;
  }
  if (of->causal && query + t.count < t.keys) t.keys = query + t.count;
  return t;
}

// Rows [begin, begin + count) of the task's scores.
static void scores_find(const packed_attention *s, const task *t, int64_t begin,
                        int64_t count) {
  const og_heads *of = &s->of;
  int64_t stride;
  const float *q = row_at(&s->q, t->pair, t->query + begin, &stride);
  if (of->given_mask != NULL) {
    for (int64_t r = 0; r < count; ++r)
      og_attention(OG_F32)->store(q + r * stride, of->width, (float)of->scale,
                                  t->scaled + r * of->width, OG_F32);
    q = t->scaled;
    stride = of->width;
  }
  og_gemm(OG_F32)->run(q, stride, t->panels, count, t->keys, of->width, 0,
                       (t->keys + OG_PANEL - 1) / OG_PANEL, NULL,
                       t->scores + begin * s->scores_stride, s->scores_stride,
                       (og_epilogue){0}, t->gemm, OG_F32, OG_F32);
}

OG_LOOP_BODY void bools_mask_body(int64_t n, const uint8_t *mask, float *row) {
  for (int64_t i = 0; i < n; ++i) row[i] = mask[i] != 0 ? row[i] : -INFINITY;
}
OG_LOOP(bools_mask, (int64_t n, const uint8_t *mask, float *row),
        (n, mask, row))

static void mask_add(const og_heads *of, int64_t pair, int64_t query,
                     int64_t keys, float *row) {
  int64_t step;
  const char *mask = og_heads_mask_row(of, pair, query, &step);
  if (of->is_bool_mask && step == 1) {
    bools_mask(keys, (const uint8_t *)mask, row);
  } else if (of->is_bool_mask) {
    for (int64_t j = 0; j < keys; ++j)
      if (mask[j * step] == 0) row[j] = -INFINITY;
  } else if (og_dtype_is_f32(of->mask.dtype) && step == sizeof(float)) {
    og_rows()->accumulate((const float *)(const void *)mask, 1, row, keys);
  } else {
    for (int64_t j = 0; j < keys; ++j)
      row[j] += (float)og_element_double(of->mask.dtype, mask + j * step);
  }
}

// Computes again, in base e, a row whose scores times log2(e) are beyond the
// range of floats, as a type's least number in a mask is. Where all scores are
// -inf the weights are 0.
static void low_row_find(const packed_attention *s, task *t, int64_t r,
                         int64_t keys) {
  float *row = t->scores + r * s->scores_stride;
  const bool is_masked = s->of.given_mask != NULL;
  const float scale = is_masked ? 1 : (float)s->of.scale;
  int64_t best = 0;
  scores_find(s, t, r, 1);
  for (int64_t j = 0; j < keys; ++j) row[j] *= scale;
  if (is_masked) mask_add(&s->of, t->pair, t->query + r, keys, row);
  for (int64_t j = 1; j < keys; ++j)
    if (row[j] > row[best]) best = j;
  const float top = row[best];
  memset(row + keys, 0, (size_t)(t->keys - keys) * sizeof *row);
  if (top == -INFINITY) {
    memset(row, 0, (size_t)keys * sizeof *row);
    return;
  }
  og_rows()->softmax(row, row, keys, 1, OG_F32);
  t->sum[r] = 1;
  t->lse[r] = top - logf(row[best]);
}

// Scores to weights that are not divided by their sums yet.
static void weights_find(const packed_attention *s, task *t) {
  const og_heads *of = &s->of;
  const float log2e = 1.44269504f, ln2 = 0.693147181f;
  const bool is_masked = of->given_mask != NULL;
  const float scale = is_masked ? 1 : (float)of->scale;
  int32_t lo[TASK_ROWS], hi[TASK_ROWS];
  float max[TASK_ROWS], factor[TASK_ROWS];
  for (int64_t r = 0; r < t->count; ++r) {
    const int64_t query = t->query + r;
    lo[r] = 0;
    hi[r] = (int32_t)(of->causal && query + 1 < t->keys ? query + 1 : t->keys);
    max[r] = -INFINITY;
    t->sum[r] = 0;
    if (is_masked)
      mask_add(of, t->pair, query, hi[r], t->scores + r * s->scores_stride);
  }
  const og_softmax softmax = {
      .s = t->scores,
      .stride = s->scores_stride,
      .rows = t->count,
      .n = (t->keys + SCORES_ALIGN - 1) / SCORES_ALIGN * SCORES_ALIGN,
      .lo = lo,
      .hi = hi,
      .scale = scale * log2e,
      .sm_scale = scale,
      .max = max,
      .sum = t->sum,
      .factor = factor};
  og_attention(OG_F32)->softmax(&softmax);
  for (int64_t r = 0; r < t->count; ++r) {
    if (s->has_lse)
      t->lse[r] =
          t->sum[r] == 0 ? -INFINITY : (max[r] + log2f(t->sum[r])) * ln2;
    if (!(t->sum[r] > 0)) low_row_find(s, t, r, hi[r]);
  }
}

// Weights times values, one panel of channels after the other: the panels have
// all keys, and some of them may not be seen.
static void values_add(const packed_attention *s, const task *t, float *y,
                       int64_t y_stride) {
  const og_heads *of = &s->of;
  const char *panels = t->panels + s->key_panel_bytes;
  const int64_t count = (of->value_width + OG_PANEL - 1) / OG_PANEL;
  if (t->keys == of->keys) {
    og_gemm(OG_F32)->run(t->scores, s->scores_stride, panels, t->count,
                         of->value_width, t->keys, 0, count, NULL, y, y_stride,
                         (og_epilogue){0}, t->gemm, OG_F32, OG_F32);
    return;
  }
  for (int64_t p = 0; p < count; ++p) {
    const int64_t left = of->value_width - p * OG_PANEL;
    og_gemm(OG_F32)->run(
        t->scores, s->scores_stride,
        panels + og_packed_bytes(p * OG_PANEL, of->keys, OG_F32), t->count,
        left < OG_PANEL ? left : OG_PANEL, t->keys, 0, 1, NULL,
        y + p * OG_PANEL, y_stride, (og_epilogue){0}, t->gemm, OG_F32, OG_F32);
  }
}

static void lse_store(const packed_attention *s, const task *t, int64_t r) {
  const og_tensor *to = s->of.io.out[1];
  const int64_t at = t->pair / s->of.heads * to->strides[0] +
                     t->pair % s->of.heads * to->strides[1] +
                     (t->query + r) * to->strides[2];
  og_element_set_double(to->dtype, og_bytes(to) + at * og_item_bytes(to),
                        (double)t->lse[r]);
}

// A row that is masked whole becomes zeros.
static void task_run(const packed_attention *s, task *t) {
  const og_heads *of = &s->of;
  const og_tensor *out = of->io.out[0];
  char *y = (char *)(uintptr_t)row_of(out, t->pair / of->heads,
                                      t->pair % of->heads, t->query);
  const bool is_direct = og_dtype_is_f32(out->dtype);
  const int64_t stride = is_direct ? out->strides[2] : of->value_width;
  float *values = is_direct ? (float *)(void *)y : t->values;
  scores_find(s, t, 0, t->count);
  weights_find(s, t);
  values_add(s, t, values, stride);
  for (int64_t r = 0; r < t->count; ++r) {
    const float factor = t->sum[r] == 0 ? 0 : 1 / t->sum[r];
    og_attention(OG_F32)->store(values + r * stride, of->value_width, factor,
                                y + r * out->strides[2] * og_item_bytes(out),
                                og_element_of(out));
    if (s->has_lse) lse_store(s, t, r);
  }
}

static void share_tasks(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const packed_attention *s = state;
  for (int64_t i = begin; i < end; ++i) {
    task t = task_make(s, i, worker);
    task_run(s, &t);
  }
}

static og_status run_packed_attention(void *state, const og_run *run) {
  packed_attention *s = state;
  OG_TRY(rows_ready(run, &s->q));
  OG_TRY(rows_ready(run, &s->k));
  OG_TRY(rows_ready(run, &s->v));
  if (s->panels != NULL)
    OG_TRY(og_run_parallel(run,
                           2 * s->k.tensor->shape[0] * s->k.tensor->shape[1], 1,
                           share_pack, s));
  return og_run_parallel(run, s->of.pairs * s->tasks, 1, share_tasks, s);
}

// --- Preparation -------------------------------------------------------------

static bool is_taken(const packed_attention *s) {
  const og_heads *of = &s->of;
  const og_tensor *out = of->io.out[0];
  const og_tensor *all[] = {of->q, of->k, of->v, out};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (og_dtype_class(all[i]->dtype) != OG_CLASS_F32) return false;
  return og_numel(out) > 0 && of->keys > 0 && of->width > 0 &&
         of->keys <= OG_GEMM_MAX_K && of->width <= OG_GEMM_MAX_K &&
         (of->value_width == 1 || out->strides[3] == 1);
}

// The bytes of a copy, 0 where the operand is read in place.
static int64_t rows_begin(rows *s, const og_tensor *t) {
  s->tensor = t;
  s->width = t->shape[3];
  if (og_dtype_is_f32(t->dtype) && (s->width == 1 || t->strides[3] == 1))
    return 0;
  return (og_numel(t) * (int64_t)sizeof(float) + 63) / 64 * 64;
}

// Rows whose distance is a power of two would share few sets of the first-level
// cache.
static int64_t scores_stride(int64_t keys) {
  enum { FEW_SETS = 256 };
  const int64_t stride =
      (keys + SCORES_ALIGN - 1) / SCORES_ALIGN * SCORES_ALIGN;
  return stride % FEW_SETS == 0 ? stride + SCORES_ALIGN : stride;
}

static bool memory_take(og_prep *prep, packed_attention *s) {
  const og_heads *of = &s->of;
  rows *all[3] = {&s->q, &s->k, &s->v};
  const int64_t copied[3] = {rows_begin(&s->q, of->q), rows_begin(&s->k, of->k),
                             rows_begin(&s->v, of->v)};
  const int64_t most = SCORES_MAX / of->keys > 8 ? SCORES_MAX / of->keys : 8;
  // Tasks of nearly equal height.
  const int64_t height = most < TASK_ROWS ? most : TASK_ROWS;
  s->tasks = (of->queries + height - 1) / height;
  s->task_rows = (of->queries + s->tasks - 1) / s->tasks;
  s->scores_stride = scores_stride(of->keys);
  s->key_panel_bytes = (int64_t)og_packed_bytes(of->keys, of->width, OG_F32);
  s->pair_bytes = s->key_panel_bytes +
                  (int64_t)og_packed_bytes(of->value_width, of->keys, OG_F32);
  const bool packs_apart = s->tasks > 1 || of->key_repeat > 1;
  s->neighbours = of->heads / of->key_repeat * s->pair_bytes <= CACHED_BYTES
                      ? of->heads
                      : 1;
  s->worker_bytes = OG_GEMM_SCRATCH +
                    (s->task_rows * s->scores_stride +
                     floats_padded(s->task_rows * of->value_width) +
                     floats_padded(s->task_rows * of->width)) *
                        (int64_t)sizeof(float) +
                    (packs_apart ? 0 : s->pair_bytes);
  int64_t bytes = prep->executable->threads * s->worker_bytes + 64, panels = 0;
  const bool fits =
      (!packs_apart ||
       og_i64_mul(of->pairs / of->key_repeat, s->pair_bytes, &panels)) &&
      og_i64_add(bytes, panels + copied[0] + copied[1] + copied[2], &bytes);
  char *at = fits ? og_prep_scratch(prep, (size_t)bytes) : NULL;
  if (at == NULL) return false;
  at += -(uintptr_t)at % 64;
  for (int32_t i = 0; i < 3; ++i) {
    if (copied[i] > 0) all[i]->copy = (float *)(void *)at;
    at += copied[i];
  }
  s->panels = packs_apart ? at : NULL;
  s->scratch = at + panels;
  return true;
}

og_status og_prepare_packed_attention(og_prep *prep) {
  const og_status direct = og_prepare_direct_attention(prep);
  if (direct != OG_UNSUPPORTED) return direct;
  packed_attention *s = og_state_begin(prep, sizeof *s, run_packed_attention);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_heads_read(prep, &s->of, 0, prep->in[3]));
  OG_TRY(og_heads_need_results(prep, &s->of, prep->out[0], prep->out[1]));
  s->has_lse = prep->out[1] != NULL && og_prep_is_read(prep, 1);
  // Where memory is short the plain kernel says so, or needs less.
  return is_taken(s) && memory_take(prep, s) ? OG_OK : OG_UNSUPPORTED;
}
