// SPDX-License-Identifier: Apache-2.0
// Fusion: nodes that work on the same rows become one row program. Counts the
// nodes that it took.
//
// A value that only members of a program read never touches memory, and what
// several members read is read once. See docs/graph.md for what can be fused.

#include "pass/fuse.h"

#include <string.h>

#include "pass/pass.h"

// --- Who reads what ----------------------------------------------------------

static void readers_count(const opgraft_graph *graph, og_fuser *f) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    for (int32_t i = 0; !node->is_removed && i < node->in_count; ++i)
      if (node->in[i] >= 0) ++f->first_reader[node->in[i] + 1];
  }
  for (int32_t v = 0; v < graph->value_count; ++v)
    f->first_reader[v + 1] += f->first_reader[v];
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0)
      f->is_output[graph->outputs[i].value] = true;
}

static og_status readers_find(og_fuser *f) {
  const opgraft_graph *graph = f->graph;
  readers_count(graph, f);
  const size_t count = (size_t)f->first_reader[graph->value_count] + 1;
  f->readers = og_arena_array(&f->memory, count, sizeof *f->readers);
  int32_t *at =
      og_arena_array(&f->memory, (size_t)graph->value_count + 1, sizeof *at);
  if (f->readers == NULL || at == NULL) return og_graph_no_memory(f->error);
  memcpy(at, f->first_reader, (size_t)graph->value_count * sizeof *at);
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    for (int32_t i = 0; !node->is_removed && i < node->in_count; ++i)
      if (node->in[i] >= 0) f->readers[at[node->in[i]]++] = n;
  }
  return OG_OK;
}

static og_status fuser_init(og_fuser *f) {
  const size_t nodes = (size_t)f->graph->node_count + 1;
  const size_t values = (size_t)f->graph->value_count + 1;
  og_arena *memory = &f->memory;
  f->recipes = og_arena_array(memory, nodes, sizeof *f->recipes);
  f->through = og_arena_array(memory, values, sizeof *f->through);
  f->is_output = og_arena_array(memory, values, sizeof *f->is_output);
  f->first_reader = og_arena_array(memory, values, sizeof *f->first_reader);
  f->before_at = og_arena_array(memory, nodes, sizeof *f->before_at);
  f->units = og_arena_array(memory, nodes, sizeof *f->units);
  f->unit_of = og_arena_array(memory, nodes, sizeof *f->unit_of);
  f->next = og_arena_array(memory, nodes, sizeof *f->next);
  f->order = og_arena_array(memory, nodes, sizeof *f->order);
  // Values, then units that units_try moves.
  f->stamp = og_arena_array(memory, values + nodes, sizeof *f->stamp);
  if (!f->recipes || !f->through || !f->is_output || !f->first_reader ||
      !f->before_at || !f->units || !f->unit_of || !f->next || !f->order ||
      !f->stamp)
    return og_graph_no_memory(f->error);
  return readers_find(f);
}

// --- The new nodes -----------------------------------------------------------

// What a lone node gains by a program is its functions' vector forms: a copy
// has none, a program them already.
static bool is_worth_it(const og_fuser *f, const og_unit *unit) {
  if (unit->ndim < 0) return false;
  const int32_t op = f->graph->nodes[unit->first].op;
  return unit->count > 1 || (op != OG_IR_copy && op != OG_IR_fused);
}

static bool has_dim(const og_unit *unit, int32_t d, const og_value *value) {
  const int32_t own = d - (unit->ndim - value->ndim);
  return own >= 0 && value->shape[own] == unit->shape[d];
}

// A program has no sizes, so its rows are those of its operands and results: a
// dim that a member repeats and another reduces would be in none of them.
static bool has_rows(const og_fuser *f, const og_unit *unit,
                     const og_node *made) {
  const og_value *values = f->graph->values;
  for (int32_t d = 0; d < unit->ndim; ++d) {
    bool found = unit->shape[d] == OG_SIZE_ONE;
    for (int32_t i = 0; i < made->in_count; ++i)
      found |= has_dim(unit, d, &values[made->in[i]]);
    for (int32_t r = 0; r < made->out_count; ++r)
      found |= values[made->out[r]].ndim == unit->ndim &&
               has_dim(unit, d, &values[made->out[r]]);
    if (!found) return false;
  }
  return true;
}

// Takes a unit's members out; the last one's place is the program's.
static og_status unit_replace(og_fuser *f, int32_t u, int32_t *out_changes) {
  const og_unit *unit = &f->units[u];
  og_node *nodes = f->graph->nodes;
  og_node made;
  if (!is_worth_it(f, unit)) {
    if (unit->ndim >= 0 && nodes[unit->first].op == OG_IR_copy)
      nodes[unit->first].unfused_reason = "a copy alone gains nothing";
    return OG_OK;
  }
  OG_TRY(og_fuse_write(f, u, &made));
  // What reads nothing or gives nothing is for others to remove.
  if (made.in_count == 0 || made.out_count == 0) return OG_OK;
  if (!has_rows(f, unit, &made)) {
    for (int32_t n = unit->first; n >= 0; n = f->next[n])
      nodes[n].unfused_reason = "no operand or result has its rows";
    return OG_OK;
  }
  made.file = nodes[unit->last].file;
  made.line = nodes[unit->last].line;
  made.member_count = unit->count;
  made.is_steady = nodes[unit->last].is_steady;
  for (int32_t n = unit->first; n >= 0; n = f->next[n])
    nodes[n].is_removed = true;
  nodes[unit->last] = made;
  for (int32_t r = 0; r < made.out_count; ++r) {
    og_value *value = &f->graph->values[made.out[r]];
    value->node = unit->last;
    value->result = r;
  }
  *out_changes += unit->count;
  return OG_OK;
}

typedef struct placer {
  const og_fuser *f;
  og_node *to;
  int32_t *new_place;  // by node; -1: not placed yet
  int32_t *wanted;     // by place of a unit in the order: where it runs
  int32_t count;
} placer;

static void node_place(placer *p, int32_t n) {
  p->new_place[n] = p->count;
  p->to[p->count++] = p->f->graph->nodes[n];
}

// A node, and behind it the views of what it made.
static void node_emit(placer *p, int32_t n) {
  const og_fuser *f = p->f;
  const og_node *node = &f->graph->nodes[n];
  if (p->new_place[n] >= 0) return;
  node_place(p, n);
  for (int32_t r = 0; r < node->out_count; ++r) {
    const opgraft_value v = node->out[r];
    if (v < 0) continue;
    for (int32_t i = f->first_reader[v]; i < f->first_reader[v + 1]; ++i)
      if (og_op_is(&f->graph->nodes[f->readers[i]], OG_OP_VIEW))
        node_emit(p, f->readers[i]);
  }
}

// --- Order -------------------------------------------------------------------

// A contraction runs right before its reader, which may then run on its
// finished tiles (plan/join.h).

enum { DELAY_MAX = 16 };  // units: what a contraction reads stays as long

// The first place in the order that reads a value or a view of it.
static int32_t first_read(const og_fuser *f, opgraft_value v) {
  int32_t first = f->order_count;
  for (int32_t i = f->first_reader[v]; i < f->first_reader[v + 1]; ++i) {
    const int32_t n = f->readers[i];
    const int32_t slot = f->unit_of[n] >= 0
                             ? f->units[f->unit_of[n]].slot
                             : first_read(f, f->graph->nodes[n].out[0]);
    if (slot < first) first = slot;
  }
  return first;
}

static bool is_awaited(const og_fuser *f, int32_t slot, int32_t node) {
  for (int32_t n = f->units[f->order[slot]].first; n >= 0; n = f->next[n])
    for (int32_t i = f->before_at[n]; i < f->before_at[n + 1]; ++i)
      if (f->before[i].node == node) return true;
  return false;
}

// Before which place of the order a unit is to run, at the latest.
static int32_t slot_wanted(const og_fuser *f, int32_t slot) {
  const og_unit *unit = &f->units[f->order[slot]];
  const og_node *node = &f->graph->nodes[unit->first];
  if (!og_has_tiles(node) || node->out[0] < 0) return slot;
  const int32_t reader = first_read(f, node->out[0]);
  if (reader == f->order_count || reader - slot > DELAY_MAX) return slot;
  const og_unit *to = &f->units[f->order[reader]];
  if (to->reduces || f->graph->nodes[to->last].op != OG_IR_fused) return slot;
  for (int32_t s = slot + 1; s < reader; ++s)
    if (is_awaited(f, s, unit->first)) return slot;
  return reader;
}

static void unit_emit(placer *p, int32_t slot) {
  const og_fuser *f = p->f;
  for (int32_t n = f->units[f->order[slot]].first; n >= 0; n = f->next[n])
    node_emit(p, n);
}

// Views of inputs and what was removed first, then the units in order.
static void nodes_emit(placer *p) {
  const og_fuser *f = p->f;
  const opgraft_graph *graph = f->graph;
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (graph->nodes[n].is_removed) node_place(p, n);
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (p->new_place[n] < 0 && og_op_is(&graph->nodes[n], OG_OP_VIEW) &&
        graph->values[graph->nodes[n].in[0]].kind != OG_VALUE_RESULT)
      node_emit(p, n);
  for (int32_t s = 0; s < f->order_count; ++s) {
    for (int32_t t = s < DELAY_MAX ? 0 : s - DELAY_MAX; t < s; ++t)
      if (p->wanted[t] == s) unit_emit(p, t);
    p->wanted[s] = slot_wanted(f, s);
    if (p->wanted[s] == s) unit_emit(p, s);
  }
}

static og_status graph_order(og_fuser *f) {
  opgraft_graph *graph = f->graph;
  const size_t count = (size_t)graph->node_count + 1;
  placer p = {.f = f};
  p.to = og_arena_array(&f->memory, count, sizeof *p.to);
  p.new_place = og_arena_array(&f->memory, count, sizeof *p.new_place);
  p.wanted = og_arena_array(&f->memory, count, sizeof *p.wanted);
  if (!p.to || !p.new_place || !p.wanted) return og_graph_no_memory(f->error);
  for (int32_t n = 0; n < graph->node_count; ++n) p.new_place[n] = -1;
  nodes_emit(&p);
  memcpy(graph->nodes, p.to, (size_t)graph->node_count * sizeof *p.to);
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (graph->values[v].node >= 0)
      graph->values[v].node = p.new_place[graph->values[v].node];
  return OG_OK;
}

// Views that only members read.
static void views_remove(og_fuser *f) {
  const opgraft_graph *graph = f->graph;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    if (f->through[v] == v || f->is_output[v]) continue;
    const int32_t unit = f->unit_of[graph->values[f->through[v]].node];
    bool is_read = graph->nodes[f->units[unit].last].op != OG_IR_fused;
    for (int32_t i = f->first_reader[v]; i < f->first_reader[v + 1]; ++i)
      is_read |= f->unit_of[f->readers[i]] != unit;
    if (!is_read) graph->nodes[graph->values[v].node].is_removed = true;
  }
}

static og_status fuse_all(og_fuser *f, int32_t *out_changes) {
  OG_TRY(fuser_init(f));
  OG_TRY(og_fuse_recipes(f));
  OG_TRY(og_fuse_units(f));
  for (int32_t s = 0; s < f->order_count; ++s)
    OG_TRY(unit_replace(f, f->order[s], out_changes));
  if (*out_changes == 0) return OG_OK;
  views_remove(f);
  return graph_order(f);
}

static og_status fuse_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  og_fuser f = {.graph = graph, .error = error};
  if ((graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0) return OG_OK;
  const og_status status = fuse_all(&f, out_changes);
  og_free(f.before);
  og_arena_destroy(&f.memory);
  return status;
}

const og_pass og_pass_fuse = {
    .name = "fuse", .needs = OG_FACT_FUNCTIONAL, .run = fuse_run};
