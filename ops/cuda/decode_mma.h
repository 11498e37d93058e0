// SPDX-License-Identifier: Apache-2.0
// Attention of the query rows that share a KV head, by tensor cores: 8 or 16
// rows of 16-bit elements, head sizes 64 and 128.
//
// A warp has 16 keys at a time. S^T = K Q^T has a row for each key and a column
// for each query row, O^T += V^T P^T a row for each element of a head. Threads
// read keys and values from global memory, 16 bytes at once, where the products
// want them: a sum may go over a head's elements in any order, and so may the
// rows of O^T. Thread (g, c) of a warp, g = lane / 4 and c = lane % 4, has of
// keys g and g + 8 the elements 32 i + 8 c .. + 7, of the values of keys 2c,
// 2c + 1, 2c + 8 and 2c + 9 the elements 64 i + 8 g .. + 7. P is rounded to the
// type of v. Each warp has a softmax of its own, which are merged at the end.
//
// Source: FlashAttention-2 (Dao, 2023), PTX ISA.

#ifndef OG_OPS_CUDA_DECODE_MMA_H
#define OG_OPS_CUDA_DECODE_MMA_H

#include "decode_unit.h"
#include "warp_mma.h"

enum {
  MMA_WARPS = DECODE_THREADS / 32,
  MMA_KEYS = 16 * MMA_WARPS,  // of a block, at a time
  MMA_TILE = 4 * MMA_KEYS,    // keys whose places are found at once
  MMA_WIDTH = 128,            // of a head, at most
  MMA_TILES = MMA_WIDTH / 16,
};

// What a thread keeps of a unit, for up to two blocks of eight query rows.
typedef struct mma_rows {
  uint32_t q[2 * MMA_TILES * 2];  // of row g
  float o[2 * MMA_TILES * 4];     // of rows 2c and 2c + 1
  float top[4], sum[4];           // the same rows, a block's two together
  int32_t lo[4], hi[4];           // keys that they see
} mma_rows;

enum { MMA_STRIDE = sizeof(mma_rows) / sizeof(float) };

// Keys g, g + 8 and values 2c, 2c + 1, 2c + 8, 2c + 9 of a warp's 16.
typedef struct mma_loads {
  og_vec k[2][MMA_WIDTH / 32], v[4][MMA_WIDTH / 64];
} mma_loads;

OG_FN int mma_warp(unsigned t) { return (int)t / 32; }
OG_FN int mma_g(unsigned t) { return (int)t % 32 / 4; }
OG_FN int mma_c(unsigned t) { return (int)t % 4; }

OG_FN void mma_begin(const decode_args *a, const og_plan_header *h,
                     const decode_work *w, mma_rows *mine, unsigned t, int rows,
                     int width, int element) {
  OG_UNROLL
  for (int b = 0; b < rows / 8; ++b) {
    const int r = b * 8 + mma_g(t);
    const int64_t at = work_token(a, w, r) * a->q_row +
                       work_q_head(a, w, r) * a->q_head + mma_c(t) * OG_PIECE;
    OG_UNROLL
    for (int i = 0; i < width / 32; ++i) {
      const og_piece piece = og_piece_get(
          a->q, at + 32 * i, r < w->count ? OG_PIECE : 0, 1, element);
      OG_UNROLL
      for (int j = 0; j < 4; ++j)
        mine->q[(b * MMA_TILES + 2 * i) * 2 + j] = og_vec_word(piece.v[0], j);
    }
    OG_UNROLL
    for (int i = 0; i < width / 16 * 4; ++i) mine->o[b * MMA_TILES * 4 + i] = 0;
    OG_UNROLL
    for (int j = b * 2; j < b * 2 + 2; ++j) {
      mine->top[j] = -og_infinity();
      mine->sum[j] = 0;
      row_keys(a, h, w, b * 8 + 2 * mma_c(t) + j % 2, &mine->lo[j],
               &mine->hi[j]);
    }
  }
}

// A key past the last one is read as the last one, and masked later.
OG_FN void mma_load(const decode_args *a, const int64_t *k_at,
                    const int64_t *v_at, int32_t begin, int32_t count,
                    mma_loads *out, unsigned t, int width, int element) {
  const int32_t first = begin + mma_warp(t) * 16;
  OG_UNROLL
  for (int j = 0; j < 2; ++j) {
    const int32_t key = first + mma_g(t) + 8 * j;
    const int64_t at = k_at[key < count ? key : count - 1] + 8 * mma_c(t);
    OG_UNROLL
    for (int i = 0; i < width / 32; ++i)
      out->k[j][i] = og_piece_load(a->k, at + 32 * i, element).v[0];
  }
  OG_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int32_t key = first + 2 * mma_c(t) + j % 2 + j / 2 * 8;
    const int64_t at = v_at[key < count ? key : count - 1] + 8 * mma_g(t);
    OG_UNROLL
    for (int i = 0; i < width / 64; ++i)
      out->v[j][i] = og_piece_load(a->v, at + 64 * i, element).v[0];
  }
}

// s: of each block of rows, S^T of keys g, g and g + 8, g + 8 with rows 2c and
// 2c + 1.
OG_FN void mma_scores(const mma_rows *mine, const mma_loads *loads,
                      float (*s)[8], int rows, int width, int element) {
  OG_PRIVATE_ARRAY(uint32_t, keys, 4);
  OG_EACH_THREAD(t) {
    OG_UNROLL
    for (int i = 0; i < 8; ++i) OG_OWN(s, t)[i] = 0;
  }
  OG_UNROLL
  for (int i = 0; i < width / 16; ++i) {
    OG_EACH_THREAD(t) {
      OG_UNROLL
      for (int j = 0; j < 4; ++j) OG_OWN(keys, t)
      [j] = og_vec_word(OG_OWN(loads, t).k[j % 2][i / 2], i % 2 * 2 + j / 2);
    }
    OG_UNROLL
    for (int b = 0; b < rows / 8; ++b)
      og_mma_16x8x16(&s[0][b * 4], 8, &keys[0][0], 4,
                     &mine[0].q[(b * MMA_TILES + i) * 2], MMA_STRIDE, element);
  }
}

// Logits in base 2 of a thread's keys, masked, and the largest of each row.
OG_FN void mma_logits(const decode_args *a, const mma_rows *mine, float *s,
                      float *most, int32_t key, int32_t end, int rows) {
  OG_UNROLL
  for (int i = 0; i < rows / 2; ++i) {
    const int32_t at = key + i % 4 / 2 * 8;
    const int j = i / 4 * 2 + i % 2;
    float x = s[i] * a->q_scale;
    if (a->soft_cap > 0) x = a->soft_cap * tanhf(x);
    if (at >= end || at < mine->lo[j] || at >= mine->hi[j]) x = -og_infinity();
    s[i] = x;
    most[j] = i % 4 < 2 || x > most[j] ? x : most[j];
  }
}

// Logits to weights p, of keys g and of keys g + 8; what was summed up to now
// is scaled to the new largest.
OG_FN void mma_weights(mma_rows *mine, const float *s, const float *most,
                       uint32_t *p, int rows, int width, int element) {
  float x[8];
  OG_UNROLL
  for (int j = 0; j < rows / 4; ++j) {
    const float top = most[j] > mine->top[j] ? most[j] : mine->top[j];
    const float base = top == -og_infinity() ? 0 : top;
    const float factor = exp2f(mine->top[j] - base);
    const int at = j / 2 * 4 + j % 2;
    x[at] = exp2f(s[at] - base);
    x[at + 2] = exp2f(s[at + 2] - base);
    mine->top[j] = top;
    mine->sum[j] = mine->sum[j] * factor + x[at] + x[at + 2];
    OG_UNROLL
    for (int i = 0; i < width / 16; ++i) {
      float *o = &mine->o[(j / 2 * MMA_TILES + i) * 4 + j % 2];
      o[0] *= factor;
      o[2] *= factor;
    }
  }
  OG_UNROLL
  for (int i = 0; i < rows / 4; ++i) p[i] = og_floats_word(x + 2 * i, element);
}

OG_FN void mma_values(mma_rows *mine, const mma_loads *loads,
                      const uint32_t (*p)[4], int rows, int width,
                      int element) {
  OG_PRIVATE_ARRAY(uint32_t, values, 4);
  OG_UNROLL
  for (int i = 0; i < width / 16; ++i) {
    OG_EACH_THREAD(t) {
      OG_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int key = j / 2 * 2;
        OG_OWN(values, t)
        [j] = og_mma_pair(
            og_vec_word(OG_OWN(loads, t).v[key][i / 4], i % 4),
            og_vec_word(OG_OWN(loads, t).v[key + 1][i / 4], i % 4), j % 2);
      }
    }
    OG_UNROLL
    for (int b = 0; b < rows / 8; ++b)
      og_mma_16x8x16(&mine[0].o[(b * MMA_TILES + i) * 4], MMA_STRIDE,
                     &values[0][0], 4, &p[0][b * 2], 4, element);
  }
}

// Keys [begin, begin + MMA_KEYS) of a tile that has `count` from `first` on.
OG_FN void mma_step(const decode_args *a, mma_rows *mine, const int64_t *k_at,
                    const int64_t *v_at, int32_t first, int32_t begin,
                    int32_t count, int rows, int width, int element) {
  OG_PRIVATE(mma_loads, loads);
  OG_PRIVATE_ARRAY(float, s, 8);
  OG_PRIVATE_ARRAY(float, most, 4);
  OG_PRIVATE_ARRAY(uint32_t, p, 4);
  OG_EACH_THREAD(t) {
    mma_load(a, k_at, v_at, begin, count, &OG_OWN(loads, t), t, width, element);
  }
  mma_scores(mine, loads, s, rows, width, element);
  OG_EACH_THREAD(t) {
    mma_logits(a, &OG_OWN(mine, t), OG_OWN(s, t), OG_OWN(most, t),
               first + begin + mma_warp(t) * 16 + mma_g(t), first + count,
               rows);
  }
  og_mma_columns(&most[0][0], 4, (unsigned)rows / 4, 0);
  OG_EACH_THREAD(t) {
    mma_weights(&OG_OWN(mine, t), OG_OWN(s, t), OG_OWN(most, t), OG_OWN(p, t),
                rows, width, element);
  }
  OG_UNROLL
  for (int i = 0; i < rows / 4; ++i) og_mma_transpose(&p[0][i], 4);
  mma_values(mine, loads, p, rows, width, element);
}

// A block of eight rows of a warp, to where all threads can read it.
OG_FN void mma_share(const mma_rows *mine, int b, float *tops, float *sums,
                     float *parts, unsigned t, int width) {
  OG_UNROLL
  for (int j = 0; j < 2; ++j) {
    const int row = mma_warp(t) * 8 + 2 * mma_c(t) + j;
    float *part = &parts[row * width + 8 * mma_g(t)];
    if (mma_g(t) == 0) {
      tops[row] = mine->top[b * 2 + j];
      sums[row] = mine->sum[b * 2 + j];
    }
    OG_UNROLL
    for (int i = 0; i < width / 2 / 4; ++i)
      part[i / 8 * 64 + i % 8] =
          mine->o[(b * MMA_TILES + i / 2) * 4 + i % 2 * 2 + j];
  }
}

// The softmaxes of the warps into one.
OG_FN void mma_end(const decode_args *a, const decode_work *w, mma_rows *mine,
                   int64_t slot_count, int rows, int width, int element) {
  OG_SHARED(float, tops, MMA_WARPS * 8);
  OG_SHARED(float, sums, MMA_WARPS * 8);
  OG_SHARED(float, parts, MMA_WARPS * 8 * MMA_WIDTH);
  og_mma_columns(&mine[0].sum[0], MMA_STRIDE, (unsigned)rows / 4, 1);
  OG_UNROLL
  for (int b = 0; b < rows / 8; ++b) {
    OG_EACH_THREAD(t) {
      mma_share(&OG_OWN(mine, t), b, tops, sums, parts, t, width);
    }
    OG_BARRIER();
    OG_EACH_THREAD(t) {
      for (int i = (int)t; i < 8 * width; i += DECODE_THREADS) {
        const int row = i / width, d = i % width;
        float top = -og_infinity(), sum = 0, value = 0;
        for (int g = 0; g < MMA_WARPS; ++g)
          top = tops[g * 8 + row] > top ? tops[g * 8 + row] : top;
        const float base = top == -og_infinity() ? 0 : top;
        for (int g = 0; g < MMA_WARPS; ++g) {
          const float factor = exp2f(tops[g * 8 + row] - base);
          sum += sums[g * 8 + row] * factor;
          value += parts[(g * 8 + row) * width + d] * factor;
        }
        if (b * 8 + row < w->count)
          result_store(a, w, b * 8 + row, d, sum > 0 ? value / sum : 0,
                       sum > 0 ? base + log2f(sum) : -og_infinity(), slot_count,
                       element);
      }
    }
    OG_BARRIER();
  }
}

OG_FN void mma_run(const decode_args *a, const og_plan_header *h,
                   const decode_work *w, int rows, int width, int element) {
  OG_SHARED(int64_t, k_at, MMA_TILE);
  OG_SHARED(int64_t, v_at, MMA_TILE);
  OG_PRIVATE(mma_rows, mine);
  OG_EACH_THREAD(t) {
    mma_begin(a, h, w, &OG_OWN(mine, t), t, rows, width, element);
  }
  for (int32_t first = w->kv_begin; first < w->kv_end; first += MMA_TILE) {
    const int32_t left = w->kv_end - first;
    const int32_t count = left < MMA_TILE ? left : MMA_TILE;
    OG_EACH_THREAD(t) {
      for (int32_t i = (int32_t)t; i < count; i += DECODE_THREADS)
        key_find(a, w, first + i, &k_at[i], &v_at[i]);
    }
    OG_BARRIER();
    for (int32_t begin = 0; begin < count; begin += MMA_KEYS)
      mma_step(a, mine, k_at, v_at, first, begin, count, rows, width, element);
    OG_BARRIER();
  }
  mma_end(a, w, mine, h->slot_count, rows, width, element);
}

#endif  // OG_OPS_CUDA_DECODE_MMA_H
