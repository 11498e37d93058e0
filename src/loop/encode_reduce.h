// SPDX-License-Identifier: Apache-2.0
// Partial sums, and how they are joined.

#ifndef OG_LOOP_ENCODE_REDUCE_H
#define OG_LOOP_ENCODE_REDUCE_H

#include "loop/encoder.h"

void og_encoder_partials_begin(og_encoder *e);
void og_encoder_reduce(og_encoder *e, const og_loop_step *step);
// Whether the pass has a sum, whose partial sums are then added to totals
// after every OG_LOOP_SUM_RUN elements that more whole steps follow.
bool og_encoder_has_sum(const og_encoder *e);
void og_encoder_carry(og_encoder *e);
void og_encoder_join(og_encoder *e);

#endif  // OG_LOOP_ENCODE_REDUCE_H
