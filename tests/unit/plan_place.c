// SPDX-License-Identifier: Apache-2.0
// Offsets of buffers: nothing that lives together overlaps, and the lower
// bound is met where it can be.

#include "plan/plan.h"
#include "test.h"

static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static bool overlaps(const og_buffer *a, const og_buffer *b) {
  const bool in_time = a->first <= b->last && b->first <= a->last;
  const bool in_space =
      a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
  return in_time && in_space;
}

static void check_all(const og_buffer *buffers, int32_t count, size_t bytes,
                      size_t bound) {
  int32_t wrong = 0;
  size_t end = 0;
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t j = 0; j < i; ++j) wrong += overlaps(&buffers[i], &buffers[j]);
    const size_t own = (size_t)(buffers[i].offset + buffers[i].bytes);
    if (own > end) end = own;
  }
  CHECK_EQ(wrong, 0);
  CHECK_EQ(end, bytes);
  CHECK(bytes >= bound);
}

enum { COUNT = 300 };

TEST(random_lifetimes) {
  opgraft_error error;
  og_buffer buffers[COUNT];
  uint32_t seed = 7;
  for (int round = 0; round < 5; ++round) {
    size_t bytes = 0, bound = 0;
    for (int32_t i = 0; i < COUNT; ++i) {
      const int32_t life =
          (int32_t)(next_random(&seed) % (round == 0 ? 3 : 40));
      buffers[i] = (og_buffer){.bytes = 64 * (1 + next_random(&seed) % 50),
                               .first = i,
                               .last = i + life};
    }
    if (og_buffers_place(buffers, COUNT, COUNT + 40, NULL, &bytes, &bound,
                         &error) != OG_OK)
      return;
    check_all(buffers, COUNT, bytes, bound);
    CHECK(bytes <= bound + bound / 5);
  }
}

// The states and gates of six steps of an LSTM cell: offsets that meet the
// bound are found on the way from one of the orders only.
TEST(an_unrolled_cell_meets_its_bound) {
  static const struct {
    int64_t bytes;
    int32_t first, last;
  } cell[] = {{1, 0, 1},   {4, 1, 7},   {4, 2, 3},   {1, 4, 10},  {1, 5, 20},
              {1, 6, 9},   {1, 7, 73},  {1, 11, 12}, {4, 13, 19}, {4, 14, 15},
              {1, 16, 22}, {1, 17, 32}, {1, 18, 21}, {1, 19, 73}, {1, 23, 24},
              {4, 25, 31}, {4, 26, 27}, {1, 28, 34}, {1, 29, 44}, {1, 30, 33},
              {1, 31, 73}, {1, 35, 36}, {4, 37, 43}, {4, 38, 39}, {1, 40, 46},
              {1, 41, 56}, {1, 42, 45}, {1, 43, 73}, {1, 47, 48}, {4, 49, 55},
              {4, 50, 51}, {1, 52, 58}, {1, 53, 68}, {1, 54, 57}, {1, 55, 73},
              {1, 59, 60}, {4, 61, 67}, {4, 62, 63}, {1, 64, 70}, {1, 65, 72},
              {1, 66, 69}, {1, 67, 73}};
  enum { CELL = sizeof cell / sizeof *cell };
  opgraft_error error;
  og_buffer buffers[CELL];
  size_t bytes = 0, bound = 0;
  int32_t steps = 0;
  for (int32_t i = 0; i < CELL; ++i) {
    buffers[i] = (og_buffer){.bytes = 64 * cell[i].bytes,
                             .first = cell[i].first,
                             .last = cell[i].last};
    if (cell[i].last > steps) steps = cell[i].last;
  }
  if (og_buffers_place(buffers, CELL, steps + 1, NULL, &bytes, &bound,
                       &error) != OG_OK)
    return;
  check_all(buffers, CELL, bytes, bound);
  CHECK_EQ(bytes, bound);
}

TEST(a_chain_needs_two) {
  opgraft_error error;
  og_buffer buffers[10];
  size_t bytes = 0, bound = 0;
  for (int32_t i = 0; i < 10; ++i)
    buffers[i] = (og_buffer){.bytes = 64, .first = i, .last = i + 1};
  if (og_buffers_place(buffers, 10, 11, NULL, &bytes, &bound, &error) != OG_OK)
    return;
  CHECK_EQ(bytes, 128);
  CHECK_EQ(bound, 128);
  CHECK_EQ(og_buffers_place(buffers, 0, 0, NULL, &bytes, &bound, &error),
           OG_OK);
  CHECK_EQ(bytes, 0);
}

TEST_MAIN("plan_place", CASE(random_lifetimes),
          CASE(an_unrolled_cell_meets_its_bound), CASE(a_chain_needs_two))
