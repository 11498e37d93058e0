// SPDX-License-Identifier: Apache-2.0
// x86-64 machine code, instruction by instruction.

#ifndef OG_LOOP_X86_H
#define OG_LOOP_X86_H

#include "base/memory.h"

typedef enum og_x86_id {
#define OG_X86_ROW(id, ...) OG_X86_##id,
#include "loop/x86.def"
#undef OG_X86_ROW
  OG_X86_COUNT
} og_x86_id;

enum {
  OG_RAX,
  OG_RCX,
  OG_RDX,
  OG_RBX,
  OG_RSP,
  OG_RBP,
  OG_RSI,
  OG_RDI,
  OG_R8,
  OG_R9,
  OG_R10,
  OG_R11,
  OG_R12,
  OG_R13,
  OG_R14,
  OG_R15,
};

// The rm operand: a register, memory at [base + index * scale + disp] (no
// index: scale 0), or memory at a label.
typedef enum og_x86_place {
  OG_X86_REGISTER,
  OG_X86_MEMORY,
  OG_X86_LABEL,
} og_x86_place;

typedef struct og_x86_rm {
  og_x86_place place;
  int32_t reg;  // or base, or label
  int32_t index, scale;
  int32_t disp;
  bool is_broadcast;  // memory of 32 bits for every lane; EVEX only
} og_x86_rm;

typedef struct og_x86_instr {
  og_x86_id id;
  int32_t reg, src;
  og_x86_rm rm;
  int64_t imm;      // a label, of jumps
  int32_t bits;     // of the vector: 128, 256 or 512
  int32_t mask;     // 0: none
  bool is_zeroing;  // lanes without the mask become 0; else they stay
} og_x86_instr;

typedef struct og_x86_record {
  size_t at;
  int32_t origin;  // og_x86.origin when it was written
  og_x86_instr instr;
} og_x86_record;

typedef struct og_x86_fixup {
  size_t at;  // of 4 bytes, relative to their end plus `after`
  int32_t label;
  int32_t after;
} og_x86_fixup;

// Zeroed: no code yet. What it points to lies in the arena.
typedef struct og_x86 {
  og_arena *arena;
  uint8_t *bytes;
  size_t count, capacity;
  size_t code_count;  // bytes of code, before data
  og_x86_fixup *fixups;
  size_t fixup_count, fixup_capacity;
  size_t *labels;  // where they are; SIZE_MAX: not placed yet
  size_t label_count, label_capacity;
  bool is_short;   // of memory
  int32_t origin;  // what the next instructions are for, as their writer counts
  // For a listing: what was written; record_capacity 0: not.
  og_x86_record *records;
  size_t record_count, record_capacity;
} og_x86;

void og_x86_emit(og_x86 *x, og_x86_instr instr);
int32_t og_x86_label(og_x86 *x);
void og_x86_place_label(og_x86 *x, int32_t label);
void og_x86_align(og_x86 *x, size_t alignment);
void og_x86_data(og_x86 *x, const void *bytes, size_t count);
// Every label is placed by now.
void og_x86_fix(og_x86 *x);

static inline og_x86_rm og_x86_reg(int32_t reg) {
  return (og_x86_rm){.place = OG_X86_REGISTER, .reg = reg};
}
static inline og_x86_rm og_x86_at(int32_t base, int32_t disp) {
  return (og_x86_rm){.place = OG_X86_MEMORY, .reg = base, .disp = disp};
}
static inline og_x86_rm og_x86_indexed(int32_t base, int32_t index,
                                       int32_t scale, int32_t disp) {
  return (og_x86_rm){.place = OG_X86_MEMORY,
                     .reg = base,
                     .index = index,
                     .scale = scale,
                     .disp = disp};
}

// A line of a listing, as objdump -M intel writes it, with single spaces.
// `next` is where the instruction after it begins.
void og_x86_text(const og_x86 *x, const og_x86_record *record, size_t next,
                 char *buffer, size_t size);

// --- What the table says -----------------------------------------------------

typedef enum og_x86_form {
  OG_X86_RVM,
  OG_X86_RM,
  OG_X86_RMI,
  OG_X86_RVMI,
  OG_X86_RVMK,
  OG_X86_VMI,
  OG_X86_MR,
  OG_X86_MVR,
  OG_X86_MRI,
  OG_X86_NONE,
  OG_X86_GRM,
  OG_X86_GMR,
  OG_X86_GMI,  // imm32
  OG_X86_GMB,  // imm8
  OG_X86_GM,
  OG_X86_GO,
  OG_X86_GJ,
} og_x86_form;

typedef enum og_x86_class {
  OG_X86_CLASS__,
  OG_X86_CLASS_V,
  OG_X86_CLASS_H,
  OG_X86_CLASS_Q,
  OG_X86_CLASS_X,
  OG_X86_CLASS_S,
  OG_X86_CLASS_L,
  OG_X86_CLASS_K,
  OG_X86_CLASS_G8,
  OG_X86_CLASS_G16,
  OG_X86_CLASS_G32,
  OG_X86_CLASS_G64,
  OG_X86_CLASS_ADDRESS,
} og_x86_class;

typedef struct og_x86_row {
  const char *name;
  og_x86_form form;
  uint8_t prefix, map, w, opcode, digit;
  og_x86_class reg, src, rm;
} og_x86_row;

extern const og_x86_row og_x86_rows[OG_X86_COUNT];

// Bytes of memory that an rm operand is.
int32_t og_x86_rm_bytes(const og_x86_instr *instr);

#endif  // OG_LOOP_X86_H
