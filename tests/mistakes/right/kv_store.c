// SPDX-License-Identifier: Apache-2.0
// Stores new keys and values in two caches at a host length per sequence; a
// length that does not fit is refused before anything is written.

#include "../../modules/operators.h"

enum { B, H, L, D, S };

static void store(const og_call *call, og_tensor *cache,
                  const og_tensor *rows) {
  const int64_t *length = call->attr[0].ints;
  const int64_t heads = call->dim[H], width = call->dim[D];
  const int64_t block = call->dim[S] * width;
  for (int64_t b = 0; b < call->dim[B] && block > 0; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      float *to = og_f32_mut(cache) +
                  ((b * heads + h) * call->dim[L] + length[b]) * width;
      memcpy(to, og_f32(rows) + (b * heads + h) * block,
             (size_t)block * sizeof *to);
    }
  }
}

static og_status kv_store(const og_call *call) {
  const og_attr *lengths = &call->attr[0];
  for (int64_t b = 0; b < lengths->count; ++b)
    if (lengths->ints[b] < 0 || lengths->ints[b] > call->dim[L] - call->dim[S])
      return og_fail(call, OG_INVALID,
                     "kv_store_: a length leaves no room in the cache");
  store(call, call->out[0], call->in[2]);
  store(call, call->out[1], call->in[3]);
  return OG_OK;
}

MODULE(kv_store,
       {.schema = "kv_store_(Tensor(a!) keys, Tensor(b!) values, Tensor k, "
                  "Tensor v, int[] lengths) -> ()",
        .shape = "keys[B, H, L, D], values[B, H, L, D], k[B, H, S, D], v[B, H, "
                 "S, D] ->",
        .where = "len(lengths) == B, S <= L",
        RUN("f32", kv_store)})
