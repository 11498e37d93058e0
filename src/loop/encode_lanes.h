// SPDX-License-Identifier: Apache-2.0
// Instructions on lanes as machine instructions.

#ifndef OG_LOOP_ENCODE_LANES_H
#define OG_LOOP_ENCODE_LANES_H

#include "loop/encoder.h"

// Step `at` of the section, which computes a value.
void og_encoder_compute(og_encoder *e, const og_loop_step *step, int32_t at);

#endif  // OG_LOOP_ENCODE_LANES_H
