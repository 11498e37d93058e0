// SPDX-License-Identifier: Apache-2.0
// What is derived from a formula, as an operator's texts.
//
// Of a result and what it would be recomputed from, the derived operator reads
// the result where that needs no more memory; but comparisons compute what the
// formula compared, since a result was rounded.

#include <stdio.h>
#include <string.h>

#include "decl/formula_writer.h"
#include "decl/parse/names.h"
#include "decl/types.h"

typedef og_formula_writer writer;
typedef og_formula_argument argument;

// --- What is read ------------------------------------------------------------

static void use(writer *w, int32_t node) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  if (w->uses[node]++ > 0 || og_writer_is_leaf(w, node)) return;
  for (int32_t k = 0; k < og_dag_arity(n); ++k)
    if (n->in[k] >= 0) use(w, n->in[k]);
}

// How often each value is used when these results are read.
static void uses_count(writer *w, uint32_t read_results) {
  w->read_results = read_results;
  memset(w->uses, 0, (size_t)w->d.dag.count * sizeof *w->uses);
  for (int32_t t = 0; t < w->root_count; ++t) use(w, w->roots[t]);
}

static int32_t weight(const struct og_formula *f,
                      const og_formula_place *place) {
  const uint64_t all = ((uint64_t)1 << f->item_count) - 1;
  return f->broadcasts || place->items == all ? 1000 : 1;
}

// What is kept for it, roughly.
static int32_t cost(const writer *w) {
  int32_t sum = 0;
  for (int32_t n = 0; n < w->d.dag.count; ++n) {
    const og_dag_node *node = &w->d.dag.nodes[n];
    const int32_t r = og_writer_result_of(w, n);
    if (w->uses[n] == 0) continue;
    if (r >= 0)
      sum += weight(w->f, &w->f->out[r]);
    else if (node->op == OG_SCALAR_load && node->slot < w->f->input_count &&
             w->f->inputs[node->slot].is_tensor)
      sum += weight(w->f, &w->f->in[w->f->inputs[node->slot].index]);
  }
  return sum;
}

static void below_mark(const writer *w, int32_t node, bool *is_below) {
  const og_dag_node *n = &w->d.dag.nodes[node];
  if (is_below[node]) return;
  is_below[node] = true;
  for (int32_t k = 0; k < og_dag_arity(n); ++k)
    if (n->in[k] >= 0) below_mark(w, n->in[k], is_below);
}

static void results_choose(writer *w) {
  uint32_t chosen = 0;
  memset(w->is_named, 0, (size_t)w->d.dag.count);
  uses_count(w, 0);
  for (int32_t n = 0; n < w->d.dag.count; ++n) {
    const int32_t op = w->d.dag.nodes[n].op;
    if (w->uses[n] > 0 && op >= OG_SCALAR_eq && op <= OG_SCALAR_ge)
      below_mark(w, n, w->is_named);
  }
  int32_t best = cost(w);
  for (int32_t r = 0; r < w->f->result_count; ++r) {
    const int32_t node = w->d.dag.outputs[r];
    const bool may = w->kind == OG_FORMULA_GRADIENT && w->uses[node] > 0 &&
                     !w->is_named[node] &&
                     !((w->f->sums | w->f->added | w->f->wide_out) >> r & 1) &&
                     w->d.dag.nodes[node].op > OG_SCALAR_number &&
                     (w->d.smooth_outputs >> r & 1);
    if (!may) continue;
    uses_count(w, chosen | 1u << r);
    if (cost(w) <= best) {
      chosen |= 1u << r;
      best = cost(w);
    }
    uses_count(w, chosen);
  }
}

// --- Arguments ---------------------------------------------------------------

static bool is_taken(const writer *w, const char *name) {
  const og_decl *decl = w->decl;
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (strcmp(decl->params[i].name, name) == 0) return true;
  for (int32_t i = 0; i < decl->dim_count; ++i)
    if (strcmp(decl->dims[i].name, name) == 0) return true;
  for (int32_t i = 0; i < w->arg_count; ++i)
    if (strcmp(w->args[i].name, name) == 0) return true;
  for (int32_t t = 0; t < w->target_count; ++t) {
    char target[128];
    og_writer_target_name(w, t, target);
    if (strcmp(target, name) == 0) return true;
  }
  return strcmp(name, "width") == 0;
}

// One that is new gets a name that nothing has.
static void arg_add(writer *w, argument arg, const char *name, bool is_new) {
  if (w->arg_count == OG_WRITER_ARGS_MAX) {
    w->d.dag.failed = true;
    return;
  }
  snprintf(arg.name, sizeof arg.name, "%s", name);
  while (is_new && is_taken(w, arg.name) &&
         strlen(arg.name) + 2 < sizeof arg.name)
    strcat(arg.name, "_");
  w->args[w->arg_count++] = arg;
}

static bool is_of(const og_formula_input *input, const og_param *param) {
  return input->is_tensor == (param->type == OG_TYPE_TENSOR) &&
         !input->is_position && input->index == param->index;
}

// The first input that reads it, or -1.
static int32_t input_of(const writer *w, const og_param *param) {
  for (int32_t i = 0; i < w->f->input_count; ++i)
    if (is_of(&w->f->inputs[i], param)) return i;
  return -1;
}

// Whether the derived operator asks, by given(x) or a condition, for an input.
static bool is_asked(const writer *w, int32_t input) {
  for (int32_t n = 0; n < w->d.dag.count; ++n) {
    const og_dag_node *node = &w->d.dag.nodes[n];
    if (w->uses[n] > 0 &&
        ((node->needs >> input & 1) ||
         (node->op == OG_DAG_CHOICE && (node->slot >> input & 1)) ||
         (node->op == OG_SCALAR_number &&
          (node->slot == OG_FORMULA_GIVEN + input ||
           node->slot == OG_FORMULA_TYPE + input))))
      return true;
  }
  return false;
}

static int32_t arg_of_param(const writer *w, int32_t param) {
  for (int32_t a = 0; a < w->arg_count; ++a)
    if (w->args[a].source.source == OPGRAFT_GRAD_PARAM &&
        w->args[a].source.index == param)
      return a;
  return -1;
}

static void param_add(writer *w, int32_t p) {
  const og_param *param = &w->decl->params[p];
  if (arg_of_param(w, p) >= 0) return;
  arg_add(
      w,
      (argument){.source = {.source = OPGRAFT_GRAD_PARAM, .index = p},
                 .tensor = param->type == OG_TYPE_TENSOR ? param->index : -1,
                 .result = -1,
                 .load = input_of(w, param)},
      param->name, false);
}

static void tensor_add(writer *w, int32_t tensor) {
  param_add(w, w->decl->tensor_params[tensor]);
}

static void gradients_add(writer *w) {
  char name[96];
  for (int32_t r = 0; r < w->f->result_count; ++r) {
    const int32_t load = w->f->input_count + r;
    if (!og_writer_is_loaded(w, load)) continue;
    snprintf(name, sizeof name, w->f->result_count == 1 ? "grad" : "grad_%d",
             (int)r);
    arg_add(w,
            (argument){.source = {.source = OPGRAFT_GRAD_OF_RESULT,
                                  .index = w->decl->fresh_results[r]},
                       .tensor = -1,
                       .result = r,
                       .load = load},
            name, true);
  }
}

static void results_add(writer *w) {
  char name[64];
  for (int32_t r = 0; r < w->f->result_count; ++r) {
    if (!(w->read_results >> r & 1)) continue;
    og_formula_output_name(w->decl, r, name);
    arg_add(w,
            (argument){.source = {.source = OPGRAFT_GRAD_RESULT,
                                  .index = w->decl->fresh_results[r]},
                       .tensor = -1,
                       .result = r,
                       .load = w->f->input_count + OG_LOOP_OUTPUTS_MAX + r},
            name, true);
  }
}

static void tangents_add(writer *w) {
  char name[96];
  for (int32_t i = 0; i < w->f->input_count; ++i) {
    const int32_t load = w->f->input_count + i;
    if (!og_writer_is_loaded(w, load) || og_writer_first_load(w, load) != load)
      continue;
    const int32_t tensor = w->f->inputs[i].index;
    const og_param *param = og_tensor_param(w->decl, tensor);
    snprintf(name, sizeof name, "tangent_%s", param->name);
    arg_add(w,
            (argument){.source = {.source = OPGRAFT_GRAD_NEEDS,
                                  .index = w->decl->tensor_params[tensor]},
                       .tensor = tensor,
                       .result = -1,
                       .load = load},
            name, true);
  }
}

// Whether a result has a dim that is not an argument's.
static bool has_own_dims(const og_decl *decl) {
  for (int32_t r = 0; r < decl->fresh_count; ++r)
    for (int32_t k = 0; k < decl->shapes[r].item_count; ++k) {
      const og_item *item = &decl->shapes[r].items[k];
      if (item->kind == OG_ITEM_EXPR || item->attr >= 0) return true;
    }
  return false;
}

static bool has_sizes(const og_decl *decl) {
  for (int32_t k = 0; k < decl->pattern_count; ++k)
    if (decl->patterns[k].has_exprs) return true;
  return false;
}

static bool is_full(const writer *w, const argument *arg) {
  const uint64_t all = ((uint64_t)1 << w->f->item_count) - 1;
  if (arg->result >= 0) return w->f->out[arg->result].items == all;
  return arg->tensor >= 0 && w->f->in[arg->tensor].items == all &&
         arg->load >= 0 && !og_tensor_param(w->decl, arg->tensor)->is_optional;
}

// What must be there for the sizes of the results.
static void sizes_add(writer *w) {
  bool has_full = false;
  const bool needs_all =
      w->f->broadcasts || has_sizes(w->decl) || w->kind == OG_FORMULA_TANGENT;
  for (int32_t a = 0; a < w->arg_count; ++a)
    has_full |= is_full(w, &w->args[a]);
  if (!needs_all && has_full) return;
  if (!needs_all && w->f->space >= 0) {
    tensor_add(w, w->f->space);
    return;
  }
  for (int32_t p = 0; p < w->decl->param_count; ++p) {
    const og_param *param = &w->decl->params[p];
    if (param->type == OG_TYPE_TENSOR
            ? needs_all || !param->is_optional
            : has_sizes(w->decl) ||
                  (w->kind == OG_FORMULA_TANGENT && !param->is_list &&
                   og_is_int_type(param->type) && has_own_dims(w->decl)))
      param_add(w, p);
  }
}

// The tensor whose type a result certainly has, or -1.
static int32_t type_of_result(const writer *w, int32_t r) {
  const og_out_type *type = &w->decl->out_types[r];
  if (type->kind == OG_OUT_TYPE_SAME) return type->tensor;
  const bool is_one = type->kind == OG_OUT_TYPE_PROMOTE &&
                      type->param_count == 1 &&
                      w->decl->params[type->params[0]].type == OG_TYPE_TENSOR;
  return is_one ? w->decl->params[type->params[0]].index : -1;
}

static int32_t root_of(const writer *w, int32_t tensor) {
  const int32_t same = w->decl->types[tensor].same_as;
  return same >= 0 ? same : tensor;
}

// Of the first `count` arguments one that is always there and has a tensor's
// type, or -1.
static int32_t arg_of_type(const writer *w, int32_t tensor, int32_t count) {
  for (int32_t a = 0; a < count; ++a) {
    const argument *arg = &w->args[a];
    const int32_t own = arg->tensor >= 0   ? arg->tensor
                        : arg->result >= 0 ? type_of_result(w, arg->result)
                                           : -1;
    const bool is_there =
        arg->tensor < 0 || !og_tensor_param(w->decl, arg->tensor)->is_optional;
    // A tangent may have another type than its argument.
    if (own >= 0 && is_there && arg->source.source != OPGRAFT_GRAD_NEEDS &&
        root_of(w, own) == root_of(w, tensor))
      return a;
  }
  return -1;
}

static void types_add(writer *w) {
  for (int32_t t = 0; t < w->target_count; ++t) {
    if (w->kind == OG_FORMULA_GRADIENT) {
      const int32_t tensor = w->f->inputs[w->targets[t]].index;
      if (arg_of_type(w, tensor, w->arg_count) < 0) tensor_add(w, tensor);
      continue;
    }
    const og_out_type *type = &w->decl->out_types[w->targets[t]];
    if (type->kind == OG_OUT_TYPE_SAME) tensor_add(w, type->tensor);
    for (int32_t k = 0; k < type->param_count; ++k)
      param_add(w, type->params[k]);
  }
}

// The indices of what is read and of what is added to, and tables that say how
// many rows a result has.
static void indices_add(writer *w) {
  const struct og_formula *f = w->f;
  for (int32_t n = 0; n < w->d.dag.count; ++n) {
    const og_dag_node *node = &w->d.dag.nodes[n];
    if (w->uses[n] == 0 || node->op != OG_SCALAR_load) continue;
    const int32_t row_by = og_writer_row_by(w, node->slot);
    if (row_by > 0) tensor_add(w, f->indices[row_by - 1]);
  }
  for (int32_t t = 0; t < w->root_count; ++t) {
    const int32_t row_by = og_writer_root_row_by(w, t);
    if (row_by == 0) continue;
    tensor_add(w, f->indices[row_by - 1]);
    if (w->kind == OG_FORMULA_GRADIENT) tensor_add(w, og_writer_root_of(w, t));
  }
}

static void args_find(writer *w) {
  if (w->kind == OG_FORMULA_GRADIENT)
    gradients_add(w);
  else
    tangents_add(w);
  for (int32_t p = 0; p < w->decl->param_count; ++p)
    for (int32_t i = 0; i < w->f->input_count; ++i)
      if (is_of(&w->f->inputs[i], &w->decl->params[p]) &&
          (og_writer_is_loaded(w, i) || is_asked(w, i)))
        param_add(w, p);
  indices_add(w);
  results_add(w);
  sizes_add(w);
  types_add(w);
  snprintf(w->value, sizeof w->value, "v");
  for (int32_t i = 0; i < w->decl->param_count; ++i)
    if (strncmp(w->decl->params[i].name, w->value, strlen(w->value)) == 0 &&
        strlen(w->value) + 2 < sizeof w->value) {
      strcat(w->value, "_");
      i = -1;
    }
}

// --- Texts -------------------------------------------------------------------

static void type_name_write(writer *w, const og_param *param) {
  static const char *const names[] = {
      [OG_TYPE_TENSOR] = "Tensor",  [OG_TYPE_INT] = "int",
      [OG_TYPE_SYM_INT] = "SymInt", [OG_TYPE_FLOAT] = "float",
      [OG_TYPE_BOOL] = "bool",      [OG_TYPE_SCALAR] = "Scalar"};
  og_text_addf(w->out, "%s%s", names[param->type],
               param->is_optional ? "?" : "");
}

static void operator_name(const writer *w, char out[256]) {
  snprintf(out, 256, "%s_%s%s%s", w->decl->base_name,
           w->kind == OG_FORMULA_GRADIENT ? "gradient" : "tangent",
           w->decl->overload[0] != '\0' ? "." : "", w->decl->overload);
}

static void schema_write(writer *w) {
  char name[256];
  operator_name(w, name);
  og_text_addf(w->out, "%s(", name);
  for (int32_t a = 0; a < w->arg_count; ++a) {
    const argument *arg = &w->args[a];
    const bool is_param = arg->tensor >= 0 || arg->result < 0;
    if (a > 0) og_text_add(w->out, ", ");
    if (is_param)
      type_name_write(w, &w->decl->params[arg->source.index]);
    else
      og_text_add(w->out, "Tensor");
    og_text_addf(w->out, " %s", arg->name);
  }
  og_text_add(w->out, ") -> (");
  for (int32_t t = 0; t < w->target_count; ++t) {
    og_writer_target_name(w, t, name);
    og_text_addf(w->out, "%sTensor %s", t > 0 ? ", " : "", name);
  }
  og_text_add(w->out, ")");
}

// Without the spaces at its end.
static void span_write(writer *w, const char *begin, const char *end) {
  while (end > begin && end[-1] == ' ') --end;
  og_text_add_n(w->out, begin, (size_t)(end - begin));
}

// A tensor's dims in brackets.
static void pattern_write(writer *w, int32_t tensor, const char *name) {
  const char *text = w->decl->record->shape;
  for (int32_t k = 0; k < w->decl->pattern_count; ++k) {
    const og_pattern *pattern = &w->decl->patterns[k];
    if (pattern->tensor != tensor) continue;
    const bool is_optional = og_tensor_param(w->decl, tensor)->is_optional;
    const char *begin = text + pattern->begin;
    while (*begin != '[') ++begin;
    og_text_addf(w->out, "%s%s", name,
                 is_optional && name[0] != '\0' ? "?" : "");
    span_write(w, begin, text + pattern->end);
  }
}

static void rule_write(writer *w, int32_t result, const char *name) {
  const og_shape_rule *rule = &w->decl->shapes[result];
  const char *text = w->decl->record->shape;
  if (rule->kind == OG_SHAPE_LIKE) {
    pattern_write(w, rule->like_tensor, name);
    return;
  }
  og_text_add(w->out, name);
  span_write(w, text + rule->begin, text + rule->end);
}

static void shape_write(writer *w) {
  bool is_first = true;
  for (int32_t a = 0; a < w->arg_count; ++a) {
    const argument *arg = &w->args[a];
    if (arg->tensor < 0 && arg->result < 0) continue;
    if (!is_first) og_text_add(w->out, ", ");
    is_first = false;
    if (arg->tensor >= 0)
      pattern_write(w, arg->tensor, arg->name);
    else
      rule_write(w, arg->result, arg->name);
  }
  for (int32_t t = 0; t < w->target_count; ++t) {
    og_text_add(w->out, t == 0 ? " -> " : ", ");
    if (w->kind == OG_FORMULA_TANGENT)
      rule_write(w, w->targets[t], "");
    else
      pattern_write(w, w->f->inputs[w->targets[t]].index, "");
  }
}

static void set_write(writer *w, og_type_set set) {
  bool is_first = true;
  for (int32_t k = 0; k < og_dtype_table_count(); ++k) {
    if (!(set >> k & 1u)) continue;
    og_text_addf(w->out, "%s%s", is_first ? "" : "|",
                 og_dtype_name(og_dtype_at(k)));
    is_first = false;
  }
}

static void arg_type_write(writer *w, int32_t a) {
  const argument *arg = &w->args[a];
  int32_t tensor = arg->tensor;
  if (arg->result >= 0) {
    const og_out_type *type = &w->decl->out_types[arg->result];
    tensor = type_of_result(w, arg->result);
    if (type->kind == OG_OUT_TYPE_FIXED) {
      og_text_add(w->out, og_dtype_name(type->dtype));
      return;
    }
  }
  const int32_t same = tensor < 0 ? -1 : arg_of_type(w, tensor, a);
  if (same >= 0) {  // as an earlier one that has its type
    og_text_add(w->out, w->args[same].name);
    return;
  }
  set_write(w, tensor >= 0 ? w->decl->types[tensor].set & ~og_types_complex
                           : og_types_floating);
}

// Of what may be absent: then another type, which is not read.
static void promoted_write(writer *w, const char *name) {
  og_text_addf(w->out, "promote(%s", name);
  for (int32_t a = 0; a < w->arg_count; ++a) {
    const argument *arg = &w->args[a];
    if (arg->result < 0 &&
        (arg->tensor < 0 || og_tensor_param(w->decl, arg->tensor)->is_optional))
      continue;
    og_text_addf(w->out, ", %s", arg->name);
    break;
  }
  og_text_add(w->out, ")");
}

static void result_type_write(writer *w, int32_t target) {
  if (w->kind == OG_FORMULA_GRADIENT) {
    const int32_t tensor = w->f->inputs[target].index;
    const int32_t a = arg_of_type(w, tensor, w->arg_count);
    if (a >= 0)
      og_text_add(w->out, w->args[a].name);
    else
      promoted_write(w, og_tensor_param(w->decl, tensor)->name);
    return;
  }
  const og_out_type *type = &w->decl->out_types[target];
  if (type->kind == OG_OUT_TYPE_FIXED) {
    og_text_add(w->out, og_dtype_name(type->dtype));
  } else if (type->kind == OG_OUT_TYPE_SAME) {
    og_text_add(w->out, og_tensor_param(w->decl, type->tensor)->name);
  } else {
    for (int32_t k = 0; k < type->param_count; ++k)
      og_text_addf(w->out, "%s%s", k == 0 ? "promote(" : ", ",
                   w->decl->params[type->params[k]].name);
    og_text_add(w->out, ")");
  }
}

static void dtype_write(writer *w) {
  bool is_first = true;
  for (int32_t a = 0; a < w->arg_count; ++a) {
    const argument *arg = &w->args[a];
    if (arg->tensor < 0 && arg->result < 0) continue;
    og_text_addf(w->out, "%s%s: ", is_first ? "" : ", ", arg->name);
    is_first = false;
    arg_type_write(w, a);
  }
  for (int32_t t = 0; t < w->target_count; ++t) {
    og_text_add(w->out, t == 0 ? " -> " : ", ");
    result_type_write(w, w->targets[t]);
  }
}

static void doc_write(writer *w) {
  og_text_addf(
      w->out, "The %s that is derived from the formula of %s.",
      w->kind == OG_FORMULA_GRADIENT ? "gradient" : "tangent (forward mode)",
      w->decl->name);
}

static bool text_keep(writer *w, void (*write)(writer *), const char **out) {
  og_text text = {0};
  w->out = &text;
  write(w);
  if (!text.failed) *out = og_arena_strndup(w->arena, text.data, text.length);
  og_text_reset(&text);
  return *out != NULL;
}

// --- The whole ---------------------------------------------------------------

// Of the inputs that read one tensor and have a gradient.
static bool is_first_target(const writer *w, int32_t input) {
  int32_t k = 0;
  while (!w->f->inputs[k].is_tensor || w->d.values[k] < 0 ||
         w->f->inputs[k].index != w->f->inputs[input].index)
    ++k;
  return k == input;
}

static void targets_find(writer *w) {
  const struct og_formula *f = w->f;
  const bool is_tangent = w->kind == OG_FORMULA_TANGENT;
  const int32_t count = is_tangent ? f->output_count : f->input_count;
  for (int32_t more = 0; more < 2; ++more) {
    for (int32_t k = 0; k < count; ++k) {
      const int32_t r = is_tangent ? f->outputs[k].result : 0;
      if (w->d.values[k] < 0 ||
          (is_tangent && (r < 0 || !(w->d.smooth_outputs >> r & 1))))
        continue;
      const bool is_first =
          is_tangent ? k < f->result_count : is_first_target(w, k);
      if (is_first == (more > 0)) continue;
      w->targets[w->root_count] = k;
      w->roots[w->root_count++] = w->d.values[k];
    }
    if (more == 0) w->target_count = w->root_count;
  }
}

static bool map_keep(const writer *w, og_grad *map) {
  char name[256];
  opgraft_grad_arg *args =
      og_arena_array(w->arena, (size_t)w->arg_count, sizeof *args);
  int32_t *targets =
      og_arena_array(w->arena, (size_t)w->target_count, sizeof *targets);
  operator_name(w, name);
  map->op_name = og_arena_strndup(w->arena, name, strlen(name));
  if (args == NULL || targets == NULL || map->op_name == NULL) return false;
  for (int32_t a = 0; a < w->arg_count; ++a) args[a] = w->args[a].source;
  for (int32_t t = 0; t < w->target_count; ++t)
    targets[t] =
        w->kind == OG_FORMULA_TANGENT
            ? w->targets[t]
            : w->decl->tensor_params[w->f->inputs[w->targets[t]].index];
  map->kind = OG_GRAD_OPERATOR;
  map->args = args;
  map->arg_count = w->arg_count;
  map->targets = targets;
  map->target_count = w->target_count;
  return true;
}

static bool derive(writer *w, og_op *out, og_grad *map) {
  if (w->kind == OG_FORMULA_GRADIENT)
    og_deriver_gradients(&w->d);
  else
    og_deriver_tangents(&w->d);
  targets_find(w);
  map->kind = OG_GRAD_NONE;
  if (w->d.dag.failed || w->target_count == 0 ||
      w->target_count > OG_LOOP_OUTPUTS_MAX)
    return false;
  const size_t count = (size_t)w->d.dag.count;
  w->uses = og_alloc(count * sizeof *w->uses);
  w->is_named = og_alloc(count);
  map->kind = OG_GRAD_MISSING;
  if (w->uses == NULL || w->is_named == NULL) return false;
  results_choose(w);
  args_find(w);
  *out = (og_op){.flags = w->decl->flags & OG_DETERMINISTIC};
  return !w->d.dag.failed && text_keep(w, schema_write, &out->schema) &&
         text_keep(w, shape_write, &out->shape) &&
         text_keep(w, dtype_write, &out->dtype) &&
         text_keep(w, og_writer_row, &out->row) &&
         text_keep(w, doc_write, &out->doc) && map_keep(w, map);
}

bool og_formula_differentiate(const og_decl *decl, og_formula_derivative kind,
                              og_arena *arena, og_op *out, og_grad *out_map) {
  *out_map = (og_grad){.kind = OG_GRAD_MISSING};
  if (decl->formula == NULL || !decl->formula->is_real ||
      decl->mutated_count > 0)
    return false;
  writer *w = og_alloc_zeroed(1, sizeof *w);
  if (w == NULL) return false;
  w->decl = decl;
  w->f = decl->formula;
  w->kind = kind;
  w->arena = arena;
  const bool made = og_deriver_init(&w->d, decl) && derive(w, out, out_map);
  og_deriver_reset(&w->d);
  og_free(w->uses);
  og_free(w->is_named);
  og_free(w);
  return made;
}

og_status og_formula_grad_parse(og_decl *decl, opgraft_error *error) {
  og_op *made = og_arena_alloc(&decl->arena, sizeof *made);
  if (decl->record->backward != NULL || decl->formula == NULL) return OG_OK;
  if (made == NULL)
    return og_error_set(error, OG_MEMORY, decl->name, "row",
                        "%s: row: out of memory", decl->name);
  if (og_formula_differentiate(decl, OG_FORMULA_GRADIENT, &decl->arena, made,
                               &decl->grad)) {
    decl->gradient = made;
    decl->grad.kind = OG_GRAD_DERIVED;  // until a module has it
  }
  return OG_OK;
}
