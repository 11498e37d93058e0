// SPDX-License-Identifier: Apache-2.0
// The parameter of the kernel in cache.cu.

#ifndef OG_OPS_CUDA_CACHE_ARGS_H
#define OG_OPS_CUDA_CACHE_ARGS_H

#include <stdint.h>

// Keys or values; strides in bytes.
typedef struct cache_copy {
  const char *from;  // [tokens, heads, head_bytes]
  char *to;          // [pages, page_size, heads, head_bytes]
  int64_t from_token, from_head, to_page, to_place, to_head;
  int64_t head_bytes;
} cache_copy;

typedef struct cache_args {
  cache_copy copy[2];
  int64_t tokens, heads, pages, page_size;
  // A slot for each token, or requests of pages.
  const int64_t *slots;      // [tokens]; negative: nowhere
  const int32_t *requests;   // [tokens]
  const int32_t *positions;  // [tokens]
  const int32_t *indices;    // [index_count]
  const int32_t *indptr;     // [batch + 1]
  int64_t batch, index_count;
  int32_t unit;  // bytes moved at once, 16, 4 or 2: all above are multiples
  int32_t reserved;
} cache_args;

#endif  // OG_OPS_CUDA_CACHE_ARGS_H
