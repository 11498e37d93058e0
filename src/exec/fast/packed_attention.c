// SPDX-License-Identifier: Apache-2.0
// attention over the packed contraction of src/kernel, in f32.
//
// Keys and values of each head are packed into panels first. A task is then a
// few queries of one head: scores by one contraction, softmax row by row,
// values by the other. What is not f32, or whose rows do not stand together,
// is copied as f32 before.

#include <math.h>
#include <string.h>

#include "exec/step/heads.h"
#include "kernel/kernel.h"

enum {
  TASK_ROWS = 64,
  SCORES_MAX = 1 << 18,  // of a task, where fewer rows can do
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
  char *panels;  // by key pair: of keys, then of values
  int64_t key_panel_bytes, pair_bytes;
  int64_t task_rows, tasks;  // of a pair
  char *scratch;
  int64_t worker_bytes;
} packed_attention;

// --- Rows as f32 -------------------------------------------------------------

static bool is_f32(const og_tensor *t) {
  return t->dtype.code == OG_CODE_FLOAT && t->dtype.bits == 32;
}

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
    if (step == item && !is_f32(t))
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

static void share_pack(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const packed_attention *s = state;
  const og_heads *of = &s->of;
  (void)worker;
  for (int64_t pair = begin; pair < end; ++pair) {
    char *to = s->panels + pair * s->pair_bytes;
    og_gemm_weights keys = {
        .n = of->keys, .k = of->width, .k_stride = 1, .element = OG_F32};
    og_gemm_weights values = {
        .n = of->value_width, .k = of->keys, .n_stride = 1, .element = OG_F32};
    keys.data = row_at(&s->k, pair, 0, &keys.n_stride);
    values.data = row_at(&s->v, pair, 0, &values.k_stride);
    og_gemm_pack(&keys, 0, (keys.n + OG_PANEL - 1) / OG_PANEL, to);
    og_gemm_pack(&values, 0, (values.n + OG_PANEL - 1) / OG_PANEL,
                 to + s->key_panel_bytes);
  }
}

// --- One query's scores ------------------------------------------------------

static void mask_add(const og_heads *of, int64_t pair, int64_t query,
                     float *row) {
  int64_t step;
  const char *mask = og_heads_mask_row(of, pair, query, &step);
  if (of->is_bool_mask) {
    for (int64_t j = 0; j < of->keys; ++j)
      if (mask[j * step] == 0) row[j] = -INFINITY;
  } else if (is_f32(&of->mask) && step == sizeof(float)) {
    og_rows()->accumulate((const float *)(const void *)mask, 1, row, of->keys);
  } else {
    for (int64_t j = 0; j < of->keys; ++j)
      row[j] += (float)og_element_double(of->mask.dtype, mask + j * step);
  }
}

// Turns scores into probabilities and returns log(sum(exp(scores))). A row that
// is masked whole becomes zeros.
static float row_softmax(const packed_attention *s, int64_t pair, int64_t query,
                         float *row) {
  const og_heads *of = &s->of;
  const float scale = (float)of->scale;
  int64_t count = of->keys, best = 0;
  for (int64_t j = 0; j < count; ++j) row[j] *= scale;
  if (of->given_mask != NULL) mask_add(of, pair, query, row);
  if (of->causal && query + 1 < count) count = query + 1;
  memset(row + count, 0, (size_t)(of->keys - count) * sizeof *row);
  for (int64_t j = 1; j < count; ++j)
    if (row[j] > row[best] || row[j] != row[j]) best = j;
  const float top = row[best];
  if (top == -INFINITY) {
    memset(row, 0, (size_t)count * sizeof *row);
    return -INFINITY;
  }
  og_rows()->softmax(row, row, count, 1, OG_F32);
  return top - logf(row[best]);
}

// --- Tasks -------------------------------------------------------------------

static void lse_store(const packed_attention *s, int64_t pair, int64_t query,
                      float lse) {
  const og_tensor *t = s->of.io.out[1];
  const int64_t at = pair / s->of.heads * t->strides[0] +
                     pair % s->of.heads * t->strides[1] + query * t->strides[2];
  og_element_set_double(t->dtype, og_bytes(t) + at * og_item_bytes(t),
                        (double)lse);
}

static void task_run(const packed_attention *s, int64_t pair, int64_t query,
                     int64_t count, char *scratch) {
  const og_heads *of = &s->of;
  const og_tensor *out = of->io.out[0];
  const char *panels = s->panels + og_heads_key_pair(of, pair) * s->pair_bytes;
  float *scores = (float *)(void *)(scratch + OG_GEMM_SCRATCH);
  float *values = scores + s->task_rows * of->keys;
  const og_epilogue none = {0};
  int64_t q_stride;
  const float *q = row_at(&s->q, pair, query, &q_stride);
  og_gemm(OG_F32)->run(q, q_stride, panels, count, of->keys, of->width, 0,
                       (of->keys + OG_PANEL - 1) / OG_PANEL, NULL, scores,
                       of->keys, none, scratch, OG_F32);
  for (int64_t r = 0; r < count; ++r) {
    const float lse = row_softmax(s, pair, query + r, scores + r * of->keys);
    if (of->io.out[1] != NULL) lse_store(s, pair, query + r, lse);
  }
  char *y =
      (char *)(uintptr_t)row_of(out, pair / of->heads, pair % of->heads, query);
  const bool is_direct = is_f32(out);
  og_gemm(OG_F32)->run(
      scores, of->keys, panels + s->key_panel_bytes, count, of->value_width,
      of->keys, 0, (of->value_width + OG_PANEL - 1) / OG_PANEL, NULL,
      is_direct ? (void *)y : values,
      is_direct ? out->strides[2] : of->value_width, none, scratch, OG_F32);
  for (int64_t r = 0; !is_direct && r < count; ++r)
    og_rows()->from_f32(values + r * of->value_width,
                        y + r * out->strides[2] * og_item_bytes(out),
                        of->value_width, og_element_of(out));
}

static void share_tasks(void *state, int64_t begin, int64_t end,
                        int32_t worker) {
  const packed_attention *s = state;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t query = i % s->tasks * s->task_rows;
    const int64_t left = s->of.queries - query;
    task_run(s, i / s->tasks, query, left < s->task_rows ? left : s->task_rows,
             s->scratch + worker * s->worker_bytes);
  }
}

static og_status run_packed_attention(void *state, const og_run *run) {
  packed_attention *s = state;
  OG_TRY(rows_ready(run, &s->q));
  OG_TRY(rows_ready(run, &s->k));
  OG_TRY(rows_ready(run, &s->v));
  OG_TRY(og_run_parallel(run, s->k.tensor->shape[0] * s->k.tensor->shape[1], 1,
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
  if (is_f32(t) && (s->width == 1 || t->strides[3] == 1)) return 0;
  return (og_numel(t) * (int64_t)sizeof(float) + 63) / 64 * 64;
}

static bool memory_take(og_prep *prep, packed_attention *s) {
  const og_heads *of = &s->of;
  rows *all[3] = {&s->q, &s->k, &s->v};
  const int64_t copied[3] = {rows_begin(&s->q, of->q), rows_begin(&s->k, of->k),
                             rows_begin(&s->v, of->v)};
  const int64_t most = SCORES_MAX / of->keys > 8 ? SCORES_MAX / of->keys : 8;
  s->task_rows = most < TASK_ROWS ? most : TASK_ROWS;
  s->tasks = (of->queries + s->task_rows - 1) / s->task_rows;
  s->key_panel_bytes = (int64_t)og_packed_bytes(of->keys, of->width, OG_F32);
  s->pair_bytes = s->key_panel_bytes +
                  (int64_t)og_packed_bytes(of->value_width, of->keys, OG_F32);
  s->worker_bytes =
      OG_GEMM_SCRATCH +
      (s->task_rows * (of->keys + of->value_width) * (int64_t)sizeof(float) +
       63) /
          64 * 64;
  int64_t bytes = prep->executable->threads * s->worker_bytes + 64, panels;
  const bool fits =
      og_i64_mul(of->pairs / of->key_repeat, s->pair_bytes, &panels) &&
      og_i64_add(bytes, panels + copied[0] + copied[1] + copied[2], &bytes);
  char *at = fits ? og_prep_scratch(prep, (size_t)bytes) : NULL;
  if (at == NULL) return false;
  at += -(uintptr_t)at % 64;
  for (int32_t i = 0; i < 3; ++i) {
    if (copied[i] > 0) all[i]->copy = (float *)(void *)at;
    at += copied[i];
  }
  s->panels = at;
  s->scratch = at + panels;
  return true;
}

og_status og_prepare_packed_attention(og_prep *prep) {
  packed_attention *s = og_state_begin(prep, sizeof *s, run_packed_attention);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_heads_read(prep, &s->of, 0, prep->in[3]));
  OG_TRY(og_heads_need_results(prep, &s->of, prep->out[0], prep->out[1]));
  // Where memory is short the plain kernel says so, or needs less.
  return is_taken(s) && memory_take(prep, s) ? OG_OK : OG_UNSUPPORTED;
}
