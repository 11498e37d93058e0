// SPDX-License-Identifier: Apache-2.0
// Machine instructions of the section that is written.

#include "loop/encode_emit.h"

void og_encoder_imm(og_encoder *e, og_x86_id id, int32_t reg, int32_t src,
                    og_x86_rm rm, int32_t imm) {
  og_x86_emit(e->x, (og_x86_instr){.id = id,
                                   .reg = reg,
                                   .src = src,
                                   .rm = rm,
                                   .imm = imm,
                                   .bits = e->bits});
}

void og_encoder_rvm(og_encoder *e, og_x86_id id, int32_t reg, int32_t src,
                    og_x86_rm rm) {
  const bool is_scalar = id == OG_X86_vcvtsi2ss;
  og_x86_emit(e->x, (og_x86_instr){.id = id,
                                   .reg = reg,
                                   .src = src,
                                   .rm = rm,
                                   .bits = is_scalar ? 128 : e->bits});
}

void og_encoder_rm(og_encoder *e, og_x86_id id, int32_t reg, og_x86_rm rm) {
  og_encoder_imm(e, id, reg, 0, rm, 0);
}

void og_encoder_general(og_encoder *e, og_x86_id id, int32_t reg,
                        og_x86_rm rm) {
  og_x86_emit(e->x, (og_x86_instr){.id = id, .reg = reg, .rm = rm});
}

void og_encoder_general_imm(og_encoder *e, og_x86_id id, og_x86_rm rm,
                            int64_t imm) {
  og_x86_emit(e->x, (og_x86_instr){.id = id, .rm = rm, .imm = imm});
}

void og_encoder_masks(og_encoder *e) {
  og_x86_emit(
      e->x,
      (og_x86_instr){
          .id = OG_X86_kmovw, .reg = 2, .rm = og_x86_reg(OG_RAX), .bits = 128});
  og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_kshiftrw,
                                   .reg = 3,
                                   .rm = og_x86_reg(2),
                                   .imm = 8,
                                   .bits = 128});
}

void og_encoder_jump(og_encoder *e, og_x86_id id, int32_t label) {
  og_x86_emit(e->x, (og_x86_instr){.id = id, .imm = label});
}

int32_t og_encoder_frame(og_encoder *e, int32_t bytes) {
  const int32_t alignment = bytes >= 64 ? 64 : bytes;
  e->frame_bytes = (e->frame_bytes + alignment - 1) / alignment * alignment;
  const int32_t at = e->frame_bytes;
  e->frame_bytes += bytes;
  return at;
}
