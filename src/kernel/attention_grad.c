// SPDX-License-Identifier: Apache-2.0
// The gradient of ragged attention. Weights are computed anew from the LSE.
// Source: the backward pass of FlashAttention (Dao et al., 2022).
//
// Invariants: a task is one request and KV head, and in it one of two passes:
// rows by rows for the gradient of q, keys by keys for those of k and v. So
// sums have one owner and one order, whatever the thread count.

#include "kernel/attention_grad.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernel/attention.h"
#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "kernel/position.h"

enum {
  ROWS = 56,   // packed rows of a block
  KEYS = 128,  // keys of a block
  STRIDE = OG_ATTENTION_MAX_DIM,
  PANELS = OG_ATTENTION_BLOCK * OG_ATTENTION_MAX_DIM,
  CARRY_BLOCKS = 16,
};

// Sums of products over blocks. `part` takes CARRY_BLOCKS of them, so that
// what a sum rounds does not grow with their number.
typedef struct block_sums {
  float part[KEYS * STRIDE];
  float total[KEYS * STRIDE];
  float lost[KEYS * STRIDE];
} block_sums;

// One worker's memory. Panels are in the layouts that tiles read.
typedef struct grad_scratch {
  float q[ROWS * STRIDE];     // rotated
  float grad[ROWS * STRIDE];  // of the output
  float keys[KEYS * STRIDE];  // rotated, by rows
  float values[KEYS * STRIDE];
  float delta[ROWS];                // grad . out
  float key_panels[KEYS * STRIDE];  // transposed
  float value_panels[KEYS * STRIDE];
  float row_panels[PANELS];  // the right factor of a sum
  float p[ROWS * KEYS];      // weights
  float raw[ROWS * KEYS];    // logits before scale and cap
  float ds[ROWS * KEYS];     // gradient of the logits
  float turned[KEYS * ROWS];
  block_sums sum, sum_values;
  float cos[STRIDE], sin[STRIDE];
} grad_scratch;
_Static_assert(sizeof(grad_scratch) <= OG_ATTENTION_GRAD_SCRATCH,
               "the scratch of a worker has room");

typedef struct gradient {
  const og_attention_args *args;
  og_plan_view view;
  const og_attention_kernels *tiles;
  const void *grad;
  void *grad_q, *grad_k, *grad_v;
  const float *turns_high, *turns_low;
  char *scratch;  // of each worker
  int64_t group;
  atomic_int next_task;
} gradient;

// What a task works on.
typedef struct place {
  const og_plan_request *request;
  int32_t head;  // KV head
  int64_t row_count;
} place;

static int64_t q_offset(const gradient *g, const place *at, int64_t row,
                        int64_t width) {
  const int64_t token = at->request->q_begin + row / g->group;
  const int64_t head = at->head * g->group + row % g->group;
  return (token * g->args->q_heads + head) * width;
}

static int64_t kv_offset(const gradient *g, const place *at, int64_t key,
                         int64_t width) {
  return ((at->request->kv_begin + key) * g->args->kv_heads + at->head) * width;
}

static void rotate(const gradient *g, grad_scratch *s, float *x,
                   int64_t position, float sign) {
  const int64_t half = g->args->dim_qk / 2;
  if (g->args->pos_mode != OG_POS_ROPE) return;
  og_rows()->angles((double)position, g->turns_high, g->turns_low, half, s->cos,
                    s->sin);
  og_rows()->rotate(x, x, half, s->cos, s->sin, 0, sign, OG_F32);
}

// --- Blocks in

static void rows_load(const gradient *g, grad_scratch *s, const place *at,
                      int64_t row, int64_t rows) {
  const og_attention_args *a = g->args;
  float line[OG_ATTENTION_MAX_DIM];
  for (int64_t i = 0; i < rows; ++i) {
    float *q = s->q + i * STRIDE, *grad = s->grad + i * STRIDE;
    const int64_t out = q_offset(g, at, row + i, a->dim_vo);
    og_rows()->to_f32(
        og_at(a->q, q_offset(g, at, row + i, a->dim_qk), a->element), q,
        a->dim_qk, a->element);
    rotate(g, s, q, og_row_position(at->request, row + i, g->group), 1);
    og_rows()->to_f32(og_at(g->grad, out, a->element), grad, a->dim_vo,
                      a->element);
    og_rows()->to_f32(og_at(a->out, out, a->element), line, a->dim_vo,
                      a->element);
    float delta = 0;
    for (int32_t d = 0; d < a->dim_vo; ++d) delta += grad[d] * line[d];
    s->delta[i] = delta;
  }
}

static void panels_pack(const gradient *g, const float *rows, int64_t count,
                        int64_t width, float *panels, int transposed) {
  const void *lines[KEYS];
  const int64_t padded =
      (count + g->tiles->panel - 1) / g->tiles->panel * g->tiles->panel;
  // Past the end any row will do: those columns are not looked at.
  for (int64_t i = 0; i < padded; ++i)
    lines[i] = rows + (i < count ? i : count - 1) * STRIDE;
  if (transposed)
    g->tiles->pack_keys(lines, padded, width, panels, OG_F32);
  else
    g->tiles->pack_values(lines, 0, count, width, panels, OG_F32);
}

static void keys_load(const gradient *g, grad_scratch *s, const place *at,
                      int64_t key, int64_t count) {
  const og_attention_args *a = g->args;
  for (int64_t i = 0; i < count; ++i) {
    og_rows()->to_f32(
        og_at(a->k, kv_offset(g, at, key + i, a->dim_qk), a->element),
        s->keys + i * STRIDE, a->dim_qk, a->element);
    rotate(g, s, s->keys + i * STRIDE, key + i, 1);
    og_rows()->to_f32(
        og_at(a->v, kv_offset(g, at, key + i, a->dim_vo), a->element),
        s->values + i * STRIDE, a->dim_vo, a->element);
  }
  panels_pack(g, s->keys, count, a->dim_qk, s->key_panels, 1);
  panels_pack(g, s->values, count, a->dim_vo, s->value_panels, 1);
}

// c[rows, columns] (+)= a[rows, depth] by panels of b, in tiles of rows.
static void product(const gradient *g, const float *a, int64_t a_stride,
                    const float *panels, int64_t panel_floats, int64_t depth,
                    int64_t rows, int64_t columns, float *c, int64_t c_stride,
                    int accumulate) {
  const int64_t panel = g->tiles->panel;
  const int64_t tiles = (rows + g->tiles->tile_rows - 1) / g->tiles->tile_rows;
  for (int64_t j = 0; j < columns; j += panel)
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r0 = rows * t / tiles, r1 = rows * (t + 1) / tiles;
      g->tiles->tile(r1 - r0, a + r0 * a_stride, a_stride,
                     panels + j / panel * panel_floats, depth,
                     c + r0 * c_stride + j, c_stride, accumulate, NULL);
    }
}

// --- Sums over blocks

static void sums_carry(block_sums *s, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows * STRIDE; i += STRIDE)
    og_rows()->carry(s->part + i, s->total + i, s->lost + i, width);
}

// After block `block` is in `part`.
static void sums_step(block_sums *s, int64_t block, int64_t rows,
                      int64_t width) {
  if ((block + 1) % CARRY_BLOCKS == 0) sums_carry(s, rows, width);
}

// The sums of row i, once all are carried.
static float *sums_row(block_sums *s, int64_t i, int64_t width) {
  og_rows()->accumulate(s->lost + i * STRIDE, 1, s->total + i * STRIDE, width);
  return s->total + i * STRIDE;
}

// --- Weights and their gradient

static void row_weights(const gradient *g, grad_scratch *s, const place *at,
                        int64_t row, int64_t i, int64_t key, int64_t count,
                        int64_t padded) {
  const og_attention_args *a = g->args;
  const int64_t position = og_row_position(at->request, row, g->group);
  const int64_t q_head = at->head * g->group + row % g->group;
  const int64_t token = at->request->q_begin + row / g->group;
  const float lse = a->lse[token * a->q_heads + q_head];
  int64_t lo, hi;
  og_keys_visible(g->view.header, at->request, position, &lo, &hi);
  if (hi > key + count) hi = key + count;
  const int is_alibi = a->pos_mode == OG_POS_ALIBI;
  const float slope =
      is_alibi ? og_alibi_slope((int32_t)q_head, a->q_heads) : 0;
  const float distance = (float)(key - position);
  const int64_t bit = row / g->group * at->request->kv_len + key;
  const int32_t from = (int32_t)(lo > key ? lo - key : 0);
  const int32_t to = (int32_t)(hi > key ? hi - key : 0);
  // No logit is above its LSE, so the weights come out as they are.
  float max = a->natural_lse ? lse * 1.44269504f : lse, sum = 0, factor;
  const og_softmax x = {
      .s = s->p + i * KEYS,
      .rows = 1,
      .n = padded,
      .lo = &from,
      .hi = &to,
      .scale = a->sm_scale * 1.44269504f,
      .soft_cap = a->soft_cap,
      .sm_scale = a->sm_scale,
      .slope = is_alibi ? &slope : NULL,
      .distance = &distance,
      .bits = a->mask != NULL ? a->mask + at->request->mask_begin : NULL,
      .bit = &bit,
      .max = &max,
      .sum = &sum,
      .factor = &factor,
  };
  if (lse == -INFINITY)
    memset(x.s, 0, (size_t)padded * 4);
  else
    g->tiles->softmax(&x);
  float *ds = s->ds + i * KEYS;
  const float *raw = s->raw + i * KEYS;
  for (int64_t j = 0; j < padded; ++j)
    ds[j] = x.s[j] == 0 ? 0 : x.s[j] * (ds[j] - s->delta[i]) * a->sm_scale;
  for (int64_t j = 0; a->soft_cap > 0 && j < padded; ++j) {
    if (ds[j] == 0) continue;
    const float logit = raw[j] * a->sm_scale + slope * (distance + (float)j);
    const float t = tanhf(logit / a->soft_cap);
    ds[j] *= 1 - t * t;
  }
}

// p and ds of rows [row, row + rows) against the keys that are loaded; 0 where
// no row sees any.
static int block_weights(const gradient *g, grad_scratch *s, const place *at,
                         int64_t row, int64_t rows, int64_t key,
                         int64_t count) {
  const og_attention_args *a = g->args;
  const int64_t panel = g->tiles->panel;
  const int64_t padded = (count + panel - 1) / panel * panel;
  int64_t lo, hi, ignored;
  og_keys_visible(g->view.header, at->request,
                  og_row_position(at->request, row, g->group), &lo, &ignored);
  og_keys_visible(g->view.header, at->request,
                  og_row_position(at->request, row + rows - 1, g->group),
                  &ignored, &hi);
  if (hi <= key || lo >= key + count) return 0;
  product(g, s->q, STRIDE, s->key_panels, panel * a->dim_qk, a->dim_qk, rows,
          padded, s->p, KEYS, 0);
  product(g, s->grad, STRIDE, s->value_panels, panel * a->dim_vo, a->dim_vo,
          rows, padded, s->ds, KEYS, 0);
  if (a->soft_cap > 0)
    memcpy(s->raw, s->p, (size_t)rows * KEYS * sizeof(float));
  for (int64_t i = 0; i < rows; ++i)
    row_weights(g, s, at, row + i, i, key, count, padded);
  return 1;
}

// --- The two passes

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void queries_store(const gradient *g, grad_scratch *s, const place *at,
                          int64_t row, int64_t rows) {
  const og_attention_args *a = g->args;
  sums_carry(&s->sum, rows, a->dim_qk);
  for (int64_t i = 0; i < rows; ++i) {
    float *line = sums_row(&s->sum, i, a->dim_qk);
    rotate(g, s, line, og_row_position(at->request, row + i, g->group), -1);
    og_rows()->from_f32(
        line, og_at(g->grad_q, q_offset(g, at, row + i, a->dim_qk), a->element),
        a->dim_qk, a->element);
  }
}

static void queries_pass(const gradient *g, grad_scratch *s, const place *at) {
  const og_attention_args *a = g->args;
  const int64_t keys = at->request->kv_len;
  for (int64_t row = 0; row < at->row_count; row += ROWS) {
    const int64_t rows = least(ROWS, at->row_count - row);
    rows_load(g, s, at, row, rows);
    memset(&s->sum, 0, sizeof s->sum);
    for (int64_t key = 0; key < keys; key += KEYS) {
      const int64_t count = least(KEYS, keys - key);
      keys_load(g, s, at, key, count);
      if (block_weights(g, s, at, row, rows, key, count)) {
        panels_pack(g, s->keys, count, a->dim_qk, s->row_panels, 0);
        product(g, s->ds, KEYS, s->row_panels,
                (int64_t)OG_ATTENTION_BLOCK * g->tiles->panel, count, rows,
                a->dim_qk, s->sum.part, STRIDE, 1);
      }
      sums_step(&s->sum, key / KEYS, rows, a->dim_qk);
    }
    queries_store(g, s, at, row, rows);
  }
}

// sum[keys] += x[rows, keys]^T rows_of[rows].
static void turned_add(const gradient *g, grad_scratch *s, const float *x,
                       const float *lines, int64_t rows, int64_t count,
                       int64_t width, float *sum) {
  for (int64_t j = 0; j < count; ++j)
    for (int64_t i = 0; i < rows; ++i)
      s->turned[j * ROWS + i] = x[i * KEYS + j];
  panels_pack(g, lines, rows, width, s->row_panels, 0);
  product(g, s->turned, ROWS, s->row_panels,
          (int64_t)OG_ATTENTION_BLOCK * g->tiles->panel, rows, count, width,
          sum, STRIDE, 1);
}

static void keys_store(const gradient *g, grad_scratch *s, const place *at,
                       int64_t key, int64_t count) {
  const og_attention_args *a = g->args;
  sums_carry(&s->sum, count, a->dim_qk);
  sums_carry(&s->sum_values, count, a->dim_vo);
  for (int64_t i = 0; i < count; ++i) {
    float *line = sums_row(&s->sum, i, a->dim_qk);
    rotate(g, s, line, key + i, -1);
    og_rows()->from_f32(
        line,
        og_at(g->grad_k, kv_offset(g, at, key + i, a->dim_qk), a->element),
        a->dim_qk, a->element);
    og_rows()->from_f32(
        sums_row(&s->sum_values, i, a->dim_vo),
        og_at(g->grad_v, kv_offset(g, at, key + i, a->dim_vo), a->element),
        a->dim_vo, a->element);
  }
}

static void keys_pass(const gradient *g, grad_scratch *s, const place *at) {
  const og_attention_args *a = g->args;
  const int64_t keys = at->request->kv_len;
  for (int64_t key = 0; key < keys; key += KEYS) {
    const int64_t count = least(KEYS, keys - key);
    keys_load(g, s, at, key, count);
    memset(&s->sum, 0, sizeof s->sum);
    memset(&s->sum_values, 0, sizeof s->sum_values);
    for (int64_t row = 0; row < at->row_count; row += ROWS) {
      const int64_t rows = least(ROWS, at->row_count - row);
      rows_load(g, s, at, row, rows);
      if (block_weights(g, s, at, row, rows, key, count)) {
        turned_add(g, s, s->p, s->grad, rows, count, a->dim_vo,
                   s->sum_values.part);
        turned_add(g, s, s->ds, s->q, rows, count, a->dim_qk, s->sum.part);
      }
      sums_step(&s->sum, row / ROWS, count, a->dim_qk);
      sums_step(&s->sum_values, row / ROWS, count, a->dim_vo);
    }
    keys_store(g, s, at, key, count);
  }
}

static void tasks_run(void *state, int64_t begin, int64_t end, int32_t worker) {
  gradient *g = state;
  const int32_t heads = g->args->kv_heads;
  const int32_t count = g->view.header->batch * heads * 2;
  grad_scratch *s =
      (grad_scratch *)(void *)(g->scratch +
                               (int64_t)worker * OG_ATTENTION_GRAD_SCRATCH);
  (void)begin;
  (void)end;
  for (;;) {
    const int32_t i =
        atomic_fetch_add_explicit(&g->next_task, 1, memory_order_relaxed);
    if (i >= count) return;
    const place at = {
        .request = &g->view.requests[i / 2 / heads],
        .head = i / 2 % heads,
        .row_count = g->view.requests[i / 2 / heads].q_len * g->group,
    };
    if (i % 2 == 0)
      queries_pass(g, s, &at);
    else
      keys_pass(g, s, &at);
  }
}

og_status og_attention_grad(const og_kernel_env *env,
                            const og_attention_args *args, const void *grad,
                            void *grad_q, void *grad_k, void *grad_v) {
  char text[256];
  gradient g = {
      .args = args,
      .tiles = og_attention(OG_F32),
      .grad = grad,
      .grad_q = grad_q,
      .grad_k = grad_k,
      .grad_v = grad_v,
  };
  const og_status status = og_plan_check(args, &g.view, text, sizeof text);
  if (status != OG_OK) return og_env_fail(env, status, text);
  g.group = args->q_heads / args->kv_heads;
  // Rows and keys that no request holds have no gradient.
  const size_t bytes = og_element_bytes(args->element);
  const size_t keys = (size_t)(args->kv_rows * args->kv_heads);
  memset(grad_q, 0,
         (size_t)(args->q_rows * args->q_heads * args->dim_qk) * bytes);
  memset(grad_k, 0, keys * (size_t)args->dim_qk * bytes);
  memset(grad_v, 0, keys * (size_t)args->dim_vo * bytes);
  float *turns = env->workspace;
  if (args->pos_mode == OG_POS_ROPE)
    og_rope_turns(args->dim_qk, args->rope_theta, args->rope_scale, turns,
                  turns + OG_ATTENTION_MAX_DIM);
  g.turns_high = turns;
  g.turns_low = turns + OG_ATTENTION_MAX_DIM;
  g.scratch = (char *)env->workspace + OG_ATTENTION_SHARED;
  atomic_init(&g.next_task, 0);
  return og_env_parallel(env, env->threads, 1, tasks_run, &g);
}
