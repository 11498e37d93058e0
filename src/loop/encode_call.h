// SPDX-License-Identifier: Apache-2.0
// Calls of libm, out of line.

#ifndef OG_LOOP_ENCODE_CALL_H
#define OG_LOOP_ENCODE_CALL_H

#include "loop/encoder.h"

void og_encoder_call(og_encoder *e, int32_t value);
// Writes what the calls jump to.
void og_encoder_stubs(og_encoder *e);

#endif  // OG_LOOP_ENCODE_CALL_H
