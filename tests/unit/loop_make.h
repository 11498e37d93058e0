// SPDX-License-Identifier: Apache-2.0
// Row programs for tests: operands in memory that ends at an unmapped page, and
// one run of a program.

#ifndef TESTS_UNIT_LOOP_MAKE_H
#define TESTS_UNIT_LOOP_MAKE_H

#include <opgraft/float16.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "loop/loop.h"
#include "unit/test.h"

static const og_dtype loop_f32 = {OG_CODE_FLOAT, 32, 1},
                      loop_f16 = {OG_CODE_FLOAT, 16, 1},
                      loop_bf16 = {OG_CODE_BFLOAT, 16, 1},
                      loop_i64 = {OG_CODE_INT, 64, 1},
                      loop_i32 = {OG_CODE_INT, 32, 1},
                      loop_i16 = {OG_CODE_INT, 16, 1},
                      loop_i8 = {OG_CODE_INT, 8, 1},
                      loop_u8 = {OG_CODE_UINT, 8, 1},
                      loop_bool = {OG_CODE_BOOL, 8, 1};

// Pages between two that cannot be accessed.
typedef struct guarded {
  char *map;
  size_t map_bytes, page_bytes;
} guarded;

static inline bool guarded_init(guarded *g, size_t most_bytes) {
  g->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  const size_t pages = most_bytes / g->page_bytes + 1;
  g->map_bytes = (pages + 2) * g->page_bytes;
  void *map =
      mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return false;
  g->map = map;
  return mprotect(g->map + g->page_bytes, pages * g->page_bytes,
                  PROT_READ | PROT_WRITE) == 0;
}

static inline void guarded_reset(guarded *g) {
  if (g->map != NULL) munmap(g->map, g->map_bytes);
  g->map = NULL;
}

// `bytes` that end at the second guard, or begin at the first.
static inline char *guarded_end(const guarded *g, size_t bytes) {
  return g->map + g->map_bytes - g->page_bytes - bytes;
}
static inline char *guarded_begin(const guarded *g) {
  return g->map + g->page_bytes;
}

// --- Numbers -----------------------------------------------------------------

static inline uint64_t loop_draw(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 32;
}

static inline void loop_set(og_dtype dtype, void *at, int64_t i, float x) {
  if (dtype.code == OG_CODE_BFLOAT)
    ((og_bfloat *)at)[i] = og_bfloat_from_float(x);
  else if (dtype.code == OG_CODE_FLOAT && dtype.bits == 16)
    ((og_half *)at)[i] = og_half_from_float(x);
  else if (dtype.code == OG_CODE_FLOAT)
    ((float *)at)[i] = x;
  else if (dtype.code == OG_CODE_BOOL)
    ((uint8_t *)at)[i] = x > 0;
  else if (dtype.bits == 64)
    ((int64_t *)at)[i] = (int64_t)x;
  else if (dtype.bits == 32)
    ((int32_t *)at)[i] = (int32_t)x;
  else if (dtype.bits == 16)
    ((int16_t *)at)[i] = (int16_t)x;
  else if (dtype.code == OG_CODE_UINT)
    ((uint8_t *)at)[i] = (uint8_t)(int32_t)x;
  else
    ((int8_t *)at)[i] = (int8_t)x;
}

static inline float loop_get(og_dtype dtype, const void *at, int64_t i) {
  if (dtype.code == OG_CODE_BFLOAT)
    return og_bfloat_to_float(((const og_bfloat *)at)[i]);
  if (dtype.code == OG_CODE_FLOAT && dtype.bits == 16)
    return og_half_to_float(((const og_half *)at)[i]);
  if (dtype.code == OG_CODE_FLOAT) return ((const float *)at)[i];
  if (dtype.bits == 64) return (float)((const int64_t *)at)[i];
  if (dtype.bits == 32) return (float)((const int32_t *)at)[i];
  if (dtype.bits == 16) return (float)((const int16_t *)at)[i];
  if (dtype.code != OG_CODE_INT) return (float)((const uint8_t *)at)[i];
  return (float)((const int8_t *)at)[i];
}

#endif  // TESTS_UNIT_LOOP_MAKE_H
