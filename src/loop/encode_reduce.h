// SPDX-License-Identifier: Apache-2.0
// Partial sums, and how they are joined.

#ifndef OG_LOOP_ENCODE_REDUCE_H
#define OG_LOOP_ENCODE_REDUCE_H

#include "loop/encoder.h"

void og_encoder_partials_begin(og_encoder *e);
void og_encoder_reduce(og_encoder *e, const og_loop_step *step);
void og_encoder_join(og_encoder *e);

#endif  // OG_LOOP_ENCODE_REDUCE_H
