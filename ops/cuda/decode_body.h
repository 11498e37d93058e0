// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows against many keys, by a plan in the device's
// memory: a block has a unit of the plan and a KV head, and reads each of its
// keys and values once for up to ROWS_MAX query rows, or by tensor cores for 8
// or 16 (decode_mma.h).
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

#include "decode_mma.h"
#include "decode_unit.h"

enum {
  ROWS_MAX = 8,
  KEYS = 4,  // of a group, at a time
  TILE = DECODE_THREADS,
  MERGE_LOADS = 32,    // parts of an element that are loaded at once
  MERGE_ELEMENTS = 2,  // of a thread: a head has 256 at most
};

// --- Keys to logits, values to sums

// What a block's threads keep of a unit.
typedef struct decode_rows {
  float q[ROWS_MAX][8], o[ROWS_MAX][8];
  float top[ROWS_MAX], sum[ROWS_MAX];
  int32_t lo[ROWS_MAX], hi[ROWS_MAX];  // keys that each row sees
} decode_rows;

OG_FN void rows_begin(const decode_args *a, const og_plan_header *h,
                      const decode_work *w, decode_rows *mine, int lane,
                      int rows, int element) {
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
    row_keys(a, h, w, r, &mine->lo[r], &mine->hi[r]);
  }
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
OG_FN void tile_run(const decode_args *a, decode_rows *mine,
                    const int64_t *k_at, const int64_t *v_at, int32_t first,
                    int32_t count, int rows, int element) {
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
                OG_OWN(mine, t).lo[r], OG_OWN(mine, t).hi[r]);
    }
  }
}

// --- Results

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
    rows_begin(a, h, w, &OG_OWN(mine, t), (int)t & (a->lanes - 1), rows,
               element);
  }
  for (int32_t first = w->kv_begin; first < w->kv_end; first += TILE) {
    const int32_t left = w->kv_end - first, count = left < TILE ? left : TILE;
    OG_EACH_THREAD(t) {
      if ((int32_t)t < count)
        key_find(a, w, first + (int32_t)t, &k_at[t], &v_at[t]);
    }
    OG_BARRIER();
    tile_run(a, mine, k_at, v_at, first, count, rows, element);
    OG_BARRIER();
  }
  rows_end(a, w, mine, h->slot_count, rows, element);
}

// width: of heads whose products tensor cores make, 0: CUDA cores do.
OG_FN void unit_run(const decode_args *a, const plan_view *p,
                    const og_plan_unit *unit, int32_t head, int rows, int width,
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
    if (width == 0)
      work_run(a, h, &w, rows, element);
    else
      mma_run(a, h, &w, rows, width, element);
  }
}

OG_FN void units_run(const decode_args *a, int rows, int width, int element) {
  const plan_view p = plan_read(a);
  const int64_t total = (int64_t)p.header->unit_count * a->kv_heads;
  for (int64_t i = OG_BLOCK_X; i < total; i += OG_GRID_X) {
    const int64_t unit = og_divide(i, a->kv_heads);
    unit_run(a, &p, &p.units[unit], (int32_t)(i - unit * a->kv_heads), rows,
             width, element);
  }
}

// One element of one row, over `count` parts of a merge from `slot` on, whose
// weights are at hand.
OG_FN float merge_parts(const decode_args *a, const float *weights,
                        int64_t slot, int64_t step, int32_t count, int d) {
  float value = 0;
  for (int32_t i = 0; i < count; i += MERGE_LOADS) {
    float parts[MERGE_LOADS];
    OG_UNROLL
    for (int j = 0; j < MERGE_LOADS; ++j) {
      const int32_t at = i + j < count ? i + j : count - 1;
      parts[j] = a->partial[(slot + at * step) * a->dim_vo + d];
    }
    OG_UNROLL
    for (int j = 0; j < MERGE_LOADS; ++j)
      if (i + j < count) value += weights[i + j] * parts[j];
  }
  return value;
}

// What a thread keeps of a row: two elements, as many as a head has at most.
typedef struct merge_row {
  float top, sum, value[MERGE_ELEMENTS];
} merge_row;

// DECODE_THREADS parts more, whose logarithms are `lses`, which then holds
// their weights.
OG_FN void merge_add(const decode_args *a, merge_row *mine, float *lses,
                     int64_t slot, int64_t step, int32_t count) {
  OG_PRIVATE(float, base);
  OG_EACH_THREAD(t) {
    merge_row *own = &OG_OWN(mine, t);
    float top = own->top;
    for (int32_t i = 0; i < count; ++i) top = lses[i] > top ? lses[i] : top;
    OG_OWN(base, t) = top == -og_infinity() ? 0 : top;
    const float factor = exp2f(own->top - OG_OWN(base, t));
    own->top = top;
    own->sum *= factor;
    OG_UNROLL
    for (int e = 0; e < MERGE_ELEMENTS; ++e) own->value[e] *= factor;
  }
  OG_BARRIER();
  OG_EACH_THREAD(t) {
    if ((int32_t)t < count) lses[t] = exp2f(lses[t] - OG_OWN(base, t));
  }
  OG_BARRIER();
  OG_EACH_THREAD(t) {
    merge_row *own = &OG_OWN(mine, t);
    for (int32_t i = 0; i < count; ++i) own->sum += lses[i];
    OG_UNROLL
    for (int e = 0; e < MERGE_ELEMENTS; ++e) {
      const int d = (int)t + e * DECODE_THREADS;
      if (d < a->dim_vo)
        own->value[e] += merge_parts(a, lses, slot, step, count, d);
    }
  }
}

OG_FN void merge_run(const decode_args *a, const og_plan_header *h,
                     const og_plan_merge *m, const decode_work *w,
                     int element) {
  OG_SHARED(float, lses, DECODE_THREADS);
  OG_PRIVATE(merge_row, mine);
  const int64_t slots = (int64_t)h->slot_count * a->kv_heads;
  const float *from = a->partial + slots * a->dim_vo;
  const int64_t first =
      ((int64_t)m->slot + w->first - m->row_begin) * a->kv_heads + w->head;
  const int64_t step = (int64_t)m->row_count * a->kv_heads;
  OG_EACH_THREAD(t) {
    merge_row *own = &OG_OWN(mine, t);
    own->top = -og_infinity();
    own->sum = 0;
    OG_UNROLL
    for (int e = 0; e < MERGE_ELEMENTS; ++e) own->value[e] = 0;
  }
  for (int32_t i = 0; i < m->split_count; i += DECODE_THREADS) {
    const int32_t left = m->split_count - i;
    const int32_t count = left < DECODE_THREADS ? left : DECODE_THREADS;
    OG_EACH_THREAD(t) {
      if ((int32_t)t < count) lses[t] = from[first + (i + (int32_t)t) * step];
    }
    OG_BARRIER();
    merge_add(a, mine, lses, first + i * step, step, count);
    OG_BARRIER();
  }
  OG_EACH_THREAD(t) {
    const merge_row *own = &OG_OWN(mine, t);
    const float sum = own->sum;
    OG_UNROLL
    for (int e = 0; e < MERGE_ELEMENTS; ++e) {
      const int d = (int)t + e * DECODE_THREADS;
      if (d < a->dim_vo)
        result_store(a, w, 0, d, sum > 0 ? own->value[e] / sum : 0,
                     sum > 0 ? own->top + log2f(sum) : -og_infinity(), 0,
                     element);
    }
  }
}

// A block has every group-th row of a merge.
OG_FN void merges_run(const decode_args *a, int element) {
  const plan_view p = plan_read(a);
  const og_plan_header *h = p.header;
  const int32_t group = a->q_heads / a->kv_heads;
  const int64_t total = (int64_t)h->merge_count * a->q_heads;
  for (int64_t i = OG_BLOCK_X; i < total; i += OG_GRID_X) {
    const int64_t merge = og_divide(i, a->q_heads);
    const og_plan_merge *m = &p.merges[merge];
    const int32_t q_head = (int32_t)(i - merge * a->q_heads);
    OG_REQUIRE(
        m->request >= 0 && m->request < h->batch && m->slot >= 0 &&
            (int64_t)m->row_count * m->split_count <= h->slot_count - m->slot,
        "batch_decode: plan was changed after it was made");
    decode_work w;
    w.request = &p.requests[m->request];
    w.head = q_head / group;
    w.slot = -1;
    for (int32_t row = q_head % group; row < m->row_count; row += group) {
      w.first = m->row_begin + row;
      merge_run(a, h, m, &w, element);
    }
  }
}

// The kernels of one type: by how many rows read a key at once, and the merge.
#define DECODE_KERNELS(type, element)                 \
  OG_KERNEL(decode_1_##type, decode_args, args) {     \
    units_run(&args, 1, 0, element);                  \
  }                                                   \
  OG_KERNEL(decode_4_##type, decode_args, args) {     \
    units_run(&args, 4, 0, element);                  \
  }                                                   \
  OG_KERNEL(decode_8_##type, decode_args, args) {     \
    units_run(&args, 8, 0, element);                  \
  }                                                   \
  OG_KERNEL(decode_merge_##type, decode_args, args) { \
    merges_run(&args, element);                       \
  }

// Those of tensor cores, by rows and head size. Where a device lacks such
// products, CUDA cores take half of the rows at a time.
#if OG_HAS_MMA
#define DECODE_MMA_RUN(rows, width, element) \
  units_run(&args, rows, width, element)
#else
#define DECODE_MMA_RUN(rows, width, element) \
  units_run(&args, (rows) / 2, 0, element)
#endif
#define DECODE_MMA_KERNELS(type, element)                  \
  OG_KERNEL(decode_mma_8_64_##type, decode_args, args) {   \
    DECODE_MMA_RUN(8, 64, element);                        \
  }                                                        \
  OG_KERNEL(decode_mma_8_128_##type, decode_args, args) {  \
    DECODE_MMA_RUN(8, 128, element);                       \
  }                                                        \
  OG_KERNEL(decode_mma_16_64_##type, decode_args, args) {  \
    DECODE_MMA_RUN(16, 64, element);                       \
  }                                                        \
  OG_KERNEL(decode_mma_16_128_##type, decode_args, args) { \
    DECODE_MMA_RUN(16, 128, element);                      \
  }

#endif  // OG_OPS_CUDA_DECODE_BODY_H
