// SPDX-License-Identifier: Apache-2.0
// The row string of a derived operator.

#include "decl/formula_writer.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/names.h"

enum {
  SIZE_MAX_INLINE = 40,  // instructions of one expression
  DEPTH_MAX_INLINE = 8,
};

typedef og_formula_writer writer;

int32_t og_writer_result_of(const writer *w, int32_t node) {
  for (int32_t r = 0; r < w->f->result_count; ++r)
    if ((w->read_results >> r & 1) && w->d.dag.outputs[r] == node) return r;
  return -1;
}

bool og_writer_is_leaf(const writer *w, int32_t node) {
  return w->d.dag.nodes[node].op <= OG_SCALAR_number ||
         og_writer_result_of(w, node) >= 0;
}

// --- Statements --------------------------------------------------------------

static void names_choose(writer *w) {
  const og_dag *dag = &w->d.dag;
  memset(w->is_named, 0, (size_t)dag->count);
  for (int32_t n = 0; n < dag->count; ++n) {
    const og_dag_node *node = &dag->nodes[n];
    if (w->uses[n] == 0 || og_writer_is_leaf(w, n)) continue;
    w->is_named[n] =
        w->uses[n] > 1 || (node->op == OG_DAG_CHOICE && node->in[1] >= 0);
  }
}

// Appends a value's instructions; those that are not scalar are loads, whose
// slot is the node.
static void code_add(writer *w, int32_t node, bool is_root,
                     og_scalar_code *code) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  const bool is_load = og_writer_is_leaf(w, node) ||
                       (w->is_named[node] && !is_root) ||
                       n->op >= OG_SCALAR_COUNT;
  const bool is_plain = n->op == OG_SCALAR_const || n->op == OG_SCALAR_number;
  if (!is_load)
    for (int32_t k = 0; k < og_dag_arity(n); ++k)
      code_add(w, n->in[k], false, code);
  code->code[code->count++] = (og_scalar_instruction){
      .op = is_load && !is_plain ? OG_SCALAR_load : n->op,
      .slot = is_plain ? n->slot : node,
      .value = n->value};
}

int32_t og_writer_first_load(const writer *w, int32_t load) {
  const struct og_formula *f = w->f;
  const bool is_tangent = w->kind == OG_FORMULA_TANGENT;
  const int32_t behind = load - f->input_count;
  const int32_t input = is_tangent && behind >= 0 ? behind : load;
  if (input < f->input_count) {
    int32_t first = 0;
    while (f->inputs[first].is_tensor != f->inputs[input].is_tensor ||
           f->inputs[first].is_position != f->inputs[input].is_position ||
           f->inputs[first].index != f->inputs[input].index)
      ++first;
    return load - input + first;
  }
  return behind < f->output_count ? f->input_count + f->outputs[behind].result
                                  : load;
}

bool og_writer_is_loaded(const writer *w, int32_t slot) {
  for (int32_t n = 0; n < w->d.dag.count; ++n)
    if (w->uses[n] > 0 && w->d.dag.nodes[n].op == OG_SCALAR_load &&
        og_writer_first_load(w, w->d.dag.nodes[n].slot) ==
            og_writer_first_load(w, slot))
      return true;
  return false;
}

static const char *arg_name(const writer *w, int32_t load) {
  if (load < w->f->input_count && w->f->inputs[load].is_position)
    return w->f->inputs[load].index == OG_FORMULA_ROW ? "row" : "column";
  load = og_writer_first_load(w, load);
  for (int32_t a = 0; a < w->arg_count; ++a)
    if (w->args[a].load == load) return w->args[a].name;
  return "?";
}

static void value_write(writer *w, int32_t node, bool is_root);

int32_t og_writer_row_by(const writer *w, int32_t load) {
  const struct og_formula *f = w->f;
  const int32_t behind = load - f->input_count;
  if (behind < 0) return f->inputs[load].row_by;
  if (w->kind == OG_FORMULA_TANGENT) return f->inputs[behind].row_by;
  return behind < OG_LOOP_OUTPUTS_MAX ? f->outputs[behind].row_by : 0;
}

static og_formula_part part_of(const writer *w, int32_t load) {
  const struct og_formula *f = w->f;
  const int32_t behind = load - f->input_count;
  if (behind < 0) return f->inputs[load].part;
  if (w->kind == OG_FORMULA_TANGENT) return f->inputs[behind].part;
  return behind < OG_LOOP_OUTPUTS_MAX ? f->outputs[behind].part
                                      : OG_FORMULA_WHOLE;
}

static const char *index_name(const writer *w, int32_t row_by) {
  return og_tensor_param(w->decl, w->f->indices[row_by - 1])->name;
}

static void type_write(writer *w, int32_t slot, og_text *out) {
  const int32_t input = slot - OG_FORMULA_TYPE;
  if (slot >= OG_FORMULA_PRECISION) {
    og_text_add(out, og_formula_type_name(slot - OG_FORMULA_PRECISION));
    return;
  }
  w->named |= w->f->optional & 1u << input;
  og_text_add(out, og_tensor_param(w->decl, w->f->inputs[input].index)->name);
}

static void load_write(void *state, const og_scalar_instruction *code,
                       og_text *out) {
  writer *w = state;
  if (code->op == OG_SCALAR_number) {
    if (code->slot == OG_LOOP_WIDTH_SLOT)
      og_text_add(out, "width");
    else if (code->slot >= OG_FORMULA_TYPE)
      type_write(w, code->slot, out);
    else
      og_text_addf(out, "given(%s)",
                   arg_name(w, code->slot - OG_FORMULA_GIVEN));
    return;
  }
  const int32_t node = code->slot, r = og_writer_result_of(w, node);
  const og_dag_node *n = &w->d.dag.nodes[node];
  if (r >= 0) {
    og_text_add(out, arg_name(w, w->f->input_count + OG_LOOP_OUTPUTS_MAX + r));
  } else if (n->op == OG_SCALAR_load) {
    const int32_t row_by = og_writer_row_by(w, n->slot);
    if (part_of(w, n->slot) != OG_FORMULA_WHOLE) {
      og_text_addf(out, "%sp%d", w->value, (int)n->slot);
      return;
    }
    w->named |= n->needs;
    og_text_add(out, arg_name(w, n->slot));
    if (row_by > 0) og_text_addf(out, "[%s]", index_name(w, row_by));
  } else if (w->is_named[node]) {
    og_text_addf(out, "%s%d", w->value, (int)node);
  } else if (n->op == OG_DAG_CHOICE) {
    og_text_add(out, "(");
    value_write(w, n->in[0], false);
    og_text_add(out, ")");
  } else {
    og_text_addf(
        out, "%s(",
        og_loop_reduction_name((og_loop_reduction)(n->op - OG_DAG_REDUCE)));
    value_write(w, n->in[0], false);
    og_text_add(out, ")");
  }
}

static void value_write(writer *w, int32_t node, bool is_root) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  og_scalar_code code = {.count = 0};
  if (is_root && n->op >= OG_SCALAR_COUNT) {
    const og_scalar_instruction load = {.op = OG_SCALAR_load, .slot = node};
    const bool was_named = w->is_named[node];
    w->is_named[node] = false;
    load_write(w, &load, w->out);
    w->is_named[node] = was_named;
    return;
  }
  code_add(w, node, is_root, &code);
  const og_scalar_program program = {code.code, code.count};
  og_scalar_write(&program, load_write, w, w->out);
}

// What a statement needs and does not name.
static void condition_write(writer *w, uint32_t needs) {
  const uint32_t missing = needs & ~w->named;
  const char *word = " if";
  for (int32_t i = 0; i < w->f->input_count; ++i) {
    if (!(missing >> i & 1)) continue;
    og_text_addf(w->out, "%s given(%s)", word, arg_name(w, i));
    word = " and";
  }
  og_text_add(w->out, "; ");
}

static void statement_write(writer *w, int32_t node) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  const bool is_choice = n->op == OG_DAG_CHOICE && n->in[1] >= 0;
  for (int32_t part = is_choice ? 1 : 0; part >= 0; --part) {
    w->named = 0;
    og_text_addf(w->out, "%s%d = ", w->value, (int)node);
    value_write(w, is_choice ? n->in[part] : node, !is_choice);
    condition_write(w, is_choice && part == 0 ? (uint32_t)n->slot : n->needs);
  }
}

// Expressions that would be too long to read back get a name within.
static int32_t sizes_limit(writer *w, int32_t node, int32_t *depth) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  int32_t size = 1;
  *depth = 1;
  if (og_writer_is_leaf(w, node)) return 1;
  for (int32_t k = 0; k < og_dag_arity(n); ++k) {
    int32_t own_depth = 1;
    if (n->in[k] < 0) continue;
    if (w->is_named[n->in[k]])
      ++size;
    else
      size += sizes_limit(w, n->in[k], &own_depth);
    if (own_depth + k > *depth) *depth = own_depth + k;
  }
  if (size <= SIZE_MAX_INLINE && *depth <= DEPTH_MAX_INLINE) return size;
  w->is_named[node] = true;
  *depth = 1;
  return 1;
}

static const og_formula_place *place_of(const writer *w, int32_t target) {
  return w->kind == OG_FORMULA_TANGENT
             ? &w->f->out[w->f->outputs[target].result]
             : &w->f->in[w->f->inputs[target].index];
}

// Whether a derived result is a sum over rows.
static bool is_summed(const writer *w, int32_t target) {
  const struct og_formula *f = w->f;
  const uint64_t all = ((uint64_t)1 << f->item_count) - 1;
  const uint64_t row =
      f->item_count > 0 ? (uint64_t)1 << (f->item_count - 1) : 0;
  const bool ends_in_pack = f->item_count > 0 && f->pack == f->item_count - 1;
  if (w->kind == OG_FORMULA_TANGENT)
    return f->sums >> f->outputs[target].result & 1;
  if (f->broadcasts) return true;
  const uint64_t lacks = all & ~place_of(w, target)->items;
  return (ends_in_pack ? lacks : lacks & ~row) != 0;
}

void og_writer_target_name(const writer *w, int32_t t, char out[128]) {
  char result[64];
  const int32_t target = w->targets[t];
  if (w->kind == OG_FORMULA_TANGENT) {
    og_formula_output_name(w->decl, w->f->outputs[target].result, result);
    snprintf(out, 128, "tangent_of_%s", result);
    return;
  }
  const int32_t tensor = w->f->inputs[target].index;
  snprintf(out, 128, "grad_of_%s", og_tensor_param(w->decl, tensor)->name);
}

int32_t og_writer_root_row_by(const writer *w, int32_t root) {
  return w->kind == OG_FORMULA_TANGENT ? w->f->outputs[w->targets[root]].row_by
                                       : w->f->inputs[w->targets[root]].row_by;
}

int32_t og_writer_root_of(const writer *w, int32_t root) {
  return w->kind == OG_FORMULA_TANGENT ? w->f->outputs[w->targets[root]].result
                                       : w->f->inputs[w->targets[root]].index;
}

static og_formula_part root_part(const writer *w, int32_t root) {
  return w->kind == OG_FORMULA_TANGENT ? w->f->outputs[w->targets[root]].part
                                       : w->f->inputs[w->targets[root]].part;
}

static bool is_first_part(og_formula_part part) {
  return part == OG_FORMULA_FIRST || part == OG_FORMULA_EVEN;
}

// a, b; a part that has none is 0.
static void parts_write(writer *w, int32_t t) {
  for (int32_t second = 0; second < 2; ++second) {
    int32_t root = 0;
    while (root < w->root_count &&
           (og_writer_root_of(w, root) != og_writer_root_of(w, t) ||
            is_first_part(root_part(w, root)) != (second == 0)))
      ++root;
    if (second) og_text_add(w->out, ", ");
    if (root < w->root_count)
      value_write(w, w->roots[root], false);
    else
      og_text_add(w->out, "0");
  }
}

static void target_write(writer *w, int32_t t) {
  const int32_t row_by = og_writer_root_row_by(w, t);
  const og_formula_part part = root_part(w, t);
  const bool sums = row_by == 0 && is_summed(w, w->targets[t]);
  char name[128];
  og_writer_target_name(w, t, name);
  og_text_addf(w->out, "%s%s = %s", t > 0 ? "; " : "", name,
               row_by > 0 ? "add_rows("
               : sums     ? "sum_rows("
                          : "");
  if (part != OG_FORMULA_WHOLE) {
    const bool is_half = part == OG_FORMULA_FIRST || part == OG_FORMULA_SECOND;
    og_text_add(w->out, is_half ? "join(" : "interleave(");
    parts_write(w, t);
    og_text_add(w->out, sums ? "))" : ")");
    return;
  }
  value_write(w, w->roots[t], false);
  if (row_by > 0) og_text_addf(w->out, ", %s", index_name(w, row_by));
  for (int32_t more = w->target_count; more < w->root_count; ++more) {
    if (og_writer_root_of(w, more) != og_writer_root_of(w, t)) continue;
    og_text_add(w->out, ", ");
    value_write(w, w->roots[more], false);
    og_text_addf(w->out, ", %s", index_name(w, og_writer_root_row_by(w, more)));
  }
  if (sums || row_by > 0) og_text_add(w->out, ")");
}

// vp0, vp1 = halves(x), for each argument that is read so.
static void halves_write(writer *w) {
  const int32_t loads = w->f->input_count + OG_LOOP_OUTPUTS_MAX;
  for (int32_t load = 0; load < loads; ++load) {
    const og_formula_part part = part_of(w, load);
    int32_t other = load + 1;
    if (!is_first_part(part) || !og_writer_is_loaded(w, load)) continue;
    while (other < loads &&
           (og_writer_first_load(w, other) != og_writer_first_load(w, load) ||
            part_of(w, other) == part))
      ++other;
    og_text_addf(w->out, "%sp%d, %sp%d = %s(%s); ", w->value, (int)load,
                 w->value, (int)other,
                 part == OG_FORMULA_FIRST ? "halves" : "pairs",
                 arg_name(w, load));
  }
}

void og_writer_row(writer *w) {
  int32_t depth;
  halves_write(w);
  names_choose(w);
  for (int32_t n = 0; n < w->d.dag.count; ++n)
    if (w->is_named[n]) {
      w->is_named[n] = false;
      sizes_limit(w, n, &depth);
      w->is_named[n] = true;
    }
  for (int32_t t = 0; t < w->root_count; ++t)
    if (!w->is_named[w->roots[t]]) sizes_limit(w, w->roots[t], &depth);
  for (int32_t n = 0; n < w->d.dag.count; ++n)
    if (w->is_named[n]) statement_write(w, n);
  for (int32_t t = 0; t < w->target_count; ++t) target_write(w, t);
}
