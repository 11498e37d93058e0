// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of host adapters share: memory of exact size, so that the
// sanitizer sees a byte too many, freed when an input is done.

#ifndef OG_FUZZ_HOST_H
#define OG_FUZZ_HOST_H

#include <stdlib.h>
#include <string.h>

#include "fuzz/bytes.h"
#include "shared/own.h"

enum {
  HELD_MAX = 512,
  RANK_MAX = 4,
  TEXT_BYTES = sizeof((opgraft_error *)NULL)->text,
};

static void *held[HELD_MAX];
static int held_count;

static inline void *hold(size_t size) {
  void *made = malloc(size);
  if (made == NULL || held_count == HELD_MAX) abort();
  held[held_count++] = made;
  return made;
}

static inline void held_free(void) {
  while (held_count > 0) free(held[--held_count]);
}

// `size` bytes of the input.
static inline char *hold_bytes(bytes *in, size_t size) {
  char *made = hold(size);
  for (size_t i = 0; i < size; ++i) made[i] = (char)take(in, 256);
  return made;
}

// An error has a text, which ends within its room.
static inline void text_require(const char *text) {
  if (text[0] == '\0' || memchr(text, '\0', TEXT_BYTES) == NULL) abort();
}

// An argument's name, or one that none has; with a NUL.
static inline const char *name_take(bytes *in, const og_own_op *op) {
  const uint32_t which = take(in, 16);
  if (which < 15 && op->info.attr_count > 0)
    return op->attr_params[which % (uint32_t)op->info.attr_count]->name;
  char *made = hold_bytes(in, 4);
  made[3] = '\0';
  return made;
}

// Small sizes: three dims of 0 to 3 at most agree often enough.
static inline int32_t dims_take(bytes *in, int64_t dims[RANK_MAX]) {
  const int32_t rank = (int32_t)take(in, RANK_MAX + 1);
  for (int32_t i = 0; i < rank; ++i)
    dims[i] = take(in, 4) != 0 ? 2 : (int64_t)take(in, 4);
  return rank;
}

#endif  // OG_FUZZ_HOST_H
