// SPDX-License-Identifier: Apache-2.0
// Checked arithmetic, allocations that are made to fail, arenas.

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "unit/test.h"

TEST(checked_i64) {
  static const struct {
    int64_t a, b;
    bool add, sub, mul;  // which fit
  } rows[] = {
      {0, 0, true, true, true},
      {INT64_MAX, 1, false, true, true},
      {INT64_MIN, 1, true, false, true},
      {INT64_MIN, -1, false, true, false},
      {INT64_MAX, -1, true, false, true},
      {INT64_MIN, INT64_MIN, false, true, false},
      {3037000500, 3037000500, true, true, false},
      {3037000499, 3037000499, true, true, true},
      {-3037000500, 3037000500, true, true, false},
      {0, INT64_MIN, true, false, true},
      {2, INT64_MIN / 2, true, true, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    int64_t out;
    CHECK_EQ(og_i64_add(rows[i].a, rows[i].b, &out), rows[i].add);
    CHECK_EQ(og_i64_sub(rows[i].a, rows[i].b, &out), rows[i].sub);
    CHECK_EQ(og_i64_mul(rows[i].a, rows[i].b, &out), rows[i].mul);
  }
}

TEST(rounded_division) {
  static const struct {
    int64_t a, b;
    bool fits;
    int64_t down, up, rest;
  } rows[] = {
      {7, 2, true, 3, 4, 1},
      {-7, 2, true, -4, -3, 1},
      {7, -2, true, -4, -3, -1},
      {-7, -2, true, 3, 4, -1},
      {6, 3, true, 2, 2, 0},
      {0, -5, true, 0, 0, 0},
      {1, 0, false, 0, 0, 0},
      {INT64_MIN, -1, false, 0, 0, 0},
      {INT64_MAX, -1, true, -INT64_MAX, -INT64_MAX, 0},
      // The rounded quotient times b is beyond 64 bits.
      {INT64_MIN + 331, 203685477, true, -45282423533, -45282423532, 180354764},
      {INT64_MIN, INT64_MAX, true, -2, -1, INT64_MAX - 1},
      {INT64_MAX, INT64_MIN, true, -1, 0, -1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    int64_t down, up, rest;
    CHECK_EQ(og_i64_floor_div(rows[i].a, rows[i].b, &down), rows[i].fits);
    CHECK_EQ(og_i64_ceil_div(rows[i].a, rows[i].b, &up), rows[i].fits);
    CHECK_EQ(og_i64_floor_mod(rows[i].a, rows[i].b, &rest), rows[i].b != 0);
    CHECK_EQ(down, rows[i].down);
    CHECK_EQ(up, rows[i].up);
    CHECK_EQ(rest, rows[i].rest);
  }
}

TEST(checked_size) {
  size_t out;
  CHECK(og_size_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
  CHECK(!og_size_add(SIZE_MAX, 1, &out));
  CHECK(og_size_mul(SIZE_MAX / 2, 2, &out) && out == SIZE_MAX - 1);
  CHECK(!og_size_mul(SIZE_MAX / 2 + 1, 2, &out));
}

TEST(too_much) {
  CHECK(og_alloc_zeroed(SIZE_MAX, 2) == NULL);
  CHECK(og_alloc_aligned(64, SIZE_MAX - 8) == NULL);
  og_arena arena = {0};
  CHECK(og_arena_array(&arena, SIZE_MAX, 8) == NULL);
  CHECK(og_arena_alloc(&arena, SIZE_MAX - 4) == NULL);
  og_arena_destroy(&arena);
}

TEST(fails_from_the_nth_on) {
  og_alloc_fail_at(1);
  void *first = og_alloc(8);
  CHECK(first != NULL);
  CHECK(og_alloc(8) == NULL);
  CHECK(og_alloc_zeroed(1, 8) == NULL);
  CHECK(og_realloc(first, 64) == NULL);
  og_alloc_fail_at(-1);
  og_free(first);
  first = og_alloc_aligned(64, 100);
  CHECK(first != NULL && (uintptr_t)first % 64 == 0);
  og_free(first);
}

TEST(arena_keeps_and_zeroes) {
  og_arena arena = {0};
  char *names[200];
  for (int i = 0; i < 200; ++i) {
    names[i] = og_arena_strndup(&arena, "abcdefghij", (size_t)(i % 11));
    REQUIRE(names[i] != NULL);
    const unsigned char *block = og_arena_alloc(&arena, 100);
    REQUIRE(block != NULL);
    CHECK((uintptr_t)block % 16 == 0);
    for (int k = 0; k < 100; ++k) CHECK_EQ(block[k], 0);
  }
  for (int i = 0; i < 200; ++i) CHECK_EQ(strlen(names[i]), i % 11);
  CHECK(og_arena_alloc(&arena, 100000) != NULL);
done:
  og_arena_destroy(&arena);
}

#ifdef __linux__
// Whether the system was asked for huge pages at `at`; -1: it does not say.
static int is_asked(const char *at) {
  FILE *file = fopen("/proc/self/smaps", "r");
  char line[512];
  bool is_here = false;
  int result = -1;
  while (file != NULL && result < 0 && fgets(line, sizeof line, file) != NULL) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
      is_here = (uintptr_t)at >= begin && (uintptr_t)at < end;
    else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
      result = strstr(line, " hg") != NULL;
  }
  if (file != NULL) fclose(file);
  return result;
}

static bool has_huge_pages(void) {
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file != NULL) fclose(file);
  return file != NULL;
}

TEST(huge_pages_for_who_asks) {
  enum { LARGE = OG_HUGE_LEAST };
  char *own = malloc(LARGE + 64);
  REQUIRE(own != NULL);
  memset(own, 1, LARGE + 64);
  og_huge_ask(own + 7, LARGE);
  if (has_huge_pages()) CHECK(is_asked(own + LARGE / 2) != 0);
  for (size_t i = 0; i < LARGE + 64; ++i)
    if (!CHECK_EQ(own[i], 1)) break;
done:
  free(own);
}
#define HUGE_CASES , CASE(huge_pages_for_who_asks)
#else
#define HUGE_CASES
#endif

// What replay reads lies side by side, whatever large tables come between.
TEST(arena_keeps_small_ones_together) {
  og_arena arena = {0};
  const char *before = NULL;
  for (int i = 0; i < 40; ++i) {
    REQUIRE(og_arena_alloc(&arena, 10000) != NULL);
    const char *small = og_arena_alloc(&arena, 64);
    REQUIRE(small != NULL);
    if (before != NULL) CHECK_EQ(small - before, 64);
    before = small;
  }
done:
  og_arena_destroy(&arena);
}

TEST_MAIN("memory", CASE_NO_FAULTS(checked_i64),
          CASE_NO_FAULTS(rounded_division), CASE_NO_FAULTS(checked_size),
          CASE_NO_FAULTS(too_much), CASE_NO_FAULTS(fails_from_the_nth_on),
          CASE(arena_keeps_and_zeroes),
          CASE(arena_keeps_small_ones_together) HUGE_CASES)
