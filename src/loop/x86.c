// SPDX-License-Identifier: Apache-2.0
// Prefixes, opcodes, operands. Source: Intel, "64 and IA-32 Architectures
// Software Developer's Manual", volume 2.

#include "loop/x86.h"

#include <string.h>

enum { PREFIX_0, PREFIX_66, PREFIX_F3 };  // as VEX says them
enum { MAP_NONE, MAP_0F, MAP_0F38, MAP_0F3A };

const og_x86_row og_x86_rows[OG_X86_COUNT] = {
#define OG_X86_ROW(id, form, prefix, map, w, opcode, digit, reg, src, rm) \
  [OG_X86_##id] = {#id,                                                   \
                   OG_X86_##form,                                         \
                   PREFIX_##prefix,                                       \
                   MAP_##map,                                             \
                   w,                                                     \
                   opcode,                                                \
                   digit,                                                 \
                   OG_X86_CLASS_##reg,                                    \
                   OG_X86_CLASS_##src,                                    \
                   OG_X86_CLASS_##rm},
#include "loop/x86.def"
#undef OG_X86_ROW
};

// --- Bytes -------------------------------------------------------------------

// Room for one element more in an array that doubles in the arena.
static bool room(og_x86 *x, void **array, size_t count, size_t *capacity,
                 size_t more, size_t size) {
  if (count + more <= *capacity) return true;
  size_t wider = *capacity < 256 ? 256 : 2 * *capacity;
  while (wider < count + more) wider *= 2;
  void *moved = x->is_short ? NULL : og_arena_array(x->arena, wider, size);
  if (moved == NULL) {
    x->is_short = true;
    return false;
  }
  if (count > 0) memcpy(moved, *array, count * size);
  *array = moved;
  *capacity = wider;
  return true;
}

void og_x86_data(og_x86 *x, const void *bytes, size_t count) {
  void *array = x->bytes;
  if (!room(x, &array, x->count, &x->capacity, count, 1)) return;
  x->bytes = array;
  memcpy(x->bytes + x->count, bytes, count);
  x->count += count;
}

static void byte(og_x86 *x, int32_t value) {
  const uint8_t b = (uint8_t)value;
  if (x->count < x->capacity)
    x->bytes[x->count++] = b;
  else
    og_x86_data(x, &b, 1);
}

static void little(og_x86 *x, int64_t value, int32_t bytes) {
  for (int32_t i = 0; i < bytes; ++i)
    byte(x, (int32_t)((uint64_t)value >> (8 * i) & 255));
}

void og_x86_align(og_x86 *x, size_t alignment) {
  while (!x->is_short && x->count % alignment != 0) byte(x, 0);
}

// --- Labels ------------------------------------------------------------------

int32_t og_x86_label(og_x86 *x) {
  void *array = x->labels;
  if (!room(x, &array, x->label_count, &x->label_capacity, 1,
            sizeof *x->labels))
    return 0;
  x->labels = array;
  x->labels[x->label_count] = SIZE_MAX;
  return (int32_t)x->label_count++;
}

void og_x86_place_label(og_x86 *x, int32_t label) {
  if (!x->is_short) x->labels[label] = x->count;
}

// 4 bytes that become the distance to a label from `after` bytes behind them.
static void distance(og_x86 *x, int32_t label, int32_t after) {
  void *array = x->fixups;
  if (!room(x, &array, x->fixup_count, &x->fixup_capacity, 1,
            sizeof *x->fixups))
    return;
  x->fixups = array;
  x->fixups[x->fixup_count++] = (og_x86_fixup){x->count, label, after};
  little(x, 0, 4);
}

void og_x86_fix(og_x86 *x) {
  for (size_t k = 0; !x->is_short && k < x->fixup_count; ++k) {
    const og_x86_fixup *f = &x->fixups[k];
    const int32_t by =
        (int32_t)((int64_t)x->labels[f->label] - (int64_t)f->at - 4 - f->after);
    memcpy(x->bytes + f->at, &by, sizeof by);
  }
}

// --- Operands ----------------------------------------------------------------

int32_t og_x86_rm_bytes(const og_x86_instr *instr) {
  const int32_t vector = instr->bits / 8;
  if (instr->rm.is_broadcast) return 4;
  switch (og_x86_rows[instr->id].rm) {
    case OG_X86_CLASS_V:
      return vector;
    case OG_X86_CLASS_H:
      return vector / 2;
    case OG_X86_CLASS_Q:
      return vector / 4;
    case OG_X86_CLASS_X:
      return 16;
    case OG_X86_CLASS_S:
    case OG_X86_CLASS_G32:
      return 4;
    case OG_X86_CLASS_G16:
      return 2;
    case OG_X86_CLASS_G8:
      return 1;
    default:
      return 8;
  }
}

static int32_t scale_bits(int32_t scale) {
  return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0;
}

// ModRM and what follows, of memory. A displacement of 8 bits counts in units
// of `unit` bytes.
static void memory(og_x86 *x, int32_t field, const og_x86_rm *rm,
                   int32_t unit) {
  const bool has_sib = rm->scale != 0 || (rm->reg & 7) == OG_RSP;
  const int32_t small = rm->disp / unit;
  const bool is_small = rm->disp % unit == 0 && small >= -128 && small < 128;
  const int32_t mode = rm->disp == 0 && (rm->reg & 7) != OG_RBP ? 0
                       : is_small                               ? 1
                                                                : 2;
  byte(x, mode << 6 | (field & 7) << 3 | (has_sib ? 4 : rm->reg & 7));
  if (has_sib)
    byte(x, scale_bits(rm->scale) << 6 |
                (rm->scale != 0 ? rm->index & 7 : 4) << 3 | (rm->reg & 7));
  if (mode == 1) byte(x, small & 255);
  if (mode == 2) little(x, rm->disp, 4);
}

// `after`: bytes of the immediate that follows.
static void operand(og_x86 *x, int32_t field, const og_x86_rm *rm, int32_t unit,
                    int32_t after) {
  if (rm->place == OG_X86_REGISTER) {
    byte(x, 0xC0 | (field & 7) << 3 | (rm->reg & 7));
  } else if (rm->place == OG_X86_LABEL) {
    byte(x, (field & 7) << 3 | 5);
    distance(x, rm->reg, after);
  } else {
    memory(x, field, rm, unit);
  }
}

// --- Vector instructions -----------------------------------------------------

// The extension bits of reg and rm, 1 where they are set.
typedef struct extension {
  int32_t r, x, b, r_high;
} extension;

static extension extension_of(int32_t reg, const og_x86_rm *rm) {
  extension e = {.r = reg >> 3 & 1, .r_high = reg >> 4 & 1};
  if (rm->place == OG_X86_REGISTER) {
    e.b = rm->reg >> 3 & 1;
    e.x = rm->reg >> 4 & 1;
  } else if (rm->place == OG_X86_MEMORY) {
    e.b = rm->reg >> 3 & 1;
    e.x = rm->scale != 0 ? rm->index >> 3 & 1 : 0;
  }
  return e;
}

static void vex(og_x86 *x, const og_x86_instr *i, int32_t reg, int32_t src) {
  const og_x86_row *row = &og_x86_rows[i->id];
  const extension e = extension_of(reg, &i->rm);
  const int32_t length = i->bits == 256 ? 1 : 0;
  const int32_t last = (~src & 15) << 3 | length << 2 | row->prefix;
  if (row->map == MAP_0F && row->w == 0 && e.x == 0 && e.b == 0) {
    byte(x, 0xC5);
    byte(x, !e.r << 7 | last);
  } else {
    byte(x, 0xC4);
    byte(x, !e.r << 7 | !e.x << 6 | !e.b << 5 | row->map);
    byte(x, row->w << 7 | last);
  }
  byte(x, row->opcode);
}

static void evex(og_x86 *x, const og_x86_instr *i, int32_t reg, int32_t src) {
  const og_x86_row *row = &og_x86_rows[i->id];
  const extension e = extension_of(reg, &i->rm);
  byte(x, 0x62);
  byte(x, !e.r << 7 | !e.x << 6 | !e.b << 5 | !e.r_high << 4 | row->map);
  byte(x, row->w << 7 | (~src & 15) << 3 | 4 | row->prefix);
  byte(x, i->is_zeroing << 7 | 2 << 5 | i->rm.is_broadcast << 4 |
              (~src >> 4 & 1) << 3 | i->mask);
  byte(x, row->opcode);
}

static bool has_imm8(og_x86_form form) {
  return form == OG_X86_RMI || form == OG_X86_RVMI || form == OG_X86_RVMK ||
         form == OG_X86_VMI || form == OG_X86_MRI;
}

static void vector(og_x86 *x, const og_x86_instr *i) {
  const og_x86_row *row = &og_x86_rows[i->id];
  const bool is_vmi = row->form == OG_X86_VMI;
  const int32_t field = is_vmi ? row->digit : i->reg;
  const int32_t src = row->src == OG_X86_CLASS__ ? 0 : i->src;
  const int32_t after = has_imm8(row->form) ? 1 : 0;
  const bool is_evex = i->bits == 512;
  if (is_evex)
    evex(x, i, field, src);
  else
    vex(x, i, field, src);
  if (row->form == OG_X86_NONE) return;
  operand(x, field, &i->rm, is_evex ? og_x86_rm_bytes(i) : 1, after);
  if (row->form == OG_X86_RVMK)
    byte(x, (int32_t)i->imm << 4);
  else if (after > 0)
    byte(x, (int32_t)i->imm);
}

// --- General registers -------------------------------------------------------

static void rex(og_x86 *x, const og_x86_row *row, int32_t reg,
                const og_x86_rm *rm) {
  const extension e = extension_of(reg, rm);
  const int32_t bits = row->w << 3 | e.r << 2 | e.x << 1 | e.b;
  if (row->prefix == PREFIX_66) byte(x, 0x66);
  // spl to dil need one.
  if (bits != 0 || row->reg == OG_X86_CLASS_G8) byte(x, 0x40 | bits);
}

static void general(og_x86 *x, const og_x86_instr *i) {
  const og_x86_row *row = &og_x86_rows[i->id];
  const bool has_digit = row->form == OG_X86_GMI || row->form == OG_X86_GMB ||
                         row->form == OG_X86_GM;
  const int32_t field = has_digit ? row->digit : i->reg;
  const int32_t imm_bytes = row->form == OG_X86_GMI   ? 4
                            : row->form == OG_X86_GMB ? 1
                                                      : 0;
  rex(x, row, field, &i->rm);
  if (row->map == MAP_0F) byte(x, 0x0F);
  byte(x, row->opcode);
  operand(x, field, &i->rm, 1, imm_bytes);
  little(x, i->imm, imm_bytes);
}

static void other(og_x86 *x, const og_x86_instr *i) {
  const og_x86_row *row = &og_x86_rows[i->id];
  const og_x86_rm reg = og_x86_reg(i->reg);
  switch (row->form) {
    case OG_X86_GJ:
      if (row->map == MAP_0F) byte(x, 0x0F);
      byte(x, row->opcode);
      distance(x, (int32_t)i->imm, 0);
      break;
    case OG_X86_GO:
      rex(x, row, 0, &reg);
      byte(x, row->opcode | (i->reg & 7));
      if (i->id == OG_X86_movabs) little(x, i->imm, 8);
      break;
    default:
      byte(x, row->opcode);
  }
}

static void record(og_x86 *x, const og_x86_instr *instr) {
  void *array = x->records;
  if (x->record_capacity == 0) return;
  if (!room(x, &array, x->record_count, &x->record_capacity, 1,
            sizeof *x->records))
    return;
  x->records = array;
  x->records[x->record_count++] = (og_x86_record){x->count, x->origin, *instr};
}

void og_x86_emit(og_x86 *x, og_x86_instr instr) {
  const og_x86_form form = og_x86_rows[instr.id].form;
  if (x->is_short) return;
  record(x, &instr);
  if (form == OG_X86_GJ || form == OG_X86_GO || instr.id == OG_X86_ret)
    other(x, &instr);
  else if (form >= OG_X86_GRM)
    general(x, &instr);
  else
    vector(x, &instr);
}
