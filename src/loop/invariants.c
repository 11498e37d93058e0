// SPDX-License-Identifier: Apache-2.0
// Numbers, tables and row values that stay in registers while elements pass.
//
// An instruction can read one operand in memory, but each such read takes a
// place of a load, of which a cycle has one or two: a function such as exp has
// more constants than that. So the registers that elements leave free take
// those that are read most. With AVX-512 these are registers that row steps
// and joins do not use.

#include "loop/invariants.h"

#include "loop/allocate.h"
#include "loop/encode_emit.h"

enum {
  TEMPORARIES = 4,  // of one step
  WIDE_FIRST = 16,  // of those that nothing else of a row uses
};

// --- What is free ------------------------------------------------------------

// Values of elements that live at once; next_after is the pass's.
static int32_t pressure_of(const og_encoder *e, const og_loop_pass *pass) {
  int32_t live = 0, most = 0;
  for (int32_t k = 0; k < pass->count; ++k) {
    const og_loop_step *step = &pass->steps[k];
    int32_t operands[3];
    live += step->action == OG_LOOP_COMPUTE || step->action == OG_LOOP_RELOAD;
    if (live > most) most = live;
    og_encoder_operands(e, step, operands);
    for (int32_t j = 0; j < 3; ++j) {
      const bool is_again = (j > 0 && operands[j] == operands[0]) ||
                            (j > 1 && operands[j] == operands[1]);
      if (operands[j] >= 0 && !is_again && !e->l->code[operands[j]].is_row)
        live -= e->next_after[k][j] == OG_ENCODER_NEVER;
    }
  }
  return most;
}

static int32_t partials_of(const og_encoder *e) {
  int32_t count = 0;
  for (int32_t r = 0; r < e->l->reduction_count; ++r)
    if (e->l->reductions[r].pass == e->pass)
      count += og_encoder_parts(e) *
               (e->l->reductions[r].kind == OG_LOOP_SUM ? 1 : 2);
  const int32_t most = og_encoder_partials_most(e);
  return count < most ? count : most;
}

// --- Choosing ----------------------------------------------------------------

// A call for each vector saves what lives in registers.
static bool calls_always(const og_encoder *e, const og_loop_pass *pass) {
  for (int32_t k = 0; k < pass->count; ++k)
    if (og_loop_computes(e->l, &pass->steps[k], OG_LANE_call) &&
        og_loop_is_number(&e->l->code[e->l->code[pass->steps[k].value].c]))
      return true;
  return false;
}

static void uses_count(og_encoder *e, const og_loop_pass *pass) {
  for (int32_t v = 0; v < e->l->count; ++v) e->uses[v] = 0;
  for (int32_t k = 0; k < pass->count; ++k) {
    int32_t operands[3];
    og_encoder_operands(e, &pass->steps[k], operands);
    for (int32_t j = 0; j < 3; ++j)
      if (operands[j] >= 0 && e->l->code[operands[j]].is_row)
        ++e->uses[operands[j]];
  }
}

static int32_t hold(og_encoder *e, int32_t reg) {
  e->held_registers |= 1u << reg;
  return reg;
}

static void tables_choose(og_encoder *e, const og_loop_pass *pass, int32_t reg,
                          int32_t first) {
  for (int32_t k = 0; k < pass->count && reg > first; ++k) {
    const uint32_t table = e->l->code[pass->steps[k].value].imm;
    if (og_loop_computes(e->l, &pass->steps[k], OG_LANE_pick) &&
        e->held_tables[table] < 0)
      e->held_tables[table] = hold(e, --reg);
  }
}

void og_encoder_invariants_choose(og_encoder *e, const og_loop_pass *pass) {
  int32_t reg = e->register_count;
  for (int32_t v = 0; v < e->l->count; ++v) e->held[v] = -1;
  for (int32_t t = 0; t < OG_LOOP_TABLES; ++t) e->held_tables[t] = -1;
  e->held_registers = 0;
  if (calls_always(e, pass)) return;
  og_encoder_section_begin(e, pass->steps, pass->count);
  int32_t first = pressure_of(e, pass) + partials_of(e) + TEMPORARIES;
  if (e->has_wide && first < WIDE_FIRST) first = WIDE_FIRST;
  uses_count(e, pass);
  for (int32_t least = 2; least > 0; --least)
    for (int32_t v = 0; v < e->l->count && reg > first; ++v) {
      if (e->uses[v] < least || e->held[v] >= 0) continue;
      e->held[v] = hold(e, --reg);
    }
  tables_choose(e, pass, reg, first);
}

// A call in a row step would have to save them.
bool og_encoder_numbers_stay(const og_encoder *e, const og_loop_pass *pass) {
  return e->l->pass_count == 1 && !e->l->has_call &&
         (e->has_wide || (pass->row_count == 0 && e->l->reduction_count == 0));
}

// --- Loading -----------------------------------------------------------------

static void load(og_encoder *e, bool are_numbers) {
  for (int32_t v = 0; v < e->l->count; ++v) {
    const int32_t reg = e->held[v];
    if (reg < 0 || og_loop_is_number(&e->l->code[v]) != are_numbers) continue;
    e->reg[v] = -1;  // from memory
    og_encoder_load(e, v, reg);
  }
}

void og_encoder_numbers_load(og_encoder *e) {
  load(e, true);
  for (int32_t t = 0; t < OG_LOOP_TABLES; ++t) {
    const int32_t reg = e->held_tables[t];
    if (reg < 0) continue;
    e->held_tables[t] = -1;  // from memory
    og_encoder_rm(e, OG_X86_vmovups, reg, og_encoder_table(e, (uint32_t)t));
    e->held_tables[t] = reg;
  }
}

void og_encoder_row_values_load(og_encoder *e) { load(e, false); }
