// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernels in decode.cu.

#ifndef OG_OPS_CUDA_DECODE_ARGS_H
#define OG_OPS_CUDA_DECODE_ARGS_H

#include <stdint.h>

enum { DECODE_THREADS = 128 };

// Strides count elements.
typedef struct decode_args {
  const void *plan;  // in the device's memory
  int64_t plan_bytes;
  const void *q, *k, *v;
  void *out;       // [q_rows, q_heads, dim_vo]
  float *lse;      // [q_rows, q_heads]
  float *partial;  // results of units that split keys
  int64_t partial_bytes;
  const int32_t *indices;  // pages, where page_size > 0
  int64_t index_count;
  int64_t q_rows, kv_rows;  // kv_rows: tokens, or pages of the cache
  int64_t q_row, q_head;
  int64_t k_page, k_token, k_head;
  int64_t v_page, v_token, v_head;
  int32_t q_heads, kv_heads, dim_qk, dim_vo;
  int32_t page_size;
  int32_t lanes;       // threads of a key: a power of 2 that holds a head
  int32_t is_aligned;  // every head's first element is at 16 bytes
  int32_t is_natural;  // lse in base e, else 2
  float q_scale;       // into logits of base 2; with soft_cap, into its parts
  float soft_cap;      // in base 2; 0: none
} decode_args;

#endif  // OG_OPS_CUDA_DECODE_ARGS_H
