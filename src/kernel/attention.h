// SPDX-License-Identifier: Apache-2.0
// Attention over requests of any lengths: one plan, one run.
//
// A plan is a plain block of bytes that holds no pointers: it may be copied,
// stored, and run by several threads at once. It lists units (a range of query
// rows of one request against a range of its keys), the items of work that
// they make (a unit and a range of KV heads, longest first), and the merges of
// units that split the keys. Query rows of the heads that share a KV head are
// packed: row r of a request is token r / group, head r % group.
//
// Source: the plan and run of FlashInfer (Ye et al., 2025), the online softmax
// of FlashAttention (Dao et al., 2022), longest work first (Graham, 1969).

#ifndef OG_KERNEL_ATTENTION_H
#define OG_KERNEL_ATTENTION_H

#include <opgraft/op.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/env.h"
#include "kernel/plan_layout.h"

enum {
  OG_ATTENTION_MAX_DIM = 256,
  OG_ATTENTION_MAX_HEADS = 1 << 20,
  OG_ATTENTION_DIRECT_ROWS = 8,  // up to here keys are read where they lie
  OG_ATTENTION_BLOCK = 256,      // keys that are packed at a time
  // What one worker needs in `workspace`, and what the call needs besides.
  OG_ATTENTION_SCRATCH = 832 * 1024,
  OG_ATTENTION_SHARED = 4096,
  OG_ATTENTION_GRAD_SCRATCH = 2 * 1024 * 1024,
};

typedef struct og_attention_problem {
  int32_t batch;
  int32_t page_size;             // 0: ragged
  const int32_t *q_indptr;       // [batch + 1]; NULL: one row a request
  const int32_t *kv_indptr;      // [batch + 1], in tokens or in pages
  const int32_t *last_page_len;  // [batch] where there are pages
  int32_t q_heads, kv_heads;
  int32_t dim_qk, dim_vo;
  int32_t causal;       // aligned at the last query and the last key
  int32_t window_left;  // keys further back are masked; -1: none
  int32_t threads;
  // Keys of one unit: > 0 every so many, which depends on nothing else; 0 as
  // balance asks; -1 never split.
  int32_t fixed_split;
  int32_t heads_first;  // KV heads are not neighbours in memory (HND)
} og_attention_problem;

// The token of packed row `row` in its request. Once for each row and block,
// so 64-bit divisions would be felt.
static inline int64_t og_row_token(int64_t row, int64_t group) {
  return group == 1 ? row : (int64_t)((uint32_t)row / (uint32_t)group);
}

// The place of packed row `row` among the keys of its request.
static inline int64_t og_row_position(const og_plan_request *request,
                                      int64_t row, int64_t group) {
  return og_row_token(row, group) + request->kv_len - request->q_len;
}

// The keys that a query at `position` sees, as far as the plan says.
static inline void og_keys_visible(const og_plan_header *h,
                                   const og_plan_request *request,
                                   int64_t position, int64_t *out_begin,
                                   int64_t *out_end) {
  *out_begin = h->window_left >= 0 && position > h->window_left
                   ? position - h->window_left
                   : 0;
  *out_end = h->causal && position + 1 < request->kv_len ? position + 1
                                                         : request->kv_len;
}

typedef struct og_plan_view {
  const og_plan_header *header;
  const og_plan_request *requests;
  const og_plan_unit *units;
  const og_plan_item *items;
  const og_plan_merge *merges;
} og_plan_view;

enum { OG_POS_NONE, OG_POS_ROPE, OG_POS_ALIBI };

// Strides count elements.
typedef struct og_attention_args {
  const void *plan;
  int64_t plan_bytes;
  const void *q, *k, *v;
  void *out;
  float *lse;               // [rows, q_heads]
  int64_t q_rows, kv_rows;  // kv_rows: tokens, or pages of the cache
  int64_t q_row, q_head;
  int64_t k_token, k_head, k_page;
  int64_t v_token, v_head, v_page;
  int64_t out_row, out_head;
  const int32_t *page_indices;
  int64_t page_index_count;
  int32_t page_size;    // of the cache; 0: ragged
  const uint8_t *mask;  // packed custom mask, or NULL
  int64_t mask_bytes;
  int32_t q_heads, kv_heads, dim_qk, dim_vo;
  float sm_scale;
  float soft_cap;  // 0: none
  int32_t pos_mode;
  float rope_scale, rope_theta;
  int32_t natural_lse;  // base e instead of base 2
  int32_t element;
  // Where keys and values have 8 bits: OG_I8, OG_E4M3 or OG_E5M2, and what
  // they are multiplied by, one number for as many heads as there are of them.
  int32_t narrow;
  int32_t scale_count;
  const float *k_scale, *v_scale;
} og_attention_args;

// Runs a plan. Checks it against the tensors first. Uses of the workspace:
// OG_ATTENTION_SHARED, OG_ATTENTION_SCRATCH for each thread, then the plan's
// split_bytes. Rows outside the indptr are not touched.
og_status og_attention_run(const og_kernel_env *env,
                           const og_attention_args *args);

// --- Kernels of one instruction set ------------------------------------------

// Logits of some rows against the keys of a block, in place into weights.
typedef struct og_softmax {
  float *s;     // [rows, n]
  uint16_t *p;  // where set, the weights go here as bf16
  int64_t stride;
  int64_t rows, n;         // n: a multiple of half a panel
  const int32_t *lo, *hi;  // [rows] visible columns
  float scale;             // sm_scale * log2(e)
  float soft_cap;          // 0: none
  float sm_scale;
  const float *slope;     // [rows] of ALiBi, or NULL
  const float *distance;  // [rows] position of column 0 less that of the query
  const uint8_t *bits;    // custom mask, or NULL
  const int64_t *bit;     // [rows] of column 0
  float *max, *sum;       // [rows] running, in base 2; max is -inf at first
  float *factor;          // [rows] what earlier sums are to be multiplied by
} og_softmax;

// Cache lines to prefetch while a tile is computed, a few at a time: a core
// stalls when more loads are outstanding than it has buffers for.
typedef struct og_prefetch {
  const void *const *at;
  int64_t count;
} og_prefetch;

// Rows to prefetch while the rows of the same numbers are used.
typedef struct og_rows_ahead {
  const void *const *rows;
  size_t offset;  // bytes into each
  int64_t bytes;  // of each; 0: nothing
} og_rows_ahead;

// Asks for line `line` of rows [begin, end).
static inline void og_line_ask(const og_rows_ahead *a, int64_t begin,
                               int64_t end, int64_t line) {
  if (line * 64 >= a->bytes) return;
  for (int64_t i = begin; i < end; ++i)
    __builtin_prefetch((const char *)a->rows[i] + a->offset + line * 64, 0, 2);
}

typedef struct og_attention_kernels {
  int32_t panel;      // columns of a tile
  int32_t tile_rows;  // rows of a tile at most
  int32_t dots_rows;  // for which keys are read once
  int32_t is_bf16;    // packs and multiplies bf16 pairs
  // Keys by pointer, `count` a multiple of the panel, transposed to panels
  // [dim][panel].
  void (*pack_keys)(const void *const *keys, int64_t count, int64_t dim,
                    void *packed, int element);
  // Values by pointer to panels [OG_ATTENTION_BLOCK][panel] of channels;
  // `first` is the row of values[0]. Even `first` and `count`.
  void (*pack_values)(const void *const *values, int64_t first, int64_t count,
                      int64_t dim, void *packed, int element);
  // c[rows, panel] (+)= a[rows, k] b[k, panel]; `ahead` may be NULL.
  void (*tile)(int64_t rows, const void *a, int64_t a_stride, const void *b,
               int64_t k, float *c, int64_t c_stride, int accumulate,
               const og_prefetch *ahead);
  // The same for the first panel / 2 columns.
  void (*half_tile)(int64_t rows, const void *a, int64_t a_stride,
                    const void *b, int64_t k, float *c, int64_t c_stride,
                    int accumulate, const og_prefetch *ahead);
  void (*softmax)(const og_softmax *x);
  void (*scale)(float *x, int64_t n, float factor);
  // out = x * factor
  void (*store)(const float *x, int64_t n, float factor, void *out,
                int element);
  // s[r * s_stride + i] = q[r] . keys[i], i < 4; q, of the tile's type, padded
  // with zeros to 32.
  void (*dots)(const void *q, int64_t q_stride, int64_t rows,
               const void *const *keys, size_t offset, int64_t dim, float *s,
               int64_t s_stride, int element, const og_rows_ahead *ahead);
  // o[r] += sum of p[r * p_stride + i] * values[i], i < count, a multiple of
  // 4; p of the tile's type, o padded to 32.
  void (*add_values)(const void *p, int64_t p_stride, int64_t rows,
                     const void *const *values, int64_t count, size_t offset,
                     int64_t dim, float *o, int64_t o_stride, int element,
                     const og_rows_ahead *ahead);
} og_attention_kernels;
const og_attention_kernels *og_attention(int element);

#endif  // OG_KERNEL_ATTENTION_H
