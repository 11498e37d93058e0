// SPDX-License-Identifier: Apache-2.0
// Elements to and from registers.

#ifndef OG_LOOP_ENCODE_MEMORY_H
#define OG_LOOP_ENCODE_MEMORY_H

#include "loop/encoder.h"

void og_encoder_load_lanes(og_encoder *e, int32_t value);
void og_encoder_store_lanes(og_encoder *e, const og_loop_step *step);
void og_encoder_keep(og_encoder *e, const og_loop_step *step);
void og_encoder_reload(og_encoder *e, const og_loop_step *step);
void og_encoder_load_row(og_encoder *e, int32_t value);
void og_encoder_store_row(og_encoder *e, const og_loop_step *step);

#endif  // OG_LOOP_ENCODE_MEMORY_H
