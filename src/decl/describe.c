// SPDX-License-Identifier: Apache-2.0
// The declaration as JSON, for hosts that run the rules themselves.
//
// One object. A field that has nothing to say is null, a list without entries
// is []; no field is ever left out. Positions: `param` counts all arguments in
// schema order, `tensor` the tensor arguments, `attr` the other ones, `result`
// all results, `fresh` those that the host allocates, `dim` the named dims.
//
//   name, base_name, overload   strings; name is "f" or "f.overload"
//   schema, doc, reduce, reference   the author's strings, or null
//   expect       list of {word: "unused", name}; name: of an argument or result
//   flags        list of "deterministic", "random", "side_effect",
//                "capture_same_shape", "capture_never", "batch_loop"
//   params       list of {name, type, list, list_size, optional,
//                element_optional, kwonly, mutated, alias, has_default,
//                default, tensor, attr, out}
//                type: "Tensor", "int", "SymInt", "float", "bool", "str",
//                "Scalar", "ScalarType", "Device". alias: "a" or null. default:
//                a JSON value; a type is {"dtype": "f32"}, a device
//                {"device": "cpu", "id": 0}, a number that JSON lacks
//                {"float": "inf"}. tensor or attr: the position, the other one
//                null. out: where call->out has a mutated one, else null.
//   results      list of {name, type, list, alias, fresh, value}; type is
//                "Tensor" or "int"; alias: the param that this result is;
//                fresh: its position among the fresh results; value: the
//                expression of an int result
//   dims         list of {name, kind, always_bound}; kind: "size", "pack",
//                "vary", "found"
//   patterns     list of {tensor, optional, list, items, text} in an order in
//                which each can be matched
//   items        {kind, ...}:
//                  "dim" {dim, pick}      one size; pick: the attr of D@attr,
//                                         or null
//                  "vary" {dim, pick}     D~
//                  "pack" {dim}           *N
//                  "expr" {expr}          computed, or compared (once all
//                                         patterns are matched)
//                  "found" {dim, expr}    K <= expr
//                  "attr_pack" {attr}     *sizes
//                  "broadcast" {packs}    packs: list of dims
//                  "permute", "drop", "keep" {pack, attr}
//                  "insert" {pack, attr, expr}
//   shapes       by fresh: {kind: "items", items}, {kind: "like", tensor},
//                {kind: "list", count: expr, items}, {kind: "callback"}; each
//                with text
//   where        the author's string, or null
//   conditions   of it: list of {expr, text}
//   types        by tensor: {allowed: ["f32", ...], same_as: tensor or null,
//                variable: index of the free type or null}
//   type_variable_count
//   out_types    by fresh: {kind: "fixed", dtype}, {kind: "same", tensor},
//                {kind: "promote", params: [param, ...]},
//                {kind: "attr", attr, tensor: used when the attr is None}
//   strides      by tensor: "contiguous", "any", "last"
//   workspace    expr or null
//   grad         {kind: "missing" | "none" | "operator", op, args, targets};
//                args: list of {source: "grad", result}, {source: "param",
//                param}, {source: "result", result}, {source: "needs", param};
//                targets: the param of each result of that operator; kind
//                "derived": that operator is made when it is asked for
//   derived_by   of a derivative that was asked for: what it is called with, as
//                grad has it; of a tangent {source: "needs"} is the tangent of
//                a param, and targets are fresh results; else null
//   cuts         from `reduce`: list of {dims, block, join, once, unless};
//                join: null, "same", "sum", "prod", "max", "min"; once: list of
//                tensors; unless: {attr, value} or null
//   inplace      param or null
//   row          the author's string, or null
//   formula      its row program (docs/graph.md) where all arguments are given:
//                x0, x1, ... are the arguments in the order in which it first
//                names them, y0, y1, ... the results; or null
//   has_lists, has_data_dependent_result, is_formula_derived, is_derived
//                booleans; the last two: the kernel is the formula itself, and
//                the operator a derivative of another formula
//   computes_in_integers  whether the formula does so for integers
//   kernels      list of {device, device_code, dtypes, isa, has_supports};
//                device: "cpu", "cuda", "rocm", "ext" or null
//
// expr: a list of postfix instructions over integers, each a list that starts
// with the name of decl.h's OG_CODE_LIST: ["const", 3], ["dim", d],
// ["attr", a], ["attr_at", a], ["attr_len", a], ["attr_prod", a],
// ["attr_sum", a], ["list_len", tensor], ["pack_rank", d], ["pack_at", d],
// ["vary_at", d], ["given_tensor", tensor], ["given_attr", a], ["index"],
// ["threads"], ["item_bytes", tensor], ["float_sign", a, number], ["add"], ...

#include "decl/describe.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "decl/formula.h"
#include "decl/parse/expect.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/parse/reduce.h"
#include "decl/parse/schema.h"
#include "decl/types.h"

typedef struct writer {
  const og_decl *decl;
  og_text *out;
} writer;

static void put_ints(const writer *w, const char *key, const int32_t *values,
                     int32_t count) {
  og_json_begin(w->out, key, '[');
  for (int32_t i = 0; i < count; ++i) og_json_int(w->out, NULL, values[i]);
  og_json_end(w->out, ']');
}

static void put_null(const writer *w, const char *key) {
  og_json_text(w->out, key, NULL);
}

// A position, or null where it is negative.
static void put_position(const writer *w, const char *key, int32_t value) {
  if (value < 0)
    put_null(w, key);
  else
    og_json_int(w->out, key, value);
}

static void put_span(const writer *w, const char *key, int32_t begin,
                     int32_t end) {
  const char *text = w->decl->record->shape + begin;
  while (end > begin && text[end - begin - 1] == ' ') --end;
  og_text span = {0};
  og_text_add_n(&span, text, (size_t)(end - begin));
  if (span.failed) w->out->failed = true;
  og_json_text(w->out, key, span.data);
  og_text_reset(&span);
}

// --- Expressions -------------------------------------------------------------

static void put_double(const writer *w, const char *key, double value) {
  const bool is_json = !isnan(value) && !isinf(value);
  og_json_key(w->out, key);
  if (!is_json) og_text_add(w->out, "{\"float\": \"");
  og_text_add_double(w->out, value);
  if (!is_json) og_text_add(w->out, "\"}");
}

static void put_instruction(const writer *w, const og_instruction *code) {
#define CODE_TEXT(name, text) text,
  static const char *const names[] = {OG_CODE_LIST(CODE_TEXT)};
#undef CODE_TEXT
  og_json_begin(w->out, NULL, '[');
  og_json_text(w->out, NULL, names[code->op]);
  if (code->op == OG_CODE_CONST_)
    og_json_int(w->out, NULL, code->value);
  else if (code->op < OG_CODE_ADD_ && code->op != OG_CODE_INDEX_ &&
           code->op != OG_CODE_THREADS_)
    og_json_int(w->out, NULL, code->slot);
  if (code->op == OG_CODE_FLOAT_SIGN_) {
    double number;
    memcpy(&number, &code->value, sizeof number);
    put_double(w, NULL, number);
  }
  og_json_end(w->out, ']');
}

static void put_expr(const writer *w, const char *key, const og_expr *expr) {
  if (expr->count == 0) {
    put_null(w, key);
    return;
  }
  og_json_begin(w->out, key, '[');
  for (int32_t i = 0; i < expr->count; ++i) put_instruction(w, &expr->code[i]);
  og_json_end(w->out, ']');
}

// --- Arguments and results ---------------------------------------------------

static void put_list(const writer *w, const char *key, const og_attr *attr) {
  og_json_begin(w->out, key, '[');
  for (int64_t i = 0; i < attr->count; ++i)
    if (attr->kind == OG_ATTR_FLOATS)
      put_double(w, NULL, attr->floats[i]);
    else if (attr->kind == OG_ATTR_STRS)
      og_json_text(w->out, NULL, attr->strs[i]);
    else if (attr->kind == OG_ATTR_BOOLS)
      og_json_bool(w->out, NULL, attr->ints[i] != 0);
    else
      og_json_int(w->out, NULL, attr->ints[i]);
  og_json_end(w->out, ']');
}

static void put_device(const writer *w, const char *key, og_device device) {
  og_json_begin(w->out, key, '{');
  og_json_text(w->out, "device", og_device_name(device.type));
  og_json_int(w->out, "id", device.id);
  og_json_end(w->out, '}');
}

static void put_attr(const writer *w, const char *key, const og_attr *attr) {
  switch (attr->kind) {
    case OG_ATTR_NONE:
      put_null(w, key);
      break;
    case OG_ATTR_INT:
      og_json_int(w->out, key, attr->i);
      break;
    case OG_ATTR_FLOAT:
      put_double(w, key, attr->f);
      break;
    case OG_ATTR_BOOL:
      og_json_bool(w->out, key, attr->i != 0);
      break;
    case OG_ATTR_STR:
      og_json_text(w->out, key, attr->s);
      break;
    case OG_ATTR_DTYPE:
      og_json_begin(w->out, key, '{');
      og_json_text(w->out, "dtype", og_dtype_name(attr->dtype));
      og_json_end(w->out, '}');
      break;
    case OG_ATTR_DEVICE:
      put_device(w, key, attr->device);
      break;
    default:
      put_list(w, key, attr);
  }
}

static void put_param(const writer *w, const og_param *param) {
  og_text *out = w->out;
  const bool is_tensor = param->type == OG_TYPE_TENSOR;
  const char alias[2] = {param->alias_set, '\0'};
  og_json_begin(out, NULL, '{');
  og_json_text(out, "name", param->name);
  og_json_text(out, "type", og_type_name(param->type));
  og_json_bool(out, "list", param->is_list);
  og_json_int(out, "list_size", param->list_size);
  og_json_bool(out, "optional", param->is_optional);
  og_json_bool(out, "element_optional", param->is_element_optional);
  og_json_bool(out, "kwonly", param->is_keyword_only);
  og_json_bool(out, "mutated", param->is_mutated);
  og_json_text(out, "alias", param->alias_set != 0 ? alias : NULL);
  og_json_bool(out, "has_default", param->has_default);
  put_attr(w, "default", &param->default_value);
  put_position(w, "tensor", is_tensor ? param->index : -1);
  put_position(w, "attr", is_tensor ? -1 : param->index);
  put_position(w, "out", param->out_index);
  og_json_end(out, '}');
}

static void put_result(const writer *w, const og_result *result) {
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "name", result->name);
  og_json_text(w->out, "type", og_type_name(result->type));
  og_json_bool(w->out, "list", result->is_list);
  put_position(w, "alias", result->alias_param);
  put_position(w, "fresh", result->fresh_index);
  if (result->value_index < 0)
    put_null(w, "value");
  else
    put_expr(w, "value", &w->decl->values[result->value_index]);
  og_json_end(w->out, '}');
}

// --- Shapes ------------------------------------------------------------------

static void put_kind(const writer *w, const char *kind) {
  og_json_text(w->out, "kind", kind);
}

static void put_pack_item(const writer *w, const og_item *item,
                          const char *kind) {
  put_kind(w, kind);
  og_json_int(w->out, "pack", item->packs[0]);
  og_json_int(w->out, "attr", item->attr);
}

static void put_item(const writer *w, const og_item *item) {
  og_json_begin(w->out, NULL, '{');
  switch (item->kind) {
    case OG_ITEM_DIM:
      put_kind(w,
               w->decl->dims[item->dim].kind == OG_DIM_VARY ? "vary" : "dim");
      og_json_int(w->out, "dim", item->dim);
      put_position(w, "pick", item->attr);
      break;
    case OG_ITEM_PACK:
      put_kind(w, "pack");
      og_json_int(w->out, "dim", item->dim);
      break;
    case OG_ITEM_EXPR:
      put_kind(w, "expr");
      put_expr(w, "expr", &item->expr);
      break;
    case OG_ITEM_FOUND:
      put_kind(w, "found");
      og_json_int(w->out, "dim", item->dim);
      put_expr(w, "expr", &item->expr);
      break;
    case OG_ITEM_ATTR_PACK:
      put_kind(w, "attr_pack");
      og_json_int(w->out, "attr", item->attr);
      break;
    case OG_ITEM_BROADCAST:
      put_kind(w, "broadcast");
      put_ints(w, "packs", item->packs, item->pack_count);
      break;
    case OG_ITEM_INSERT:
      put_pack_item(w, item, "insert");
      put_expr(w, "expr", &item->expr);
      break;
    default:
      put_pack_item(w, item,
                    item->kind == OG_ITEM_PERMUTE ? "permute"
                    : item->kind == OG_ITEM_DROP  ? "drop"
                                                  : "keep");
  }
  og_json_end(w->out, '}');
}

static void put_items(const writer *w, const og_item *items, int32_t count) {
  og_json_begin(w->out, "items", '[');
  for (int32_t i = 0; i < count; ++i) put_item(w, &items[i]);
  og_json_end(w->out, ']');
}

static void put_pattern(const writer *w, const og_pattern *pattern) {
  const og_param *param = og_tensor_param(w->decl, pattern->tensor);
  og_json_begin(w->out, NULL, '{');
  og_json_int(w->out, "tensor", pattern->tensor);
  og_json_bool(w->out, "optional", param->is_optional);
  og_json_bool(w->out, "list", pattern->is_list);
  put_span(w, "text", pattern->begin, pattern->end);
  put_items(w, pattern->items, pattern->item_count);
  og_json_end(w->out, '}');
}

static void put_shape(const writer *w, const og_shape_rule *rule) {
  og_json_begin(w->out, NULL, '{');
  if (rule->kind == OG_SHAPE_CALLBACK) {
    put_kind(w, "callback");
    put_null(w, "text");
  } else {
    put_kind(w, rule->kind == OG_SHAPE_LIKE   ? "like"
                : rule->kind == OG_SHAPE_LIST ? "list"
                                              : "items");
    if (rule->kind == OG_SHAPE_LIKE)
      og_json_int(w->out, "tensor", rule->like_tensor);
    if (rule->kind == OG_SHAPE_LIST) put_expr(w, "count", &rule->list_count);
    put_span(w, "text", rule->begin, rule->end);
    if (rule->kind != OG_SHAPE_LIKE)
      put_items(w, rule->items, rule->item_count);
  }
  og_json_end(w->out, '}');
}

static void put_dim(const writer *w, const og_dim *dim) {
  static const char *const kinds[] = {"size", "pack", "vary", "found"};
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "name", dim->name);
  put_kind(w, kinds[dim->kind]);
  og_json_bool(w->out, "always_bound", dim->is_always_bound);
  og_json_end(w->out, '}');
}

// --- Types -------------------------------------------------------------------

static void put_type_rule(const writer *w, const og_type_rule *rule) {
  og_json_begin(w->out, NULL, '{');
  og_json_begin(w->out, "allowed", '[');
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    if (rule->set >> i & 1u)
      og_json_text(w->out, NULL, og_dtype_name(og_dtype_at(i)));
  og_json_end(w->out, ']');
  put_position(w, "same_as", rule->same_as);
  put_position(w, "variable", rule->variable);
  og_json_end(w->out, '}');
}

static void put_out_type(const writer *w, const og_out_type *out) {
  og_json_begin(w->out, NULL, '{');
  switch (out->kind) {
    case OG_OUT_TYPE_FIXED:
      put_kind(w, "fixed");
      og_json_text(w->out, "dtype", og_dtype_name(out->dtype));
      break;
    case OG_OUT_TYPE_SAME:
      put_kind(w, "same");
      og_json_int(w->out, "tensor", out->tensor);
      break;
    case OG_OUT_TYPE_PROMOTE:
      put_kind(w, "promote");
      put_ints(w, "params", out->params, out->param_count);
      break;
    default:
      put_kind(w, "attr");
      og_json_int(w->out, "attr", out->attr);
      put_position(w, "tensor", out->tensor);
  }
  og_json_end(w->out, '}');
}

// --- Gradient, kernels, flags ------------------------------------------------

static void put_grad_arg(const writer *w, const opgraft_grad_arg *arg) {
  static const struct {
    const char *source;
    const char *key;
  } rows[] = {[OPGRAFT_GRAD_OF_RESULT] = {"grad", "result"},
              [OPGRAFT_GRAD_PARAM] = {"param", "param"},
              [OPGRAFT_GRAD_RESULT] = {"result", "result"},
              [OPGRAFT_GRAD_NEEDS] = {"needs", "param"}};
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "source", rows[arg->source].source);
  og_json_int(w->out, rows[arg->source].key, arg->index);
  og_json_end(w->out, '}');
}

static void put_grad(const writer *w, const char *key, const og_grad *grad) {
  static const char *const kinds[] = {"missing", "none", "operator", "derived"};
  if (grad == NULL) {
    put_null(w, key);
    return;
  }
  og_json_begin(w->out, key, '{');
  put_kind(w, kinds[grad->kind]);
  og_json_text(w->out, "op", grad->op_name);
  og_json_begin(w->out, "args", '[');
  for (int32_t i = 0; i < grad->arg_count; ++i) put_grad_arg(w, &grad->args[i]);
  og_json_end(w->out, ']');
  put_ints(w, "targets", grad->targets, grad->target_count);
  og_json_end(w->out, '}');
}

static void put_kernel(const writer *w, const og_kernel *kernel) {
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "device", og_device_name(kernel->device));
  og_json_int(w->out, "device_code", kernel->device);
  og_json_text(w->out, "dtypes", kernel->dtypes);
  og_json_text(w->out, "isa", kernel->isa);
  og_json_bool(w->out, "has_supports", kernel->supports != NULL);
  og_json_end(w->out, '}');
}

// The formula's program where every optional argument is given.
static void put_formula(const writer *w) {
  const struct og_formula *formula = w->decl->formula;
  const og_formula_choice choice = {.given = ~0u};
  og_arena arena = {0};
  og_loop_program program;
  og_text text = {0};
  if (formula == NULL) {
    put_null(w, "formula");
    return;
  }
  if (og_formula_program(formula, &choice, &arena, &program))
    og_loop_write(&program, &text);
  w->out->failed |= text.failed || text.data == NULL;
  og_json_text(w->out, "formula", text.data);
  og_text_reset(&text);
  og_arena_destroy(&arena);
}

static void put_cut(const writer *w, const og_cut *cut) {
  og_json_begin(w->out, NULL, '{');
  put_ints(w, "dims", cut->dims, cut->dim_count);
  og_json_int(w->out, "block", cut->block);
  og_json_text(w->out, "join", og_join_word(cut->join));
  og_json_begin(w->out, "once", '[');
  for (int32_t t = 0; t < w->decl->tensor_count; ++t)
    if (cut->once >> t & 1u) og_json_int(w->out, NULL, t);
  og_json_end(w->out, ']');
  if (cut->unless_attr < 0) {
    put_null(w, "unless");
  } else {
    og_json_begin(w->out, "unless", '{');
    og_json_int(w->out, "attr", cut->unless_attr);
    og_json_text(w->out, "value", cut->unless_text);
    og_json_end(w->out, '}');
  }
  og_json_end(w->out, '}');
}

static void put_flags(const writer *w) {
  static const char *const names[] = {"deterministic", "random",
                                      "side_effect",   "capture_same_shape",
                                      "capture_never", "batch_loop"};
  og_json_begin(w->out, "flags", '[');
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (w->decl->flags >> i & 1u) og_json_text(w->out, NULL, names[i]);
  og_json_end(w->out, ']');
}

// --- The whole ---------------------------------------------------------------

// Writes "key": [a, b] with one call for each entry.
#define PUT_LIST(w, key, count, body)           \
  do {                                          \
    og_json_begin((w)->out, key, '[');          \
    for (int32_t i = 0; i < (count); ++i) body; \
    og_json_end((w)->out, ']');                 \
  } while (0)

static void put_condition(const writer *w, const og_condition *condition) {
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "text", condition->text);
  put_expr(w, "expr", &condition->expr);
  og_json_end(w->out, '}');
}

static void put_expect(const writer *w, const og_expect *expect) {
  og_json_begin(w->out, NULL, '{');
  og_json_text(w->out, "word", og_expect_word(expect->kind));
  og_json_text(w->out, "name", expect->name);
  og_json_end(w->out, '}');
}

static void put_names(const writer *w) {
  const og_decl *decl = w->decl;
  og_json_text(w->out, "name", decl->name);
  og_json_text(w->out, "base_name", decl->base_name);
  og_json_text(w->out, "overload", decl->overload);
  og_json_text(w->out, "schema", decl->record->schema);
  og_json_text(w->out, "doc", decl->record->doc);
  og_json_text(w->out, "reduce", decl->record->reduce);
  og_json_text(w->out, "reference", decl->record->reference);
  PUT_LIST(w, "expect", decl->expect_count, put_expect(w, &decl->expects[i]));
  put_flags(w);
}

static void put_rules(const writer *w) {
  const og_decl *decl = w->decl;
  static const char *const strides[] = {"contiguous", "any", "last"};
  PUT_LIST(w, "params", decl->param_count, put_param(w, &decl->params[i]));
  PUT_LIST(w, "results", decl->result_count, put_result(w, &decl->results[i]));
  PUT_LIST(w, "dims", decl->dim_count, put_dim(w, &decl->dims[i]));
  PUT_LIST(w, "patterns", decl->pattern_count,
           put_pattern(w, &decl->patterns[i]));
  PUT_LIST(w, "shapes", decl->fresh_count, put_shape(w, &decl->shapes[i]));
  og_json_text(w->out, "where", decl->record->where);
  PUT_LIST(w, "conditions", decl->condition_count,
           put_condition(w, &decl->conditions[i]));
  PUT_LIST(w, "types", decl->tensor_count, put_type_rule(w, &decl->types[i]));
  og_json_int(w->out, "type_variable_count", decl->type_variable_count);
  PUT_LIST(w, "out_types", decl->fresh_count,
           put_out_type(w, &decl->out_types[i]));
  PUT_LIST(w, "strides", decl->tensor_count,
           og_json_text(w->out, NULL, strides[decl->strides[i]]));
}

void og_decl_describe(const og_decl *decl, og_text *out) {
  const writer whole = {decl, out}, *w = &whole;
  og_json_begin(out, NULL, '{');
  put_names(w);
  put_rules(w);
  put_expr(w, "workspace", &decl->workspace);
  put_grad(w, "grad", &w->decl->grad);
  put_grad(w, "derived_by", w->decl->derived_by);
  PUT_LIST(w, "cuts", decl->cut_count, put_cut(w, &decl->cuts[i]));
  put_position(w, "inplace", decl->inplace_param);
  og_json_text(out, "row", decl->record->row);
  put_formula(w);
  og_json_bool(out, "has_lists", decl->has_lists);
  og_json_bool(out, "has_data_dependent_result",
               decl->has_data_dependent_result);
  og_json_bool(out, "is_formula_derived", decl->is_formula_derived);
  og_json_bool(out, "computes_in_integers",
               decl->formula != NULL && decl->formula->is_integer);
  og_json_bool(out, "is_derived", decl->is_derived);
  PUT_LIST(w, "kernels", decl->kernel_count, put_kernel(w, &decl->kernels[i]));
  og_json_end(out, '}');
}
