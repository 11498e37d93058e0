// SPDX-License-Identifier: Apache-2.0
// Items of few rows: keys and values are read where they lie.

#include <string.h>

#include "kernel/attention_run.h"

// Keys of any type and RoPE come as f32 rows where that is cheaper or needed.
static const void *const *keys_ready(const og_runner *r, og_worker *s,
                                     const void *const *keys, int32_t head,
                                     int64_t position, int64_t rows,
                                     size_t *offset, int *element,
                                     const void **ready) {
  const og_attention_args *a = r->args;
  const int own = og_cache_element(a);
  *offset = (size_t)(head * a->k_head) * og_element_bytes(own);
  *element = own;
  const int is_rope = a->pos_mode == OG_POS_ROPE;
  const int is_ready =
      rows <= s->kernels->dots_rows || s->kernels->is_bf16 || own == OG_F32;
  if (is_ready && !is_rope) return keys;
  for (int64_t j = 0; j < 4; ++j) {
    float *to = (float *)(void *)s->rotated + j * s->q_stride;
    r->rows->to_f32((const char *)keys[j] + *offset, to, a->dim_qk, own);
    if (is_rope) og_row_rotate(r, s, to, to, position + j, OG_F32);
    ready[j] = to;
  }
  *offset = 0;
  *element = OG_F32;
  return ready;
}

static void direct_logits(const og_runner *r, og_worker *s,
                          const og_plan_unit *unit, int32_t head_begin,
                          int32_t head_end, int64_t begin, int64_t n) {
  const og_attention_args *a = r->args;
  const int64_t rows = unit->row_count;
  const size_t es = og_element_bytes(og_cache_element(a));
  const int64_t q_bytes = s->q_stride * (s->kernels->is_bf16 ? 2 : 4);
  for (int64_t k = 0; k < n; k += 4)
    for (int32_t h = head_begin; h < head_end; ++h) {
      const og_rows_ahead values = {
          .rows = s->value_rows + k,
          .offset = (size_t)(h * a->v_head) * es,
          .bytes = a->dim_vo * (int64_t)es,
      };
      const void *ready[4];
      size_t offset;
      int element;
      const void *const *keys = keys_ready(r, s, s->key_rows + k, h, begin + k,
                                           rows, &offset, &element, ready);
      const int64_t at = (h - head_begin) * rows;
      s->kernels->dots(s->q + at * q_bytes, s->q_stride, rows, keys, offset,
                       a->dim_qk, s->s + at * DIRECT_BLOCK + k, DIRECT_BLOCK,
                       element, &values);
    }
}

enum { STEP = 8 };  // values that are added at a time

// The values of a step, `count` of which are keys'. Behind them are zeros:
// their weight is 0, but 0 times an infinity is a NaN.
static void step_fill(const void *const *rows, size_t offset, int64_t count,
                      const void **out) {
  for (int64_t i = 0; i < STEP; ++i)
    out[i] = i < count ? (const void *)((const char *)rows[i] + offset)
                       : og_zero_row;
}

// Adds the weighted values; meanwhile the next block's keys are fetched.
static void direct_values(const og_runner *r, og_worker *s,
                          const og_plan_unit *unit, int32_t head_begin,
                          int32_t head_end, int64_t n, int64_t next_count) {
  const og_attention_args *a = r->args;
  const int64_t rows = unit->row_count;
  const size_t es = og_element_bytes(og_cache_element(a));
  for (int64_t k = 0; k < n; k += STEP) {
    const int64_t left = n - k < STEP ? n - k : STEP;
    const int64_t count = og_round_up(left, 4);
    for (int32_t h = head_begin; h < head_end; ++h) {
      const int64_t at = (h - head_begin) * rows * DIRECT_BLOCK + k;
      const void *weights = s->kernels->is_bf16 ? (const void *)(s->p + at)
                                                : (const void *)(s->s + at);
      const og_rows_ahead keys = {
          .rows = s->key_rows + k,
          .offset = (size_t)(h * a->k_head) * es,
          .bytes = k + count <= next_count ? a->dim_qk * (int64_t)es : 0,
      };
      const void *step[STEP], *const *values = s->value_rows + k;
      size_t offset = (size_t)(h * a->v_head) * es;
      if (left < count) {
        step_fill(values, offset, left, step);
        values = step;
        offset = 0;
      }
      s->kernels->add_values(weights, DIRECT_BLOCK, rows, values, count, offset,
                             a->dim_vo,
                             s->o + (h - head_begin) * rows * s->o_stride,
                             s->o_stride, og_cache_element(a), &keys);
    }
  }
}

static void direct_softmax(const og_runner *r, og_worker *s,
                           const og_plan_unit *unit, int32_t head_begin,
                           int32_t head_end, int64_t begin, int64_t end) {
  const int64_t rows = unit->row_count, all = (head_end - head_begin) * rows;
  int64_t i = 0, done = 0;
  int32_t head = head_begin;
  og_softmax_rows batch;
  for (int64_t at = 0; at < all; ++at) {
    float *logits = s->s + at * DIRECT_BLOCK;
    for (int64_t k = end - begin; k < DIRECT_BLOCK; ++k) logits[k] = 0;
    og_softmax_row_fill(r, &batch, at - done, unit, unit->row_begin + i, head,
                        begin, end);
    if (++i == rows) i = 0, ++head;
    if (at + 1 < all && at + 1 - done < SOFTMAX_ROWS) continue;
    og_softmax_run(r, s, unit, &batch, at + 1 - done, done,
                   s->s + done * DIRECT_BLOCK,
                   s->kernels->is_bf16 ? s->p + done * DIRECT_BLOCK : NULL,
                   DIRECT_BLOCK, DIRECT_BLOCK);
    done = at + 1;
  }
}

static void direct_block(const og_runner *r, og_worker *s,
                         const og_plan_unit *unit, int32_t head_begin,
                         int32_t head_end, int64_t begin, int64_t end) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t n = end - begin, padded = og_round_up(n, 4);
  og_rows_find(r, request, 0, begin, end, s->key_rows, s->value_rows);
  for (int64_t i = n; i < padded; ++i) {
    s->key_rows[i] = s->key_rows[n - 1];  // masked: any key of the request
    s->value_rows[i] = s->value_rows[n - 1];
  }
  direct_logits(r, s, unit, head_begin, head_end, begin, padded);
  direct_softmax(r, s, unit, head_begin, head_end, begin, end);
  const int64_t next_end =
      end + DIRECT_BLOCK < unit->kv_end ? end + DIRECT_BLOCK : unit->kv_end;
  og_rows_find(r, request, 0, end, next_end, s->key_rows,
               s->key_rows + BLOCK / 2);
  direct_values(r, s, unit, head_begin, head_end, n, next_end - end);
}

void og_direct_item(const og_runner *r, const og_plan_unit *unit, int32_t head,
                    int32_t worker) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t rows = unit->row_count;
  const int32_t head_end = og_heads_end(r, unit, head);
  og_worker s = og_worker_of(r, worker, (head_end - head) * rows, 0);
  for (int32_t h = head; h < head_end; ++h)
    og_queries_load(r, &s, request, unit->row_begin, rows, h,
                    (h - head) * rows);
  memset(s.o, 0, (size_t)((head_end - head) * rows * s.o_stride) * 4);
  int64_t begin = unit->kv_begin;
  while (begin < unit->kv_end) {
    const int64_t next = (begin / DIRECT_BLOCK + 1) * DIRECT_BLOCK;
    const int64_t end = next < unit->kv_end ? next : unit->kv_end;
    direct_block(r, &s, unit, head, head_end, begin, end);
    begin = end;
  }
  for (int32_t h = head; h < head_end; ++h)
    og_results_store(r, &s, unit, h, 0, rows, (h - head) * rows);
}
