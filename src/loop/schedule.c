// SPDX-License-Identifier: Apache-2.0
// Instructions as passes over a row.
//
// A pass is the instructions that its reductions and stores need, in their own
// order. What a pass needs of an earlier one is computed again where that is
// cheap; else the earlier one keeps it. Passes are made from the last to the
// first, so that what is to be kept is known when its pass is made.

#include "loop/schedule.h"

enum {
  AGAIN_COST_MAX = 4,  // of what is computed again
  COST_SLOW = 4,       // a division or a square root
};

typedef struct schedule {
  const og_loop_instr *code;
  og_loop_lowered *out;
  int32_t *mark;        // by value: 1 + the last pass that was made with it
  int32_t *keep;        // by value: 1 + the scratch row
  int32_t *row_pass;    // by value: 1 + the pass whose row steps need it first
  bool *is_reloaded;    // by value, in the pass that is made
  int32_t pass;         // the one that is made
  int32_t count;        // of values in it
  uint32_t are_stored;  // outputs, in later passes
} schedule;

static void operands_of(const og_loop_instr *i, int32_t *out) {
  out[0] = i->a;
  out[1] = i->b;
  out[2] = i->c;
}

// --- What to compute again ---------------------------------------------------

static int32_t cost_of(const og_loop_instr *i) {
  if (i->op == OG_LANE_call) return AGAIN_COST_MAX + 1;
  return i->op == OG_LANE_div || i->op == OG_LANE_sqrt ? COST_SLOW : 1;
}

// Counts shared operands once for each use, which a cheap value has few of.
static int32_t again_cost(const schedule *s, int32_t value) {
  const og_loop_instr *i = &s->code[value];
  int32_t operands[3], cost = cost_of(i);
  operands_of(i, operands);
  for (int32_t k = 0; k < 3 && cost <= AGAIN_COST_MAX; ++k)
    if (operands[k] >= 0 && !s->code[operands[k]].is_row)
      cost += again_cost(s, operands[k]);
  return cost;
}

// --- One pass ----------------------------------------------------------------

static void need_row(schedule *s, int32_t value) {
  const og_loop_instr *i = &s->code[value];
  int32_t operands[3];
  if (i->op == OG_LANE_number || s->row_pass[value] != 0) return;
  // Inputs are read before any output is written.
  s->row_pass[value] = 1 + i->pass;
  operands_of(i, operands);
  for (int32_t k = 0; k < 3; ++k)
    if (operands[k] >= 0) need_row(s, operands[k]);
}

static void need(schedule *s, int32_t value) {
  const og_loop_instr *i = &s->code[value];
  int32_t operands[3];
  if (i->is_row) {
    need_row(s, value);
    return;
  }
  if (s->mark[value] == 1 + s->pass) return;
  s->mark[value] = 1 + s->pass;
  s->is_reloaded[value] =
      i->op == OG_LANE_summed ||
      (i->pass < s->pass &&
       (s->keep[value] != 0 || again_cost(s, value) > AGAIN_COST_MAX));
  ++s->count;
  if (s->is_reloaded[value]) {
    if (s->keep[value] == 0) s->keep[value] = ++s->out->keep_count;
    if (i->op == OG_LANE_summed)
      s->out->running[i->imm].keep = s->keep[value] - 1;
    return;
  }
  operands_of(i, operands);
  for (int32_t k = 0; k < 3; ++k)
    if (operands[k] >= 0) need(s, operands[k]);
}

// The last pass that has the value stores it, behind all that is read of the
// memory under it.
static bool is_stored_in(const schedule *s, const og_loop_stored *stored,
                         int32_t output) {
  return !stored->is_row && !(s->are_stored >> output & 1) &&
         (s->code[stored->value].pass == s->pass ||
          s->mark[stored->value] == 1 + s->pass);
}

static void steps_add(og_loop_pass *pass, og_loop_action action, int32_t value,
                      int32_t index) {
  pass->steps[pass->count++] = (og_loop_step){action, value, index};
}

static bool is_kept_now(const schedule *s, int32_t value) {
  const og_loop_instr *i = &s->code[value];
  return s->keep[value] != 0 && i->pass == s->pass && i->op != OG_LANE_summed;
}

static bool is_running_now(const schedule *s, int32_t n) {
  return s->out->running[n].pass == s->pass && s->out->running[n].keep >= 0;
}

static bool steps_make(schedule *s, const og_loop_reduced *reduced,
                       const og_loop_stored *stored, int32_t output_count,
                       og_arena *arena) {
  og_loop_lowered *out = s->out;
  og_loop_pass *pass = &out->passes[s->pass];
  const int32_t most =
      2 * s->count + output_count + out->reduction_count + out->running_count;
  pass->steps = og_arena_array(arena, (size_t)most, sizeof *pass->steps);
  if (pass->steps == NULL) return false;
  for (int32_t v = 0; v < out->count; ++v) {
    if (s->mark[v] != 1 + s->pass) continue;
    steps_add(pass, s->is_reloaded[v] ? OG_LOOP_RELOAD : OG_LOOP_COMPUTE, v,
              s->keep[v] - 1);
    if (is_kept_now(s, v)) steps_add(pass, OG_LOOP_KEEP, v, s->keep[v] - 1);
  }
  for (int32_t r = 0; r < out->reduction_count; ++r)
    if (reduced[r].pass == s->pass)
      steps_add(pass, OG_LOOP_REDUCE, reduced[r].value, r);
  for (int32_t n = 0; n < out->running_count; ++n)
    if (is_running_now(s, n))
      steps_add(pass, OG_LOOP_KEEP, out->running[n].value,
                out->running[n].keep);
  for (int32_t k = 0; k < output_count; ++k) {
    if (!is_stored_in(s, &stored[k], k)) continue;
    steps_add(pass, OG_LOOP_STORE, stored[k].value, k);
    s->are_stored |= 1u << k;
  }
  return true;
}

static bool pass_make(schedule *s, const og_loop_reduced *reduced,
                      const og_loop_stored *stored, int32_t output_count,
                      og_arena *arena) {
  s->count = 0;
  for (int32_t r = 0; r < s->out->reduction_count; ++r)
    if (reduced[r].pass == s->pass) need(s, reduced[r].value);
  for (int32_t n = 0; n < s->out->running_count; ++n)
    if (is_running_now(s, n)) need(s, s->out->running[n].value);
  for (int32_t k = 0; k < output_count; ++k)
    if (is_stored_in(s, &stored[k], k)) need(s, stored[k].value);
  for (int32_t v = 0; v < s->out->count; ++v)
    if (is_kept_now(s, v)) need(s, v);
  return steps_make(s, reduced, stored, output_count, arena);
}

// --- Row steps ---------------------------------------------------------------

static bool rows_make(schedule *s, const og_loop_stored *stored,
                      int32_t output_count, og_arena *arena) {
  og_loop_lowered *out = s->out;
  for (int32_t p = 0; p < out->pass_count; ++p) {
    og_loop_pass *pass = &out->passes[p];
    int32_t count = output_count;
    for (int32_t v = 0; v < out->count; ++v) count += s->row_pass[v] == 1 + p;
    pass->row_steps =
        og_arena_array(arena, (size_t)count, sizeof *pass->row_steps);
    if (pass->row_steps == NULL) return false;
    for (int32_t v = 0; v < out->count; ++v)
      if (s->row_pass[v] == 1 + p)
        pass->row_steps[pass->row_count++] =
            (og_loop_step){OG_LOOP_COMPUTE, v, 0};
    for (int32_t k = 0; k < output_count; ++k)
      if (stored[k].is_row && s->code[stored[k].value].pass == p)
        pass->row_steps[pass->row_count++] =
            (og_loop_step){OG_LOOP_STORE, stored[k].value, k};
  }
  return true;
}

// --- In place ----------------------------------------------------------------

// An input is read for the last time no later than the first store; rows are
// read before anything.
static uint32_t may_overwrite(const og_loop_lowered *out) {
  uint32_t may = ~0u, are_read = 0;
  for (int32_t p = out->pass_count - 1; p >= 0; --p) {
    const og_loop_pass *pass = &out->passes[p];
    // What a later pass reads lies under what this one writes.
    for (int32_t k = 0; k < pass->count; ++k)
      if (pass->steps[k].action == OG_LOOP_STORE) may &= ~are_read;
    for (int32_t k = 0; k < pass->count; ++k) {
      const og_loop_instr *i = &out->code[pass->steps[k].value];
      if (pass->steps[k].action == OG_LOOP_COMPUTE && i->op == OG_LANE_load)
        are_read |= 1u << i->imm;
    }
  }
  return may;
}

// --- The whole ---------------------------------------------------------------

static int32_t pass_count(const og_loop_lowered *out,
                          const og_loop_reduced *reduced,
                          const og_loop_stored *stored, int32_t output_count) {
  int32_t count = 1;
  for (int32_t k = 0; k < output_count; ++k)
    if (out->code[stored[k].value].pass >= count)
      count = out->code[stored[k].value].pass + 1;
  for (int32_t r = 0; r < out->reduction_count; ++r)
    if (reduced[r].pass >= count) count = reduced[r].pass + 1;
  for (int32_t n = 0; n < out->running_count; ++n)
    if (out->running[n].pass >= count) count = out->running[n].pass + 1;
  return count;
}

bool og_loop_schedule(const og_loop_reduced *reduced,
                      const og_loop_stored *stored, int32_t output_count,
                      og_arena *arena, og_loop_lowered *out) {
  const size_t n = (size_t)out->count;
  schedule s = {.code = out->code,
                .out = out,
                .mark = og_arena_array(arena, n, sizeof *s.mark),
                .keep = og_arena_array(arena, n, sizeof *s.keep),
                .row_pass = og_arena_array(arena, n, sizeof *s.row_pass),
                .is_reloaded = og_arena_array(arena, n, sizeof(bool))};
  out->pass_count = pass_count(out, reduced, stored, output_count);
  out->passes =
      og_arena_array(arena, (size_t)out->pass_count, sizeof *out->passes);
  if (s.mark == NULL || s.keep == NULL || s.row_pass == NULL ||
      s.is_reloaded == NULL || out->passes == NULL)
    return false;
  for (s.pass = out->pass_count - 1; s.pass >= 0; --s.pass)
    if (!pass_make(&s, reduced, stored, output_count, arena)) return false;
  for (int32_t k = 0; k < output_count; ++k)
    if (stored[k].is_row) need_row(&s, stored[k].value);
  for (int32_t v = 0; v < out->count; ++v)
    out->has_call |= s.code[v].op == OG_LANE_call;
  out->may_overwrite = may_overwrite(out);
  return rows_make(&s, stored, output_count, arena);
}
