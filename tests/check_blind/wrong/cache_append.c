// SPDX-License-Identifier: Apache-2.0
// cache_append: writes new keys to slots of a cache.

#include "../../modules/operators.h"

enum { S, D, T };  // dims of the shape rule

static og_status cache_append(const og_call *call) {
  const int32_t *slot = og_i32(call->in[2]);
  const size_t bytes = (size_t)call->dim[D] * sizeof(float);
  float *cache = og_f32_mut(call->out[0]);
  const int64_t count = call->dim[T];
  if (count > 0 && slot[count - 1] >= call->dim[S])
    return og_fail(call, OG_INVALID, "a slot is behind the cache");
  for (int64_t t = 0; t < count; ++t) {
    if (slot[t] < 0) continue;
    memcpy(cache + slot[t] * call->dim[D],
           og_f32(call->in[1]) + t * call->dim[D], bytes);
  }
  return OG_OK;
}

MODULE(cache_append,
       {.schema = "cache_append(Tensor(a!) cache, Tensor key, Tensor slot) -> "
                  "()",
        .shape = "cache[S, D], key[T, D], slot[T]",
        .dtype = "cache: f32, key: cache, slot: i32",
        .doc = "Row t of key goes to slot[t], a negative slot skips it. Of "
               "equal slots the last one counts.",
        RUN("f32", cache_append)})
