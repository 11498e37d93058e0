// SPDX-License-Identifier: Apache-2.0
// What the files that run a plan of attention share.
//
//   attention.c         items in order, merges, what is chosen
//   attention_packed.c  items of many rows: keys and values are packed
//   attention_direct.c  items of few rows: they are read where they lie
//   attention_rows.c    a worker's memory; rows in and out; logits to weights

#ifndef OG_KERNEL_ATTENTION_RUN_H
#define OG_KERNEL_ATTENTION_RUN_H

#include <stdatomic.h>

#include "kernel/attention.h"
#include "kernel/tables.h"

enum {
  BLOCK = OG_ATTENTION_BLOCK,
  DIRECT_BLOCK = 32,  // keys of a step where keys are read in place
  PAD = 32,           // rows in scratch are padded to so many floats
};

typedef struct og_runner {
  const og_attention_args *args;
  og_plan_view view;
  const og_attention_kernels *tiles;   // of many rows
  const og_attention_kernels *direct;  // of few
  const og_row_kernels *rows;
  const float *turns_high, *turns_low;  // RoPE, in the shared workspace
  char *scratch;
  float *partial_out;  // [slot, kv_heads, dim_vo]
  float *partial_lse;  // [slot, kv_heads]
  int32_t group;
  atomic_int next_item;
} og_runner;

// One worker's memory, carved by og_worker_of.
typedef struct og_worker {
  const og_attention_kernels *kernels;
  char *q;   // [rows, q_stride] of the tile's type
  float *o;  // [rows, o_stride]
  float *max, *sum;
  char *keys, *values;  // packed
  float *s;             // [tile rows, BLOCK], or [rows, DIRECT_BLOCK]
  uint16_t *p;          // the same as bf16, where tiles are
  char *rotated;        // keys after RoPE, a panel's worth
  float *cos, *sin;
  const void **key_rows, **value_rows;
  int64_t q_stride, o_stride;
} og_worker;

// Of keys and values.
static inline int og_cache_element(const og_attention_args *a) {
  return a->narrow ? a->narrow : a->element;
}
// What kernels' numbers of a head are to be multiplied by.
static inline float og_head_scale(const og_attention_args *a,
                                  const float *scales, int64_t head) {
  if (!a->narrow) return 1;
  const float scale = scales[head * a->scale_count / a->kv_heads];
  return a->narrow == OG_E4M3 ? 256 * scale : scale;
}

// A unit at the KV heads from `head` on, which is one item, on the worker with
// this number.
void og_packed_item(og_runner *r, const og_plan_unit *unit, int32_t head,
                    int32_t worker);
void og_direct_item(const og_runner *r, const og_plan_unit *unit, int32_t head,
                    int32_t worker);

static inline int64_t og_round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Keys that are packed at a time.
static inline int64_t og_block_keys(const og_attention_args *a) {
  return a->dim_qk > 128 || a->dim_vo > 128 ? BLOCK / 2 : BLOCK;
}

// --- Rows (attention_rows.c) -------------------------------------------------

// Zeros for keys past the end of a block.
extern const float og_zero_row[OG_ATTENTION_MAX_DIM + 32];

// The worker's memory for an item of so many rows.
og_worker og_worker_of(const og_runner *r, int32_t worker, int64_t rows,
                       int packed);

// Key and value i of a request, at KV head `head`.
static inline void og_row_find(const og_runner *r,
                               const og_plan_request *request, int32_t head,
                               int64_t i, const void **out_key,
                               const void **out_value) {
  const og_attention_args *a = r->args;
  const int32_t page_size = r->view.header->page_size;
  int64_t k = request->kv_begin + i, v = k;
  if (page_size > 0) {
    const int64_t page = a->page_indices[request->kv_begin + i / page_size];
    k = page * a->k_page + i % page_size * a->k_token;
    v = page * a->v_page + i % page_size * a->v_token;
  } else {
    k *= a->k_token;
    v *= a->v_token;
  }
  *out_key = og_at(a->k, k + head * a->k_head, og_cache_element(a));
  *out_value = og_at(a->v, v + head * a->v_head, og_cache_element(a));
}

// Those of keys [begin, end).
void og_rows_find(const og_runner *r, const og_plan_request *request,
                  int32_t head, int64_t begin, int64_t end,
                  const void **key_rows, const void **value_rows);
// RoPE of one row of queries or keys; x and y, which may be one, have type
// `element`.
void og_row_rotate(const og_runner *r, og_worker *s, const void *x, void *y,
                   int64_t position, int element);

// The token and the query head of a request's packed row at KV head `head`.
static inline int64_t og_token_of(const og_runner *r,
                                  const og_plan_request *request, int64_t row) {
  return request->q_begin + og_row_token(row, r->group);
}
static inline int64_t og_query_head_of(const og_runner *r, int64_t row,
                                       int32_t head) {
  return (head - og_row_token(row, r->group)) * r->group + row;
}

static inline const void *og_query_of(const og_runner *r,
                                      const og_plan_request *request,
                                      int64_t row, int32_t head) {
  const og_attention_args *a = r->args;
  return og_at(a->q,
               og_token_of(r, request, row) * a->q_row +
                   og_query_head_of(r, row, head) * a->q_head,
               a->element);
}

// Rows [row_begin, + rows) of a request into scratch, from row `at` on.
void og_queries_load(const og_runner *r, og_worker *s,
                     const og_plan_request *request, int64_t row_begin,
                     int64_t rows, int32_t head, int64_t at);

static inline void *og_result_of(const og_runner *r,
                                 const og_plan_request *request, int64_t row,
                                 int32_t head) {
  const og_attention_args *a = r->args;
  return og_at(a->out,
               og_token_of(r, request, row) * a->out_row +
                   og_query_head_of(r, row, head) * a->out_head,
               a->element);
}

// o * factor is the row's result.
void og_row_store(const og_runner *r, const og_plan_request *request,
                  int64_t row, int32_t head, const float *o, float factor,
                  float lse);
// Rows [begin, end) of a unit, which lie in scratch from row `at` on.
void og_results_store(const og_runner *r, og_worker *s,
                      const og_plan_unit *unit, int32_t head, int64_t begin,
                      int64_t end, int64_t at);

// Behind the last KV head of the item that begins with `head`.
static inline int32_t og_heads_end(const og_runner *r, const og_plan_unit *unit,
                                   int32_t head) {
  const int32_t end = head + unit->head_step;
  return end < r->args->kv_heads ? end : r->args->kv_heads;
}

// --- Logits to weights (attention_rows.c) ------------------------------------

enum { SOFTMAX_ROWS = 16 };  // at a time

// What is said of each row.
typedef struct og_softmax_rows {
  int32_t lo[SOFTMAX_ROWS], hi[SOFTMAX_ROWS];
  float slope[SOFTMAX_ROWS], distance[SOFTMAX_ROWS];
  int64_t bit[SOFTMAX_ROWS];
  float key_scale[SOFTMAX_ROWS];
  float factor[SOFTMAX_ROWS];
} og_softmax_rows;

// Row i of the batch is row `row` of the request, its query head `q_head`.
void og_softmax_row_fill(const og_runner *r, og_softmax_rows *rows, int64_t i,
                         const og_plan_unit *unit, int64_t row, int32_t head,
                         int64_t key_begin, int64_t key_limit);
// The weights of `count` rows that lie in scratch from row `at` on.
void og_softmax_run(const og_runner *r, og_worker *s, const og_plan_unit *unit,
                    og_softmax_rows *rows, int64_t count, int64_t at,
                    float *logits, uint16_t *p, int64_t stride, int64_t n);

#endif  // OG_KERNEL_ATTENTION_RUN_H
