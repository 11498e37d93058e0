// SPDX-License-Identifier: Apache-2.0
// Attention kernels on the bf16 dot product: tiles of bf16 pairs with f32
// accumulators. Keys are packed as [dim / 2][32] pairs, values as
// [keys / 2][32] pairs.

#include "kernel/tables.h"

#if defined(__x86_64__)
#define OG_VEC 3
#include "kernel/softmax.inc"
#include "kernel/tile_rows.h"
#include "kernel/vec.h"

enum { PANEL = 32, TILE_ROWS = 14 };

// --- Packing

// The pairs of a row are 32-bit units, which the transpose moves as floats.
OG_INLINE vf pair_load(const uint16_t *row, int64_t d, int64_t dim) {
  const int64_t left = dim - d;  // of bf16 elements
  if (left >= 32) return _mm512_loadu_ps((const void *)(row + d));
  return _mm512_castsi512_ps(
      _mm512_maskz_loadu_epi16((__mmask32)((1ull << left) - 1), row + d));
}

// How many rows ahead of their use rows are asked for.
enum { AHEAD = 16 };

OG_INLINE void row_prefetch(const void *row, int64_t dim) {
  for (int64_t at = 0; at < 2 * dim; at += 64)
    __builtin_prefetch((const char *)row + at, 0, 3);
}

OG_TARGET static void pack_keys(const void *const *keys, int64_t count,
                                int64_t dim, void *packed, int element) {
  (void)element;
  const int64_t pairs = (dim + 1) / 2;
  for (int64_t at = 0; at < count; at += VW) {
    float *out = (float *)packed + at / PANEL * PANEL * pairs + at % PANEL;
    for (int64_t j = at + AHEAD; j < at + AHEAD + VW && j < count; ++j)
      row_prefetch(keys[j], dim);
    for (int64_t d = 0; d < pairs; d += VW) {
      vf r[VW];
      for (int64_t j = 0; j < VW; ++j)
        r[j] = pair_load(keys[at + j], 2 * d, dim);
      v_transpose(r);
      const int64_t rows = pairs - d < VW ? pairs - d : VW;
      for (int64_t j = 0; j < rows; ++j) v_store(out + (d + j) * PANEL, r[j]);
    }
  }
}

OG_INLINE __m512i unit_load(const uint16_t *row, int64_t d, int64_t dim) {
  if (dim - d >= VW)
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(row + d)));
  if (dim <= d) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(
      _mm256_maskz_loadu_epi16(v_mask(dim - d), row + d));
}

OG_TARGET static void pack_values(const void *const *values, int64_t first,
                                  int64_t count, int64_t dim, void *packed,
                                  int element) {
  (void)element;
  for (int64_t i = 0; i < count; i += 2) {
    uint32_t *out = (uint32_t *)packed + (first + i) / 2 * PANEL;
    for (int64_t j = i + AHEAD; j < i + AHEAD + 2 && j < count; ++j)
      row_prefetch(values[j], dim);
    for (int64_t d = 0; d < dim; d += VW) {
      const __m512i a = unit_load(values[i], d, dim);
      const __m512i b = unit_load(values[i + 1], d, dim);
      uint32_t *to =
          out + d / PANEL * (OG_ATTENTION_BLOCK / 2) * PANEL + d % PANEL;
      _mm512_storeu_si512(to, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
      if (d % PANEL == 0 && dim - d <= VW)
        _mm512_storeu_si512(to + VW, _mm512_setzero_si512());
    }
  }
}

// --- Tiles

#define TILE_ZERO(r) vf c##r = v_zero(), d##r = v_zero();
#define TILE_STEP(r)                                                          \
  {                                                                           \
    const __m512bh x =                                                        \
        (__m512bh)_mm512_set1_epi32(*(const int32_t *)(const void *)ROW_##r); \
    c##r = _mm512_dpbf16_ps(c##r, x, u);                                      \
    d##r = _mm512_dpbf16_ps(d##r, x, v);                                      \
  }
#define TILE_ADD(r)                             \
  c##r = v_add(c##r, v_load(c + r * c_stride)); \
  d##r = v_add(d##r, v_load(c + r * c_stride + VW));
#define TILE_PUT(r)                \
  v_store(c + r * c_stride, c##r); \
  v_store(c + r * c_stride + VW, d##r);

static const og_lines no_lines;

// Strides and k count pairs.
#define TILE_DEFINE(R, name)                                                   \
  OG_TARGET static void name##_##R(                                            \
      const int32_t *a, int64_t a_stride, const float *b, int64_t k, float *c, \
      int64_t c_stride, int accumulate, const og_lines *ahead) {               \
    LINES_BEGIN                                                                \
    ROWS_AT(a, a_stride * 4)                                                   \
    ROWS_##R(TILE_ZERO) LINES_FOR(i, k, 1) {                                   \
      ROWS_HOLD                                                                \
      const __m512bh u = (__m512bh)_mm512_loadu_ps(b);                         \
      const __m512bh v = (__m512bh)_mm512_loadu_ps(b + VW);                    \
      ROWS_##R(TILE_STEP) ROWS_NEXT(4) b += PANEL;                             \
    }                                                                          \
    if (accumulate) {                                                          \
      ROWS_##R(TILE_ADD)                                                       \
    }                                                                          \
    ROWS_##R(TILE_PUT) LINES_END                                               \
  }
EACH_TILE_14(TILE_DEFINE, tile)

// The first of a tile's two vectors.
#define HALF_ZERO(r) vf c##r = v_zero();
#define HALF_STEP(r)                                                        \
  c##r = _mm512_dpbf16_ps(                                                  \
      c##r,                                                                 \
      (__m512bh)_mm512_set1_epi32(*(const int32_t *)(const void *)ROW_##r), \
      u);
#define HALF_ADD(r) c##r = v_add(c##r, v_load(c + r * c_stride));
#define HALF_PUT(r) v_store(c + r * c_stride, c##r);
#define HALF_DEFINE(R, name)                                                   \
  OG_TARGET static void name##_##R(                                            \
      const int32_t *a, int64_t a_stride, const float *b, int64_t k, float *c, \
      int64_t c_stride, int accumulate, const og_lines *ahead) {               \
    LINES_BEGIN                                                                \
    ROWS_AT(a, a_stride * 4)                                                   \
    ROWS_##R(HALF_ZERO) LINES_FOR(i, k, 1) {                                   \
      ROWS_HOLD                                                                \
      const __m512bh u = (__m512bh)_mm512_loadu_ps(b);                         \
      ROWS_##R(HALF_STEP) ROWS_NEXT(4) b += PANEL;                             \
    }                                                                          \
    if (accumulate) {                                                          \
      ROWS_##R(HALF_ADD)                                                       \
    }                                                                          \
    ROWS_##R(HALF_PUT) LINES_END                                               \
  }
EACH_TILE_14(HALF_DEFINE, half)

typedef void (*tile_fn)(const int32_t *a, int64_t a_stride, const float *b,
                        int64_t k, float *c, int64_t c_stride, int accumulate,
                        const og_lines *ahead);
static const tile_fn tiles[TILE_ROWS + 1] = TILE_LIST_14(tile);
static const tile_fn halves[TILE_ROWS + 1] = TILE_LIST_14(half);

static void tile(int64_t rows, const void *a, int64_t a_stride, const void *b,
                 int64_t k, float *c, int64_t c_stride, int accumulate,
                 const og_lines *ahead) {
  tiles[rows](a, a_stride / 2, b, (k + 1) / 2, c, c_stride, accumulate,
              ahead != NULL ? ahead : &no_lines);
}

static void half_tile(int64_t rows, const void *a, int64_t a_stride,
                      const void *b, int64_t k, float *c, int64_t c_stride,
                      int accumulate, const og_lines *ahead) {
  halves[rows](a, a_stride / 2, b, (k + 1) / 2, c, c_stride, accumulate,
               ahead != NULL ? ahead : &no_lines);
}

// --- Few rows: keys and values where they lie

// Four keys' pairs from d on, against those of a row.
#define DOTS_ROW(r)                                                      \
  {                                                                      \
    const __m512bh x =                                                   \
        (__m512bh)_mm512_loadu_ps((const void *)(q + (r)*q_stride + d)); \
    a##r = _mm512_dpbf16_ps(a##r, x, k0);                                \
    b##r = _mm512_dpbf16_ps(b##r, x, k1);                                \
    c##r = _mm512_dpbf16_ps(c##r, x, k2);                                \
    e##r = _mm512_dpbf16_ps(e##r, x, k3);                                \
  }
#define DOTS_ZERO(r) \
  vf a##r = v_zero(), b##r = v_zero(), c##r = v_zero(), e##r = v_zero();
#define DOTS_SUM(r) v_sum4(a##r, b##r, c##r, e##r, s + (r)*s_stride);
#define DOTS(R)                                                               \
  OG_INLINE void dots_##R(const uint16_t *q, int64_t q_stride,                \
                          const uint16_t *const *keys, int64_t dim, float *s, \
                          int64_t s_stride, const og_rows_ahead *ahead,       \
                          int64_t ask, int64_t ask_end) {                     \
    ROWS_##R(DOTS_ZERO) for (int64_t d = 0; d < dim; d += 2 * VW) {           \
      og_line_ask(ahead, ask, ask_end, d / (2 * VW));                         \
      const __m512bh k0 = (__m512bh)pair_load(keys[0], d, dim);               \
      const __m512bh k1 = (__m512bh)pair_load(keys[1], d, dim);               \
      const __m512bh k2 = (__m512bh)pair_load(keys[2], d, dim);               \
      const __m512bh k3 = (__m512bh)pair_load(keys[3], d, dim);               \
      ROWS_##R(DOTS_ROW)                                                      \
    }                                                                         \
    ROWS_##R(DOTS_SUM)                                                        \
  }
DOTS(1)
DOTS(2)
DOTS(4)

OG_TARGET static void dots(const void *queries, int64_t q_stride, int64_t rows,
                           const void *const *keys, size_t offset, int64_t dim,
                           float *s, int64_t s_stride, int element,
                           const og_rows_ahead *ahead) {
  const uint16_t *q = queries, *at[4];
  (void)element;
  for (int64_t i = 0; i < 4; ++i)
    at[i] = (const uint16_t *)(const void *)((const char *)keys[i] + offset);
  int64_t r = 0;
#define DOTS_NEXT(R)                                                          \
  {                                                                           \
    dots_##R(q + r * q_stride, q_stride, at, dim, s + r * s_stride, s_stride, \
             ahead, 4 * r / rows, 4 * (r + R) / rows);                        \
    r += R;                                                                   \
  }
  while (r + 4 <= rows) DOTS_NEXT(4)
  if (r + 2 <= rows) DOTS_NEXT(2)
  if (r < rows) DOTS_NEXT(1)
}

// Channels d to d + 31 of two values as pairs, the first and last 16.
#define PAIRS(i)                                                               \
  const __m512i x##i = (__m512i)pair_load(v[2 * i], d, dim);                   \
  const __m512i y##i = (__m512i)pair_load(v[2 * i + 1], d, dim);               \
  const __m512bh lo##i = (__m512bh)_mm512_permutex2var_epi16(x##i, low, y##i); \
  const __m512bh hi##i = (__m512bh)_mm512_permutex2var_epi16(x##i, high, y##i);
#define PAIRS_ADD(i)                                            \
  {                                                             \
    const __m512bh w = (__m512bh)_mm512_set1_epi32(weights[i]); \
    sum0 = _mm512_dpbf16_ps(sum0, w, lo##i);                    \
    sum1 = _mm512_dpbf16_ps(sum1, w, hi##i);                    \
  }
#define ADD_PAIRS(N)                                                    \
  OG_INLINE void add_pairs_##N(const uint16_t *p, int64_t p_stride,     \
                               int64_t rows, const uint16_t *const *v,  \
                               int64_t dim, float *o, int64_t o_stride, \
                               const og_rows_ahead *ahead, int64_t i) { \
    const __m512i low = _mm512_loadu_si512(pair_order);                 \
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));  \
    for (int64_t d = 0; d < dim; d += 2 * VW) {                         \
      og_line_ask(ahead, i, i + 2 * N, d / (2 * VW));                   \
      ROWS_##N(PAIRS) for (int64_t r = 0; r < rows; ++r) {              \
        int32_t weights[N];                                             \
        memcpy(weights, p + r * p_stride, sizeof weights);              \
        float *to = o + r * o_stride + d;                               \
        vf sum0 = v_load(to), sum1 = v_load(to + VW);                   \
        ROWS_##N(PAIRS_ADD) v_store(to, sum0);                          \
        v_store(to + VW, sum1);                                         \
      }                                                                 \
    }                                                                   \
  }
static const uint16_t pair_order[32] = {
    0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
ADD_PAIRS(2)
ADD_PAIRS(4)

OG_TARGET static void add_values(const void *weights, int64_t p_stride,
                                 int64_t rows, const void *const *values,
                                 int64_t count, size_t offset, int64_t dim,
                                 float *o, int64_t o_stride, int element,
                                 const og_rows_ahead *ahead) {
  const uint16_t *p = weights;
  (void)element;
  for (int64_t i = 0; i < count; i += 8) {
    const int64_t n = count - i < 8 ? 4 : 8;
    const uint16_t *v[8];
    for (int64_t j = 0; j < n; ++j)
      v[j] = (const uint16_t *)(const void *)((const char *)values[i + j] +
                                              offset);
    if (n == 8)
      add_pairs_4(p + i, p_stride, rows, v, dim, o, o_stride, ahead, i);
    else
      add_pairs_2(p + i, p_stride, rows, v, dim, o, o_stride, ahead, i);
  }
}

const og_attention_kernels og_attention_avx512_bf16 = {
    .panel = PANEL,
    .tile_rows = TILE_ROWS,
    .dots_rows = 4,
    .is_bf16 = 1,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .tile = tile,
    .half_tile = half_tile,
    .softmax = softmax_rows,
    .scale = scale_row,
    .store = store_row,
    .dots = dots,
    .add_values = add_values,
};
#endif
