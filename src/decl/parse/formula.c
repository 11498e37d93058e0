// SPDX-License-Identifier: Apache-2.0
// The row string: statements over the arguments.

#include "decl/parse/formula.h"

#include <stdio.h>
#include <string.h>

#include "decl/parse/formula_parser.h"
#include "decl/parse/names.h"

typedef og_formula_parser formula_parser;

// --- Statements --------------------------------------------------------------

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
  return r < s->p.decl->mutated_count ||
         ((s->f->sums | s->f->added | s->f->wide_out) >> r & 1);
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
    OG_TRY(og_formula_name_add(s, is_hidden ? none : statement.token,
                               &statement.name));
  statement.needs = s->needs;
  return og_formula_statement_add(s, &statement, code);
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
    OG_TRY(og_formula_given_read(s, &input));
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
  OG_TRY(og_formula_expression_read(s, &code));
  if (statement.output < 0 ||
      !((s->f->sums | s->f->added) >> statement.output & 1))
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
  OG_TRY(og_formula_expression_read(s, &code));
  OG_TRY(og_formula_code_join(s, &code, is_true, 2));
  OG_TRY(og_formula_check_add(s, OG_LOOP_MIN, &code, &check));
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

static og_formula_form form_at(const og_reader *reader) {
  const og_token next = og_reader_peek(reader);
  int32_t form = OG_FORM_SUM_ROWS;
  if (next.kind != OG_TOKEN_MARK || next.mark != '(') return OG_FORM_VALUE;
  while (form < OG_FORM_FORMS &&
         !og_reader_at_word(reader, og_formula_form_names[form]))
    ++form;
  return form < OG_FORM_FORMS ? (og_formula_form)form : OG_FORM_VALUE;
}

// join( or interleave(
static bool is_joining(og_formula_form form) {
  return form == OG_FORM_JOIN || form == OG_FORM_INTERLEAVE;
}

static og_status form_note(formula_parser *s, const og_formula_statement *of,
                           og_formula_form form) {
  const og_reader *reader = &s->p.reader;
  const int32_t r = of->output;
  const uint32_t bit = r >= 0 ? 1u << r : 0;
  if (r < 0 && form != OG_FORM_VALUE)
    return og_read_wanted(reader,
                          "a value of a row: only a result is assigned by it");
  if ((s->assigned & bit) && s->forms[r] != (int32_t)form)
    return og_read_error_token(
        reader, of->token, "'%.*s' is assigned by %s and by %s",
        (int)og_token_length(of->token), og_token_text(reader, of->token),
        og_formula_form_names[s->forms[r]], og_formula_form_names[form]);
  if (r >= 0) s->forms[r] = (int32_t)form;
  s->assigned |= bit;
  if (form == OG_FORM_ADD_ROWS && (s->f->added & bit))
    return og_read_error_token(
        reader, of->token, "'%.*s' is assigned twice; expected one add_rows",
        (int)og_token_length(of->token), og_token_text(reader, of->token));
  if (form == OG_FORM_SUM_ROWS) s->f->sums |= bit;
  if (form == OG_FORM_ADD_ROWS) s->f->added |= bit;
  if (is_joining(form)) s->f->wide_out |= bit;
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
                           og_formula_form form) {
  struct og_formula *f = s->f;
  const int32_t first = f->statement_count, r = statement.output;
  f->outputs[r].part =
      form == OG_FORM_JOIN ? OG_FORMULA_FIRST : OG_FORMULA_EVEN;
  f->needs_rows = true;
  OG_TRY(right_read(s, statement));
  const uint32_t needs = s->needs;
  OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and the other part"));
  OG_TRY(part_output(s, r,
                     form == OG_FORM_JOIN ? OG_FORMULA_SECOND : OG_FORMULA_ODD,
                     &statement.output));
  OG_TRY(right_read(s, statement));
  for (int32_t k = first; k < f->statement_count; ++k)
    f->statements[k].needs = needs | s->needs;
  return OG_OK;
}

// add_rows(value, index, value, index ...): behind '('
static og_status adding_read(formula_parser *s,
                             og_formula_statement statement) {
  struct og_formula *f = s->f;
  const int32_t r = statement.output;
  if (is_mutated(s, r))
    return og_read_wanted(&s->p.reader, "a result that is not an argument");
  for (bool is_first = true; is_first || og_reader_take(&s->p.reader, ',');
       is_first = false) {
    if (!is_first && f->output_count == OG_LOOP_OUTPUTS_MAX)
      return og_read_wanted(&s->p.reader, "at most %d results and checks",
                            OG_LOOP_OUTPUTS_MAX);
    if (!is_first) {
      statement.output = f->output_count++;
      f->outputs[statement.output].result = r;
    }
    statement.name = -1;
    OG_TRY(right_read(s, statement));
    OG_TRY(og_reader_expect(&s->p.reader, ',', "',' and an index"));
    OG_TRY(og_formula_index_find(s, &f->outputs[statement.output].row_by));
  }
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
  if (!is_unread(s, of->output)) of->name = og_formula_named(s, of->token);
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
    OG_TRY(og_formula_argument_find(s, name, &s->p.decl->params[p],
                                    (og_formula_part)((int32_t)part + k),
                                    &code.code[0].slot));
    s->needs = s->f->optional & 1u << code.code[0].slot;
    OG_TRY(form_note(s, &of[k], OG_FORM_VALUE));
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
  const og_formula_form form = form_at(reader);
  OG_TRY(form_note(s, &of[0], form));
  left_name(s, &of[0]);
  if (form == OG_FORM_VALUE) return right_read(s, of[0]);
  og_reader_advance(reader);
  og_reader_advance(reader);
  const og_formula_form within = form_at(reader);
  if (form == OG_FORM_SUM_ROWS && is_joining(within)) {
    s->f->wide_out |= 1u << of[0].output;
    og_reader_advance(reader);
    og_reader_advance(reader);
    OG_TRY(join_read(s, of[0], within));
    OG_TRY(og_reader_expect(reader, ')', "')'"));
  } else if (form == OG_FORM_SUM_ROWS)
    OG_TRY(right_read(s, of[0]));
  else if (form == OG_FORM_ADD_ROWS)
    OG_TRY(adding_read(s, of[0]));
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

static og_status ways_check(const formula_parser *s) {
  const struct og_formula *f = s->f;
  const uint32_t in_parts = s->whole_in & f->wide_in;
  const uint32_t by_rows = (s->whole_in | f->wide_in) & f->tables;
  int32_t t = 0;
  if ((in_parts | by_rows) == 0) return OG_OK;
  while (!((in_parts | by_rows) & 1u << t)) ++t;
  return og_read_error(&s->p.reader, 0, s->p.reader.length,
                       in_parts >> t & 1
                           ? "%s is read whole and in parts, expected one of "
                             "them"
                           : "%s is read as a row and by an index, expected "
                             "one of them",
                       og_tensor_param(s->p.decl, t)->name);
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
  OG_TRY(ways_check(s));
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
  s->compares = og_arena_array(&decl->arena, OG_FORMULA_COMPARES_MAX,
                               sizeof *s->compares);
  if (status == OG_OK && (f->statements == NULL || s->compares == NULL))
    status = og_read_memory(&s->p.reader);
  if (status == OG_OK) status = formula_read(s);
  if (status == OG_OK) status = og_formula_cache_create(f, &decl->arena);
  og_arena_destroy(&memory);
  return status;
}
