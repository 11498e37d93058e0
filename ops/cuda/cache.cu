// SPDX-License-Identifier: Apache-2.0
// New keys and values into a paged cache: a block moves one token at a time.

#define OG_THREADS_MAX 256
#include <opgraft/cuda_kernel.h>

#include "cache_args.h"

typedef struct place {
  int64_t page, offset;
} place;

OG_FN place place_of(const cache_args *a, int64_t token) {
  place at = {-1, 0};
  if (a->slots != 0) {
    const int64_t slot = a->slots[token];
    if (slot < 0) return at;
    OG_REQUIRE(slot < a->pages * a->page_size,
               "reshape_and_cache: slot_mapping has a slot behind the cache's "
               "last");
    at.page = og_divide(slot, a->page_size);
    at.offset = slot - at.page * a->page_size;
    return at;
  }
  const int32_t request = a->requests[token], position = a->positions[token];
  OG_REQUIRE(request >= 0 && request < a->batch,
             "append_paged_kv_cache: batch_indices has a request that "
             "kv_indptr has not");
  const int64_t begin = a->indptr[request], end = a->indptr[request + 1];
  const int64_t entry = begin + og_divide(position, a->page_size);
  OG_REQUIRE(
      position >= 0 && begin >= 0 && entry < end && end <= a->index_count,
      "append_paged_kv_cache: positions has a place behind the pages "
      "that kv_indptr gives the request");
  at.page = a->indices[entry];
  at.offset = position - (entry - begin) * a->page_size;
  OG_REQUIRE(at.page >= 0 && at.page < a->pages,
             "append_paged_kv_cache: kv_indices has a page that the cache has "
             "not");
  return at;
}

OG_FN void unit_move(char *to, const char *from, int unit) {
  if (unit == 16)
    *(og_vec *)to = *(const og_vec *)from;
  else if (unit == 4)
    *(uint32_t *)to = *(const uint32_t *)from;
  else
    *(uint16_t *)to = *(const uint16_t *)from;
}

OG_FN void token_move(const cache_args *a, const cache_copy *copy,
                      int64_t token, place at, unsigned t) {
  const uint32_t of_head = (uint32_t)(copy->head_bytes / a->unit);
  const uint32_t total = (uint32_t)a->heads * of_head;
  const char *from = copy->from + token * copy->from_token;
  char *to = copy->to + at.page * copy->to_page + at.offset * copy->to_place;
  for (uint32_t i = t; i < total; i += OG_BLOCK_THREADS) {
    const int64_t head = i / of_head, byte = (int64_t)(i % of_head) * a->unit;
    unit_move(to + head * copy->to_head + byte,
              from + head * copy->from_head + byte, a->unit);
  }
}

OG_KERNEL(cache_append, cache_args, args) {
  const cache_args *a = &args;
  for (int64_t token = OG_BLOCK_X; token < a->tokens; token += OG_GRID_X) {
    const place at = place_of(a, token);
    if (at.page < 0) continue;
    OG_EACH_THREAD(t) {
      token_move(a, &a->copy[0], token, at, t);
      token_move(a, &a->copy[1], token, at, t);
    }
  }
}
