// SPDX-License-Identifier: Apache-2.0
// Instructions on lanes as machine instructions.

#include "loop/encode_lanes.h"

#include "loop/allocate.h"
#include "loop/encode_call.h"
#include "loop/encode_emit.h"
#include "loop/encode_memory.h"

enum { EQ = 0, NE = 4, LT = 17, LE = 18 };              // quiet comparisons
enum { TO_EVEN = 8, DOWN = 9, UP = 10, TO_ZERO = 11 };  // and no exception

// Instructions that need no more than their operands, by vex and evex.
static const struct {
  og_x86_id id, wide_id;
  int32_t imm;
} plain[OG_LANE_COUNT] = {
    [OG_LANE_add] = {OG_X86_vaddps, OG_X86_vaddps, 0},
    [OG_LANE_sub] = {OG_X86_vsubps, OG_X86_vsubps, 0},
    [OG_LANE_mul] = {OG_X86_vmulps, OG_X86_vmulps, 0},
    [OG_LANE_div] = {OG_X86_vdivps, OG_X86_vdivps, 0},
    [OG_LANE_max] = {OG_X86_vmaxps, OG_X86_vmaxps, 0},
    [OG_LANE_min] = {OG_X86_vminps, OG_X86_vminps, 0},
    [OG_LANE_and] = {OG_X86_vandps, OG_X86_vandps, 0},
    [OG_LANE_or] = {OG_X86_vorps, OG_X86_vorps, 0},
    [OG_LANE_xor] = {OG_X86_vxorps, OG_X86_vxorps, 0},
    [OG_LANE_scale] = {.wide_id = OG_X86_vscalefps},
    [OG_LANE_int_add] = {OG_X86_vpaddd, OG_X86_vpaddd, 0},
    [OG_LANE_int_sub] = {OG_X86_vpsubd, OG_X86_vpsubd, 0},
    [OG_LANE_sqrt] = {OG_X86_vsqrtps, OG_X86_vsqrtps, 0},
    [OG_LANE_to_int] = {OG_X86_vcvttps2dq, OG_X86_vcvttps2dq, 0},
    [OG_LANE_to_float] = {OG_X86_vcvtdq2ps, OG_X86_vcvtdq2ps, 0},
    [OG_LANE_round] = {OG_X86_vroundps, OG_X86_vrndscaleps, TO_EVEN},
    [OG_LANE_floor] = {OG_X86_vroundps, OG_X86_vrndscaleps, DOWN},
    [OG_LANE_ceil] = {OG_X86_vroundps, OG_X86_vrndscaleps, UP},
    [OG_LANE_trunc] = {OG_X86_vroundps, OG_X86_vrndscaleps, TO_ZERO},
    [OG_LANE_eq] = {OG_X86_vcmpps, OG_X86_vcmpps_k, EQ},
    [OG_LANE_ne] = {OG_X86_vcmpps, OG_X86_vcmpps_k, NE},
    [OG_LANE_lt] = {OG_X86_vcmpps, OG_X86_vcmpps_k, LT},
    [OG_LANE_le] = {OG_X86_vcmpps, OG_X86_vcmpps_k, LE},
    [OG_LANE_shift_left] = {OG_X86_vpslld, OG_X86_vpslld, 0},
    [OG_LANE_shift_right] = {OG_X86_vpsrld, OG_X86_vpsrld, 0},
    [OG_LANE_shift_sign] = {OG_X86_vpsrad, OG_X86_vpsrad, 0},
};

static og_x86_id id_of(const og_encoder *e, og_loop_op op) {
  return e->bits == 512 ? plain[op].wide_id : plain[op].id;
}

static void unary(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  const og_x86_rm a = og_encoder_home(e, i->a);
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_imm(e, id_of(e, i->op), reg, 0, a, plain[i->op].imm);
  og_encoder_bind(e, value, reg);
}

static void shift(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  const og_x86_rm a = og_x86_reg(og_encoder_in_register(e, i->a));
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_imm(e, id_of(e, i->op), 0, reg, a, (int32_t)i->imm);
  og_encoder_bind(e, value, reg);
}

static void pick(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  const og_x86_rm table = og_encoder_table(e, i->imm);
  const int32_t a = og_encoder_in_register(e, i->a);
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_rvm(e, OG_X86_vpermps, reg, a, table);
  og_encoder_bind(e, value, reg);
}

// The first operand is in a register, the second anywhere.
static void order(const og_encoder *e, const og_loop_instr *i,
                  bool is_commutative, int32_t *a, int32_t *b) {
  const bool swaps = is_commutative && e->reg[i->a] < 0 && e->reg[i->b] >= 0;
  *a = swaps ? i->b : i->a;
  *b = swaps ? i->a : i->b;
}

static bool is_commutative(og_loop_op op) {
  switch (op) {
#define OG_LOOP_OP(id, operands, commutes, ...) \
  case OG_LANE_##id:                            \
    return commutes;
#include "loop/lanes.def"
#undef OG_LOOP_OP
    default:
      return false;
  }
}

static void binary(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  int32_t a, b;
  order(e, i, is_commutative(i->op), &a, &b);
  const int32_t first = og_encoder_in_register(e, a);
  const og_x86_rm second = og_encoder_home(e, b);
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_imm(e, id_of(e, i->op), reg, first, second, plain[i->op].imm);
  og_encoder_bind(e, value, reg);
}

// Whether all that reads a mask is a select that is the next step.
static bool is_chosen_next(const og_encoder *e, const og_loop_step *step,
                           int32_t at) {
  const int32_t value = step->value;
  if (e->next[value] != at + 1 || step[1].action != OG_LOOP_COMPUTE)
    return false;
  const og_loop_instr *next = &e->l->code[step[1].value];
  return next->op == OG_LANE_select && next->a == value && next->b != value &&
         next->c != value && e->next_after[at + 1][0] == OG_ENCODER_NEVER;
}

static void compare(og_encoder *e, const og_loop_step *step, int32_t at) {
  const int32_t value = step->value;
  const og_loop_instr *i = &e->l->code[value];
  int32_t a, b;
  if (e->bits != 512) {
    binary(e, value, at);
    return;
  }
  order(e, i, is_commutative(i->op), &a, &b);
  const int32_t first = og_encoder_in_register(e, a);
  const og_x86_rm second = og_encoder_home(e, b);
  og_encoder_imm(e, OG_X86_vcmpps_k, 1, first, second, plain[i->op].imm);
  e->mask_value = value;
  if (is_chosen_next(e, step, at)) return;
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_rm(e, OG_X86_vpmovm2d, reg, og_x86_reg(1));
  og_encoder_bind(e, value, reg);
}

static void choose(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  const bool is_wide = e->bits == 512;
  const bool has_mask = is_wide && e->mask_value == i->a;
  const int32_t mask = has_mask ? -1 : og_encoder_in_register(e, i->a);
  const int32_t other = og_encoder_in_register(e, i->c);
  const og_x86_rm chosen = og_encoder_home(e, i->b);
  const int32_t reg = og_encoder_result(e, i, at);
  if (is_wide) {
    if (!has_mask) og_encoder_rm(e, OG_X86_vpmovd2m, 1, og_x86_reg(mask));
    e->mask_value = i->a;
    og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vblendmps,
                                     .reg = reg,
                                     .src = other,
                                     .rm = chosen,
                                     .bits = 512,
                                     .mask = 1});
  } else {
    og_encoder_imm(e, OG_X86_vblendvps, reg, other, chosen, mask);
  }
  og_encoder_bind(e, value, reg);
}

// --- Scaling by a power of two -----------------------------------------------

static og_x86_rm one_bits(og_encoder *e) {
  if (e->one < 0) e->one = og_x86_label(e->x);
  return (og_x86_rm){.place = OG_X86_LABEL, .reg = e->one};
}

// In two steps, of which the first is exact.
static void scale_narrow(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  const int32_t half = og_encoder_take(e), rest = og_encoder_take(e);
  const int32_t a = og_encoder_in_register(e, i->a);
  const og_x86_rm one = one_bits(e);
  og_encoder_rm(e, OG_X86_vcvttps2dq, rest, og_encoder_home(e, i->b));
  og_encoder_imm(e, OG_X86_vpsrad, 0, half, og_x86_reg(rest), 1);
  og_encoder_imm(e, OG_X86_vpslld, 0, half, og_x86_reg(half), 23);
  og_encoder_imm(e, OG_X86_vpslld, 0, rest, og_x86_reg(rest), 23);
  og_encoder_rvm(e, OG_X86_vpsubd, rest, rest, og_x86_reg(half));
  og_encoder_rvm(e, OG_X86_vpaddd, half, half, one);
  og_encoder_rvm(e, OG_X86_vpaddd, rest, rest, one);
  og_encoder_rvm(e, OG_X86_vmulps, half, a, og_x86_reg(half));
  const int32_t reg = og_encoder_result(e, i, at);
  og_encoder_rvm(e, OG_X86_vmulps, reg, half, og_x86_reg(rest));
  og_encoder_bind(e, value, reg);
}

static void scale(og_encoder *e, int32_t value, int32_t at) {
  if (e->bits == 512)
    binary(e, value, at);
  else
    scale_narrow(e, value, at);
}

// --- Fused multiply-add: one operand's register is the result's --------------

static bool is_free(const og_encoder *e, const og_loop_instr *i, int32_t value,
                    int32_t at) {
  return e->reg[value] >= 0 && og_encoder_dies(e, i, value, at);
}

// reg = x * reg + c.
static void fma_into_factor(og_encoder *e, int32_t reg, int32_t x, int32_t c) {
  if (e->reg[c] >= 0)
    og_encoder_rvm(e, OG_X86_vfmadd132ps, reg, e->reg[c],
                   og_encoder_home(e, x));
  else
    og_encoder_rvm(e, OG_X86_vfmadd213ps, reg, og_encoder_in_register(e, x),
                   og_encoder_home(e, c));
}

static void fma_into_copy(og_encoder *e, int32_t reg, int32_t a, int32_t b,
                          int32_t c) {
  if (e->reg[c] < 0) {
    const int32_t factor = e->reg[a] < 0 ? b : a;
    og_encoder_load(e, c, reg);
    og_encoder_rvm(e, OG_X86_vfmadd231ps, reg,
                   og_encoder_in_register(e, factor),
                   og_encoder_home(e, factor == a ? b : a));
    return;
  }
  const int32_t copied = e->reg[b] < 0 ? b : a;
  og_encoder_load(e, copied, reg);
  og_encoder_rvm(e, OG_X86_vfmadd132ps, reg, e->reg[c],
                 og_encoder_home(e, copied == a ? b : a));
}

static void multiply_add(og_encoder *e, int32_t value, int32_t at) {
  const og_loop_instr *i = &e->l->code[value];
  int32_t a, b, reg;
  order(e, i, true, &a, &b);
  if (is_free(e, i, i->c, at)) {
    reg = e->reg[i->c];
    og_encoder_rvm(e, OG_X86_vfmadd231ps, reg, og_encoder_in_register(e, a),
                   og_encoder_home(e, b));
  } else if (is_free(e, i, a, at)) {
    reg = e->reg[a];
    fma_into_factor(e, reg, b, i->c);
  } else if (is_free(e, i, b, at)) {
    reg = e->reg[b];
    fma_into_factor(e, reg, a, i->c);
  } else {
    reg = og_encoder_take(e);
    fma_into_copy(e, reg, a, b, i->c);
  }
  og_encoder_bind(e, value, reg);
}

// --- All ---------------------------------------------------------------------

static void width(og_encoder *e, int32_t value) {
  const int32_t reg = og_encoder_take(e);
  const og_x86_rm at =
      og_x86_at(OG_RDI, (int32_t)offsetof(og_loop_call, width));
  og_encoder_rvm(e, OG_X86_vcvtsi2ss, reg, reg, at);
  og_encoder_rm(e, OG_X86_vbroadcastss, reg, og_x86_reg(reg));
  og_encoder_bind(e, value, reg);
}

void og_encoder_compute(og_encoder *e, const og_loop_step *step, int32_t at) {
  const og_loop_instr *i = &e->l->code[step->value];
  switch (i->op) {
    case OG_LANE_number:
    case OG_LANE_joined:
      break;  // in memory
    case OG_LANE_width:
      width(e, step->value);
      break;
    case OG_LANE_load:
      if (e->is_row_section)
        og_encoder_load_row(e, step->value);
      else
        og_encoder_load_lanes(e, step->value);
      break;
    case OG_LANE_call:
      og_encoder_call(e, step->value);
      break;
    case OG_LANE_fma:
      multiply_add(e, step->value, at);
      break;
    case OG_LANE_scale:
      scale(e, step->value, at);
      break;
    case OG_LANE_select:
      choose(e, step->value, at);
      break;
    case OG_LANE_eq:
    case OG_LANE_ne:
    case OG_LANE_lt:
    case OG_LANE_le:
      compare(e, step, at);
      break;
    case OG_LANE_shift_left:
    case OG_LANE_shift_right:
    case OG_LANE_shift_sign:
      shift(e, step->value, at);
      break;
    case OG_LANE_pick:
      pick(e, step->value, at);
      break;
    default:
      if (og_loop_operand_count(i->op) == 1)
        unary(e, step->value, at);
      else
        binary(e, step->value, at);
  }
}
