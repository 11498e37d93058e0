// SPDX-License-Identifier: Apache-2.0
// Value numbering, constant folding and identities that are exact.

#include "loop/build.h"

#include <string.h>

#include "loop/lanes.h"

enum { FIRST_CAPACITY = 256, ONES = -1 };

typedef struct row_text {
  const char *name;
  int32_t operands;
  bool is_commutative;
} row_text;

static const row_text rows[OG_LANE_COUNT] = {
    [OG_LANE_number] = {"number", 0, false},
    [OG_LANE_width] = {"width", 0, false},
    [OG_LANE_load] = {"load", 0, false},
    [OG_LANE_joined] = {"joined", 0, false},
    [OG_LANE_summed] = {"summed", 0, false},
    [OG_LANE_call] = {"call", 3, false},
#define OG_LOOP_OP(id, operands, is_commutative, ...) \
  [OG_LANE_##id] = {#id, operands, is_commutative},
#include "loop/lanes.def"
#undef OG_LOOP_OP
};

int32_t og_loop_operand_count(og_loop_op op) { return rows[op].operands; }

const char *og_loop_op_name(og_loop_op op) { return rows[op].name; }

bool og_loop_builder_init(og_loop_builder *b, og_arena *arena) {
  memset(b, 0, sizeof *b);
  b->arena = arena;
  b->capacity = FIRST_CAPACITY;
  b->code = og_arena_array(arena, FIRST_CAPACITY, sizeof *b->code);
  b->table = og_arena_array(arena, 2 * FIRST_CAPACITY, sizeof *b->table);
  if (b->code == NULL || b->table == NULL) return false;
  memset(b->table, 0xff, 2 * FIRST_CAPACITY * sizeof *b->table);
  return true;
}

// --- Value numbering ---------------------------------------------------------

static uint32_t hash_of(const og_loop_instr *i) {
  uint32_t hash = (uint32_t)i->op * 0x9E3779B1u;
  hash = (hash ^ (uint32_t)i->a) * 0x85EBCA77u;
  hash = (hash ^ (uint32_t)i->b) * 0xC2B2AE3Du;
  hash = (hash ^ (uint32_t)i->c) * 0x27D4EB2Fu;
  hash = (hash ^ i->imm) * 0x165667B1u;
  return hash ^ hash >> 15;
}

static bool is_same(const og_loop_instr *x, const og_loop_instr *y) {
  return x->op == y->op && x->a == y->a && x->b == y->b && x->c == y->c &&
         x->imm == y->imm;
}

// The entry of an equal instruction, or a free one.
static int32_t *table_find(const og_loop_builder *b, const og_loop_instr *i) {
  const uint32_t mask = 2 * (uint32_t)b->capacity - 1;
  uint32_t at = hash_of(i) & mask;
  while (b->table[at] >= 0 && !is_same(&b->code[b->table[at]], i))
    at = (at + 1) & mask;
  return &b->table[at];
}

static bool grow(og_loop_builder *b) {
  const size_t capacity = 2 * (size_t)b->capacity;
  og_loop_instr *code = og_arena_array(b->arena, capacity, sizeof *code);
  int32_t *table = og_arena_array(b->arena, 2 * capacity, sizeof *table);
  if (capacity > OG_LOOP_VALUES_MAX || code == NULL || table == NULL)
    return false;
  memcpy(code, b->code, (size_t)b->count * sizeof *code);
  memset(table, 0xff, 2 * capacity * sizeof *table);
  b->code = code;
  b->table = table;
  b->capacity = (int32_t)capacity;
  for (int32_t k = 0; k < b->count; ++k) *table_find(b, &code[k]) = k;
  return true;
}

// --- What is known of a value ------------------------------------------------

static bool has_sign(const og_loop_builder *b, const og_loop_instr *i) {
  bool of_operands = true;
  const int32_t operands[3] = {i->op == OG_LANE_select ? -1 : i->a, i->b, i->c};
  for (int32_t k = 0; k < 3; ++k)
    if (operands[k] >= 0) of_operands &= b->code[operands[k]].has_sign;
  switch (i->op) {
    case OG_LANE_joined:
    case OG_LANE_summed:
    case OG_LANE_call:
    case OG_LANE_add:
    case OG_LANE_sub:
    case OG_LANE_mul:
    case OG_LANE_div:
    case OG_LANE_fma:
    case OG_LANE_scale:
    case OG_LANE_sqrt:
      return false;
    default:
      return of_operands;
  }
}

static bool is_mask(const og_loop_builder *b, const og_loop_instr *i) {
  switch (i->op) {
    case OG_LANE_number:
      return i->imm + 1 <= 1;
    case OG_LANE_eq:
    case OG_LANE_ne:
    case OG_LANE_lt:
    case OG_LANE_le:
      return true;
    case OG_LANE_shift_sign:
      return i->imm == 31;
    case OG_LANE_and:
    case OG_LANE_or:
    case OG_LANE_xor:
      return b->code[i->a].is_mask && b->code[i->b].is_mask;
    case OG_LANE_select:
      return b->code[i->b].is_mask && b->code[i->c].is_mask;
    default:
      return false;
  }
}

static void describe(const og_loop_builder *b, og_loop_instr *i) {
  const int32_t operands[3] = {i->a, i->b, i->c};
  i->is_row = true;
  i->pass = 0;
  for (int32_t k = 0; k < 3; ++k) {
    if (operands[k] < 0) continue;
    const og_loop_instr *operand = &b->code[operands[k]];
    i->is_row &= operand->is_row;
    if (operand->pass > i->pass) i->pass = operand->pass;
  }
  if (i->op == OG_LANE_load) i->is_row = b->row_inputs >> i->imm & 1;
  if (i->op == OG_LANE_joined) i->pass = b->reductions[i->imm].pass + 1;
  if (i->op == OG_LANE_summed) {
    i->is_row = false;
    i->pass = b->running[i->imm].pass + 1;
  }
  i->is_mask = is_mask(b, i);
  i->has_sign = has_sign(b, i);
}

static int32_t add(og_loop_builder *b, og_loop_instr instr) {
  int32_t *entry = table_find(b, &instr);
  if (*entry >= 0) return *entry;
  if (b->count == b->capacity) {
    if (!grow(b)) {
      b->is_short = true;
      return 0;
    }
    entry = table_find(b, &instr);
  }
  describe(b, &instr);
  b->code[b->count] = instr;
  *entry = b->count;
  return b->count++;
}

int32_t og_loop_number_bits(og_loop_builder *b, uint32_t bits) {
  return add(b, (og_loop_instr){.op = OG_LANE_number,
                                .a = OG_LOOP_NO_VALUE,
                                .b = OG_LOOP_NO_VALUE,
                                .c = OG_LOOP_NO_VALUE,
                                .imm = bits});
}

int32_t og_loop_number_f32(og_loop_builder *b, float number) {
  const og_loop_lane lane = {.f = number};
  return og_loop_number_bits(b, lane.u);
}

// --- Folding and identities --------------------------------------------------

static bool is_number(const og_loop_builder *b, int32_t x) {
  return x >= 0 && b->code[x].op == OG_LANE_number;
}

static bool is_bits(const og_loop_builder *b, int32_t x, uint32_t bits) {
  return is_number(b, x) && b->code[x].imm == bits;
}

// Whether x is op(y, number); then y and the number's bits.
static bool is_with_number(const og_loop_builder *b, int32_t x, og_loop_op op,
                           int32_t *out_y, uint32_t *out_bits) {
  const og_loop_instr *i = &b->code[x];
  if (i->op != op || !is_number(b, i->b)) return false;
  *out_y = i->a;
  *out_bits = b->code[i->b].imm;
  return true;
}

static bool is_constant(const og_loop_builder *b, const og_loop_instr *i) {
  const int32_t operands[3] = {i->a, i->b, i->c};
  for (int32_t k = 0; k < 3; ++k)
    if (operands[k] >= 0 && !is_number(b, operands[k])) return false;
  return rows[i->op].operands > 0;
}

static int32_t fold(og_loop_builder *b, const og_loop_instr *i) {
  const int32_t operands[3] = {i->a, i->b, i->c};
  og_loop_lane lanes[3] = {{0}}, out;
  for (int32_t k = 0; k < 3; ++k)
    if (operands[k] >= 0) lanes[k].u = b->code[operands[k]].imm;
  og_loop_lanes_find(i->op)(1, &lanes[0], &lanes[1], &lanes[2], i->imm, &out);
  return og_loop_number_bits(b, out.u);
}

static const uint32_t one_bits = 0x3f800000u, minus_zero = 0x80000000u;

// x / 2^k is x * 2^-k where both powers are normal numbers.
static bool has_reciprocal(uint32_t bits, uint32_t *out) {
  const uint32_t exponent = bits >> 23 & 255;
  if ((bits & 0x7fffffu) != 0 || exponent < 2 || exponent > 252) return false;
  *out = (bits & minus_zero) | (254 - exponent) << 23;
  return true;
}

// A simpler value for an instruction on bits; -1: it cannot be simplified.
static int32_t simplify_bits(og_loop_builder *b, const og_loop_instr *i) {
  int32_t inner;
  uint32_t bits;
  if (i->a == i->b) return i->op == OG_LANE_xor ? -1 : i->a;
  if (!is_number(b, i->b)) return -1;
  const uint32_t own = b->code[i->b].imm;
  if (i->op == OG_LANE_and) {
    if (own == 0) return i->b;
    if (own == ~0u) return i->a;
    if (is_with_number(b, i->a, OG_LANE_and, &inner, &bits))
      return og_loop_emit(b, OG_LANE_and, inner,
                          og_loop_number_bits(b, bits & own), -1, 0);
    return -1;
  }
  if (own == 0) return i->a;
  if (i->op == OG_LANE_or) return own == ~0u ? i->b : -1;
  if (is_with_number(b, i->a, OG_LANE_xor, &inner, &bits))
    return og_loop_emit(b, OG_LANE_xor, inner,
                        og_loop_number_bits(b, bits ^ own), -1, 0);
  return -1;
}

static int32_t simplify_select(og_loop_builder *b, const og_loop_instr *i) {
  int32_t inner;
  uint32_t bits;
  if (i->b == i->c) return i->b;
  if (is_number(b, i->a)) return b->code[i->a].imm != 0 ? i->b : i->c;
  if (is_with_number(b, i->a, OG_LANE_xor, &inner, &bits) && bits == ~0u)
    return og_loop_emit(b, OG_LANE_select, inner, i->c, i->b, 0);
  return -1;
}

static int32_t simplify(og_loop_builder *b, const og_loop_instr *i) {
  uint32_t bits;
  switch (i->op) {
    case OG_LANE_mul:
      return is_bits(b, i->b, one_bits) ? i->a : -1;
    case OG_LANE_div:
      if (is_bits(b, i->b, one_bits)) return i->a;
      if (is_number(b, i->b) && has_reciprocal(b->code[i->b].imm, &bits))
        return og_loop_emit(b, OG_LANE_mul, i->a, og_loop_number_bits(b, bits),
                            -1, 0);
      return -1;
    case OG_LANE_add:
      return is_bits(b, i->b, minus_zero) ? i->a : -1;
    case OG_LANE_sub:
      return is_bits(b, i->b, 0) ? i->a : -1;
    case OG_LANE_and:
    case OG_LANE_or:
    case OG_LANE_xor:
      return simplify_bits(b, i);
    case OG_LANE_select:
      return simplify_select(b, i);
    default:
      return -1;
  }
}

int32_t og_loop_emit(og_loop_builder *b, og_loop_op op, int32_t x, int32_t y,
                     int32_t z, uint32_t imm) {
  if (b->is_short) return 0;
  const bool is_fma = op == OG_LANE_fma;
  const bool swaps =
      (rows[op].is_commutative || is_fma) &&
      (is_number(b, x) == is_number(b, y) ? x > y : is_number(b, x));
  const og_loop_instr instr = {
      .op = op, .a = swaps ? y : x, .b = swaps ? x : y, .c = z, .imm = imm};
  if (is_constant(b, &instr)) return fold(b, &instr);
  const int32_t simple = simplify(b, &instr);
  return simple >= 0 ? simple : add(b, instr);
}

// --- Truth -------------------------------------------------------------------

int32_t og_loop_to_mask(og_loop_builder *b, int32_t x) {
  int32_t inner;
  uint32_t bits;
  if (b->is_short) return 0;
  if (is_with_number(b, x, OG_LANE_and, &inner, &bits) && bits == one_bits &&
      b->code[inner].is_mask)
    return inner;
  return og_loop_emit(b, OG_LANE_ne, x, og_loop_number_bits(b, 0), -1, 0);
}

int32_t og_loop_from_mask(og_loop_builder *b, int32_t mask) {
  return og_loop_emit(b, OG_LANE_and, mask, og_loop_number_bits(b, one_bits),
                      -1, 0);
}
