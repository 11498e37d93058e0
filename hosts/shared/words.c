// SPDX-License-Identifier: Apache-2.0
// Calls and results as words.

#include "shared/words.h"

#include <string.h>

int64_t og_words_next(og_words *words) {
  if (words->used < words->count) return words->word[words->used++];
  words->is_short = 1;
  return 0;
}

const int64_t *og_words_take(og_words *words, int64_t count) {
  if (count < 0 || count > words->count - words->used) {
    words->is_short = 1;
    return NULL;
  }
  words->used += count;
  return words->word + words->used - count;
}

double og_words_double(og_words *words) {
  const int64_t bits = og_words_next(words);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

og_tensor og_words_tensor(og_words *words) {
  og_tensor tensor = {.device = {OG_CPU, 0}};
  tensor.dtype.code = (uint8_t)og_words_next(words);
  tensor.dtype.bits = (uint8_t)og_words_next(words);
  tensor.dtype.lanes = 1;
  const int64_t rank = og_words_next(words);
  const int64_t *dims = og_words_take(words, rank);
  tensor.ndim = dims != NULL ? (int32_t)rank : 0;
  // A frame reads shapes; the type is DLPack's.
  memcpy(&tensor.shape, &dims, sizeof dims);
  return tensor;
}

og_status og_words_short(const og_words *words, const og_own_op *op,
                         opgraft_error *error) {
  return og_own_fail(op, OG_INVALID, error, "a call of %lld words is short",
                     (long long)words->count);
}

typedef struct sink {
  int64_t *out;
  int64_t size;
  int64_t used;
} sink;

static void put(sink *s, int64_t word) {
  if (s->used < s->size) s->out[s->used] = word;
  ++s->used;
}

static void tensor_put(sink *s, const og_tensor *tensor) {
  put(s, tensor->dtype.code);
  put(s, tensor->dtype.bits);
  put(s, tensor->ndim);
  for (int32_t i = 0; i < tensor->ndim; ++i) put(s, tensor->shape[i]);
}

int64_t og_words_results(og_host_call *call, int64_t *out, int64_t size) {
  sink s = {.out = out, .size = size};
  for (int32_t i = 0; i < call->op->info.fresh_count; ++i) {
    const int64_t count = og_host_result_count(call, i);
    if (og_host_is_list(call, i)) put(&s, count);
    for (int64_t k = 0; k < count; ++k)
      tensor_put(&s, og_host_result(call, i, k));
  }
  return s.used;
}
