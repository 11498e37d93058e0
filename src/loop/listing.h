// SPDX-License-Identifier: Apache-2.0
// Lowered programs and their machine code as text.

#ifndef OG_LOOP_LISTING_H
#define OG_LOOP_LISTING_H

#include "base/text.h"
#include "loop/lower.h"

// "v7 = fma v1 0.5 v3", "store y0 v7", without a line end.
void og_loop_step_print(const og_loop_lowered *lowered,
                        const og_loop_step *step, og_text *out);

// Every step, pass by pass.
void og_loop_passes_print(const og_loop_lowered *lowered, og_text *out);

// Every machine instruction: its offset, its bytes, its text. A line with a
// semicolon before them names the step that they compute. The machine need not
// have the set. Where the encoder writes no code: why, and the passes.
void og_loop_code_print(const og_loop_spec *spec,
                        const og_loop_lowered *lowered, og_isa isa,
                        og_text *out);

#endif  // OG_LOOP_LISTING_H
