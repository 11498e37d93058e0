// SPDX-License-Identifier: Apache-2.0
// Tasks of a loop, one range of neighbours for each worker, with work stealing.
//
// A loop's shares come from one counter, so a worker's tasks lie here and
// there, and it cannot prefetch the next one's weights. A worker whose own
// range is used up steals from the end of the fullest other one.
// Source: Blumofe and Leiserson, "Scheduling multithreaded computations by work
// stealing", 1999.

#ifndef OG_EXEC_FAST_RANGES_H
#define OG_EXEC_FAST_RANGES_H

#include <stdint.h>

// One cache line, which its worker mostly has to itself.
typedef struct og_range {
  _Alignas(64) uint64_t tasks;  // the first in the upper half, the end
} og_range;

enum { OG_RANGE_TASKS_MAX = INT32_MAX };

// Shares out tasks [0, count), at most OG_RANGE_TASKS_MAX, to `workers` ranges.
void og_ranges_begin(og_range *ranges, int32_t workers, int64_t count);
// Takes at most `most` tasks, neighbours, for a worker: returns how many, 0
// where none are left. Any number of workers at once.
int64_t og_ranges_take(og_range *ranges, int32_t workers, int32_t worker,
                       int64_t most, int64_t *out_first);

#endif  // OG_EXEC_FAST_RANGES_H
