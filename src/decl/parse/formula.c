// SPDX-License-Identifier: Apache-2.0
// The row string: statements over the arguments.
//
// Invariants: a reduction within an expression is a statement of its own, with
// a name that nobody can write, right before the statement that holds it.

#include "decl/parse/formula.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "decl/formula.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"

// A formula with more comparisons than are noted is refused by none of them.
enum { USES_MAX = 256, COMPARES_MAX = 1024 };

// Where a statement reads a name.
typedef struct name_use {
  int32_t name;
  og_token token;
} name_use;

// What is known of a value: whether it is an integer where some inputs are.
typedef struct value_kind {
  bool is_integer;
  uint32_t inputs;
  bool is_leaf;  // an input, or a constant that f32 has
} value_kind;

typedef struct formula_parser {
  og_parser p;
  struct og_formula *f;
  og_token names[OG_LOOP_STATEMENTS_MAX];  // by name
  value_kind kinds[OG_LOOP_STATEMENTS_MAX];
  const char *real_only, *integer_only;  // what makes it one of the two
  og_formula_compare *compares;
  uint32_t assigned;                   // results
  uint32_t whole_in;                   // arguments
  int32_t forms[OG_LOOP_OUTPUTS_MAX];  // of results: how they are assigned
  // Of the statement that is being read.
  uint32_t needs;
  name_use uses[USES_MAX];
  int32_t use_count;
} formula_parser;

// --- Names -------------------------------------------------------------------

static int32_t named(const formula_parser *s, og_token name) {
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
        f->inputs[i].part == input.part && f->inputs[i].index == input.index)
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

static og_status argument_find(formula_parser *s, og_token name,
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
  const int32_t p = og_find_param(&s->p, name), known = named(s, name);
  out->op = OG_SCALAR_load;
  if (p >= 0) {
    OG_TRY(argument_find(s, name, &s->p.decl->params[p], OG_FORMULA_WHOLE,
                         &out->slot));
    s->needs |= s->f->optional & 1u << out->slot;
    return OG_OK;
  }
  if (known >= 0) {
    if (s->use_count == USES_MAX)
      return og_read_wanted(reader, "a shorter statement");
    s->uses[s->use_count++] = (name_use){known, name};
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

static value_kind leaf_kind(const formula_parser *s,
                            const og_scalar_instruction *code) {
  if (code->op == OG_SCALAR_const)
    return (value_kind){code->value == rint(code->value), 0,
                        fabs(code->value) < 0x1p24};
  if (code->op == OG_SCALAR_number) return (value_kind){true, 0, false};
  if (code->slot >= OG_LOOP_INPUTS_MAX)
    return s->kinds[code->slot - OG_LOOP_INPUTS_MAX];
  return (value_kind){true, 1u << code->slot, true};
}

// An input beside a constant is compared rightly in f32: its rounding does not
// pass a number that f32 has.
static void compare_note(formula_parser *s, const value_kind *a,
                         const value_kind *b) {
  const bool of_leaves = a->is_leaf && b->is_leaf;
  const uint32_t inputs = a->inputs | b->inputs;
  if (!a->is_integer || !b->is_integer || inputs == 0 ||
      (of_leaves && (!a->inputs || !b->inputs)))
    return;
  for (int32_t i = 0; i < s->f->compare_count; ++i)
    if (s->compares[i].inputs == inputs &&
        s->compares[i].is_of_leaves == of_leaves)
      return;
  if (s->f->compare_count < COMPARES_MAX)
    s->compares[s->f->compare_count++] =
        (og_formula_compare){inputs, of_leaves};
}

static value_kind kind_note(formula_parser *s, const og_scalar_code *code) {
  value_kind stack[OG_SCALAR_DEPTH_MAX + 1];
  int32_t depth = 0;
  for (int32_t k = 0; k < code->count; ++k) {
    const og_scalar_instruction *i = &code->code[k];
    const int32_t arity = og_scalar_arity(i->op);
    class_note(s, i);
    depth -= arity;
    value_kind *own = &stack[depth++];
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
    if (is_truth) *own = (value_kind){true, 0, false};
  }
  return stack[0];
}

// --- Statements --------------------------------------------------------------

static og_status name_add(formula_parser *s, og_token token,
                          int32_t *out_name) {
  if (s->f->name_count == OG_LOOP_STATEMENTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d values",
                          OG_LOOP_STATEMENTS_MAX);
  *out_name = s->f->name_count++;
  s->names[*out_name] = token;
  s->kinds[*out_name] = (value_kind){true, 0, false};
  return OG_OK;
}

static og_status statement_add(formula_parser *s,
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
  const value_kind kind = kind_note(s, code);
  value_kind *of_name = &s->kinds[statement->name];
  of_name->is_integer &= kind.is_integer;
  of_name->inputs |= kind.inputs;
  og_formula_statement *to = &f->statements[f->statement_count++];
  *to = *statement;
  to->expression = (og_scalar_program){own, code->count};
  return OG_OK;
}

static og_status expression_read(formula_parser *s, og_scalar_code *out);

// A value of its own that the expression around it loads.
static og_status hidden_add(formula_parser *s, og_loop_reduction reduction,
                            const og_scalar_code *code,
                            og_scalar_instruction *out) {
  const og_token none = {0};
  og_formula_statement statement = {.reduction = reduction, .output = -1};
  OG_TRY(name_add(s, none, &statement.name));
  out->op = OG_SCALAR_load;
  out->slot = OG_LOOP_INPUTS_MAX + statement.name;
  return statement_add(s, &statement, code);
}

static og_status reduction_read(formula_parser *s, og_loop_reduction reduction,
                                bool is_mean, og_scalar_instruction *out) {
  og_scalar_code code;
  og_reader_advance(&s->p.reader);
  OG_TRY(expression_read(s, &code));
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  s->f->needs_rows = true;
  s->f->has_extreme |= reduction != OG_LOOP_SUM;
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
  OG_TRY(expression_read(s, &code));
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

// A value of each row that has to be above 0; what is said else is to follow.
static og_status check_add(formula_parser *s, og_loop_reduction reduction,
                           const og_scalar_code *code, int32_t *out_check) {
  const og_token none = {0};
  og_formula_statement statement = {.reduction = reduction};
  if (s->f->output_count == OG_LOOP_OUTPUTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d results and checks",
                          OG_LOOP_OUTPUTS_MAX);
  OG_TRY(name_add(s, none, &statement.name));
  *out_check = statement.output = s->f->output_count++;
  s->f->outputs[*out_check].result = -1;
  s->f->needs_rows = true;
  return statement_add(s, &statement, code);
}

static og_status code_join(const formula_parser *s, og_scalar_code *code,
                           const og_scalar_instruction *more, int32_t count) {
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
  OG_TRY(expression_read(s, &value));
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and an index"));
  OG_TRY(expression_read(s, &index));
  const int32_t end = s->p.reader.token.end;
  OG_TRY(og_reader_expect(&s->p.reader, ')', "')'"));
  OG_TRY(name_add(s, none, &own.name));
  OG_TRY(statement_add(s, &own, &index));
  OG_TRY(position_find(s, OG_FORMULA_COLUMN, &here.code[0]));
  OG_TRY(code_join(s, &here, index.code, index.count));
  OG_TRY(code_join(s, &here, &is_there, 1));
  OG_TRY(check_add(s, OG_LOOP_MAX, &here, &check));
  s->f->outputs[check].check =
      (og_token){.kind = OG_TOKEN_NAME, .begin = name.begin, .end = end};
  OG_TRY(code_join(s, &here, value.code, value.count));
  OG_TRY(code_join(s, &here, rest, 2));
  return hidden_add(s, OG_LOOP_SUM, &here, out);
}

// (bias) of given(bias), an optional argument.
static og_status given_read(formula_parser *s, int32_t *out_input) {
  og_reader *reader = &s->p.reader;
  og_reader_advance(reader);
  const og_token name = reader->token;
  const int32_t p =
      name.kind == OG_TOKEN_NAME ? og_find_param(&s->p, name) : -1;
  if (p < 0 || !s->p.decl->params[p].is_optional)
    return og_read_wanted(reader, "an optional argument");
  OG_TRY(argument_find(s, name, &s->p.decl->params[p], OG_FORMULA_WHOLE,
                       out_input));
  og_reader_advance(reader);
  return og_reader_expect(reader, ')', "')'");
}

// Right sides that are not values of a row; each stands alone.
typedef enum right_form { VALUE, SUM_ROWS, JOIN, INTERLEAVE, FORMS } right_form;

static const char *const form_names[FORMS] = {"an expression", "sum_rows",
                                              "join", "interleave"};

static og_status function_find(void *state, og_reader *reader, og_token name,
                               og_scalar_instruction *out, bool *out_is_known) {
  formula_parser *s = state;
  *out_is_known = true;
  if (og_token_is(reader, name, "given")) {
    int32_t input;
    OG_TRY(given_read(s, &input));
    out->op = OG_SCALAR_number;
    out->slot = OG_FORMULA_GIVEN + input;
    return OG_OK;
  }
  for (int32_t form = SUM_ROWS; form < FORMS; ++form)
    if (og_token_is(reader, name, form_names[form]))
      return og_read_error_token(
          reader, name, "%s stands alone on the right side of a result",
          form_names[form]);
  if (og_token_is(reader, name, "pick")) return pick_read(s, name, out);
  if (og_token_is(reader, name, "row_argmax"))
    return place_read(s, OG_LOOP_MAX, out);
  if (og_token_is(reader, name, "row_argmin"))
    return place_read(s, OG_LOOP_MIN, out);
  if (og_token_is(reader, name, "row_mean"))
    return reduction_read(s, OG_LOOP_SUM, true, out);
  for (int32_t r = 1; r < OG_LOOP_REDUCTION_COUNT; ++r)
    if (og_token_is(reader, name, og_loop_reduction_name((og_loop_reduction)r)))
      return reduction_read(s, (og_loop_reduction)r, false, out);
  *out_is_known = false;
  return OG_OK;
}

static og_status expression_read(formula_parser *s, og_scalar_code *out) {
  const og_scalar_names names = {name_find, s, function_find,
                                 "row_sum, row_mean, row_max, row_min, "
                                 "row_argmax, row_argmin, pick, given"};
  return og_scalar_parse(&s->p.reader, &names, 0, out);
}

// The argument of the first of these inputs.
static const char *input_name(const formula_parser *s, uint32_t inputs) {
  const og_formula_input *input = s->f->inputs;
  for (; !(inputs & 1); inputs >>= 1) ++input;
  return (input->is_tensor ? og_tensor_param(s->p.decl, input->index)
                           : og_attr_param(s->p.decl, input->index))
      ->name;
}

// A name that stands for nothing where an optional argument is absent.
static og_status uses_check(const formula_parser *s) {
  const struct og_formula *f = s->f;
  for (int32_t u = 0; u < s->use_count; ++u) {
    uint32_t lacks = 0;
    int32_t k = 0;
    for (; k < f->statement_count; ++k) {
      const og_formula_statement *before = &f->statements[k];
      if (before->name != s->uses[u].name) continue;
      lacks = before->needs & ~s->needs;
      if (lacks == 0) break;
    }
    if (k < f->statement_count) continue;
    const og_token name = s->uses[u].token;
    return og_read_error_token(
        &s->p.reader, name, "'%.*s' has no value where %s is absent",
        (int)og_token_length(name), og_token_text(&s->p.reader, name),
        input_name(s, lacks));
  }
  return OG_OK;
}

// Whether no statement may read what is assigned to an output.
static bool is_unread(const formula_parser *s, int32_t output) {
  if (output < 0) return false;
  const int32_t r = s->f->outputs[output].result;
  return r < s->p.decl->mutated_count || (s->f->sums >> r & 1) ||
         (s->f->wide_out >> r & 1);
}

// Statements from `first` on are of what was just read.
static og_status needs_note(formula_parser *s, int32_t first) {
  OG_TRY(uses_check(s));
  for (int32_t k = first; k < s->f->statement_count; ++k)
    s->f->statements[k].needs = s->needs;
  return OG_OK;
}

static og_status value_assign(formula_parser *s, og_formula_statement statement,
                              const og_scalar_code *code) {
  const og_token none = {0};
  const bool is_hidden = is_unread(s, statement.output);
  if (statement.name < 0)
    OG_TRY(name_add(s, is_hidden ? none : statement.token, &statement.name));
  statement.needs = s->needs;
  return statement_add(s, &statement, code);
}

// if given(a) and given(b): the statement is left out where one is absent.
static og_status condition_read(formula_parser *s) {
  og_reader *reader = &s->p.reader;
  int32_t input;
  if (!og_reader_take_word(reader, "if")) return OG_OK;
  do {
    const bool is_given = og_reader_at_word(reader, "given") &&
                          og_reader_peek(reader).mark == '(';
    if (!is_given) return og_read_wanted(reader, "given(an optional argument)");
    og_reader_advance(reader);
    OG_TRY(given_read(s, &input));
    s->needs |= 1u << input;
  } while (og_reader_take_word(reader, "and"));
  return OG_OK;
}

// The right side, as the value of a name.
static og_status right_read(formula_parser *s, og_formula_statement statement) {
  og_scalar_code code;
  const int32_t first = s->f->statement_count;
  s->needs = 0;
  s->use_count = 0;
  OG_TRY(expression_read(s, &code));
  if (statement.output < 0 || !(s->f->sums >> statement.output & 1))
    OG_TRY(condition_read(s));
  OG_TRY(needs_note(s, first));
  return value_assign(s, statement, &code);
}

// require(condition, "what is wrong else")
static og_status require_read(formula_parser *s) {
  og_reader *reader = &s->p.reader;
  const og_scalar_instruction is_true[] = {{.op = OG_SCALAR_const},
                                           {.op = OG_SCALAR_ne}};
  og_scalar_code code;
  int32_t check;
  const int32_t first = s->f->statement_count;
  s->needs = 0;
  s->use_count = 0;
  og_reader_advance(reader);
  og_reader_advance(reader);
  OG_TRY(expression_read(s, &code));
  OG_TRY(code_join(s, &code, is_true, 2));
  OG_TRY(check_add(s, OG_LOOP_MIN, &code, &check));
  OG_TRY(needs_note(s, first));
  OG_TRY(og_reader_expect(reader, ',', "',' and a text"));
  og_token said = reader->token;
  if (said.kind != OG_TOKEN_STRING)
    return og_read_wanted(reader,
                          "a text, as in require(x > 0, \"x is not "
                          "positive\")");
  ++said.begin;
  --said.end;
  s->f->outputs[check].check = said;
  og_reader_advance(reader);
  return og_reader_expect(reader, ')', "')'");
}

// --- Results -----------------------------------------------------------------

void og_formula_output_name(const og_decl *decl, int32_t output, char out[64]) {
  const int32_t fresh = output - decl->mutated_count;
  const char *name =
      fresh < 0 ? og_tensor_param(decl, decl->mutated_tensors[output])->name
                : decl->results[decl->fresh_results[fresh]].name;
  const char *letter = "y";
  for (int32_t i = 0; i < decl->param_count; ++i)
    if (strcmp(decl->params[i].name, "y") == 0) letter = "out";
  if (name[0] != '\0')
    snprintf(out, 64, "%s", name);
  else if (decl->fresh_count == 1)
    snprintf(out, 64, "%s", letter);
  else
    snprintf(out, 64, "%s%d", letter, (int)fresh);
}

static int32_t output_find(const formula_parser *s, og_token name) {
  char own[64];
  for (int32_t r = 0; r < s->f->result_count; ++r) {
    og_formula_output_name(s->p.decl, r, own);
    if (og_token_is(&s->p.reader, name, own)) return r;
  }
  return -1;
}

static bool is_mutated(const formula_parser *s, int32_t output) {
  return output >= 0 && output < s->p.decl->mutated_count;
}

static og_status left_check(const formula_parser *s, og_token name,
                            int32_t output) {
  const og_reader *reader = &s->p.reader;
  double constant;
  if (is_mutated(s, output)) return OG_OK;
  const char *what =
      og_find_param(&s->p, name) >= 0      ? "an argument"
      : og_token_is(reader, name, "width") ? "the row's width"
      : og_token_is(reader, name, "column") || og_token_is(reader, name, "row")
          ? "a place"
      : og_scalar_constant(reader, name, &constant) ? "a constant"
                                                    : NULL;
  if (what == NULL) return OG_OK;
  return og_read_error_token(
      reader, name, "'%.*s' is %s; expected a result or a new name",
      (int)og_token_length(name), og_token_text(reader, name), what);
}

static right_form form_at(const og_reader *reader) {
  const og_token next = og_reader_peek(reader);
  int32_t form = SUM_ROWS;
  if (next.kind != OG_TOKEN_MARK || next.mark != '(') return VALUE;
  while (form < FORMS && !og_reader_at_word(reader, form_names[form])) ++form;
  return form < FORMS ? (right_form)form : VALUE;
}

static og_status form_note(formula_parser *s, const og_formula_statement *of,
                           right_form form) {
  const og_reader *reader = &s->p.reader;
  const int32_t r = of->output;
  const uint32_t bit = r >= 0 ? 1u << r : 0;
  if (r < 0 && form != VALUE)
    return og_read_wanted(reader,
                          "a value of a row: only a result is assigned by it");
  if ((s->assigned & bit) && s->forms[r] != (int32_t)form)
    return og_read_error_token(
        reader, of->token, "'%.*s' is assigned by %s and by %s",
        (int)og_token_length(of->token), og_token_text(reader, of->token),
        form_names[s->forms[r]], form_names[form]);
  if (r >= 0) s->forms[r] = (int32_t)form;
  s->assigned |= bit;
  if (form == SUM_ROWS) s->f->sums |= bit;
  if (form == JOIN || form == INTERLEAVE) s->f->wide_out |= bit;
  return OG_OK;
}

// The output that has a part of a result.
static og_status part_output(formula_parser *s, int32_t result,
                             og_formula_part part, int32_t *out) {
  struct og_formula *f = s->f;
  *out = 0;
  while (*out < f->output_count &&
         !(f->outputs[*out].result == result && f->outputs[*out].part == part))
    ++*out;
  if (*out < f->output_count) return OG_OK;
  if (f->output_count == OG_LOOP_OUTPUTS_MAX)
    return og_read_wanted(&s->p.reader, "at most %d results, parts and checks",
                          OG_LOOP_OUTPUTS_MAX);
  f->outputs[f->output_count++] =
      (og_formula_output){.result = result, .part = part};
  return OG_OK;
}

// join(a, b): behind '('
static og_status join_read(formula_parser *s, og_formula_statement statement,
                           right_form form) {
  struct og_formula *f = s->f;
  const int32_t first = f->statement_count, r = statement.output;
  f->outputs[r].part = form == JOIN ? OG_FORMULA_FIRST : OG_FORMULA_EVEN;
  f->needs_rows = true;
  OG_TRY(right_read(s, statement));
  const uint32_t needs = s->needs;
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and the other part"));
  OG_TRY(part_output(s, r, form == JOIN ? OG_FORMULA_SECOND : OG_FORMULA_ODD,
                     &statement.output));
  OG_TRY(right_read(s, statement));
  for (int32_t k = first; k < f->statement_count; ++k)
    f->statements[k].needs = needs | s->needs;
  return OG_OK;
}

static og_status left_read(formula_parser *s, og_formula_statement *out) {
  og_reader *reader = &s->p.reader;
  *out = (og_formula_statement){.token = reader->token, .name = -1};
  if (out->token.kind != OG_TOKEN_NAME)
    return og_read_wanted(reader, "a name to assign to");
  out->output = output_find(s, out->token);
  OG_TRY(left_check(s, out->token, out->output));
  og_reader_advance(reader);
  return OG_OK;
}

// What reads a mutated argument reads its old value; what is summed or joined
// is known later: none of these has a name that can be read.
static void left_name(const formula_parser *s, og_formula_statement *of) {
  if (!is_unread(s, of->output)) of->name = named(s, of->token);
}

// a, b = halves(x): behind a
static og_status pair_read(formula_parser *s, og_formula_statement *of) {
  og_reader *reader = &s->p.reader;
  OG_TRY(og_reader_expect(reader, ',', "','"));
  OG_TRY(left_read(s, &of[1]));
  OG_TRY(og_reader_expect(reader, '=', "'='"));
  const bool halves = og_reader_at_word(reader, "halves");
  if (!halves && !og_reader_at_word(reader, "pairs"))
    return og_read_wanted(reader, "halves(x) or pairs(x)");
  og_reader_advance(reader);
  OG_TRY(og_reader_expect(reader, '(', "'('"));
  const og_token name = reader->token;
  const int32_t p =
      name.kind == OG_TOKEN_NAME ? og_find_param(&s->p, name) : -1;
  if (p < 0 || s->p.decl->params[p].type != OG_TYPE_TENSOR)
    return og_read_wanted(reader, "a tensor argument");
  s->f->needs_rows = true;
  for (int32_t k = 0; k < 2; ++k) {
    og_scalar_code code = {.count = 1, .code = {{.op = OG_SCALAR_load}}};
    const og_formula_part part = halves ? OG_FORMULA_FIRST : OG_FORMULA_EVEN;
    OG_TRY(argument_find(s, name, &s->p.decl->params[p],
                         (og_formula_part)((int32_t)part + k),
                         &code.code[0].slot));
    s->needs = s->f->optional & 1u << code.code[0].slot;
    OG_TRY(form_note(s, &of[k], VALUE));
    left_name(s, &of[k]);
    OG_TRY(value_assign(s, of[k], &code));
  }
  og_reader_advance(reader);
  return og_reader_expect(reader, ')', "')'");
}

static og_status statement_read(formula_parser *s) {
  og_reader *reader = &s->p.reader;
  og_formula_statement of[2];
  const og_token next = og_reader_peek(reader);
  if (og_reader_at_word(reader, "require") && next.kind == OG_TOKEN_MARK &&
      next.mark == '(')
    return require_read(s);
  OG_TRY(left_read(s, &of[0]));
  if (og_reader_at(reader, ',')) return pair_read(s, of);
  OG_TRY(og_reader_expect(reader, '=', "'='"));
  const right_form form = form_at(reader);
  OG_TRY(form_note(s, &of[0], form));
  left_name(s, &of[0]);
  if (form == VALUE) return right_read(s, of[0]);
  og_reader_advance(reader);
  og_reader_advance(reader);
  if (form == SUM_ROWS)
    OG_TRY(right_read(s, of[0]));
  else
    OG_TRY(join_read(s, of[0], form));
  return og_reader_expect(reader, ')', "')'");
}

// Every result has a value whatever is absent.
static og_status results_check(const formula_parser *s) {
  char name[64];
  for (int32_t r = 0; r < s->f->result_count; ++r) {
    uint32_t lacks = 0;
    bool is_set = false;
    for (int32_t k = 0; k < s->f->statement_count; ++k) {
      if (s->f->statements[k].output != r) continue;
      lacks = s->f->statements[k].needs;
      is_set |= lacks == 0;
    }
    og_formula_output_name(s->p.decl, r, name);
    if (!is_set)
      return lacks == 0
                 ? og_read_error(&s->p.reader, 0, s->p.reader.length,
                                 "result %s is never assigned", name)
                 : og_read_error(&s->p.reader, 0, s->p.reader.length,
                                 "result %s has no value where %s is absent",
                                 name, input_name(s, lacks));
  }
  return OG_OK;
}

static og_status operator_check(const og_parser *p) {
  const og_decl *decl = p->decl;
  const int32_t outputs = decl->mutated_count + decl->fresh_count;
  if (outputs == 0 || outputs > OG_LOOP_OUTPUTS_MAX || decl->has_lists)
    return og_refuse_operator(
        p, "the schema has lists, or nothing that is written",
        "tensors, numbers, and 1 to 16 results or mutated arguments");
  for (int32_t r = 0; r < decl->result_count; ++r)
    if (decl->results[r].type != OG_TYPE_TENSOR)
      return og_refuse_operator(p, "a result is a number", "tensors");
  for (int32_t j = 0; j < decl->mutated_count; ++j)
    if (og_tensor_param(decl, decl->mutated_tensors[j])->is_optional)
      return og_refuse_operator(p, "a mutated argument is optional",
                                "one that is always there");
  if (decl->tensor_count == 0)
    return og_refuse_operator(p, "the schema has no tensors", "1 or more");
  if (decl->record->infer != NULL)
    return og_refuse_operator(p, "the shape is a callback's", "a shape rule");
  return OG_OK;
}

// --- The whole ---------------------------------------------------------------

static og_status statements_read(formula_parser *s) {
  og_reader *reader = &s->p.reader;
  const og_token next = og_reader_peek(reader);
  const bool assigns = next.kind == OG_TOKEN_MARK &&
                       (next.mark == '=' || next.mark == ',' ||
                        og_token_is(reader, reader->token, "require"));
  if (!assigns && s->f->result_count > 1)
    return og_read_wanted(reader, "a statement for each result, as in y0 = x");
  if (!assigns) {
    const og_token none = {0};
    OG_TRY(right_read(
        s, (og_formula_statement){.token = none, .name = -1, .output = 0}));
    return og_reader_expect_end(reader, "an operator or the end");
  }
  do {
    OG_TRY(statement_read(s));
  } while (og_reader_take(reader, ';') && reader->token.kind != OG_TOKEN_END);
  return og_reader_expect_end(reader, "';', an operator or the end");
}

// Names follow the inputs, of which there are now all.
static void slots_settle(struct og_formula *f) {
  for (int32_t s = 0; s < f->statement_count; ++s) {
    const og_scalar_program *e = &f->statements[s].expression;
    for (int32_t k = 0; k < e->count; ++k) {
      og_scalar_instruction *code = (og_scalar_instruction *)&e->code[k];
      if (code->op == OG_SCALAR_load && code->slot >= OG_LOOP_INPUTS_MAX)
        code->slot += f->input_count - OG_LOOP_INPUTS_MAX;
    }
  }
}

static const char *whole_name(const formula_parser *s) {
  int32_t t = 0;
  while (!(s->whole_in & s->f->wide_in & 1u << t)) ++t;
  return og_tensor_param(s->p.decl, t)->name;
}

static og_status formula_read(formula_parser *s) {
  struct og_formula *f = s->f;
  OG_TRY(operator_check(&s->p));
  f->text = s->p.decl->record->row;
  f->result_count = s->p.decl->mutated_count + s->p.decl->fresh_count;
  f->output_count = f->result_count;
  for (int32_t r = 0; r < f->result_count; ++r) f->outputs[r].result = r;
  OG_TRY(statements_read(s));
  OG_TRY(results_check(s));
  if (s->whole_in & f->wide_in)
    return og_read_error(&s->p.reader, 0, s->p.reader.length,
                         "%s is read whole and in parts, expected one of them",
                         whole_name(s));
  slots_settle(f);
  f->compares = s->compares;
  f->is_real = s->integer_only == NULL;
  f->is_integer = s->real_only == NULL;
  if (f->is_real || f->is_integer) return og_parse_formula_rest(&s->p);
  return og_read_error(&s->p.reader, 0, s->p.reader.length,
                       "%s computes in floats, %s in integers; expected one of "
                       "the two",
                       s->real_only, s->integer_only);
}

og_status og_parse_formula(og_decl *decl, opgraft_error *error) {
  const char *text = decl->record->row;
  if (text == NULL) return OG_OK;
  og_arena memory = {0};
  formula_parser *s = og_arena_alloc(&memory, sizeof *s);
  struct og_formula *f = og_arena_alloc(&decl->arena, sizeof *f);
  if (s == NULL || f == NULL) {
    og_arena_destroy(&memory);
    return og_error_set(error, OG_MEMORY, decl->name, "row",
                        "%s: row: out of memory", decl->name);
  }
  memset(s, 0, sizeof *s);
  memset(f, 0, sizeof *f);
  s->f = f;
  decl->formula = f;
  og_status status = og_parser_init(&s->p, decl, "row", text, error);
  f->statements = og_arena_array(&decl->arena, OG_LOOP_STATEMENTS_MAX,
                                 sizeof *f->statements);
  s->compares = og_arena_array(&decl->arena, COMPARES_MAX, sizeof *s->compares);
  if (status == OG_OK && (f->statements == NULL || s->compares == NULL))
    status = og_read_memory(&s->p.reader);
  if (status == OG_OK) status = formula_read(s);
  if (status == OG_OK) status = og_formula_cache_create(f, &decl->arena);
  og_arena_destroy(&memory);
  return status;
}
