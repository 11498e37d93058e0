// SPDX-License-Identifier: Apache-2.0
// libm's functions on lanes: what a program calls for lanes that an expansion
// cannot compute, and for functions that have none.

#ifndef OG_LOOP_CALL_H
#define OG_LOOP_CALL_H

#include "loop/lower.h"

// Where `mask` holds, out = the primitive of a and b (NULL or ignored where it
// has one operand); 0 elsewhere. `out` may be an operand.
void og_loop_call_lanes(int32_t scalar_op, int64_t n, const og_loop_lane *a,
                        const og_loop_lane *b, const og_loop_lane *mask,
                        og_loop_lane *out);

#endif  // OG_LOOP_CALL_H
