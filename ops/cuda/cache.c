// SPDX-License-Identifier: Apache-2.0
// Launches of cache.cu.

#include "cuda/cache.h"

#include "cuda/cache_args.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"

OG_CUDA_CODE(cache);

enum { THREADS = 128, BLOCKS_MAX = 1 << 20 };

static cache_copy copy_of(const og_tensor *from, const og_tensor *to) {
  const int64_t bytes = (int64_t)og_element_bytes(og_element_of(from));
  return (cache_copy){
      .from = og_data(from),
      .to = og_data(to),
      .from_token = from->strides[0] * bytes,
      .from_head = from->strides[1] * bytes,
      .to_page = to->strides[0] * bytes,
      .to_place = to->strides[1] * bytes,
      .to_head = to->strides[2] * bytes,
      .head_bytes = from->shape[2] * bytes,
  };
}

static int is_multiple(const cache_copy *c, int64_t unit) {
  return (int64_t)((uintptr_t)c->from % (uintptr_t)unit) == 0 &&
         (int64_t)((uintptr_t)c->to % (uintptr_t)unit) == 0 &&
         c->from_token % unit == 0 && c->from_head % unit == 0 &&
         c->to_page % unit == 0 && c->to_place % unit == 0 &&
         c->to_head % unit == 0 && c->head_bytes % unit == 0;
}

// `a` has what says where tokens go.
static og_status cache_run(const og_call *call, cache_args *a,
                           const og_tensor *key, const og_tensor *value) {
  const og_tensor *k_cache = call->out[0];
  a->copy[0] = copy_of(key, k_cache);
  a->copy[1] = copy_of(value, call->out[1]);
  a->tokens = key->shape[0];
  a->heads = key->shape[1];
  a->pages = k_cache->shape[0];
  a->page_size = k_cache->shape[1];
  a->unit = 2;
  for (int32_t unit = 16; unit > 2; unit /= 4)
    if (a->unit == 2 && is_multiple(&a->copy[0], unit) &&
        is_multiple(&a->copy[1], unit))
      a->unit = unit;
  return og_cuda_run(call, &og_cuda_code_cache, "cache_append",
                     og_min64(a->tokens, BLOCKS_MAX), THREADS, a);
}

og_status og_append_paged_kv_cache_cuda(const og_call *call) {
  enum { KEY, VALUE, BATCH, POSITION, K_CACHE, V_CACHE, INDICES, INDPTR, LAST };
  cache_args a = {
      .requests = og_i32(call->in[BATCH]),
      .positions = og_i32(call->in[POSITION]),
      .indices = og_i32(call->in[INDICES]),
      .indptr = og_i32(call->in[INDPTR]),
      .batch = call->in[LAST]->shape[0],
      .index_count = call->in[INDICES]->shape[0],
  };
  return cache_run(call, &a, call->in[KEY], call->in[VALUE]);
}

og_status og_reshape_and_cache_cuda(const og_call *call) {
  enum { KEY, VALUE, K_CACHE, V_CACHE, SLOTS };
  cache_args a = {.slots = og_i64(call->in[SLOTS])};
  return cache_run(call, &a, call->in[KEY], call->in[VALUE]);
}
