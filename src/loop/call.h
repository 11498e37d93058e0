// SPDX-License-Identifier: Apache-2.0
// What a program calls: libm's functions for lanes that an expansion cannot
// compute and for functions that have none, and running sums.

#ifndef OG_LOOP_CALL_H
#define OG_LOOP_CALL_H

#include "loop/lower.h"

// Where `mask` holds, out = the primitive of a and b (NULL or ignored where it
// has one operand); 0 elsewhere. `out` may be an operand.
void og_loop_call_lanes(int32_t scalar_op, int64_t n, const og_loop_lane *a,
                        const og_loop_lane *b, const og_loop_lane *mask,
                        og_loop_lane *out);

// A primitive's value by libm, of its name; 0 where no primitive has it.
float og_loop_call_named(const char *name, float a, float b);

// A row becomes its running sum, added in f64: a program calls it at the end of
// the pass that has written the row.
void og_loop_running_sum(og_loop_reduction kind, int64_t width, float *row);

#endif  // OG_LOOP_CALL_H
