// SPDX-License-Identifier: Apache-2.0
// Ranges of tasks, with work stealing.
//
// Invariant: a range only shrinks, from either side, until the next loop
// begins; so who takes tasks needs no order of memory, and their results are
// seen by whoever ends the loop.

#include "exec/fast/ranges.h"

#include <stdbool.h>

static int64_t first_of(uint64_t tasks) { return (int64_t)(tasks >> 32); }
static int64_t end_of(uint64_t tasks) { return (int64_t)(uint32_t)tasks; }

static uint64_t tasks_of(int64_t first, int64_t end) {
  return (uint64_t)first << 32 | (uint64_t)end;
}

void og_ranges_begin(og_range *ranges, int32_t workers, int64_t count) {
  for (int32_t w = 0; w < workers; ++w)
    __atomic_store_n(&ranges[w].tasks,
                     tasks_of(count * w / workers, count * (w + 1) / workers),
                     __ATOMIC_RELAXED);
}

// From the front, or from the end.
static int64_t range_take(og_range *range, int64_t most, bool is_front,
                          int64_t *out_first) {
  uint64_t found = __atomic_load_n(&range->tasks, __ATOMIC_RELAXED), rest;
  int64_t count;
  do {
    const int64_t first = first_of(found), end = end_of(found);
    count = end - first < most ? end - first : most;
    if (count == 0) return 0;
    *out_first = is_front ? first : end - count;
    rest =
        is_front ? tasks_of(first + count, end) : tasks_of(first, end - count);
  } while (!__atomic_compare_exchange_n(&range->tasks, &found, rest, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return count;
}

static int32_t fullest(const og_range *ranges, int32_t workers) {
  int32_t best = 0;
  int64_t most = -1;
  for (int32_t w = 0; w < workers; ++w) {
    const uint64_t tasks = __atomic_load_n(&ranges[w].tasks, __ATOMIC_RELAXED);
    if (end_of(tasks) - first_of(tasks) <= most) continue;
    most = end_of(tasks) - first_of(tasks);
    best = w;
  }
  return most > 0 ? best : -1;
}

int64_t og_ranges_take(og_range *ranges, int32_t workers, int32_t worker,
                       int64_t most, int64_t *out_first) {
  int64_t count = range_take(&ranges[worker], most, true, out_first);
  while (count == 0) {
    const int32_t victim = fullest(ranges, workers);
    if (victim < 0) return 0;
    count = range_take(&ranges[victim], most, false, out_first);
  }
  return count;
}
