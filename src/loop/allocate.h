// SPDX-License-Identifier: Apache-2.0
// Which value lies in which register.

#ifndef OG_LOOP_ALLOCATE_H
#define OG_LOOP_ALLOCATE_H

#include "loop/encoder.h"

void og_encoder_section_begin(og_encoder *e, const og_loop_step *steps,
                              int32_t count);
void og_encoder_step_begin(og_encoder *e, const og_loop_step *step);
void og_encoder_step_end(og_encoder *e, const og_loop_step *step, int32_t at);
// A register that is free until the step ends, or is bound.
int32_t og_encoder_take(og_encoder *e);
// A register for the result that may be an operand's whose last use this is.
int32_t og_encoder_result(og_encoder *e, const og_loop_instr *i, int32_t at);
void og_encoder_bind(og_encoder *e, int32_t value, int32_t reg);
// Where a value is: its register, else memory.
og_x86_rm og_encoder_home(og_encoder *e, int32_t value);
og_x86_rm og_encoder_table(og_encoder *e, uint32_t table);
int32_t og_encoder_in_register(og_encoder *e, int32_t value);
void og_encoder_load(og_encoder *e, int32_t value, int32_t reg);
bool og_encoder_dies(const og_encoder *e, const og_loop_instr *i, int32_t value,
                     int32_t at);
void og_encoder_operands(const og_encoder *e, const og_loop_step *step,
                         int32_t out[3]);

#endif  // OG_LOOP_ALLOCATE_H
