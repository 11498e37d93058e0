// SPDX-License-Identifier: Apache-2.0
// What the forms of decode attention have in common: a plan in the device's
// memory, the places of keys and results.

#ifndef OG_OPS_CUDA_DECODE_UNIT_H
#define OG_OPS_CUDA_DECODE_UNIT_H

#define OG_THREADS_MAX 128
#include <opgraft/cuda_kernel.h>

#include "decode_args.h"
#include "kernel/plan_layout.h"

// --- The plan

typedef struct plan_view {
  const og_plan_header *header;
  const og_plan_request *requests;
  const og_plan_unit *units;
  const og_plan_merge *merges;
} plan_view;

OG_FN plan_view plan_read(const decode_args *a) {
  plan_view p;
  const og_plan_header *h = (const og_plan_header *)a->plan;
  p.header = h;
  // Without &&, so that the loads do not wait for one another.
  const int is_plan = (h->magic == OG_PLAN_MAGIC) &
                      (h->version == OG_PLAN_VERSION) &
                      (h->size_bytes <= a->plan_bytes);
  const int is_same = (h->q_heads == a->q_heads) &
                      (h->kv_heads == a->kv_heads) & (h->dim_qk == a->dim_qk) &
                      (h->dim_vo == a->dim_vo) & (h->page_size == a->page_size);
  const int64_t rows = a->page_size > 0 ? a->index_count : a->kv_rows;
  const int is_within = (h->q_rows <= a->q_rows) & (h->kv_rows <= rows);
  const int has_room = h->split_bytes <= a->partial_bytes;
  OG_REQUIRE(is_plan,
             "batch_decode: plan is not a plan, or is cut short; make it anew "
             "with attention_plan");
  OG_REQUIRE(is_same,
             "batch_decode: plan was made for other heads, head sizes or "
             "pages than q, k and v have");
  OG_REQUIRE(is_within,
             "batch_decode: plan was made for more rows or pages than q, k "
             "and v have");
  OG_REQUIRE(has_room,
             "batch_decode: plan splits keys and needs more split_bytes, "
             "which attention_plan_info gives");
  p.requests = (const og_plan_request *)(h + 1);
  p.units = (const og_plan_unit *)(p.requests + h->batch);
  p.merges =
      (const og_plan_merge *)((const og_plan_item *)(p.units + h->unit_count) +
                              h->item_count);
  return p;
}

// A unit's rows [first, first + count) against one KV head.
typedef struct decode_work {
  const og_plan_request *request;
  int32_t first, count;
  int32_t kv_begin, kv_end;
  int64_t slot;  // of the first row's partial result, -1: final
  int32_t head;
} decode_work;

// Packed rows are token * group + query head in the group.
OG_FN int64_t work_token(const decode_args *a, const decode_work *w, int r) {
  const int32_t group = a->q_heads / a->kv_heads;
  return w->request->q_begin + (w->first + r) / group;
}

OG_FN int32_t work_q_head(const decode_args *a, const decode_work *w, int r) {
  const int32_t group = a->q_heads / a->kv_heads;
  return w->head * group + (w->first + r) % group;
}

// The keys [lo, hi) that a row sees; none where the unit lacks the row.
OG_FN void row_keys(const decode_args *a, const og_plan_header *h,
                    const decode_work *w, int r, int32_t *out_lo,
                    int32_t *out_hi) {
  const int64_t in_request = work_token(a, w, r) - w->request->q_begin;
  const int64_t position = in_request + w->request->kv_len - w->request->q_len;
  const int64_t left = position - h->window_left;
  *out_lo = h->window_left >= 0 && left > 0 ? (int32_t)left : 0;
  *out_hi = h->causal && position + 1 < w->request->kv_len
                ? (int32_t)(position + 1)
                : w->request->kv_len;
  if (r >= w->count) *out_hi = 0;
}

// --- Places

// Where key `key` of the request lies, in elements.
OG_FN void key_find(const decode_args *a, const decode_work *w, int32_t key,
                    int64_t *out_k, int64_t *out_v) {
  int64_t page = 0, token = w->request->kv_begin + (int64_t)key;
  if (a->page_size > 0) {
    const int32_t entry = (int32_t)((uint32_t)key / (uint32_t)a->page_size);
    page = a->indices[w->request->kv_begin + (int64_t)entry];
    token = key - entry * a->page_size;
    OG_REQUIRE(page >= 0 && page < a->kv_rows,
               "batch_decode: paged_kv_indices has a page that the cache has "
               "not");
  }
  *out_k = page * a->k_page + token * a->k_token + w->head * a->k_head;
  *out_v = page * a->v_page + token * a->v_token + w->head * a->v_head;
}

OG_FN void result_store(const decode_args *a, const decode_work *w, int r,
                        int d, float value, float lse, int64_t slot_count,
                        int element) {
  if (w->slot >= 0) {
    const int64_t slot = (w->slot + r) * a->kv_heads + w->head;
    a->partial[slot * a->dim_vo + d] = value;
    if (d == 0) a->partial[slot_count * a->kv_heads * a->dim_vo + slot] = lse;
    return;
  }
  const int64_t row = work_token(a, w, r) * a->q_heads + work_q_head(a, w, r);
  og_element_store(a->out, row * a->dim_vo + d, value, element);
  if (d == 0) a->lse[row] = a->is_natural ? lse * 0.69314718056f : lse;
}

#endif  // OG_OPS_CUDA_DECODE_UNIT_H
