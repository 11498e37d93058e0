// SPDX-License-Identifier: Apache-2.0
// Calls of C functions.

#ifndef OG_LOOP_ENCODE_CALL_H
#define OG_LOOP_ENCODE_CALL_H

#include "loop/encoder.h"

// Of libm, out of line.
void og_encoder_call(og_encoder *e, int32_t value);
// Writes what the calls jump to.
void og_encoder_stubs(og_encoder *e);
// At the end of a pass: its kept rows become their running sums.
void og_encoder_running_sums(og_encoder *e);

#endif  // OG_LOOP_ENCODE_CALL_H
