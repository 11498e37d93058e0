// SPDX-License-Identifier: Apache-2.0
// Instructions as they are made: equal ones are one value, what has constant
// operands is a constant, what changes nothing is left out.

#ifndef OG_LOOP_BUILD_H
#define OG_LOOP_BUILD_H

#include "loop/lower.h"

enum { OG_LOOP_VALUES_MAX = 1 << 15 };

typedef struct og_loop_builder {
  og_arena *arena;
  og_loop_instr *code;
  int32_t count, capacity;
  const og_loop_reduce *reductions;  // of OG_LANE_joined
  const og_loop_running *running;    // of OG_LANE_summed
  uint32_t row_inputs;               // by input: one element for the row
  int32_t *table;  // of values by hash, -1: free; 2 * capacity entries
  bool is_short;   // of memory, or of values: later calls return value 0
  bool is_strict;  // functions are libm's
} og_loop_builder;

// False when memory is short.
bool og_loop_builder_init(og_loop_builder *b, og_arena *arena);

int32_t og_loop_emit(og_loop_builder *b, og_loop_op op, int32_t x, int32_t y,
                     int32_t z, uint32_t imm);
int32_t og_loop_number_bits(og_loop_builder *b, uint32_t bits);
int32_t og_loop_number_f32(og_loop_builder *b, float number);

// A float as a truth, and a truth as 0 or 1.
int32_t og_loop_to_mask(og_loop_builder *b, int32_t x);
int32_t og_loop_from_mask(og_loop_builder *b, int32_t mask);

// A float as the bits of bf16, rounded to nearest even; where low bits of a NaN
// may carry it is told apart.
int32_t og_loop_to_bfloat(og_loop_builder *b, int32_t x, bool may_carry);

// A scalar primitive of operands that are floats.
int32_t og_loop_expand(og_loop_builder *b, int32_t scalar_op, const int32_t *x);

#endif  // OG_LOOP_BUILD_H
