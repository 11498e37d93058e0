// SPDX-License-Identifier: Apache-2.0
// Partial sums, and how they are joined: lane k with lane k + 16, k + 8, k + 4,
// k + 2, k + 1.

#include "loop/encode_reduce.h"

#include "loop/allocate.h"
#include "loop/encode_emit.h"

enum { UNORDERED = 3 };
enum { SWAP_PAIRS = 0x4E, SWAP_LANES = 0xB1 };
// Of a reduction's parts: those of values first.
enum { NANS = OG_ENCODER_VECTORS };
// Of a join, when no other value lives.
enum { SECOND = 11, LOW, GREATER, IS_NAN, HIGH };

static og_x86_rm neutral(og_encoder *e, og_loop_reduction kind) {
  if (e->neutral[kind] < 0) e->neutral[kind] = og_x86_label(e->x);
  return (og_x86_rm){.place = OG_X86_LABEL, .reg = e->neutral[kind]};
}

static og_x86_id extreme_of(og_loop_reduction kind) {
  return kind == OG_LOOP_MAX ? OG_X86_vmaxps : OG_X86_vminps;
}

// --- Before the elements -----------------------------------------------------

static void partial_place(og_encoder *e, int32_t r, int32_t part,
                          int32_t *used) {
  const int32_t most = og_encoder_partials_most(e);
  e->partial_reg[r][part] = *used < most ? (*used)++ : -1;
  if (e->partial_reg[r][part] >= 0)
    e->reserved |= 1u << e->partial_reg[r][part];
  else if (e->partial_at[r][part] < 0)
    e->partial_at[r][part] = og_encoder_frame(e, e->bits / 8);
}

static void part_put(og_encoder *e, int32_t r, int32_t part, int32_t reg) {
  if (e->partial_reg[r][part] < 0)
    og_encoder_rm(e, OG_X86_vmovups_store, reg,
                  og_encoder_slot(e->partial_at[r][part]));
}

static void partial_begin(og_encoder *e, int32_t r, int32_t part,
                          int32_t *used) {
  partial_place(e, r, part, used);
  const int32_t reg = e->partial_reg[r][part];
  const int32_t to = reg >= 0 ? reg : HIGH;
  if (part >= NANS)
    og_encoder_rvm(e, OG_X86_vxorps, to, to, og_x86_reg(to));
  else
    og_encoder_rm(e, e->bits == 512 ? OG_X86_vbroadcastss : OG_X86_vmovups, to,
                  neutral(e, e->l->reductions[r].kind));
  part_put(e, r, part, to);
  if (part >= NANS || e->l->reductions[r].kind != OG_LOOP_SUM) return;
  if (e->total_at[r][part] < 0)
    e->total_at[r][part] = og_encoder_frame(e, e->bits / 8);
  og_encoder_rm(e, OG_X86_vmovups_store, to,
                og_encoder_slot(e->total_at[r][part]));
}

void og_encoder_partials_begin(og_encoder *e) {
  int32_t used = 0;
  e->reserved = e->held_registers;
  for (int32_t r = 0; r < e->l->reduction_count; ++r) {
    if (e->l->reductions[r].pass != e->pass) continue;
    for (int32_t part = 0; part < og_encoder_parts(e); ++part) {
      partial_begin(e, r, part, &used);
      if (e->l->reductions[r].kind != OG_LOOP_SUM)
        partial_begin(e, r, NANS + part, &used);
    }
  }
}

// --- An element --------------------------------------------------------------

static void sum(og_encoder *e, int32_t partial, int32_t value) {
  og_x86_rm addend = og_encoder_home(e, value);
  if (e->is_masked && e->bits != 512) {
    // + 0, which a sum that began as + 0 does not see.
    const int32_t kept = og_encoder_take(e);
    og_encoder_rvm(e, OG_X86_vandps, kept, og_encoder_in_register(e, value),
                   og_encoder_slot(e->mask_at[e->tail]));
    addend = og_x86_reg(kept);
  }
  og_x86_emit(e->x,
              (og_x86_instr){.id = OG_X86_vaddps,
                             .reg = partial,
                             .src = partial,
                             .rm = addend,
                             .bits = e->bits,
                             .mask = e->is_masked && e->bits == 512 ? 2 : 0});
}

static og_x86_rm masked_value(og_encoder *e, og_loop_reduction kind,
                              int32_t value) {
  const int32_t mask = og_encoder_take(e), kept = og_encoder_take(e);
  og_encoder_rm(e, OG_X86_vmovups, mask, og_encoder_slot(e->mask_at[e->tail]));
  og_encoder_rm(e, OG_X86_vmovups, kept, neutral(e, kind));
  og_encoder_imm(e, OG_X86_vblendvps, kept, kept, og_encoder_home(e, value),
                 mask);
  return og_x86_reg(kept);
}

// The greater; the value where both are equal or one is a NaN.
static void extreme(og_encoder *e, og_loop_reduction kind, int32_t partial,
                    int32_t value) {
  if (e->is_masked && e->bits != 512) {
    og_encoder_rvm(e, extreme_of(kind), partial, partial,
                   masked_value(e, kind, value));
    return;
  }
  og_x86_emit(e->x, (og_x86_instr){.id = extreme_of(kind),
                                   .reg = partial,
                                   .src = partial,
                                   .rm = og_encoder_home(e, value),
                                   .bits = e->bits,
                                   .mask = e->is_masked ? 2 : 0});
}

// Where the value is a NaN, `nans` becomes one.
static void nans_note(og_encoder *e, int32_t nans, int32_t value) {
  const int32_t reg = og_encoder_in_register(e, value);
  if (e->bits == 512) {
    og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vcmpps_k,
                                     .reg = 1,
                                     .src = reg,
                                     .rm = og_x86_reg(reg),
                                     .imm = UNORDERED,
                                     .bits = 512,
                                     .mask = e->is_masked ? 2 : 0});
    og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vmovaps,
                                     .reg = nans,
                                     .rm = og_x86_reg(reg),
                                     .bits = 512,
                                     .mask = 1});
    e->mask_value = OG_LOOP_NO_VALUE;
    return;
  }
  const int32_t are = og_encoder_take(e);
  og_encoder_imm(e, OG_X86_vcmpps, are, reg, og_x86_reg(reg), UNORDERED);
  if (e->is_masked)
    og_encoder_rvm(e, OG_X86_vandps, are, are,
                   og_encoder_slot(e->mask_at[e->tail]));
  og_encoder_rvm(e, OG_X86_vorps, nans, nans, og_x86_reg(are));
}

// Where a part lies: its register, else `reg`, to which it is loaded.
static int32_t part_load(og_encoder *e, int32_t r, int32_t part, int32_t reg) {
  if (e->partial_reg[r][part] >= 0) return e->partial_reg[r][part];
  og_encoder_rm(e, OG_X86_vmovups, reg,
                og_encoder_slot(e->partial_at[r][part]));
  return reg;
}

static int32_t part_take(og_encoder *e, int32_t r, int32_t part) {
  const int32_t own = e->partial_reg[r][part];
  return own >= 0 ? own : part_load(e, r, part, og_encoder_take(e));
}

void og_encoder_reduce(og_encoder *e, const og_loop_step *step) {
  const int32_t r = step->index;
  const og_loop_reduction kind = e->l->reductions[r].kind;
  const int32_t partial = part_take(e, r, e->part);
  if (kind == OG_LOOP_SUM)
    sum(e, partial, step->value);
  else
    extreme(e, kind, partial, step->value);
  part_put(e, r, e->part, partial);
  if (kind == OG_LOOP_SUM) return;
  // A NaN is noted beside the extreme: its own chain is one instruction then.
  const int32_t nans = part_take(e, r, NANS + e->part);
  nans_note(e, nans, step->value);
  part_put(e, r, NANS + e->part, nans);
}

// --- Between elements --------------------------------------------------------

static bool is_sum(const og_encoder *e, int32_t r) {
  return e->l->reductions[r].pass == e->pass &&
         e->l->reductions[r].kind == OG_LOOP_SUM;
}

bool og_encoder_has_sum(const og_encoder *e) {
  for (int32_t r = 0; r < e->l->reduction_count; ++r)
    if (is_sum(e, r)) return true;
  return false;
}

// Values of elements are dead; what is held is not.
void og_encoder_carry(og_encoder *e) {
  int32_t spare = 0;
  while (e->reserved >> spare & 1) ++spare;
  for (int32_t r = 0; r < e->l->reduction_count; ++r) {
    if (!is_sum(e, r)) continue;
    for (int32_t part = 0; part < og_encoder_parts(e); ++part) {
      const og_x86_rm total = og_encoder_slot(e->total_at[r][part]);
      const int32_t partial = part_load(e, r, part, spare);
      og_encoder_rvm(e, OG_X86_vaddps, partial, partial, total);
      og_encoder_rm(e, OG_X86_vmovups_store, partial, total);
      og_encoder_rvm(e, OG_X86_vxorps, partial, partial, og_x86_reg(partial));
      part_put(e, r, part, partial);
    }
  }
}

// --- After the elements ------------------------------------------------------

// GREATER, or what is a NaN of `low`.
static void nans_keep(og_encoder *e, int32_t low) {
  if (e->bits == 512) {
    og_encoder_imm(e, OG_X86_vcmpps_k, 1, low, og_x86_reg(low), UNORDERED);
    og_x86_emit(e->x, (og_x86_instr){.id = OG_X86_vmovaps,
                                     .reg = GREATER,
                                     .rm = og_x86_reg(low),
                                     .bits = 512,
                                     .mask = 1});
    og_encoder_rm(e, OG_X86_vmovaps, low, og_x86_reg(GREATER));
    return;
  }
  og_encoder_imm(e, OG_X86_vcmpps, IS_NAN, low, og_x86_reg(low), UNORDERED);
  og_encoder_imm(e, OG_X86_vblendvps, low, GREATER, og_x86_reg(low), IS_NAN);
}

static void join_two(og_encoder *e, og_loop_reduction kind, int32_t low,
                     int32_t high) {
  if (kind == OG_LOOP_SUM) {
    og_encoder_rvm(e, OG_X86_vaddps, low, low, og_x86_reg(high));
    return;
  }
  og_encoder_rvm(e, extreme_of(kind), GREATER, low, og_x86_reg(high));
  nans_keep(e, low);
}

// Of one part, with what was noted beside it.
static int32_t part_end(og_encoder *e, int32_t r, int32_t part, int32_t reg) {
  const int32_t partial = part_load(e, r, part, reg);
  if (e->l->reductions[r].kind == OG_LOOP_SUM)
    og_encoder_rvm(e, OG_X86_vaddps, partial, partial,
                   og_encoder_slot(e->total_at[r][part]));
  else
    og_encoder_rvm(e, OG_X86_vorps, partial, partial,
                   og_x86_reg(part_load(e, r, NANS + part, IS_NAN)));
  return partial;
}

// Lanes k and k + 16, then k + 8: what is left is in 8 lanes of the result.
static int32_t parts_join(og_encoder *e, int32_t r, og_loop_reduction kind) {
  const int32_t low = part_end(e, r, 0, LOW);
  if (e->bits == 512) {
    join_two(e, kind, low, part_end(e, r, 1, HIGH));
    og_encoder_imm(e, OG_X86_vextractf64x4, low, 0, og_x86_reg(HIGH), 1);
    e->bits = 256;
    join_two(e, kind, low, HIGH);
    return low;
  }
  join_two(e, kind, low, part_end(e, r, 2, HIGH));
  const int32_t second = part_end(e, r, 1, SECOND);
  join_two(e, kind, second, part_end(e, r, 3, HIGH));
  join_two(e, kind, low, second);
  return low;
}

static void join_one(og_encoder *e, int32_t r) {
  const og_loop_reduction kind = e->l->reductions[r].kind;
  const int32_t bits = e->bits;
  const int32_t low = parts_join(e, r, kind);
  og_encoder_imm(e, OG_X86_vextractf128, low, 0, og_x86_reg(HIGH), 1);
  join_two(e, kind, low, HIGH);
  og_encoder_imm(e, OG_X86_vpermilps, HIGH, 0, og_x86_reg(low), SWAP_PAIRS);
  join_two(e, kind, low, HIGH);
  og_encoder_imm(e, OG_X86_vpermilps, HIGH, 0, og_x86_reg(low), SWAP_LANES);
  join_two(e, kind, low, HIGH);
  og_encoder_rm(e, OG_X86_vbroadcastss, low, og_x86_reg(low));
  og_encoder_rm(e, OG_X86_vmovups_store, low, og_encoder_slot(e->joined_at[r]));
  e->bits = bits;
}

void og_encoder_join(og_encoder *e) {
  for (int32_t r = 0; r < e->l->reduction_count; ++r)
    if (e->l->reductions[r].pass == e->pass) join_one(e, r);
  e->reserved = 0;
}
