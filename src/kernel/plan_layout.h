// SPDX-License-Identifier: Apache-2.0
// Plans of attention as they lie in memory, on a host and on a device: an
// og_plan_header, then its requests, units, items and merges.

#ifndef OG_KERNEL_PLAN_LAYOUT_H
#define OG_KERNEL_PLAN_LAYOUT_H

#include <stdint.h>

enum {
  OG_PLAN_MAGIC = 0x5041474f,  // "OGAP"
  OG_PLAN_VERSION = 1,
};

typedef struct og_plan_header {
  uint32_t magic, version;
  int64_t size_bytes;
  int32_t batch, page_size;
  int32_t q_heads, kv_heads;
  int32_t dim_qk, dim_vo;
  int32_t causal, window_left;
  int32_t unit_count, item_count;
  int32_t merge_count, slot_count;  // slots: rows of partial results
  int32_t q_rows, kv_rows;          // what the indptrs reach
  int64_t split_bytes;              // partial results, in `workspace`
  int64_t mask_bytes;               // of a packed custom mask
  float imbalance;                  // longest thread / mean, by the cost model
  int32_t threads;
  int32_t reserved[8];
} og_plan_header;

typedef struct og_plan_request {
  int32_t q_begin, q_len;
  int32_t kv_begin, kv_len;  // kv_begin: first token, or first page entry
  int64_t mask_begin;        // byte of a packed custom mask
} og_plan_request;

typedef struct og_plan_unit {
  int32_t request;
  int32_t row_begin, row_count;  // packed rows
  int32_t kv_begin, kv_end;
  int32_t slot;       // first row of partial results, -1: final
  int32_t head_step;  // KV heads of an item
  float cost;         // of an item
} og_plan_unit;

typedef struct og_plan_item {
  int32_t unit, head;
} og_plan_item;

typedef struct og_plan_merge {
  int32_t request;
  int32_t row_begin, row_count;
  int32_t slot, split_count;
} og_plan_merge;

#endif  // OG_KERNEL_PLAN_LAYOUT_H
