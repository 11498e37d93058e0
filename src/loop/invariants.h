// SPDX-License-Identifier: Apache-2.0
// Numbers, tables and row values that stay in registers while elements pass.

#ifndef OG_LOOP_INVARIANTS_H
#define OG_LOOP_INVARIANTS_H

#include "loop/encoder.h"

// Chooses those of a pass, as far as its elements leave registers free.
void og_encoder_invariants_choose(og_encoder *e, const og_loop_pass *pass);
// Whether numbers and tables keep their registers from row to row.
bool og_encoder_numbers_stay(const og_encoder *e, const og_loop_pass *pass);
void og_encoder_numbers_load(og_encoder *e);
void og_encoder_row_values_load(og_encoder *e);

#endif  // OG_LOOP_INVARIANTS_H
