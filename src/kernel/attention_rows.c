// SPDX-License-Identifier: Apache-2.0
// A worker's memory; queries in, results out; logits to weights.

#include <math.h>
#include <string.h>

#include "kernel/attention_run.h"

static const float log2e = 1.44269504f;

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
  const int64_t width = (int64_t)og_element_bytes(a->element);
  const int64_t key_step = a->k_token * width, value_step = a->v_token * width;
  while (begin < end) {
    const og_key_run run = og_keys_run(r, request, head, begin, end);
    for (int64_t i = 0; i < run.count; ++i) {
      *key_rows++ = (const char *)run.key + i * key_step;
      *value_rows++ = (const char *)run.value + i * value_step;
    }
    begin += run.count;
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
  const og_attention_args *a = r->args;
  const int64_t width = s->kernels->is_bf16 ? 2 : 4;
  const void *from[ROWS];
  for (int64_t i = 0, n; i < rows; i += n) {
    n = rows - i < ROWS ? rows - i : ROWS;
    for (int64_t j = 0; j < n; ++j) {
      from[j] = og_query_of(r, request, row_begin + i + j, head);
      s->max[at + i + j] = -INFINITY;
      s->sum[at + i + j] = 0;
    }
    char *to = s->q + (at + i) * s->q_stride * width;
    s->kernels->load_rows(from, n, a->dim_qk, to, s->q_stride, a->element);
    for (int64_t j = 0; a->pos_mode == OG_POS_ROPE && j < n; ++j)
      og_row_rotate(r, s, to + j * s->q_stride * width,
                    to + j * s->q_stride * width,
                    og_row_position(request, row_begin + i + j, r->group),
                    s->kernels->is_bf16 ? OG_BF16 : OG_F32);
  }
}

// A row's results are o * factor and lse.
static void row_end(const og_worker *s, int64_t row, int64_t dim,
                    float *out_factor, float *out_lse) {
  const float sum = s->sum[row];
  const int is_empty = sum == 0;
  *out_lse = is_empty ? -INFINITY : s->max[row] + og_log2(sum);
  *out_factor = is_empty ? 0 : 1 / sum;
  if (is_empty) memset(s->o + row * s->o_stride, 0, (size_t)dim * 4);
}

void og_results_store(const og_runner *r, og_worker *s,
                      const og_plan_unit *unit, int32_t head, int64_t begin,
                      int64_t end, int64_t at) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const og_attention_args *a = r->args;
  const int is_final = unit->slot < 0;
  float factor[ROWS];
  void *to[ROWS];
  for (int64_t i = begin, n; i < end; i += n) {
    n = end - i < ROWS ? end - i : ROWS;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t row = unit->row_begin + i + j;
      const int64_t slot = (unit->slot + i + j) * a->kv_heads + head;
      float lse;
      row_end(s, at + i + j, a->dim_vo, &factor[j], &lse);
      to[j] = is_final ? og_result_of(r, request, row, head)
                       : r->partial_out + slot * a->dim_vo;
      if (is_final)
        og_lse_store(r, request, row, head, lse);
      else
        r->partial_lse[slot] = lse;
    }
    r->tiles->store_rows(s->o + (at + i) * s->o_stride, s->o_stride, n,
                         a->dim_vo, factor, to, is_final ? a->element : OG_F32);
  }
}

// --- Logits to weights

static int32_t column_of(int64_t key, int64_t key_begin) {
  return key > key_begin ? (int32_t)(key - key_begin) : 0;
}

void og_softmax_rows_fill(const og_runner *r, og_softmax_rows *rows, int64_t at,
                          const og_plan_unit *unit, int64_t row_begin,
                          int64_t count, int32_t head, int64_t key_begin,
                          int64_t key_limit) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  int64_t token = og_row_token(row_begin, r->group);
  int64_t in_group = row_begin - token * r->group;
  for (int64_t i = at; i < at + count; ++i) {
    const int64_t position = token + request->kv_len - request->q_len;
    int64_t lo, hi;
    og_keys_visible(r->view.header, request, position, &lo, &hi);
    if (lo < unit->kv_begin) lo = unit->kv_begin;
    if (hi > key_limit) hi = key_limit;
    rows->lo[i] = column_of(lo, key_begin);
    rows->hi[i] = column_of(hi, key_begin);
    rows->bit[i] = token * request->kv_len + key_begin;
    if (a->pos_mode == OG_POS_ALIBI) {
      rows->slope[i] =
          og_alibi_slope((int32_t)(head * r->group + in_group), a->q_heads);
      rows->distance[i] = (float)(key_begin - position);
    }
    if (++in_group == r->group) in_group = 0, ++token;
  }
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
  s->kernels->softmax(&x);
  for (int64_t i = 0; i < count; ++i)
    if (rows->factor[i] != 1)
      s->kernels->scale(s->o + (at + i) * s->o_stride, s->o_stride,
                        rows->factor[i]);
}
