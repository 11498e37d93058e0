// SPDX-License-Identifier: Apache-2.0
// Machine instructions of the section that is written.

#ifndef OG_LOOP_ENCODE_EMIT_H
#define OG_LOOP_ENCODE_EMIT_H

#include "loop/encoder.h"

// reg, src, rm of a vector of the section's size.
void og_encoder_rvm(og_encoder *e, og_x86_id id, int32_t reg, int32_t src,
                    og_x86_rm rm);
void og_encoder_rm(og_encoder *e, og_x86_id id, int32_t reg, og_x86_rm rm);
void og_encoder_imm(og_encoder *e, og_x86_id id, int32_t reg, int32_t src,
                    og_x86_rm rm, int32_t imm);
void og_encoder_general(og_encoder *e, og_x86_id id, int32_t reg, og_x86_rm rm);
void og_encoder_general_imm(og_encoder *e, og_x86_id id, og_x86_rm rm,
                            int64_t imm);
// The masks of a row's last lanes, from EAX: k2 has all 16, k3 the upper 8.
void og_encoder_masks(og_encoder *e);
void og_encoder_jump(og_encoder *e, og_x86_id id, int32_t label);
// Bytes of the frame, aligned to their size.
int32_t og_encoder_frame(og_encoder *e, int32_t bytes);
static inline og_x86_rm og_encoder_slot(int32_t at) {
  return og_x86_at(OG_RSP, at);
}

#endif  // OG_LOOP_ENCODE_EMIT_H
