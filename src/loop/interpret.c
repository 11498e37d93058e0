// SPDX-License-Identifier: Apache-2.0
// The interpreter. Row values and numbers have a tile of their own, filled with
// the value; vector values share tiles.

#include "loop/interpret.h"

#include <string.h>

#include "loop/call.h"
#include "loop/lanes.h"

// --- Tiles -------------------------------------------------------------------

static void last_uses(const og_loop_lowered *l, const og_loop_pass *pass,
                      int32_t *last) {
  for (int32_t k = 0; k < pass->count; ++k) {
    const og_loop_step *step = &pass->steps[k];
    const og_loop_instr *i = &l->code[step->value];
    last[step->value] = k;
    if (step->action != OG_LOOP_COMPUTE) continue;
    if (i->a >= 0) last[i->a] = k;
    if (i->b >= 0) last[i->b] = k;
    if (i->c >= 0) last[i->c] = k;
  }
}

typedef struct tile_maker {
  const og_loop_lowered *lowered;
  int32_t *slots, *last;
  int32_t *is_free;  // a stack of tiles
  int32_t free_count, count;
} tile_maker;

// An operand's tile is free once it was used last, but only after the result
// has one: instructions on arrays of their own are faster.
static void release(tile_maker *m, int32_t value, int32_t at) {
  if (value < 0 || m->lowered->code[value].is_row || m->last[value] != at)
    return;
  m->last[value] = -1;
  m->is_free[m->free_count++] = m->slots[value];
}

static void pass_tiles(tile_maker *m, const og_loop_pass *pass) {
  last_uses(m->lowered, pass, m->last);
  for (int32_t k = 0; k < pass->count; ++k) {
    const int32_t value = pass->steps[k].value;
    const og_loop_instr *i = &m->lowered->code[value];
    const og_loop_action action = pass->steps[k].action;
    if (action == OG_LOOP_COMPUTE || action == OG_LOOP_RELOAD)
      m->slots[value] =
          m->free_count > 0 ? m->is_free[--m->free_count] : m->count++;
    if (action == OG_LOOP_COMPUTE) {
      release(m, i->a, k);
      release(m, i->b, k);
      release(m, i->c, k);
    }
    release(m, value, k);
  }
}

bool og_loop_tiles_init(og_loop_tiles *tiles, const og_loop_lowered *lowered,
                        og_arena *arena) {
  const size_t n = (size_t)lowered->count;
  const size_t passes = (size_t)lowered->pass_count;
  size_t entries;
  tile_maker m = {.lowered = lowered};
  if (!og_size_mul(n, passes, &entries)) return false;
  int32_t *slots = og_arena_array(arena, entries, sizeof *slots);
  m.last = og_arena_array(arena, n, sizeof *m.last);
  m.is_free = og_arena_array(arena, n, sizeof *m.is_free);
  if (slots == NULL || m.last == NULL || m.is_free == NULL) return false;
  for (size_t p = 0; p < passes; ++p) {
    m.slots = slots + p * n;
    for (size_t v = 0; v < n; ++v)
      if (lowered->code[v].is_row) m.slots[v] = p == 0 ? m.count++ : slots[v];
  }
  for (size_t p = 0; p < passes; ++p) {
    m.slots = slots + p * n;
    pass_tiles(&m, &lowered->passes[p]);
  }
  *tiles = (og_loop_tiles){slots, m.count};
  return true;
}

// --- Running -----------------------------------------------------------------

typedef struct machine {
  const og_loop_spec *spec;
  const og_loop_lowered *lowered;
  const og_loop_call *call;
  const int32_t *slots;  // of the pass
  og_loop_lane *tiles, *kept;
  int64_t kept_width, row, block;
  og_loop_lane partials[OG_LOOP_STATEMENTS_MAX][OG_LOOP_PARTIALS];
  og_loop_lane totals[OG_LOOP_STATEMENTS_MAX][OG_LOOP_PARTIALS];  // of sums
  og_loop_lane joined[OG_LOOP_STATEMENTS_MAX];
} machine;

static og_loop_lane *tile(const machine *m, int32_t value) {
  return value < 0 ? NULL : m->tiles + (int64_t)m->slots[value] * OG_LOOP_TILE;
}

// Of the row's beginning.
static int64_t row_offset(const machine *m, int64_t row_bytes,
                          int64_t block_bytes) {
  return (m->block * m->call->rows + m->row) * row_bytes +
         m->block * block_bytes;
}

static void load(const machine *m, int32_t input, int64_t from, int64_t n,
                 og_loop_lane *out) {
  const og_loop_memory memory = m->lowered->in_memory[input];
  const char *at = (const char *)m->call->in[input] +
                   row_offset(m, m->call->in_row_bytes[input],
                              m->call->in_block_bytes[input]);
  og_loop_lanes_load(memory, n, at + from * og_loop_memory_bytes(memory), out);
}

static void compute(const machine *m, int32_t value, int64_t from, int64_t n) {
  const og_loop_instr *i = &m->lowered->code[value];
  og_loop_lane *out = tile(m, value);
  if (i->op == OG_LANE_load)
    load(m, (int32_t)i->imm, from, n, out);
  else if (i->op == OG_LANE_joined)
    *out = m->joined[i->imm];
  else if (i->op == OG_LANE_width)
    out->f = (float)m->call->width;
  else
    og_loop_lanes_find(i->op)(n, tile(m, i->a), tile(m, i->b), tile(m, i->c),
                              i->imm, out);
}

static void store(const machine *m, const og_loop_step *step, int64_t from,
                  int64_t n) {
  const og_loop_memory memory = m->lowered->out_memory[step->index];
  char *at = (char *)m->call->out[step->index] +
             row_offset(m, m->call->out_row_bytes[step->index],
                        m->call->out_block_bytes[step->index]);
  og_loop_lanes_store(memory, n, tile(m, step->value),
                      at + from * og_loop_memory_bytes(memory));
}

static void fill(og_loop_lane *tile) {
  for (int32_t i = 1; i < OG_LOOP_TILE; ++i) tile[i] = tile[0];
}

static void row_steps(const machine *m, const og_loop_pass *pass) {
  for (int32_t k = 0; k < pass->row_count; ++k) {
    const og_loop_step *step = &pass->row_steps[k];
    if (step->action == OG_LOOP_STORE) {
      store(m, step, 0, 1);
      continue;
    }
    compute(m, step->value, 0, 1);
    fill(tile(m, step->value));
  }
}

static void step_run(machine *m, const og_loop_step *step, int64_t from,
                     int64_t n) {
  og_loop_lane *kept = m->kept + step->index * m->kept_width + from;
  const size_t bytes = (size_t)n * sizeof *kept;
  switch (step->action) {
    case OG_LOOP_COMPUTE:
      compute(m, step->value, from, n);
      break;
    case OG_LOOP_STORE:
      store(m, step, from, n);
      break;
    case OG_LOOP_REDUCE:
      og_loop_lanes_reduce(m->lowered->reductions[step->index].kind, n,
                           tile(m, step->value), m->partials[step->index]);
      break;
    case OG_LOOP_KEEP:
      memcpy(kept, tile(m, step->value), bytes);
      break;
    case OG_LOOP_RELOAD:
      memcpy(tile(m, step->value), kept, bytes);
      break;
  }
}

static bool is_in(const og_loop_lowered *l, int32_t r, int32_t p) {
  return l->reductions[r].pass == p;
}

static void partials_begin(machine *m, int32_t r) {
  for (int32_t i = 0; i < OG_LOOP_PARTIALS; ++i) {
    m->partials[r][i] = og_loop_neutral(m->lowered->reductions[r].kind);
    m->totals[r][i].f = 0;
  }
}

// Partial sums become parts of totals.
static void partials_carry(machine *m, int32_t r) {
  for (int32_t i = 0; i < OG_LOOP_PARTIALS; ++i) {
    m->totals[r][i].f += m->partials[r][i].f;
    m->partials[r][i].f = 0;
  }
}

static void partials_join(machine *m, int32_t r) {
  const og_loop_reduction kind = m->lowered->reductions[r].kind;
  if (kind == OG_LOOP_SUM) partials_carry(m, r);
  m->joined[r] = og_loop_lanes_join(
      kind, kind == OG_LOOP_SUM ? m->totals[r] : m->partials[r]);
}

static void pass_run(machine *m, int32_t p) {
  const og_loop_lowered *l = m->lowered;
  const og_loop_pass *pass = &l->passes[p];
  m->slots += p == 0 ? 0 : l->count;
  row_steps(m, pass);
  for (int32_t r = 0; r < l->reduction_count; ++r)
    if (is_in(l, r, p)) partials_begin(m, r);
  for (int64_t from = 0; from < m->call->width; from += OG_LOOP_TILE) {
    const int64_t left = m->call->width - from;
    for (int32_t r = 0; r < l->reduction_count; ++r)
      if (is_in(l, r, p) && l->reductions[r].kind == OG_LOOP_SUM &&
          og_loop_carries(from, m->call->width))
        partials_carry(m, r);
    for (int32_t k = 0; k < pass->count; ++k)
      step_run(m, &pass->steps[k], from,
               left < OG_LOOP_TILE ? left : OG_LOOP_TILE);
  }
  for (int32_t r = 0; r < l->reduction_count; ++r)
    if (is_in(l, r, p)) partials_join(m, r);
  for (int32_t n = 0; n < l->running_count; ++n)
    if (l->running[n].pass == p && l->running[n].keep >= 0)
      og_loop_running_sum(l->running[n].kind, m->call->width,
                          &m->kept[l->running[n].keep * m->kept_width].f);
}

void og_loop_interpret(const og_loop_spec *spec, const og_loop_lowered *lowered,
                       const og_loop_tiles *tiles, const og_loop_call *call) {
  machine m;  // partials are set by the pass that has them
  m.spec = spec;
  m.lowered = lowered;
  m.call = call;
  m.slots = tiles->slots;
  m.kept = call->scratch;
  m.kept_width = og_loop_kept_width(call->width);
  m.tiles = m.kept + m.kept_width * lowered->keep_count;
  for (int32_t v = 0; v < lowered->count; ++v) {
    if (!og_loop_is_number(&lowered->code[v])) continue;
    tile(&m, v)->u = lowered->code[v].imm;
    fill(tile(&m, v));
  }
  for (m.block = 0; m.block < call->blocks; ++m.block)
    for (m.row = 0; m.row < call->rows; ++m.row) {
      m.slots = tiles->slots;
      for (int32_t p = 0; p < lowered->pass_count; ++p) pass_run(&m, p);
    }
}
