// SPDX-License-Identifier: Apache-2.0
// What an expression of a formula names and calls.
//
// Invariants: a reduction within an expression is a statement of its own, with
// a name that nobody can write, right before the statement that holds it.

#include <math.h>
#include <string.h>

#include "decl/parse/formula_parser.h"
#include "decl/parse/names.h"

typedef og_formula_parser formula_parser;

const char *const og_formula_form_names[OG_FORM_FORMS] = {
    "an expression", "sum_rows", "add_rows", "join", "interleave"};

// --- Names -------------------------------------------------------------------

int32_t og_formula_named(const formula_parser *s, og_token name) {
  const og_reader *reader = &s->p.reader;
  const int32_t length = og_token_length(name);
  for (int32_t i = s->f->name_count - 1; i >= 0; --i)
    if (og_token_length(s->names[i]) == length &&
        memcmp(og_token_text(reader, s->names[i]), og_token_text(reader, name),
               (size_t)length) == 0)
      return i;
  return -1;
}

// -1 where there are too many.
static int32_t input_of(struct og_formula *f, og_formula_input input) {
  for (int32_t i = 0; i < f->input_count; ++i)
    if (f->inputs[i].is_tensor == input.is_tensor &&
        f->inputs[i].is_position == input.is_position &&
        f->inputs[i].part == input.part && f->inputs[i].index == input.index &&
        f->inputs[i].row_by == input.row_by)
      return i;
  if (f->input_count == OG_LOOP_INPUTS_MAX) return -1;
  f->inputs[f->input_count] = input;
  return f->input_count++;
}

static bool is_number(const og_param *param) {
  return !param->is_list &&
         (og_is_int_type(param->type) || param->type == OG_TYPE_FLOAT ||
          param->type == OG_TYPE_SCALAR);
}

og_status og_formula_argument_find(formula_parser *s, og_token name,
                                   const og_param *param, og_formula_part part,
                                   int32_t *out_input) {
  const og_reader *reader = &s->p.reader;
  if ((param->type != OG_TYPE_TENSOR || param->is_list) && !is_number(param))
    return og_read_error_token(
        reader, name,
        "%s is not a number; expected a tensor, or an int, float, bool or "
        "Scalar",
        param->name);
  *out_input = input_of(
      s->f, (og_formula_input){.is_tensor = param->type == OG_TYPE_TENSOR,
                               .index = param->index,
                               .part = part});
  if (param->type == OG_TYPE_TENSOR)
    *(part == OG_FORMULA_WHOLE ? &s->whole_in : &s->f->wide_in) |=
        1u << param->index;
  if (*out_input >= 0 && param->is_optional) s->f->optional |= 1u << *out_input;
  if (*out_input >= 0) return OG_OK;
  return og_read_error_token(reader, name,
                             "%s is argument %d of the formula, "
                             "expected at most %d",
                             param->name, OG_LOOP_INPUTS_MAX + 1,
                             OG_LOOP_INPUTS_MAX);
}

// --- Rows by an index --------------------------------------------------------

og_status og_formula_index_find(formula_parser *s, int32_t *out_row_by) {
  struct og_formula *f = s->f;
  const og_token name = s->p.reader.token;
  const int32_t p =
      name.kind == OG_TOKEN_NAME ? og_find_param(&s->p, name) : -1;
  const og_param *param = p < 0 ? NULL : &s->p.decl->params[p];
  if (param == NULL || param->type != OG_TYPE_TENSOR || param->is_list ||
      param->is_optional)
    return og_read_wanted(&s->p.reader,
                          "a tensor argument of integers, which is always "
                          "there");
  int32_t k = 0;
  while (k < f->index_count && f->indices[k] != param->index) ++k;
  if (k == OG_FORMULA_INDICES_MAX)
    return og_read_wanted(&s->p.reader, "at most %d arguments that index rows",
                          OG_FORMULA_INDICES_MAX);
  if (k == f->index_count) f->indices[f->index_count++] = param->index;
  *out_row_by = k + 1;
  f->needs_rows = true;
  og_reader_advance(&s->p.reader);
  return OG_OK;
}

// [index] of table[index]
static og_status table_read(formula_parser *s, og_token name,
                            og_scalar_instruction *out) {
  const og_reader *reader = &s->p.reader;
  const int32_t p = og_find_param(&s->p, name);
  const og_param *param = p < 0 ? NULL : &s->p.decl->params[p];
  og_formula_input input = {.is_tensor = true};
  if (param == NULL || param->type != OG_TYPE_TENSOR || param->is_list ||
      param->is_mutated)
    return og_read_error_token(
        reader, name,
        "'%.*s' has no rows to choose; expected a tensor argument that is not "
        "written",
        (int)og_token_length(name), og_token_text(reader, name));
  og_reader_advance(&s->p.reader);
  OG_TRY(og_formula_index_find(s, &input.row_by));
  OG_TRY(og_reader_expect(&s->p.reader, ']', "']'"));
  input.index = param->index;
  out->op = OG_SCALAR_load;
  out->slot = input_of(s->f, input);
  if (out->slot < 0)
    return og_read_error_token(reader, name,
                               "argument %d of the formula, expected at most "
                               "%d",
                               OG_LOOP_INPUTS_MAX + 1, OG_LOOP_INPUTS_MAX);
  s->f->tables |= 1u << param->index;
  if (param->is_optional) s->f->optional |= 1u << out->slot;
  s->needs |= s->f->optional & 1u << out->slot;
  return OG_OK;
}

static og_status position_find(formula_parser *s, int32_t index,
                               og_scalar_instruction *out) {
  out->op = OG_SCALAR_load;
  out->slot =
      input_of(s->f, (og_formula_input){.is_position = true, .index = index});
  if (out->slot >= 0) return OG_OK;
  return og_read_wanted(&s->p.reader, "a formula of fewer than %d arguments",
                        OG_LOOP_INPUTS_MAX);
}

static og_status name_find(void *state, const og_reader *reader, og_token name,
                           og_scalar_instruction *out) {
  formula_parser *s = state;
  const int32_t p = og_find_param(&s->p, name),
                known = og_formula_named(s, name);
  out->op = OG_SCALAR_load;
  if (p >= 0) {
    OG_TRY(og_formula_argument_find(s, name, &s->p.decl->params[p],
                                    OG_FORMULA_WHOLE, &out->slot));
    s->needs |= s->f->optional & 1u << out->slot;
    return OG_OK;
  }
  if (known >= 0) {
    if (s->use_count == OG_FORMULA_USES_MAX)
      return og_read_wanted(reader, "a shorter statement");
    s->uses[s->use_count++] = (og_formula_use){known, name};
    // Inputs are counted when all are read.
    out->slot = OG_LOOP_INPUTS_MAX + known;
    return OG_OK;
  }
  if (og_token_is(reader, name, "column"))
    return position_find(s, OG_FORMULA_COLUMN, out);
  if (og_token_is(reader, name, "row"))
    return position_find(s, OG_FORMULA_ROW, out);
  out->op = OG_SCALAR_const;
  if (og_token_is(reader, name, "width")) {
    out->op = OG_SCALAR_number;
    out->slot = OG_LOOP_WIDTH_SLOT;
    s->f->needs_rows = true;
    return OG_OK;
  }
  if (og_scalar_constant(reader, name, &out->value)) return OG_OK;
  return og_parse_unknown(&s->p, name, "name", OG_NAMES_PARAMS);
}

// --- What it computes in -----------------------------------------------------

static void class_note(formula_parser *s, const og_scalar_instruction *code) {
  const uint32_t classes = og_scalar_classes(code->op);
  const bool is_const = code->op == OG_SCALAR_const;
  if (og_scalar_arity(code->op) == 0) {
    if (is_const && code->value != rint(code->value))
      s->real_only = "a number with a fraction";
    return;
  }
  if (!(classes & OG_CLASSES_INT)) s->real_only = og_scalar_name(code->op);
  if (!(classes & OG_CLASSES_FLOAT)) s->integer_only = og_scalar_name(code->op);
}

static bool is_comparison(int32_t op) {
  return op >= OG_SCALAR_eq && op <= OG_SCALAR_ge;
}

static og_formula_kind leaf_kind(const formula_parser *s,
                                 const og_scalar_instruction *code) {
  if (code->op == OG_SCALAR_const)
    return (og_formula_kind){code->value == rint(code->value), 0,
                             fabs(code->value) < 0x1p24};
  if (code->op == OG_SCALAR_number) return (og_formula_kind){true, 0, false};
  if (code->slot >= OG_LOOP_INPUTS_MAX)
    return s->kinds[code->slot - OG_LOOP_INPUTS_MAX];
  return (og_formula_kind){true, 1u << code->slot, true};
}

// An input beside a constant is compared rightly in f32: its rounding does not
// pass a number that f32 has.
static void compare_note(formula_parser *s, const og_formula_kind *a,
                         const og_formula_kind *b) {
  const bool of_leaves = a->is_leaf && b->is_leaf;
  const uint32_t inputs = a->inputs | b->inputs;
  if (!a->is_integer || !b->is_integer || inputs == 0 ||
      (of_leaves && (!a->inputs || !b->inputs)))
    return;
  for (int32_t i = 0; i < s->f->compare_count; ++i)
    if (s->compares[i].inputs == inputs &&
        s->compares[i].is_of_leaves == of_leaves)
      return;
  if (s->f->compare_count < OG_FORMULA_COMPARES_MAX)
    s->compares[s->f->compare_count++] =
        (og_formula_compare){inputs, of_leaves};
}

static og_formula_kind kind_note(formula_parser *s,
                                 const og_scalar_code *code) {
  og_formula_kind stack[OG_SCALAR_DEPTH_MAX + 1];
  int32_t depth = 0;
  for (int32_t k = 0; k < code->count; ++k) {
    const og_scalar_instruction *i = &code->code[k];
    const int32_t arity = og_scalar_arity(i->op);
    class_note(s, i);
    depth -= arity;
    og_formula_kind *own = &stack[depth++];
    if (arity == 0) {
      *own = leaf_kind(s, i);
      continue;
    }
    if (is_comparison(i->op)) compare_note(s, own, own + 1);
    const bool is_truth = is_comparison(i->op) || i->op == OG_SCALAR_not ||
                          i->op == OG_SCALAR_and || i->op == OG_SCALAR_or;
    own->is_integer &= (og_scalar_classes(i->op) & OG_CLASSES_INT) != 0;
    own->is_leaf &= i->op == OG_SCALAR_neg;
    for (int32_t n = 1; n < arity; ++n) {
      own->is_integer &= own[n].is_integer;
      own->inputs |= own[n].inputs;
    }
    if (is_truth) *own = (og_formula_kind){true, 0, false};
  }
  return stack[0];
}

// --- Statements --------------------------------------------------------------

og_status og_formula_name_add(formula_parser *s, og_token token,
                              int32_t *out_name) {
  if (s->f->name_count == OG_LOOP_STATEMENTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d values",
                          OG_LOOP_STATEMENTS_MAX);
  *out_name = s->f->name_count++;
  s->names[*out_name] = token;
  s->kinds[*out_name] = (og_formula_kind){true, 0, false};
  return OG_OK;
}

og_status og_formula_statement_add(formula_parser *s,
                                   const og_formula_statement *statement,
                                   const og_scalar_code *code) {
  struct og_formula *f = s->f;
  if (f->statement_count == OG_LOOP_STATEMENTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d statements",
                          OG_LOOP_STATEMENTS_MAX);
  const size_t bytes = (size_t)code->count * sizeof *code->code;
  og_scalar_instruction *own = og_arena_alloc(&s->p.decl->arena, bytes);
  if (own == NULL) return og_read_memory(&s->p.reader);
  memcpy(own, code->code, bytes);
  const og_formula_kind kind = kind_note(s, code);
  og_formula_kind *of_name = &s->kinds[statement->name];
  of_name->is_integer &= kind.is_integer;
  of_name->inputs |= kind.inputs;
  og_formula_statement *to = &f->statements[f->statement_count++];
  *to = *statement;
  to->expression = (og_scalar_program){own, code->count};
  return OG_OK;
}

// A value of its own that the expression around it loads.
static og_status hidden_add(formula_parser *s, og_loop_reduction reduction,
                            const og_scalar_code *code,
                            og_scalar_instruction *out) {
  const og_token none = {0};
  og_formula_statement statement = {.reduction = reduction, .output = -1};
  OG_TRY(og_formula_name_add(s, none, &statement.name));
  out->op = OG_SCALAR_load;
  out->slot = OG_LOOP_INPUTS_MAX + statement.name;
  return og_formula_statement_add(s, &statement, code);
}

static og_status reduction_read(formula_parser *s, og_loop_reduction reduction,
                                bool is_mean, og_scalar_instruction *out) {
  og_scalar_code code;
  og_reader_advance(&s->p.reader);
  OG_TRY(og_formula_expression_read(s, &code));
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  s->f->needs_rows = true;
  s->f->has_extreme |= reduction == OG_LOOP_MAX || reduction == OG_LOOP_MIN;
  OG_TRY(hidden_add(s, reduction, &code, out));
  if (!is_mean) return OG_OK;
  code = (og_scalar_code){
      .count = 3,
      .code = {*out,
               {.op = OG_SCALAR_number, .slot = OG_LOOP_WIDTH_SLOT},
               {.op = OG_SCALAR_div}}};
  return hidden_add(s, OG_LOOP_NO_REDUCTION, &code, out);
}

// row_argmax(a): the first place of the row's largest, a NaN where there is
// one.
static og_status place_read(formula_parser *s, og_loop_reduction reduction,
                            og_scalar_instruction *out) {
  og_scalar_code code;
  og_scalar_instruction value = {.op = OG_SCALAR_const}, most = value,
                        column = value;
  const og_scalar_instruction width = {.op = OG_SCALAR_number,
                                       .slot = OG_LOOP_WIDTH_SLOT};
  og_reader_advance(&s->p.reader);
  OG_TRY(og_formula_expression_read(s, &code));
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  s->f->needs_rows = s->f->has_extreme = true;
  OG_TRY(hidden_add(s, OG_LOOP_NO_REDUCTION, &code, &value));
  code = (og_scalar_code){.count = 1, .code = {value}};
  OG_TRY(hidden_add(s, reduction, &code, &most));
  OG_TRY(position_find(s, OG_FORMULA_COLUMN, &column));
  code = (og_scalar_code){.count = 10,
                          .code = {value,
                                   most,
                                   {.op = OG_SCALAR_eq},
                                   value,
                                   value,
                                   {.op = OG_SCALAR_ne},
                                   {.op = OG_SCALAR_or},
                                   column,
                                   width,
                                   {.op = OG_SCALAR_select}}};
  return hidden_add(s, OG_LOOP_MIN, &code, out);
}

og_status og_formula_check_add(formula_parser *s, og_loop_reduction reduction,
                               const og_scalar_code *code, int32_t *out_check) {
  const og_token none = {0};
  og_formula_statement statement = {.reduction = reduction};
  if (s->f->output_count == OG_LOOP_OUTPUTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d results and checks",
                          OG_LOOP_OUTPUTS_MAX);
  OG_TRY(og_formula_name_add(s, none, &statement.name));
  *out_check = statement.output = s->f->output_count++;
  s->f->outputs[*out_check].result = -1;
  s->f->needs_rows = true;
  return og_formula_statement_add(s, &statement, code);
}

og_status og_formula_code_join(const formula_parser *s, og_scalar_code *code,
                               const og_scalar_instruction *more,
                               int32_t count) {
  if (code->count + count > OG_SCALAR_CODE_MAX)
    return og_read_wanted(&s->p.reader, "a shorter expression");
  memcpy(code->code + code->count, more, (size_t)count * sizeof *more);
  code->count += count;
  return OG_OK;
}

// pick(x, index): the sum of what stands where column is the index, once.
static og_status pick_read(formula_parser *s, og_token name,
                           og_scalar_instruction *out) {
  const og_token none = {0};
  const og_scalar_instruction is_there = {.op = OG_SCALAR_eq};
  const og_scalar_instruction rest[] = {{.op = OG_SCALAR_const},
                                        {.op = OG_SCALAR_select}};
  og_scalar_code value, index, here = {.count = 1};
  og_formula_statement own = {.token = name, .output = -1, .is_index = true};
  int32_t check;
  og_reader_advance(&s->p.reader);
  OG_TRY(og_formula_expression_read(s, &value));
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and an index"));
  OG_TRY(og_formula_expression_read(s, &index));
  const int32_t end = s->p.reader.token.end;
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  OG_TRY(og_formula_name_add(s, none, &own.name));
  OG_TRY(og_formula_statement_add(s, &own, &index));
  OG_TRY(position_find(s, OG_FORMULA_COLUMN, &here.code[0]));
  OG_TRY(og_formula_code_join(s, &here, index.code, index.count));
  OG_TRY(og_formula_code_join(s, &here, &is_there, 1));
  OG_TRY(og_formula_check_add(s, OG_LOOP_MAX, &here, &check));
  s->f->outputs[check].check =
      (og_token){.kind = OG_TOKEN_NAME, .begin = name.begin, .end = end};
  OG_TRY(og_formula_code_join(s, &here, value.code, value.count));
  OG_TRY(og_formula_code_join(s, &here, rest, 2));
  return hidden_add(s, OG_LOOP_SUM, &here, out);
}

// --- Rounding to a type ------------------------------------------------------

// A type, or an argument that has it.
static og_status type_read(formula_parser *s, og_scalar_instruction *out) {
  og_reader *reader = &s->p.reader;
  struct og_formula *f = s->f;
  const og_token name = reader->token;
  const int32_t at =
      name.kind == OG_TOKEN_NAME ? og_find_param(&s->p, name) : -1;
  out->op = OG_SCALAR_number;
  if (at >= 0 && s->p.decl->params[at].type == OG_TYPE_TENSOR) {
    const og_param *param = &s->p.decl->params[at];
    int32_t i = 0;  // how it is read does not matter
    while (i < f->input_count &&
           (!f->inputs[i].is_tensor || f->inputs[i].index != param->index))
      ++i;
    if (i == f->input_count)
      OG_TRY(og_formula_argument_find(s, name, param, OG_FORMULA_WHOLE, &i));
    s->needs |= f->optional & 1u << i;
    out->slot = OG_FORMULA_TYPE + i;
    og_reader_advance(reader);
    return OG_OK;
  }
  for (int32_t p = 1; p <= 53; ++p) {
    const char *type = og_formula_type_name(p);
    out->slot = OG_FORMULA_PRECISION + p;
    if (type != NULL && og_reader_take_word(reader, type)) return OG_OK;
  }
  return og_read_wanted(reader, "bf16, f16, f32, f64 or a tensor argument");
}

// round_to(a, type)
static og_status rounding_read(formula_parser *s, og_scalar_instruction *out) {
  og_scalar_code code;
  og_scalar_instruction rest[] = {{0}, {.op = OG_SCALAR_round_to}};
  og_reader_advance(&s->p.reader);
  OG_TRY(og_formula_expression_read(s, &code));
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and a type"));
  OG_TRY(type_read(s, &rest[0]));
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  OG_TRY(og_formula_code_join(s, &code, rest, 2));
  return hidden_add(s, OG_LOOP_NO_REDUCTION, &code, out);
}

og_status og_formula_given_read(formula_parser *s, int32_t *out_input) {
  og_reader *reader = &s->p.reader;
  og_reader_advance(reader);
  const og_token name = reader->token;
  const int32_t p =
      name.kind == OG_TOKEN_NAME ? og_find_param(&s->p, name) : -1;
  if (p < 0 || !s->p.decl->params[p].is_optional)
    return og_read_wanted(reader, "an optional argument");
  OG_TRY(og_formula_argument_find(s, name, &s->p.decl->params[p],
                                  OG_FORMULA_WHOLE, out_input));
  og_reader_advance(reader);
  return og_reader_expect(reader, ')', "')'");
}

// What people ask for that is not a row of independent elements.
static const char *const kernels[] = {
    "sort",   "argsort",     "topk",       "top_k",     "kthvalue", "median",
    "unique", "row_sort",    "row_topk",   "row_top_k", "scan",     "cummax",
    "cummin", "row_cumprod", "row_cummax", "recurrence"};

static og_status function_find(void *state, og_reader *reader, og_token name,
                               og_scalar_instruction *out, bool *out_is_known) {
  formula_parser *s = state;
  *out_is_known = true;
  if (og_reader_at(reader, '[')) return table_read(s, name, out);
  if (og_token_is(reader, name, "given")) {
    int32_t input;
    OG_TRY(og_formula_given_read(s, &input));
    out->op = OG_SCALAR_number;
    out->slot = OG_FORMULA_GIVEN + input;
    return OG_OK;
  }
  for (int32_t form = OG_FORM_SUM_ROWS; form < OG_FORM_FORMS; ++form)
    if (og_token_is(reader, name, og_formula_form_names[form]))
      return og_read_error_token(
          reader, name, "%s stands alone on the right side of a result",
          og_formula_form_names[form]);
  if (og_token_is(reader, name, "pick")) return pick_read(s, name, out);
  if (og_token_is(reader, name, "round_to")) return rounding_read(s, out);
  if (og_token_is(reader, name, "row_argmax"))
    return place_read(s, OG_LOOP_MAX, out);
  if (og_token_is(reader, name, "row_argmin"))
    return place_read(s, OG_LOOP_MIN, out);
  if (og_token_is(reader, name, "row_mean"))
    return reduction_read(s, OG_LOOP_SUM, true, out);
  for (int32_t r = 1; r < OG_LOOP_REDUCTION_COUNT; ++r)
    if (og_token_is(reader, name, og_loop_reduction_name((og_loop_reduction)r)))
      return reduction_read(s, (og_loop_reduction)r, false, out);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; ++k)
    if (og_token_is(reader, name, kernels[k]))
      return og_read_error_token(
          reader, name,
          "a formula has no %s: sorting, the k largest and recurrences stay "
          "kernels (.kernels)",
          kernels[k]);
  *out_is_known = false;
  return OG_OK;
}

og_status og_formula_expression_read(formula_parser *s, og_scalar_code *out) {
  const og_scalar_names names = {name_find, s, function_find,
                                 "row_sum, row_mean, row_max, row_min, "
                                 "row_argmax, row_argmin, row_cumsum, "
                                 "row_cumsum_reversed, pick, given"};
  return og_scalar_parse(&s->p.reader, &names, 0, out);
}
