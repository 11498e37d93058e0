// SPDX-License-Identifier: Apache-2.0
// A worker's memory; queries in, results out; logits to weights.

#include <math.h>
#include <string.h>

#include "kernel/attention_run.h"
#include "kernel/position.h"

static const float log2e = 1.44269504f, ln2 = 0.693147181f;

static void *carve(char **at, int64_t bytes) {
  void *out = *at;
  *at += og_round_up(bytes, 64);
  return out;
}

const float og_zero_row[OG_ATTENTION_MAX_DIM + 32];

og_worker og_worker_of(const og_runner *r, int32_t worker, int64_t rows,
                       int packed) {
  const og_attention_args *a = r->args;
  const og_attention_kernels *kernels = packed ? r->tiles : r->direct;
  const int bf16 = kernels->is_bf16;
  const int64_t width = bf16 ? 2 : 4;
  char *at = r->scratch + (int64_t)worker * OG_ATTENTION_SCRATCH;
  og_worker s = {
      .kernels = kernels,
      .q_stride = og_round_up(a->dim_qk, PAD),
      .o_stride = og_round_up(a->dim_vo, PAD),
  };
  s.q = carve(&at, rows * s.q_stride * width);
  s.o = carve(&at, rows * s.o_stride * 4);
  s.max = carve(&at, rows * 4);
  s.sum = carve(&at, rows * 4);
  s.key_rows = carve(&at, BLOCK * (int64_t)sizeof(void *));
  s.value_rows = carve(&at, BLOCK * (int64_t)sizeof(void *));
  s.cos = carve(&at, a->dim_qk * 4);
  s.sin = carve(&at, a->dim_qk * 4);
  s.rotated = carve(&at, 32 * s.q_stride * 4);
  if (packed) {
    s.keys = carve(&at, og_block_keys(a) * (a->dim_qk + 1) * width);
    s.values = carve(&at, BLOCK * s.o_stride * width);
    s.s = carve(&at, r->tiles->tile_rows * BLOCK * 4);
    s.p = carve(&at, bf16 ? r->tiles->tile_rows * BLOCK * 2 : 0);
  } else {
    s.s = carve(&at, rows * DIRECT_BLOCK * 4);
    s.p = carve(&at, bf16 ? rows * DIRECT_BLOCK * 2 : 0);
  }
  return s;
}

// --- Where keys and values lie

void og_rows_find(const og_runner *r, const og_plan_request *request,
                  int32_t head, int64_t begin, int64_t end,
                  const void **key_rows, const void **value_rows) {
  const og_attention_args *a = r->args;
  const int64_t width = (int64_t)og_element_bytes(og_cache_element(a));
  const int32_t size = r->view.header->page_size;
  for (int64_t i = begin; i < end;) {  // a page at a time
    const int64_t left = size > 0 ? size - i % size : end - i;
    const int64_t stop = left < end - i ? i + left : end;
    const void *key, *value;
    og_row_find(r, request, head, i, &key, &value);
    for (int64_t j = 0; i < stop; ++i, ++j) {
      key_rows[i - begin] = (const char *)key + j * a->k_token * width;
      value_rows[i - begin] = (const char *)value + j * a->v_token * width;
    }
  }
}

void og_row_rotate(const og_runner *r, og_worker *s, const void *x, void *y,
                   int64_t position, int element) {
  const int64_t half = r->args->dim_qk / 2;
  r->rows->angles((double)position, r->turns_high, r->turns_low, half, s->cos,
                  s->sin);
  r->rows->rotate(x, y, half, s->cos, s->sin, 0, 1, element);
}

// --- Queries in, results out

void og_queries_load(const og_runner *r, og_worker *s,
                     const og_plan_request *request, int64_t row_begin,
                     int64_t rows, int32_t head, int64_t at) {
  enum { AHEAD = 12 };
  const og_attention_args *a = r->args;
  const int bf16 = s->kernels->is_bf16;
  const int64_t width = bf16 ? 2 : 4;
  const size_t rest = (size_t)((s->q_stride - a->dim_qk) * width);
  const size_t bytes = (size_t)a->dim_qk * og_element_bytes(a->element);
  for (int64_t i = 0; i < rows; ++i) {
    const void *q = og_query_of(r, request, row_begin + i, head);
    if (i + AHEAD < rows) {
      const char *later = og_query_of(r, request, row_begin + i + AHEAD, head);
      for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(later + line, 0, 2);
    }
    char *to = s->q + (at + i) * s->q_stride * width;
    if (bf16)
      memcpy(to, q, bytes);
    else
      r->rows->to_f32(q, (float *)(void *)to, a->dim_qk, a->element);
    if (rest > 0) memset(to + a->dim_qk * width, 0, rest);
    if (a->pos_mode == OG_POS_ROPE)
      og_row_rotate(r, s, to, to,
                    og_row_position(request, row_begin + i, r->group),
                    bf16 ? OG_BF16 : OG_F32);
    s->max[at + i] = -INFINITY;
    s->sum[at + i] = 0;
  }
}

void og_row_store(const og_runner *r, const og_plan_request *request,
                  int64_t row, int32_t head, const float *o, float factor,
                  float lse) {
  const og_attention_args *a = r->args;
  r->tiles->store(o, a->dim_vo, factor * og_head_scale(a, a->v_scale, head),
                  og_result_of(r, request, row, head), a->element);
  a->lse[og_token_of(r, request, row) * a->q_heads +
         og_query_head_of(r, row, head)] = a->natural_lse ? lse * ln2 : lse;
}

void og_results_store(const og_runner *r, og_worker *s,
                      const og_plan_unit *unit, int32_t head, int64_t begin,
                      int64_t end, int64_t at) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const og_attention_args *a = r->args;
  for (int64_t i = begin; i < end; ++i) {
    float *o = s->o + (at + i) * s->o_stride;
    const float sum = s->sum[at + i];
    const int is_empty = sum == 0;
    const float lse = is_empty ? -INFINITY : s->max[at + i] + log2f(sum);
    const float factor = is_empty ? 0 : 1 / sum;
    if (is_empty) memset(o, 0, (size_t)a->dim_vo * 4);
    if (unit->slot < 0) {
      og_row_store(r, request, unit->row_begin + i, head, o, factor, lse);
      continue;
    }
    const int64_t slot = (unit->slot + i) * a->kv_heads + head;
    r->tiles->store(o, a->dim_vo, factor, r->partial_out + slot * a->dim_vo,
                    OG_F32);
    r->partial_lse[slot] = lse;
  }
}

// --- Logits to weights

void og_softmax_row_fill(const og_runner *r, og_softmax_rows *rows, int64_t i,
                         const og_plan_unit *unit, int64_t row, int32_t head,
                         int64_t key_begin, int64_t key_limit) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t token = og_row_token(row, r->group);
  const int64_t position = og_row_position(request, row, r->group);
  int64_t lo, hi;
  og_keys_visible(r->view.header, request, position, &lo, &hi);
  if (lo < unit->kv_begin) lo = unit->kv_begin;
  if (hi > key_limit) hi = key_limit;
  rows->lo[i] = lo > key_begin ? (int32_t)(lo - key_begin) : 0;
  rows->hi[i] = hi > key_begin ? (int32_t)(hi - key_begin) : 0;
  rows->bit[i] = token * request->kv_len + key_begin;
  rows->key_scale[i] = og_head_scale(a, a->k_scale, head);
  if (a->pos_mode != OG_POS_ALIBI) return;
  rows->slope[i] =
      og_alibi_slope((int32_t)og_query_head_of(r, row, head), a->q_heads);
  rows->distance[i] = (float)(key_begin - position);
}

void og_softmax_run(const og_runner *r, og_worker *s, const og_plan_unit *unit,
                    og_softmax_rows *rows, int64_t count, int64_t at,
                    float *logits, uint16_t *p, int64_t stride, int64_t n) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const og_softmax x = {
      .s = logits,
      .p = p,
      .stride = stride,
      .rows = count,
      .n = n,
      .lo = rows->lo,
      .hi = rows->hi,
      .scale = a->sm_scale * log2e,
      .soft_cap = a->soft_cap,
      .sm_scale = a->sm_scale,
      .slope = a->pos_mode == OG_POS_ALIBI ? rows->slope : NULL,
      .distance = rows->distance,
      .bits = a->mask != NULL ? a->mask + request->mask_begin : NULL,
      .bit = rows->bit,
      .max = s->max + at,
      .sum = s->sum + at,
      .factor = rows->factor,
  };
  for (int64_t i = 0; i < count; ++i)
    if (rows->key_scale[i] != 1)
      s->kernels->scale(logits + i * stride, n, rows->key_scale[i]);
  s->kernels->softmax(&x);
  for (int64_t i = 0; i < count; ++i)
    if (rows->factor[i] != 1)
      s->kernels->scale(s->o + (at + i) * s->o_stride, s->o_stride,
                        rows->factor[i]);
}
