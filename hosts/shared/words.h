// SPDX-License-Identifier: Apache-2.0
// A call and its results as 64-bit words, between an adapter and its Python.
//
//   tensor  code, bits, rank, dims
//   result  for each fresh result a tensor, or for a list its length and them

#ifndef OG_HOSTS_SHARED_WORDS_H
#define OG_HOSTS_SHARED_WORDS_H

#include "shared/call.h"

typedef struct og_words {
  const int64_t *word;
  int64_t count;
  int64_t used;
  int is_short;  // a word was asked for that is not there
} og_words;

// 0 behind the end.
int64_t og_words_next(og_words *words);
// The next `count` words; NULL where there are fewer.
const int64_t *og_words_take(og_words *words, int64_t count);
double og_words_double(og_words *words);
// Borrows its dims; without memory and strides.
og_tensor og_words_tensor(og_words *words);
// The error of a call that is_short.
og_status og_words_short(const og_words *words, const og_own_op *op,
                         opgraft_error *error);

// The words of the results of an inferred call; may be above `size`.
int64_t og_words_results(og_host_call *call, int64_t *out, int64_t size);

#endif  // OG_HOSTS_SHARED_WORDS_H
