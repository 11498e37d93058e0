// SPDX-License-Identifier: Apache-2.0
// Instructions on arrays of lanes, in C.

#ifndef OG_LOOP_LANES_H
#define OG_LOOP_LANES_H

#include "loop/lower.h"

// Operands that the instruction lacks may be NULL. `out` may be an operand.
typedef void (*og_loop_lanes_fn)(int64_t n, const og_loop_lane *a,
                                 const og_loop_lane *b, const og_loop_lane *c,
                                 uint32_t imm, og_loop_lane *out);
// For the instructions of lanes.def and OG_LANE_call.
og_loop_lanes_fn og_loop_lanes_find(og_loop_op op);

// Adds n elements to the partial sums: element i to partial i modulo 32.
void og_loop_lanes_reduce(og_loop_reduction kind, int64_t n,
                          const og_loop_lane *from, og_loop_lane *partials);
// What the partials are at first.
og_loop_lane og_loop_neutral(og_loop_reduction kind);
// Joins 32 partials: lane k with lane k + 16, then k + 8, k + 4, k + 2, k + 1.
og_loop_lane og_loop_lanes_join(og_loop_reduction kind,
                                const og_loop_lane *partials);

// Between memory and lanes; `from` and `to` need no alignment.
void og_loop_lanes_load(og_loop_memory memory, int64_t n, const void *from,
                        og_loop_lane *out);
void og_loop_lanes_store(og_loop_memory memory, int64_t n,
                         const og_loop_lane *from, void *to);

#endif  // OG_LOOP_LANES_H
