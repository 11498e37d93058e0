// SPDX-License-Identifier: Apache-2.0
// Which nodes become one: units in an order in which the graph could run.
//
// Two units join where no path leads from one out of both and into the other.
// The order is kept right by moving what depends on the earlier unit behind the
// later one (Pearce and Kelly, "A dynamic topological sort algorithm", 2006),
// so the last order is that of the fused graph.
//
// Views have no place in it: each stands behind what makes its base.

#include <string.h>

#include "pass/fuse.h"

// --- What must run before what -----------------------------------------------

typedef struct builder {
  og_fuser *f;
  int32_t capacity, count;
  // By root: the last reader in a chain through `chain`, -1 ends.
  int32_t *reader;
  og_before *chain;  // node: who reads; may_join is unused
  int32_t *chain_next;
  int32_t chain_count;
  int32_t *effect;  // by root: the last effect that read it, -1
  int32_t ordered;  // the last random node or effect, -1
} builder;

static og_status before_add(builder *b, int32_t node, bool may_join) {
  og_fuser *f = b->f;
  if (b->count == b->capacity) {
    const int32_t wanted = 2 * b->capacity + 64;
    og_before *grown =
        og_realloc(f->before, (size_t)wanted * sizeof *f->before);
    if (grown == NULL) return og_graph_no_memory(f->error);
    f->before = grown;
    b->capacity = wanted;
  }
  f->before[b->count++] = (og_before){node, may_join};
  return OG_OK;
}

// The node that makes a value or what it is a view of; -1 where none does.
static int32_t maker_of(const opgraft_graph *graph, opgraft_value v) {
  while (v >= 0 && graph->values[v].node >= 0 &&
         og_op_is(&graph->nodes[graph->values[v].node], OG_OP_VIEW))
    v = graph->nodes[graph->values[v].node].in[0];
  return v >= 0 ? graph->values[v].node : -1;
}

static bool fits(const og_recipe *recipe, const og_value *value) {
  bool same = value->ndim == recipe->ndim;
  for (int32_t d = 0; same && d < value->ndim; ++d)
    same = value->shape[d] == recipe->shape[d] ||
           (d + 1 == value->ndim && value->shape[d] == OG_SIZE_ONE);
  return same;
}

// Whether node n could read an operand in a program that also has its maker.
static bool may_join(const og_fuser *f, int32_t n, opgraft_value operand) {
  const opgraft_graph *graph = f->graph;
  const opgraft_value v = f->through[operand];
  const int32_t maker = graph->values[v].node;
  if (maker < 0 || f->recipes[maker].text == NULL ||
      f->recipes[maker].narrows || f->recipes[n].text == NULL)
    return false;
  return v != operand || fits(&f->recipes[n], &graph->values[v]);
}

static uint32_t flags_of(const og_node *node) {
  return og_ops[node->op].flags | node->flags;
}

static og_status reads_note(builder *b, int32_t n, const og_node *node) {
  const opgraft_graph *graph = b->f->graph;
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const opgraft_value root = graph->values[node->in[i]].root;
    const int32_t at = b->chain_count++;
    b->chain[at] = (og_before){n, false};
    b->chain_next[at] = b->reader[root];
    b->reader[root] = at;
  }
  return OG_OK;
}

// Who has read a storage stays before the node that overwrites it, or may.
static og_status storage_order(builder *b, opgraft_value value) {
  if (value < 0) return OG_OK;
  const opgraft_value root = b->f->graph->values[value].root;
  for (int32_t at = b->reader[root]; at >= 0; at = b->chain_next[at])
    OG_TRY(before_add(b, b->chain[at].node, false));
  return OG_OK;
}

// An effect may write what it reads.
static og_status effects_order(builder *b, int32_t n, const og_node *node) {
  const opgraft_graph *graph = b->f->graph;
  const bool is_effect = (flags_of(node) & OG_OP_EFFECT) != 0;
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    int32_t *effect = &b->effect[graph->values[node->in[i]].root];
    if (*effect >= 0 && *effect != n) OG_TRY(before_add(b, *effect, false));
    if (!is_effect) continue;
    OG_TRY(storage_order(b, node->in[i]));
    *effect = n;
  }
  return OG_OK;
}

static og_status writes_order(builder *b, const og_node *node) {
  if (og_op_is(node, OG_OP_WRITE)) return storage_order(b, node->in[0]);
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] > 0)
      OG_TRY(storage_order(b, node->in[node->update[r] - 1]));
  return OG_OK;
}

static og_status node_order(builder *b, int32_t n) {
  const og_node *node = &b->f->graph->nodes[n];
  for (int32_t i = 0; i < node->in_count; ++i) {
    const int32_t maker = maker_of(b->f->graph, node->in[i]);
    if (maker >= 0)
      OG_TRY(before_add(b, maker, may_join(b->f, n, node->in[i])));
  }
  OG_TRY(writes_order(b, node));
  OG_TRY(effects_order(b, n, node));
  if ((flags_of(node) & (OG_OP_RANDOM | OG_OP_EFFECT)) != 0) {
    if (b->ordered >= 0) OG_TRY(before_add(b, b->ordered, false));
    b->ordered = n;
  }
  return reads_note(b, n, node);
}

static og_status orders_find(og_fuser *f) {
  const opgraft_graph *graph = f->graph;
  builder b = {.f = f, .ordered = -1};
  size_t reads = 1;
  for (int32_t n = 0; n < graph->node_count; ++n)
    reads += (size_t)graph->nodes[n].in_count;
  b.reader = og_arena_array(&f->memory, (size_t)graph->value_count + 1,
                            sizeof *b.reader);
  b.effect = og_arena_array(&f->memory, (size_t)graph->value_count + 1,
                            sizeof *b.effect);
  b.chain = og_arena_array(&f->memory, reads, sizeof *b.chain);
  b.chain_next = og_arena_array(&f->memory, reads, sizeof *b.chain_next);
  if (!b.reader || !b.effect || !b.chain || !b.chain_next)
    return og_graph_no_memory(f->error);
  for (int32_t v = 0; v < graph->value_count; ++v)
    b.reader[v] = b.effect[v] = -1;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    f->before_at[n] = b.count;
    if (f->unit_of[n] >= 0) OG_TRY(node_order(&b, n));
  }
  f->before_at[graph->node_count] = b.count;
  return OG_OK;
}

// --- Whether two units may be one --------------------------------------------

static bool same_but_last(const og_unit *a, const og_unit *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t d = 0; same && d + 1 < a->ndim; ++d)
    same = a->shape[d] == b->shape[d];
  return same;
}

static bool is_narrow(const og_unit *unit) {
  return unit->ndim == 0 || unit->shape[unit->ndim - 1] == OG_SIZE_ONE;
}

static bool same_layout(const og_unit *a, const og_unit *b) {
  if (a->strides == NULL || b->strides == NULL) return true;
  for (int32_t d = 0; d < a->ndim; ++d)
    if (a->strides[d] != b->strides[d] && a->shape[d] != OG_SIZE_ONE)
      return false;
  return true;
}

static bool has_rows(const og_unit *unit) {
  const int32_t last = unit->ndim - 1;
  return is_narrow(unit) || unit->strides == NULL ||
         unit->strides[last] == OG_SIZE_ONE;
}

static bool shapes_fit(const og_unit *a, const og_unit *b) {
  if (a->ndim < 0 || b->ndim < 0 || !same_but_last(a, b)) return false;
  const int32_t last = a->ndim - 1;
  if (a->ndim == 0 || a->shape[last] == b->shape[last]) {
    if (!same_layout(a, b)) return false;
    return (has_rows(a) && has_rows(b)) || !(a->reduces || b->reduces);
  }
  // One of them computes with one element for each row of the other.
  const og_unit *wide = is_narrow(a) ? b : a;
  const og_unit *narrow = is_narrow(a) ? a : b;
  return is_narrow(narrow) && !is_narrow(wide) && !narrow->reduces &&
         has_rows(wide);
}

// --- What it would read and write --------------------------------------------

bool og_fuse_escapes(const og_fuser *f, opgraft_value v, int32_t unit,
                     int32_t with) {
  const opgraft_graph *graph = f->graph;
  if (f->is_output[v]) return true;
  for (int32_t i = f->first_reader[v]; i < f->first_reader[v + 1]; ++i) {
    const int32_t n = f->readers[i];
    const og_node *node = &graph->nodes[n];
    if (og_op_is(node, OG_OP_VIEW)) {
      if (f->through[node->out[0]] != v ||
          og_fuse_escapes(f, node->out[0], unit, with))
        return true;
    } else if (f->unit_of[n] != unit && f->unit_of[n] != with) {
      return true;
    }
  }
  return false;
}

typedef struct traffic {
  int32_t inputs, outputs;
  int32_t wide;  // of both: with whole rows
} traffic;

static bool is_wide(const og_value *value) {
  return value->ndim > 0 && value->shape[value->ndim - 1] != OG_SIZE_ONE;
}

static void node_count(og_fuser *f, int32_t n, int32_t a, int32_t b,
                       traffic *total) {
  const og_node *node = &f->graph->nodes[n];
  const og_value *values = f->graph->values;
  for (int32_t i = 0; i < node->in_count; ++i) {
    const opgraft_value v = node->in[i];
    if (v < 0 || values[v].kind == OG_VALUE_LITERAL || f->stamp[v] == f->stamps)
      continue;
    f->stamp[v] = f->stamps;
    const int32_t maker = values[f->through[v]].node;
    const int32_t unit = maker >= 0 ? f->unit_of[maker] : -1;
    if (unit >= 0 && (unit == a || unit == b)) continue;
    ++total->inputs;
    total->wide += is_wide(&values[v]);
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    const opgraft_value v = node->out[r];
    if (v < 0 || !og_fuse_escapes(f, v, a, b)) continue;
    ++total->outputs;
    total->wide += is_wide(&values[v]);
  }
}

static traffic units_count(og_fuser *f, int32_t a, int32_t b) {
  traffic total = {0};
  ++f->stamps;
  for (int32_t n = f->units[a].first; n >= 0; n = f->next[n])
    node_count(f, n, a, b, &total);
  for (int32_t n = f->units[b].first; n >= 0; n = f->next[n])
    node_count(f, n, a, b, &total);
  return total;
}

static bool limits_fit(og_fuser *f, int32_t a, int32_t b) {
  const og_unit *x = &f->units[a], *y = &f->units[b];
  if (x->statements + y->statements > OG_LOOP_STATEMENTS_MAX) return false;
  const traffic total = units_count(f, a, b);
  int64_t width;
  if (total.inputs > OG_LOOP_INPUTS_MAX || total.outputs > OG_LOOP_OUTPUTS_MAX)
    return false;
  const og_unit *wide = is_narrow(x) ? y : x;
  if (!(x->reduces || y->reduces) || wide->ndim == 0 ||
      !og_size_get(&f->graph->sizes, wide->shape[wide->ndim - 1], &width))
    return true;
  return width <= OG_FUSE_ROW_BYTES_MAX / 4 / (total.wide + 1);
}

// --- Joining -----------------------------------------------------------------

// Whether a member of unit u must run after something that is reached; of
// `direct`, only what cannot be read inside of one program counts.
static bool is_reached(const og_fuser *f, int32_t u, int32_t direct,
                       const int8_t *reached) {
  for (int32_t n = f->units[u].first; n >= 0; n = f->next[n])
    for (int32_t i = f->before_at[n]; i < f->before_at[n + 1]; ++i) {
      const int32_t from = f->unit_of[f->before[i].node];
      if (from == u || !reached[from]) continue;
      if (from != direct || !f->before[i].may_join) return true;
    }
  return false;
}

static void members_join(og_fuser *f, int32_t into, int32_t from) {
  int32_t a = f->units[into].first, b = f->units[from].first;
  int32_t *tail = &f->units[into].first;
  for (int32_t n = b; n >= 0; n = f->next[n]) f->unit_of[n] = into;
  while (a >= 0 || b >= 0) {
    int32_t *from_list = b < 0 || (a >= 0 && a < b) ? &a : &b;
    const int32_t n = *from_list;
    *from_list = f->next[n];
    *tail = n;
    f->units[into].last = n;
    tail = &f->next[n];
  }
  *tail = -1;
}

static void unit_join(og_fuser *f, int32_t into, int32_t from) {
  og_unit *x = &f->units[into];
  const og_unit *y = &f->units[from];
  const bool takes_shape = is_narrow(x) && !is_narrow(y);
  members_join(f, into, from);
  x->count += y->count;
  x->statements += y->statements;
  x->reduces |= y->reduces;
  if (takes_shape) {
    x->shape = y->shape;
    x->strides = y->strides;
  } else if (x->strides == NULL && is_narrow(x) == is_narrow(y)) {
    x->strides = y->strides;
  }
}

// Units a and b, a the earlier, become one at b's place; false where they may
// not. `reached` is scratch, all zero before and after.
static bool units_try(og_fuser *f, int32_t a, int32_t b, int8_t *reached) {
  const int32_t first = f->units[a].slot, last = f->units[b].slot;
  const og_node *nodes = f->graph->nodes;
  bool joins = nodes[f->units[a].first].is_steady ==
                   nodes[f->units[b].first].is_steady &&
               shapes_fit(&f->units[a], &f->units[b]) && limits_fit(f, a, b);
  if (!joins) return false;
  reached[a] = 1;
  for (int32_t s = first + 1; s < last; ++s) {
    const int32_t u = f->order[s];
    reached[u] = is_reached(f, u, -1, reached);
  }
  joins = !is_reached(f, b, a, reached);
  if (joins) {
    // What is not reached, the unit, what is.
    int32_t kept = first, moved = 0;
    int32_t *late = f->stamp + f->graph->value_count + 1;
    for (int32_t s = first + 1; s < last; ++s) {
      const int32_t u = f->order[s];
      if (reached[u])
        late[moved++] = u;
      else
        f->order[kept++] = u;
      reached[u] = 0;
    }
    f->order[kept++] = b;
    for (int32_t i = 0; i < moved; ++i) f->order[kept++] = late[i];
    for (int32_t s = last; s + 1 < f->order_count; ++s)
      f->order[s] = f->order[s + 1];
    --f->order_count;
    unit_join(f, b, a);
    for (int32_t s = first; s < f->order_count; ++s)
      f->units[f->order[s]].slot = s;
  } else {
    for (int32_t s = first + 1; s < last; ++s) reached[f->order[s]] = 0;
  }
  reached[a] = 0;
  return joins;
}

static void pair_try(og_fuser *f, int32_t m, int32_t n, int8_t *reached) {
  const int32_t a = f->unit_of[m], b = f->unit_of[n];
  if (a < 0 || b < 0 || a == b) return;
  if (f->units[a].slot < f->units[b].slot)
    units_try(f, a, b, reached);
  else
    units_try(f, b, a, reached);
}

// Makers into readers, then nodes that read the same rows.
static void pairs_try(og_fuser *f, int8_t *reached) {
  const opgraft_graph *graph = f->graph;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    if (f->unit_of[n] < 0 || f->recipes[n].text == NULL) continue;
    for (int32_t i = f->before_at[n]; i < f->before_at[n + 1]; ++i)
      if (f->before[i].may_join) pair_try(f, f->before[i].node, n, reached);
  }
  for (int32_t v = 0; v < graph->value_count; ++v) {
    int32_t first = -1;
    if (!is_wide(&graph->values[v])) continue;
    for (int32_t i = f->first_reader[v]; i < f->first_reader[v + 1]; ++i) {
      const int32_t n = f->readers[i];
      if (f->unit_of[n] < 0 || f->recipes[n].text == NULL) continue;
      if (first >= 0) pair_try(f, first, n, reached);
      first = n;
    }
  }
}

static int32_t statements_of(const char *text) {
  int32_t count = 1;
  for (; *text != '\0'; ++text) count += *text == ';';
  return count;
}

static void units_fill(og_fuser *f) {
  const opgraft_graph *graph = f->graph;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    const og_recipe *recipe = &f->recipes[n];
    f->unit_of[n] = f->next[n] = -1;
    if (node->is_removed || og_op_is(node, OG_OP_VIEW)) continue;
    f->unit_of[n] = n;
    f->units[n] = (og_unit){
        .first = n, .last = n, .count = 1, .slot = f->order_count, .ndim = -1};
    f->order[f->order_count++] = n;
    if (recipe->text == NULL) continue;
    f->units[n].statements = statements_of(recipe->text);
    f->units[n].ndim = recipe->ndim;
    f->units[n].shape = recipe->shape;
    f->units[n].strides = recipe->strides;
    f->units[n].reduces = recipe->reduces;
  }
}

// --- Views that only broadcast -----------------------------------------------

// Whether a view shows a row program's result of one element a row: with a last
// dim of 1, or repeated along the row.
static bool shows_rows(const og_recipe *recipe, const og_value *base,
                       const og_value *view) {
  const int32_t last = recipe->ndim - 1;
  if (recipe->ndim == 0 || view->ndim != recipe->ndim || base->ndim < last ||
      base->ndim > recipe->ndim || view->offset != base->offset)
    return false;
  if (base->ndim > last && base->shape[last] != OG_SIZE_ONE) return false;
  if (view->shape[last] != OG_SIZE_ONE && view->strides[last] != OG_SIZE_ZERO)
    return false;
  for (int32_t d = 0; d < last; ++d)
    if (base->shape[d] != recipe->shape[d] ||
        view->shape[d] != recipe->shape[d] ||
        (view->shape[d] != OG_SIZE_ONE && view->strides[d] != base->strides[d]))
      return false;
  return view->shape[last] == OG_SIZE_ONE ||
         view->shape[last] == recipe->shape[last];
}

static void views_find(og_fuser *f) {
  const opgraft_graph *graph = f->graph;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *view = &graph->values[v];
    f->through[v] = v;
    if (view->kind != OG_VALUE_RESULT || view->node < 0) continue;
    const og_node *node = &graph->nodes[view->node];
    if (node->is_removed || !og_op_is(node, OG_OP_VIEW)) continue;
    const og_value *base = &graph->values[node->in[0]];
    if (base->node < 0 || base->root != node->in[0]) continue;
    const og_recipe *recipe = &f->recipes[base->node];
    if (recipe->text != NULL && shows_rows(recipe, base, view))
      f->through[v] = node->in[0];
  }
}

og_status og_fuse_units(og_fuser *f) {
  views_find(f);
  units_fill(f);
  OG_TRY(orders_find(f));
  int8_t *reached = og_arena_array(&f->memory, (size_t)f->graph->node_count + 1,
                                   sizeof *reached);
  if (reached == NULL) return og_graph_no_memory(f->error);
  pairs_try(f, reached);
  return OG_OK;
}
