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
//   conditions   list of {expr, text}
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
//                targets: the param of each result of that operator
//   inplace      param or null
//   pointwise    the author's string, or null
//   pointwise_program   its postfix over floats, a list of instructions like
//                those of an expr with the names of scalar/scalar.def:
//                ["const", 0.5], ["load", tensor], ["number", attr],
//                ["mul"]...; or null
//   has_lists, has_data_dependent_result, is_pointwise_derived   booleans; the
//                last: the kernel is the pointwise expression itself
//   kernels      list of {device, device_code, dtypes, isa, has_supports};
//                device: "cpu", "cuda", "rocm", "ext" or null
//
// expr: a list of postfix instructions over integers, each a list that starts
// with the name of decl.h's OG_CODE_LIST: ["const", 3], ["dim", d],
// ["attr", a], ["attr_at", a], ["attr_len", a], ["attr_prod", a],
// ["attr_sum", a], ["list_len", tensor], ["pack_rank", d], ["pack_at", d],
// ["vary_at", d], ["given_tensor", tensor], ["given_attr", a], ["index"],
// ["threads"], ["item_bytes", tensor], ["add"], ...

#include "decl/describe.h"

#include <math.h>

#include "decl/parse/expect.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/parse/schema.h"
#include "decl/types.h"

typedef struct writer {
  const og_decl *decl;
  og_text *out;
} writer;

static void put(const writer *w, const char *text) {
  og_text_add(w->out, text);
}

static void comma(const writer *w, int32_t i) {
  if (i > 0) put(w, ", ");
}

// "1, 2"
static void put_ints(const writer *w, const int32_t *values, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    comma(w, i);
    og_text_addf(w->out, "%d", (int)values[i]);
  }
}

static void put_key(const writer *w, const char *key) {
  og_text_addf(w->out, "\"%s\": ", key);
}

static void put_string(const writer *w, const char *text) {
  if (text == NULL)
    put(w, "null");
  else
    og_text_add_json(w->out, text);
}

static void put_bool(const writer *w, bool value) {
  put(w, value ? "true" : "false");
}

// A position, or null where it is negative.
static void put_position(const writer *w, int32_t value) {
  if (value < 0)
    put(w, "null");
  else
    og_text_addf(w->out, "%d", (int)value);
}

static void put_span(const writer *w, int32_t begin, int32_t end) {
  const char *text = w->decl->record->shape + begin;
  while (end > begin && text[end - begin - 1] == ' ') --end;
  og_text span = {0};
  og_text_add_n(&span, text, (size_t)(end - begin));
  if (span.failed) w->out->failed = true;
  put_string(w, span.data);
  og_text_reset(&span);
}

// --- Expressions -------------------------------------------------------------

static void put_instruction(const writer *w, const og_instruction *code) {
#define CODE_TEXT(name, text) text,
  static const char *const names[] = {OG_CODE_LIST(CODE_TEXT)};
#undef CODE_TEXT
  og_text_addf(w->out, "[\"%s\"", names[code->op]);
  if (code->op == OG_CODE_CONST_)
    og_text_addf(w->out, ", %lld", (long long)code->value);
  else if (code->op < OG_CODE_ADD_ && code->op != OG_CODE_INDEX_ &&
           code->op != OG_CODE_THREADS_)
    og_text_addf(w->out, ", %d", (int)code->slot);
  put(w, "]");
}

static void put_expr(const writer *w, const og_expr *expr) {
  if (expr->count == 0) {
    put(w, "null");
    return;
  }
  put(w, "[");
  for (int32_t i = 0; i < expr->count; ++i) {
    comma(w, i);
    put_instruction(w, &expr->code[i]);
  }
  put(w, "]");
}

// --- Arguments and results ---------------------------------------------------

static void put_double(const writer *w, double value) {
  const bool is_json = !isnan(value) && !isinf(value);
  if (!is_json) put(w, "{\"float\": \"");
  og_text_add_double(w->out, value);
  if (!is_json) put(w, "\"}");
}

static void put_list(const writer *w, const og_attr *attr) {
  put(w, "[");
  for (int64_t i = 0; i < attr->count; ++i) {
    comma(w, i > 0);
    if (attr->kind == OG_ATTR_FLOATS)
      put_double(w, attr->floats[i]);
    else if (attr->kind == OG_ATTR_STRS)
      put_string(w, attr->strs[i]);
    else if (attr->kind == OG_ATTR_BOOLS)
      put_bool(w, attr->ints[i] != 0);
    else
      og_text_addf(w->out, "%lld", (long long)attr->ints[i]);
  }
  put(w, "]");
}

static void put_attr(const writer *w, const og_attr *attr) {
  switch (attr->kind) {
    case OG_ATTR_NONE:
      put(w, "null");
      break;
    case OG_ATTR_INT:
      og_text_addf(w->out, "%lld", (long long)attr->i);
      break;
    case OG_ATTR_FLOAT:
      put_double(w, attr->f);
      break;
    case OG_ATTR_BOOL:
      put_bool(w, attr->i != 0);
      break;
    case OG_ATTR_STR:
      put_string(w, attr->s);
      break;
    case OG_ATTR_DTYPE:
      og_text_addf(w->out, "{\"dtype\": \"%s\"}", og_dtype_name(attr->dtype));
      break;
    case OG_ATTR_DEVICE:
      og_text_addf(w->out, "{\"device\": \"%s\", \"id\": %d}",
                   og_device_name(attr->device.type), (int)attr->device.id);
      break;
    default:
      put_list(w, attr);
  }
}

static void put_param(const writer *w, const og_param *param) {
  const bool is_tensor = param->type == OG_TYPE_TENSOR;
  const char alias[2] = {param->alias_set, '\0'};
  put(w, "{\"name\": ");
  put_string(w, param->name);
  og_text_addf(w->out,
               ", \"type\": \"%s\", \"list\": ", og_type_name(param->type));
  put_bool(w, param->is_list);
  og_text_addf(w->out,
               ", \"list_size\": %d, \"optional\": ", (int)param->list_size);
  put_bool(w, param->is_optional);
  put(w, ", \"element_optional\": ");
  put_bool(w, param->is_element_optional);
  put(w, ", \"kwonly\": ");
  put_bool(w, param->is_keyword_only);
  put(w, ", \"mutated\": ");
  put_bool(w, param->is_mutated);
  put(w, ", \"alias\": ");
  put_string(w, param->alias_set != 0 ? alias : NULL);
  put(w, ", \"has_default\": ");
  put_bool(w, param->has_default);
  put(w, ", \"default\": ");
  put_attr(w, &param->default_value);
  put(w, ", \"tensor\": ");
  put_position(w, is_tensor ? param->index : -1);
  put(w, ", \"attr\": ");
  put_position(w, is_tensor ? -1 : param->index);
  put(w, ", \"out\": ");
  put_position(w, param->out_index);
  put(w, "}");
}

static void put_result(const writer *w, const og_result *result) {
  put(w, "{\"name\": ");
  put_string(w, result->name);
  og_text_addf(w->out,
               ", \"type\": \"%s\", \"list\": ", og_type_name(result->type));
  put_bool(w, result->is_list);
  put(w, ", \"alias\": ");
  put_position(w, result->alias_param);
  put(w, ", \"fresh\": ");
  put_position(w, result->fresh_index);
  put(w, ", \"value\": ");
  if (result->value_index < 0)
    put(w, "null");
  else
    put_expr(w, &w->decl->values[result->value_index]);
  put(w, "}");
}

// --- Shapes ------------------------------------------------------------------

static void put_packs(const writer *w, const og_item *item) {
  put(w, ", \"packs\": [");
  put_ints(w, item->packs, item->pack_count);
  put(w, "]");
}

static void put_dim_item(const writer *w, const og_item *item) {
  const bool varies = w->decl->dims[item->dim].kind == OG_DIM_VARY;
  og_text_addf(w->out,
               "\"%s\", \"dim\": %d, \"pick\": ", varies ? "vary" : "dim",
               (int)item->dim);
  put_position(w, item->attr);
}

static void put_item(const writer *w, const og_item *item) {
  put(w, "{\"kind\": ");
  switch (item->kind) {
    case OG_ITEM_DIM:
      put_dim_item(w, item);
      break;
    case OG_ITEM_PACK:
      og_text_addf(w->out, "\"pack\", \"dim\": %d", (int)item->dim);
      break;
    case OG_ITEM_EXPR:
      put(w, "\"expr\", \"expr\": ");
      put_expr(w, &item->expr);
      break;
    case OG_ITEM_FOUND:
      og_text_addf(w->out,
                   "\"found\", \"dim\": %d, \"expr\": ", (int)item->dim);
      put_expr(w, &item->expr);
      break;
    case OG_ITEM_ATTR_PACK:
      og_text_addf(w->out, "\"attr_pack\", \"attr\": %d", (int)item->attr);
      break;
    case OG_ITEM_BROADCAST:
      put(w, "\"broadcast\"");
      put_packs(w, item);
      break;
    case OG_ITEM_INSERT:
      og_text_addf(w->out, "\"insert\", \"pack\": %d, \"attr\": %d, \"expr\": ",
                   (int)item->packs[0], (int)item->attr);
      put_expr(w, &item->expr);
      break;
    default:
      og_text_addf(w->out, "\"%s\", \"pack\": %d, \"attr\": %d",
                   item->kind == OG_ITEM_PERMUTE ? "permute"
                   : item->kind == OG_ITEM_DROP  ? "drop"
                                                 : "keep",
                   (int)item->packs[0], (int)item->attr);
  }
  put(w, "}");
}

static void put_items(const writer *w, const og_item *items, int32_t count) {
  put(w, "\"items\": [");
  for (int32_t i = 0; i < count; ++i) {
    comma(w, i);
    put_item(w, &items[i]);
  }
  put(w, "]");
}

static void put_pattern(const writer *w, const og_pattern *pattern) {
  const og_param *param = og_tensor_param(w->decl, pattern->tensor);
  og_text_addf(w->out, "{\"tensor\": %d, \"optional\": ", (int)pattern->tensor);
  put_bool(w, param->is_optional);
  put(w, ", \"list\": ");
  put_bool(w, pattern->is_list);
  put(w, ", \"text\": ");
  put_span(w, pattern->begin, pattern->end);
  put(w, ", ");
  put_items(w, pattern->items, pattern->item_count);
  put(w, "}");
}

static void put_shape(const writer *w, const og_shape_rule *rule) {
  if (rule->kind == OG_SHAPE_CALLBACK) {
    put(w, "{\"kind\": \"callback\", \"text\": null}");
    return;
  }
  put(w, "{\"kind\": ");
  if (rule->kind == OG_SHAPE_LIKE) {
    og_text_addf(w->out, "\"like\", \"tensor\": %d", (int)rule->like_tensor);
  } else if (rule->kind == OG_SHAPE_LIST) {
    put(w, "\"list\", \"count\": ");
    put_expr(w, &rule->list_count);
  } else {
    put(w, "\"items\"");
  }
  put(w, ", \"text\": ");
  put_span(w, rule->begin, rule->end);
  if (rule->kind != OG_SHAPE_LIKE) {
    put(w, ", ");
    put_items(w, rule->items, rule->item_count);
  }
  put(w, "}");
}

static void put_dim(const writer *w, const og_dim *dim) {
  static const char *const kinds[] = {"size", "pack", "vary", "found"};
  put(w, "{\"name\": ");
  put_string(w, dim->name);
  og_text_addf(w->out,
               ", \"kind\": \"%s\", \"always_bound\": ", kinds[dim->kind]);
  put_bool(w, dim->is_always_bound);
  put(w, "}");
}

// --- Types -------------------------------------------------------------------

static void put_type_rule(const writer *w, const og_type_rule *rule) {
  int32_t count = 0;
  put(w, "{\"allowed\": [");
  for (int32_t i = 0; i < og_dtype_table_count(); ++i) {
    if (!(rule->set >> i & 1u)) continue;
    comma(w, count++);
    og_text_addf(w->out, "\"%s\"", og_dtype_name(og_dtype_at(i)));
  }
  put(w, "], \"same_as\": ");
  put_position(w, rule->same_as);
  put(w, ", \"variable\": ");
  put_position(w, rule->variable);
  put(w, "}");
}

static void put_out_type(const writer *w, const og_out_type *out) {
  put(w, "{\"kind\": ");
  switch (out->kind) {
    case OG_OUT_TYPE_FIXED:
      og_text_addf(w->out, "\"fixed\", \"dtype\": \"%s\"",
                   og_dtype_name(out->dtype));
      break;
    case OG_OUT_TYPE_SAME:
      og_text_addf(w->out, "\"same\", \"tensor\": %d", (int)out->tensor);
      break;
    case OG_OUT_TYPE_PROMOTE:
      put(w, "\"promote\", \"params\": [");
      put_ints(w, out->params, out->param_count);
      put(w, "]");
      break;
    default:
      og_text_addf(w->out,
                   "\"attr\", \"attr\": %d, \"tensor\": ", (int)out->attr);
      put_position(w, out->tensor);
  }
  put(w, "}");
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
  og_text_addf(w->out, "{\"source\": \"%s\", \"%s\": %d}",
               rows[arg->source].source, rows[arg->source].key,
               (int)arg->index);
}

static void put_grad(const writer *w) {
  static const char *const kinds[] = {"missing", "none", "operator"};
  const og_grad *grad = &w->decl->grad;
  og_text_addf(w->out, "{\"kind\": \"%s\", \"op\": ", kinds[grad->kind]);
  put_string(w, grad->op_name);
  put(w, ", \"args\": [");
  for (int32_t i = 0; i < grad->arg_count; ++i) {
    comma(w, i);
    put_grad_arg(w, &grad->args[i]);
  }
  put(w, "], \"targets\": [");
  put_ints(w, grad->targets, grad->target_count);
  put(w, "]}");
}

static void put_kernel(const writer *w, const og_kernel *kernel) {
  put(w, "{\"device\": ");
  put_string(w, og_device_name(kernel->device));
  og_text_addf(w->out,
               ", \"device_code\": %d, \"dtypes\": ", (int)kernel->device);
  put_string(w, kernel->dtypes);
  put(w, ", \"isa\": ");
  put_string(w, kernel->isa);
  put(w, ", \"has_supports\": ");
  put_bool(w, kernel->supports != NULL);
  put(w, "}");
}

static void put_pointwise(const writer *w) {
  const og_pointwise *pointwise = w->decl->pointwise;
  put(w, pointwise != NULL ? "[" : "null");
  for (int32_t i = 0; pointwise != NULL && i < pointwise->program.count; ++i) {
    const og_scalar_instruction *code = &pointwise->program.code[i];
    comma(w, i);
    og_text_addf(w->out, "[\"%s\"", og_scalar_name(code->op));
    if (code->op == OG_SCALAR_const) {
      put(w, ", ");
      put_double(w, code->value);
    } else if (code->op == OG_SCALAR_load || code->op == OG_SCALAR_number) {
      og_text_addf(w->out, ", %d", (int)code->slot);
    }
    put(w, "]");
  }
  if (pointwise != NULL) put(w, "]");
}

static void put_flags(const writer *w) {
  static const char *const names[] = {"deterministic", "random",
                                      "side_effect",   "capture_same_shape",
                                      "capture_never", "batch_loop"};
  int32_t count = 0;
  put(w, "[");
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    if (!(w->decl->flags >> i & 1u)) continue;
    comma(w, count++);
    og_text_addf(w->out, "\"%s\"", names[i]);
  }
  put(w, "]");
}

// --- The whole ---------------------------------------------------------------

// Writes `"key": [a, b], ` with one call for each entry.
#define PUT_LIST(w, key, count, body)       \
  do {                                      \
    put_key(w, key);                        \
    put(w, "[");                            \
    for (int32_t i = 0; i < (count); ++i) { \
      comma(w, i);                          \
      body;                                 \
    }                                       \
    put(w, "], ");                          \
  } while (0)

static void put_text_field(const writer *w, const char *key, const char *text) {
  put_key(w, key);
  put_string(w, text);
  put(w, ", ");
}

static void put_condition(const writer *w, const og_condition *condition) {
  put(w, "{\"text\": ");
  put_string(w, condition->text);
  put(w, ", \"expr\": ");
  put_expr(w, &condition->expr);
  put(w, "}");
}

static void put_expect(const writer *w, const og_expect *expect) {
  put(w, "{\"word\": ");
  put_string(w, og_expect_word(expect->kind));
  put(w, ", \"name\": ");
  put_string(w, expect->name);
  put(w, "}");
}

static void put_names(const writer *w) {
  const og_decl *decl = w->decl;
  put_text_field(w, "name", decl->name);
  put_text_field(w, "base_name", decl->base_name);
  put_text_field(w, "overload", decl->overload);
  put_text_field(w, "schema", decl->record->schema);
  put_text_field(w, "doc", decl->record->doc);
  put_text_field(w, "reduce", decl->record->reduce);
  put_text_field(w, "reference", decl->record->reference);
  PUT_LIST(w, "expect", decl->expect_count, put_expect(w, &decl->expects[i]));
  put_key(w, "flags");
  put_flags(w);
  put(w, ", ");
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
  PUT_LIST(w, "conditions", decl->condition_count,
           put_condition(w, &decl->conditions[i]));
  PUT_LIST(w, "types", decl->tensor_count, put_type_rule(w, &decl->types[i]));
  og_text_addf(w->out, "\"type_variable_count\": %d, ",
               (int)decl->type_variable_count);
  PUT_LIST(w, "out_types", decl->fresh_count,
           put_out_type(w, &decl->out_types[i]));
  PUT_LIST(w, "strides", decl->tensor_count,
           og_text_addf(w->out, "\"%s\"", strides[decl->strides[i]]));
}

void og_decl_describe(const og_decl *decl, og_text *out) {
  const writer writer_ = {decl, out};
  const writer *w = &writer_;
  put(w, "{");
  put_names(w);
  put_rules(w);
  put_key(w, "workspace");
  put_expr(w, &decl->workspace);
  put(w, ", \"grad\": ");
  put_grad(w);
  put(w, ", \"inplace\": ");
  put_position(w, decl->inplace_param);
  put(w, ", ");
  put_text_field(w, "pointwise", decl->record->pointwise);
  put_key(w, "pointwise_program");
  put_pointwise(w);
  put(w, ", ");
  put_key(w, "has_lists");
  put_bool(w, decl->has_lists);
  put(w, ", \"has_data_dependent_result\": ");
  put_bool(w, decl->has_data_dependent_result);
  put(w, ", \"is_pointwise_derived\": ");
  put_bool(w, decl->is_pointwise_derived);
  put(w, ", ");
  put_key(w, "kernels");
  put(w, "[");
  for (int32_t i = 0; i < decl->kernel_count; ++i) {
    comma(w, i);
    put_kernel(w, &decl->kernels[i]);
  }
  put(w, "]}");
}
