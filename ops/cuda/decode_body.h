// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows against many keys, by a plan in the device's
// memory: a block has a unit of the plan and a KV head, and reads each of its
// keys and values once for up to ROWS_MAX query rows.
//
// `lanes` threads have a key, eight elements each. The groups of lanes that a
// block holds take different keys and have a softmax of their own, which are
// merged at the unit's end; units that split the keys of a request are merged
// by decode_merge.
//
// Source: Flash-Decoding (Dao et al., 2023), FlashInfer (Ye et al., 2025), the
// online softmax of Milakov and Gimelshein, 2018.

#ifndef OG_OPS_CUDA_DECODE_BODY_H
#define OG_OPS_CUDA_DECODE_BODY_H

#define OG_THREADS_MAX 128
#include <opgraft/cuda_kernel.h>

#include "decode_args.h"
#include "kernel/plan_layout.h"

enum {
  ROWS_MAX = 8,
  KEYS = 4,  // of a group, at a time
  TILE = DECODE_THREADS,
};

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
  OG_REQUIRE(h->magic == OG_PLAN_MAGIC && h->version == OG_PLAN_VERSION &&
                 h->size_bytes <= a->plan_bytes,
             "batch_decode: plan is not a plan, or is cut short; make it anew "
             "with attention_plan");
  OG_REQUIRE(h->q_heads == a->q_heads && h->kv_heads == a->kv_heads &&
                 h->dim_qk == a->dim_qk && h->dim_vo == a->dim_vo &&
                 h->page_size == a->page_size,
             "batch_decode: plan was made for other heads, head sizes or "
             "pages than q, k and v have");
  OG_REQUIRE(h->q_rows <= a->q_rows &&
                 h->kv_rows <= (a->page_size > 0 ? a->index_count : a->kv_rows),
             "batch_decode: plan was made for more rows or pages than q, k "
             "and v have");
  OG_REQUIRE(h->split_bytes <= a->partial_bytes,
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
  int32_t lo[ROWS_MAX], hi[ROWS_MAX];  // keys that each row sees
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

OG_FN void work_keys(const decode_args *a, const og_plan_header *h,
                     decode_work *w, int rows) {
  OG_UNROLL
  for (int r = 0; r < rows; ++r) {
    const int64_t in_request = work_token(a, w, r) - w->request->q_begin;
    const int64_t position =
        in_request + w->request->kv_len - w->request->q_len;
    const int64_t left = position - h->window_left;
    w->lo[r] = h->window_left >= 0 && left > 0 ? (int32_t)left : 0;
    w->hi[r] = h->causal && position + 1 < w->request->kv_len
                   ? (int32_t)(position + 1)
                   : w->request->kv_len;
    if (r >= w->count) w->hi[r] = 0;
  }
}

// --- Keys to logits, values to sums

// What a block's threads keep of a unit.
typedef struct decode_rows {
  float q[ROWS_MAX][8], o[ROWS_MAX][8];
  float top[ROWS_MAX], sum[ROWS_MAX];
} decode_rows;

OG_FN void rows_begin(const decode_args *a, const decode_work *w,
                      decode_rows *mine, int lane, int rows, int element) {
  OG_UNROLL
  for (int r = 0; r < rows; ++r) {
    const int64_t at = work_token(a, w, r) * a->q_row +
                       work_q_head(a, w, r) * a->q_head + lane * OG_PIECE;
    const int64_t count = r < w->count ? a->dim_qk - lane * OG_PIECE : 0;
    og_piece_floats(og_piece_get(a->q, at, count, a->is_aligned, element),
                    element, mine->q[r]);
    OG_UNROLL
    for (int j = 0; j < 8; ++j) {
      mine->q[r][j] *= a->q_scale;
      mine->o[r][j] = 0;
    }
    mine->top[r] = -og_infinity();
    mine->sum[r] = 0;
  }
}

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

OG_FN float dot(const float a[8], const float b[8]) {
  float sum = a[0] * b[0];
  OG_UNROLL
  for (int j = 1; j < 8; ++j) sum += a[j] * b[j];
  return sum;
}

// One row's softmax over KEYS more keys.
OG_FN void row_add(const decode_args *a, decode_rows *mine, int r,
                   const float *logits, int stride, const int32_t key[KEYS],
                   const float v[KEYS][8], int32_t lo, int32_t hi) {
  float s[KEYS], top = mine->top[r];
  OG_UNROLL
  for (int k = 0; k < KEYS; ++k) {
    s[k] = logits[k * stride + r];
    if (a->soft_cap > 0) s[k] = a->soft_cap * tanhf(s[k]);
    if (key[k] < lo || key[k] >= hi) s[k] = -og_infinity();
    if (s[k] > top) top = s[k];
  }
  const float base = top == -og_infinity() ? 0 : top;
  const float factor = exp2f(mine->top[r] - base);
  float sum = mine->sum[r] * factor;
  OG_UNROLL
  for (int j = 0; j < 8; ++j) mine->o[r][j] *= factor;
  OG_UNROLL
  for (int k = 0; k < KEYS; ++k) {
    const float p = exp2f(s[k] - base);
    sum += p;
    OG_UNROLL
    for (int j = 0; j < 8; ++j) mine->o[r][j] += p * v[k][j];
  }
  mine->top[r] = top;
  mine->sum[r] = sum;
}

// The keys whose places are in k_at and v_at, `count` from `first` on.
OG_FN void tile_run(const decode_args *a, const decode_work *w,
                    decode_rows *mine, const int64_t *k_at, const int64_t *v_at,
                    int32_t first, int32_t count, int rows, int element) {
  OG_PRIVATE_ARRAY(float, logits, KEYS *ROWS_MAX);
  OG_PRIVATE_ARRAY(og_piece, values, KEYS);
  const int lanes = a->lanes, groups = DECODE_THREADS / lanes;
  for (int32_t step = 0; step < count; step += groups * KEYS) {
    OG_EACH_THREAD(t) {
      const int lane = (int)t & (lanes - 1), group = (int)t / lanes;
      og_piece keys[KEYS];
      OG_UNROLL
      for (int k = 0; k < KEYS; ++k) {
        const int32_t i = step + k * groups + group;
        const int at = i < count ? i : 0;
        const int64_t k_left = i < count ? a->dim_qk - lane * OG_PIECE : 0;
        const int64_t v_left = i < count ? a->dim_vo - lane * OG_PIECE : 0;
        keys[k] = og_piece_get(a->k, k_at[at] + lane * OG_PIECE, k_left,
                               a->is_aligned, element);
        OG_OWN(values, t)
        [k] = og_piece_get(a->v, v_at[at] + lane * OG_PIECE, v_left,
                           a->is_aligned, element);
      }
      OG_UNROLL
      for (int k = 0; k < KEYS; ++k) {
        float x[8];
        og_piece_floats(keys[k], element, x);
        OG_UNROLL
        for (int r = 0; r < rows; ++r)
          OG_OWN(logits, t)[k * rows + r] = dot(OG_OWN(mine, t).q[r], x);
      }
    }
    og_lanes_sum(&logits[0][0], KEYS * ROWS_MAX, (unsigned)(KEYS * rows),
                 (unsigned)lanes);
    OG_EACH_THREAD(t) {
      float v[KEYS][8];
      int32_t key[KEYS];
      OG_UNROLL
      for (int k = 0; k < KEYS; ++k) {
        const int32_t i = step + k * groups + (int32_t)t / lanes;
        key[k] = i < count ? first + i : INT32_MAX;
        og_piece_floats(OG_OWN(values, t)[k], element, v[k]);
      }
      OG_UNROLL
      for (int r = 0; r < rows; ++r)
        row_add(a, &OG_OWN(mine, t), r, OG_OWN(logits, t), rows, key, v,
                w->lo[r], w->hi[r]);
    }
  }
}

// --- Results

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

// The softmaxes of the groups into one.
OG_FN void rows_end(const decode_args *a, const decode_work *w,
                    const decode_rows *mine, int64_t slot_count, int rows,
                    int element) {
  OG_SHARED(float, tops, DECODE_THREADS);
  OG_SHARED(float, sums, DECODE_THREADS);
  OG_SHARED(float, parts, DECODE_THREADS * 8);
  const int lanes = a->lanes, groups = DECODE_THREADS / lanes;
  OG_UNROLL
  for (int r = 0; r < rows; ++r) {
    OG_EACH_THREAD(t) {
      const decode_rows *own = &OG_OWN(mine, t);
      if ((int)t % lanes == 0) {
        tops[(int)t / lanes] = own->top[r];
        sums[(int)t / lanes] = own->sum[r];
      }
      OG_UNROLL
      for (int j = 0; j < 8; ++j) parts[t * 8 + (unsigned)j] = own->o[r][j];
    }
    OG_BARRIER();
    OG_EACH_THREAD(t) {
      float top = -og_infinity(), sum = 0;
      for (int g = 0; g < groups; ++g) top = tops[g] > top ? tops[g] : top;
      const float base = top == -og_infinity() ? 0 : top;
      for (int g = 0; g < groups; ++g) sum += sums[g] * exp2f(tops[g] - base);
      const float factor = sum > 0 ? 1 / sum : 0;
      const float lse = sum > 0 ? base + log2f(sum) : -og_infinity();
      for (int d = (int)t; d < a->dim_vo && r < w->count; d += DECODE_THREADS) {
        float value = 0;
        for (int g = 0; g < groups; ++g)
          value += parts[g * lanes * 8 + d] * exp2f(tops[g] - base);
        result_store(a, w, r, d, value * factor, lse, slot_count, element);
      }
    }
    OG_BARRIER();
  }
}

// --- Kernels

OG_FN void work_run(const decode_args *a, const og_plan_header *h,
                    const decode_work *w, int rows, int element) {
  OG_SHARED(int64_t, k_at, TILE);
  OG_SHARED(int64_t, v_at, TILE);
  OG_PRIVATE(decode_rows, mine);
  OG_EACH_THREAD(t) {
    rows_begin(a, w, &OG_OWN(mine, t), (int)t & (a->lanes - 1), rows, element);
  }
  for (int32_t first = w->kv_begin; first < w->kv_end; first += TILE) {
    const int32_t left = w->kv_end - first, count = left < TILE ? left : TILE;
    OG_EACH_THREAD(t) {
      if ((int32_t)t < count)
        key_find(a, w, first + (int32_t)t, &k_at[t], &v_at[t]);
    }
    OG_BARRIER();
    tile_run(a, w, mine, k_at, v_at, first, count, rows, element);
    OG_BARRIER();
  }
  rows_end(a, w, mine, h->slot_count, rows, element);
}

OG_FN void unit_run(const decode_args *a, const plan_view *p,
                    const og_plan_unit *unit, int32_t head, int rows,
                    int element) {
  const og_plan_header *h = p->header;
  OG_REQUIRE(
      unit->request >= 0 && unit->request < h->batch && unit->slot >= -1 &&
          (unit->slot < 0 || unit->row_count <= h->slot_count - unit->slot),
      "batch_decode: plan was changed after it was made");
  decode_work w;
  w.request = &p->requests[unit->request];
  w.head = head;
  w.kv_begin = unit->kv_begin;
  w.kv_end = unit->kv_end;
  OG_REQUIRE(w.kv_begin >= 0 && w.kv_end <= w.request->kv_len &&
                 w.request->q_begin >= 0 &&
                 w.request->q_len <= h->q_rows - w.request->q_begin,
             "batch_decode: plan was changed after it was made");
  for (int32_t row = 0; row < unit->row_count; row += rows) {
    const int32_t left = unit->row_count - row;
    w.first = unit->row_begin + row;
    w.count = left < rows ? left : rows;
    w.slot = unit->slot < 0 ? -1 : unit->slot + row;
    work_keys(a, h, &w, rows);
    work_run(a, h, &w, rows, element);
  }
}

OG_FN void units_run(const decode_args *a, int rows, int element) {
  const plan_view p = plan_read(a);
  const int64_t total = (int64_t)p.header->unit_count * a->kv_heads;
  for (int64_t i = OG_BLOCK_X; i < total; i += OG_GRID_X) {
    const int64_t unit = og_divide(i, a->kv_heads);
    unit_run(a, &p, &p.units[unit], (int32_t)(i - unit * a->kv_heads), rows,
             element);
  }
}

// One element of one row, over the parts of a merge.
OG_FN void merge_element(const decode_args *a, const og_plan_header *h,
                         const og_plan_merge *m, const decode_work *w, int d,
                         int element) {
  const int64_t slots = (int64_t)h->slot_count * a->kv_heads;
  const float *lses = a->partial + slots * a->dim_vo;
  const int64_t first =
      ((int64_t)m->slot + w->first - m->row_begin) * a->kv_heads + w->head;
  const int64_t step = (int64_t)m->row_count * a->kv_heads;
  float top = -og_infinity(), sum = 0, value = 0;
  for (int32_t i = 0; i < m->split_count; ++i) {
    const float lse = lses[first + i * step];
    top = lse > top ? lse : top;
  }
  const float base = top == -og_infinity() ? 0 : top;
  for (int32_t i = 0; i < m->split_count; ++i) {
    const int64_t slot = first + i * step;
    const float weight = exp2f(lses[slot] - base);
    sum += weight;
    value += weight * a->partial[slot * a->dim_vo + d];
  }
  result_store(a, w, 0, d, sum > 0 ? value / sum : 0,
               sum > 0 ? base + log2f(sum) : -og_infinity(), 0, element);
}

OG_FN void merge_run(const decode_args *a, const plan_view *p,
                     const og_plan_merge *m, int32_t head, unsigned t,
                     int element) {
  const og_plan_header *h = p->header;
  OG_REQUIRE(
      m->request >= 0 && m->request < h->batch && m->slot >= 0 &&
          (int64_t)m->row_count * m->split_count <= h->slot_count - m->slot,
      "batch_decode: plan was changed after it was made");
  decode_work w;
  w.request = &p->requests[m->request];
  w.head = head;
  w.slot = -1;
  for (int32_t row = 0; row < m->row_count; ++row) {
    w.first = m->row_begin + row;
    for (int d = (int)t; d < a->dim_vo; d += DECODE_THREADS)
      merge_element(a, h, m, &w, d, element);
  }
}

OG_FN void merges_run(const decode_args *a, int element) {
  const plan_view p = plan_read(a);
  const int64_t total = (int64_t)p.header->merge_count * a->kv_heads;
  for (int64_t i = OG_BLOCK_X; i < total; i += OG_GRID_X) {
    const int64_t merge = og_divide(i, a->kv_heads);
    OG_EACH_THREAD(t) {
      merge_run(a, &p, &p.merges[merge], (int32_t)(i - merge * a->kv_heads), t,
                element);
    }
  }
}

// The kernels of one type: by how many rows read a key at once, and the merge.
#define DECODE_KERNELS(type, element)                 \
  OG_KERNEL(decode_1_##type, decode_args, args) {     \
    units_run(&args, 1, element);                     \
  }                                                   \
  OG_KERNEL(decode_4_##type, decode_args, args) {     \
    units_run(&args, 4, element);                     \
  }                                                   \
  OG_KERNEL(decode_8_##type, decode_args, args) {     \
    units_run(&args, 8, element);                     \
  }                                                   \
  OG_KERNEL(decode_merge_##type, decode_args, args) { \
    merges_run(&args, element);                       \
  }

#endif  // OG_OPS_CUDA_DECODE_BODY_H
