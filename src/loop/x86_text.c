// SPDX-License-Identifier: Apache-2.0
// Instructions as text.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loop/x86.h"

typedef struct writer {
  char *at;
  size_t left;
} writer;

#define PUT(w, ...)                                                \
  do {                                                             \
    const int wrote = snprintf((w)->at, (w)->left, __VA_ARGS__);   \
    const size_t used =                                            \
        (size_t)wrote < (w)->left ? (size_t)wrote : (w)->left - 1; \
    (w)->at += used;                                               \
    (w)->left -= used;                                             \
  } while (0)

// --- Names -------------------------------------------------------------------

static void mnemonic(writer *w, const og_x86_instr *i) {
  static const char *const predicates[32] = {
      [0] = "eq",  [3] = "unord",  [4] = "neq",
      [7] = "ord", [17] = "lt_oq", [18] = "le_oq"};
  const char *name = og_x86_rows[i->id].name;
  if (i->id == OG_X86_vcmpps || i->id == OG_X86_vcmpps_k) {
    PUT(w, "vcmp%sps", predicates[i->imm & 31]);
    return;
  }
  PUT(w, "%.*s", (int)strcspn(name, "_"), name);
}

static int32_t vector_bits(og_x86_class class, int32_t bits) {
  const int32_t of = class == OG_X86_CLASS_V   ? bits
                     : class == OG_X86_CLASS_H ? bits / 2
                     : class == OG_X86_CLASS_Q ? bits / 4
                                               : 128;
  return of < 128 ? 128 : of;
}

static void general_register(writer *w, og_x86_class class, int32_t reg) {
  static const char *const old[] = {"ax", "cx", "dx", "bx",
                                    "sp", "bp", "si", "di"};
  const int32_t bits = class == OG_X86_CLASS_G8    ? 8
                       : class == OG_X86_CLASS_G16 ? 16
                       : class == OG_X86_CLASS_G32 ? 32
                                                   : 64;
  if (reg >= 8)
    PUT(w, "r%d%s", (int)reg,
        bits == 64   ? ""
        : bits == 32 ? "d"
        : bits == 16 ? "w"
                     : "b");
  else if (bits == 8)
    PUT(w, "%.*sl", reg < 4 ? 1 : 2, old[reg]);
  else
    PUT(w, "%s%s", bits == 64 ? "r" : bits == 32 ? "e" : "", old[reg]);
}

static void any_register(writer *w, og_x86_class class, int32_t reg,
                         int32_t bits) {
  if (class >= OG_X86_CLASS_G8) {
    general_register(w, class, reg);
  } else if (class == OG_X86_CLASS_K) {
    PUT(w, "k%d", (int)reg);
  } else {
    const int32_t wide = vector_bits(class, bits);
    PUT(w, "%cmm%d", wide == 512 ? 'z' : wide == 256 ? 'y' : 'x', (int)reg);
  }
}

// --- Memory ------------------------------------------------------------------

static void memory_size(writer *w, const og_x86_instr *i) {
  if (og_x86_rows[i->id].rm == OG_X86_CLASS_ADDRESS) return;
  if (i->rm.is_broadcast) {
    PUT(w, "DWORD BCST ");
    return;
  }
  switch (og_x86_rm_bytes(i)) {
    case 1:
      PUT(w, "BYTE PTR ");
      break;
    case 2:
      PUT(w, "WORD PTR ");
      break;
    case 4:
      PUT(w, "DWORD PTR ");
      break;
    case 8:
      PUT(w, "QWORD PTR ");
      break;
    case 16:
      PUT(w, "XMMWORD PTR ");
      break;
    case 32:
      PUT(w, "YMMWORD PTR ");
      break;
    default:
      PUT(w, "ZMMWORD PTR ");
  }
}

static void memory(writer *w, const og_x86 *x, const og_x86_instr *i,
                   size_t next) {
  int32_t disp = i->rm.disp;
  memory_size(w, i);
  PUT(w, "[");
  if (i->rm.place == OG_X86_LABEL) {
    disp = (int32_t)(x->labels[i->rm.reg] - next);
    PUT(w, "rip");
  } else {
    general_register(w, OG_X86_CLASS_G64, i->rm.reg);
  }
  if (i->rm.place == OG_X86_MEMORY && i->rm.scale != 0) {
    PUT(w, "+");
    general_register(w, OG_X86_CLASS_G64, i->rm.index);
    PUT(w, "*%d", (int)i->rm.scale);
  }
  // rbp and r13 have no form without a displacement.
  if (disp != 0 || i->rm.place == OG_X86_LABEL || (i->rm.reg & 7) == OG_RBP)
    PUT(w, "%c0x%x", disp < 0 ? '-' : '+', (unsigned)(disp < 0 ? -disp : disp));
  PUT(w, "]");
}

// --- Operands ----------------------------------------------------------------

static void operand(writer *w, const og_x86 *x, const og_x86_instr *i,
                    char kind, size_t next) {
  const og_x86_row *row = &og_x86_rows[i->id];
  switch (kind) {
    case 'R':
      any_register(w, row->reg, i->reg, i->bits);
      break;
    case 'V':
      any_register(w, row->src, i->src, i->bits);
      break;
    case 'M':
      if (i->rm.place == OG_X86_REGISTER)
        any_register(w, row->rm, i->rm.reg, i->bits);
      else
        memory(w, x, i, next);
      break;
    case 'K':
      any_register(w, row->reg, (int32_t)i->imm, i->bits);
      break;
    case 'J':
      PUT(w, "0x%zx", x->labels[i->imm]);
      break;
    default:
      PUT(w, "0x%" PRIx64, (uint64_t)i->imm);
  }
}

// By form, in the order in which they are written.
static const char *operands_of(const og_x86_instr *i) {
  static const char *const written[] = {
      [OG_X86_RVM] = "RVM",  [OG_X86_RM] = "RM",     [OG_X86_RMI] = "RMI",
      [OG_X86_RVMI] = "RVM", [OG_X86_RVMK] = "RVMK", [OG_X86_VMI] = "VMI",
      [OG_X86_MR] = "MR",    [OG_X86_MVR] = "MVR",   [OG_X86_MRI] = "MRI",
      [OG_X86_NONE] = "",    [OG_X86_GRM] = "RM",    [OG_X86_GMR] = "MR",
      [OG_X86_GMI] = "MI",   [OG_X86_GMB] = "MI",    [OG_X86_GM] = "M",
      [OG_X86_GO] = "R",     [OG_X86_GJ] = "J",
  };
  if (i->id == OG_X86_vinsertf64x4) return "RVMI";
  return i->id == OG_X86_movabs ? "RI" : written[og_x86_rows[i->id].form];
}

void og_x86_text(const og_x86 *x, const og_x86_record *record, size_t next,
                 char *buffer, size_t size) {
  writer w = {buffer, size};
  const og_x86_instr *i = &record->instr;
  const char *operands = operands_of(i);
  mnemonic(&w, i);
  for (int32_t k = 0; operands[k] != '\0'; ++k) {
    PUT(&w, "%s", k == 0 ? " " : ",");
    operand(&w, x, i, operands[k], next);
    if (k == 0 && i->mask != 0)
      PUT(&w, "{k%d}%s", (int)i->mask, i->is_zeroing ? "{z}" : "");
  }
}
