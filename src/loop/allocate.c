// SPDX-License-Identifier: Apache-2.0
// Registers of a section: straight code, so the value whose next use is
// furthest goes first (Belady, "A study of replacement algorithms for a
// virtual-storage computer", 1966). Numbers and row values have a place in
// memory, and are loaded only where an instruction cannot read it there.

#include "loop/allocate.h"

#include "loop/encode_emit.h"

static bool has_memory(const og_encoder *e, int32_t value) {
  return e->l->code[value].op == OG_LANE_number || e->row_slot[value] >= 0;
}

// It stays in its register to the end of the section.
static bool is_held(const og_encoder *e, int32_t value) {
  return !e->is_row_section && e->held[value] >= 0;
}

void og_encoder_operands(const og_encoder *e, const og_loop_step *step,
                         int32_t out[3]) {
  const og_loop_instr *i = &e->l->code[step->value];
  const bool is_compute = step->action == OG_LOOP_COMPUTE;
  const bool is_reload = step->action == OG_LOOP_RELOAD;
  out[0] = is_compute ? i->a : is_reload ? OG_LOOP_NO_VALUE : step->value;
  out[1] = is_compute ? i->b : OG_LOOP_NO_VALUE;
  out[2] = is_compute ? i->c : OG_LOOP_NO_VALUE;
}

// When operands are used next, from the last step to the first; afterwards
// e->next is the first use of each value.
void og_encoder_section_begin(og_encoder *e, const og_loop_step *steps,
                              int32_t count) {
  for (int32_t r = 0; r < OG_ENCODER_REGISTERS_MAX; ++r)
    e->owner[r] = OG_LOOP_NO_VALUE;
  for (int32_t v = 0; v < e->l->count; ++v) {
    e->reg[v] = is_held(e, v) ? e->held[v] : -1;
    e->is_spilled[v] = false;
    e->next[v] = OG_ENCODER_NEVER;
  }
  for (int32_t k = count - 1; k >= 0; --k) {
    int32_t operands[3];
    og_encoder_operands(e, &steps[k], operands);
    for (int32_t j = 0; j < 3; ++j)
      if (operands[j] >= 0) e->next_after[k][j] = e->next[operands[j]];
    for (int32_t j = 0; j < 3; ++j)
      if (operands[j] >= 0) e->next[operands[j]] = k;
  }
  e->locked = 0;
  e->mask_value = OG_LOOP_NO_VALUE;
}

void og_encoder_step_begin(og_encoder *e, const og_loop_step *step) {
  int32_t operands[3];
  og_encoder_operands(e, step, operands);
  e->locked = 0;
  for (int32_t j = 0; j < 3; ++j)
    if (operands[j] >= 0 && e->reg[operands[j]] >= 0)
      e->locked |= 1u << e->reg[operands[j]];
}

static void release(og_encoder *e, int32_t value) {
  const int32_t reg = e->reg[value];
  if (reg < 0 || is_held(e, value)) return;
  e->owner[reg] = OG_LOOP_NO_VALUE;
  e->reg[value] = -1;
}

void og_encoder_step_end(og_encoder *e, const og_loop_step *step, int32_t at) {
  int32_t operands[3];
  og_encoder_operands(e, step, operands);
  for (int32_t j = 0; j < 3; ++j) {
    if (operands[j] < 0) continue;
    e->next[operands[j]] = e->next_after[at][j];
    if (e->next_after[at][j] == OG_ENCODER_NEVER) release(e, operands[j]);
  }
  e->locked = 0;
}

bool og_encoder_dies(const og_encoder *e, const og_loop_instr *i, int32_t value,
                     int32_t at) {
  const int32_t j = value == i->a ? 0 : value == i->b ? 1 : 2;
  return e->next_after[at][j] == OG_ENCODER_NEVER && !is_held(e, value);
}

static void evict(og_encoder *e, int32_t reg) {
  const int32_t value = e->owner[reg];
  if (!has_memory(e, value) && !e->is_spilled[value]) {
    if (e->spill[value] < 0)
      e->spill[value] = og_encoder_frame(e, e->has_wide ? 64 : 32);
    og_encoder_rm(e, OG_X86_vmovups_store, reg,
                  og_encoder_slot(e->spill[value]));
    e->is_spilled[value] = true;
  }
  release(e, value);
}

int32_t og_encoder_take(og_encoder *e) {
  int32_t best = -1;
  for (int32_t r = 0; r < e->register_count; ++r) {
    if ((e->locked | e->reserved) >> r & 1) continue;
    if (e->owner[r] == OG_LOOP_NO_VALUE) {
      best = r;
      break;
    }
    if (best < 0 || e->next[e->owner[r]] > e->next[e->owner[best]]) best = r;
  }
  if (best < 0) {  // cannot be: an instruction has few operands
    e->is_short = true;
    return 0;
  }
  if (e->owner[best] != OG_LOOP_NO_VALUE) evict(e, best);
  e->locked |= 1u << best;
  return best;
}

int32_t og_encoder_result(og_encoder *e, const og_loop_instr *i, int32_t at) {
  const int32_t operands[3] = {i->a, i->b, i->c};
  for (int32_t j = 0; j < 3; ++j)
    if (operands[j] >= 0 && e->reg[operands[j]] >= 0 &&
        og_encoder_dies(e, i, operands[j], at))
      return e->reg[operands[j]];
  return og_encoder_take(e);
}

void og_encoder_bind(og_encoder *e, int32_t value, int32_t reg) {
  if (e->owner[reg] != OG_LOOP_NO_VALUE) e->reg[e->owner[reg]] = -1;
  e->owner[reg] = value;
  e->reg[value] = reg;
}

og_x86_rm og_encoder_home(og_encoder *e, int32_t value) {
  const og_loop_instr *i = &e->l->code[value];
  if (e->reg[value] >= 0) return og_x86_reg(e->reg[value]);
  if (i->op == OG_LANE_number) {
    if (e->pool[value] < 0) e->pool[value] = og_x86_label(e->x);
    return (og_x86_rm){.place = OG_X86_LABEL,
                       .reg = e->pool[value],
                       .is_broadcast = e->bits == 512};
  }
  if (e->row_slot[value] < 0) return og_encoder_slot(e->spill[value]);
  og_x86_rm slot = og_encoder_slot(e->row_slot[value]);
  slot.is_broadcast = e->bits == 512;
  return slot;
}

og_x86_rm og_encoder_table(og_encoder *e, uint32_t table) {
  int32_t *label = &e->tables[table];
  if (!e->is_row_section && e->held_tables[table] >= 0)
    return og_x86_reg(e->held_tables[table]);
  if (*label < 0) *label = og_x86_label(e->x);
  return (og_x86_rm){.place = OG_X86_LABEL, .reg = *label};
}

void og_encoder_load(og_encoder *e, int32_t value, int32_t reg) {
  og_x86_rm home = og_encoder_home(e, value);
  const bool is_broadcast = home.is_broadcast;
  home.is_broadcast = false;
  og_encoder_rm(e,
                home.place == OG_X86_REGISTER ? OG_X86_vmovaps
                : is_broadcast                ? OG_X86_vbroadcastss
                                              : OG_X86_vmovups,
                reg, home);
}

int32_t og_encoder_in_register(og_encoder *e, int32_t value) {
  if (e->reg[value] >= 0) return e->reg[value];
  const int32_t reg = og_encoder_take(e);
  og_encoder_load(e, value, reg);
  og_encoder_bind(e, value, reg);
  return reg;
}
