// SPDX-License-Identifier: Apache-2.0
// Instructions as passes over a row.

#ifndef OG_LOOP_SCHEDULE_H
#define OG_LOOP_SCHEDULE_H

#include "loop/lower.h"

typedef struct og_loop_reduced {  // by reduction
  int32_t value;
  int32_t pass;
} og_loop_reduced;

typedef struct og_loop_stored {  // by output
  int32_t value;
  bool is_row;
} og_loop_stored;

// Fills the passes, what is kept, and which inputs may be overwritten. False
// when memory is short.
bool og_loop_schedule(const og_loop_reduced *reduced,
                      const og_loop_stored *stored, int32_t output_count,
                      og_arena *arena, og_loop_lowered *out);

#endif  // OG_LOOP_SCHEDULE_H
