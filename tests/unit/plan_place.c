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

TEST_MAIN("plan_place", CASE(random_lifetimes), CASE(a_chain_needs_two))
