// SPDX-License-Identifier: Apache-2.0
// Row programs from text.

#include <stdio.h>
#include <string.h>

#include "base/reader.h"
#include "loop/program.h"

typedef struct loop_parser {
  og_reader reader;
  const bool *is_row_input;
  int32_t input_count, output_count;
  og_loop_statement *statements;
  og_token *names;  // by statement
  int32_t count;
  uint32_t outputs;  // assigned, by bit
} loop_parser;

const char *og_loop_reduction_name(og_loop_reduction reduction) {
  static const char *const names[OG_LOOP_REDUCTION_COUNT] = {
      [OG_LOOP_SUM] = "row_sum",
      [OG_LOOP_MAX] = "row_max",
      [OG_LOOP_MIN] = "row_min",
      [OG_LOOP_CUMSUM] = "row_cumsum",
      [OG_LOOP_CUMSUM_REVERSED] = "row_cumsum_reversed",
  };
  return names[reduction];
}

// --- Names -------------------------------------------------------------------

// The number of x12 or y3; -1 where the name is not one of `letter`.
static int32_t number_of(const og_reader *reader, og_token name, char letter) {
  const char *text = og_token_text(reader, name);
  const int32_t length = og_token_length(name);
  int32_t number = 0;
  if (name.kind != OG_TOKEN_NAME || *text != letter || length < 2 || length > 4)
    return -1;
  if (text[1] == '0' && length > 2) return -1;
  for (int32_t i = 1; i < length; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number;
}

static int32_t statement_find(const loop_parser *p, og_token name) {
  const int32_t length = og_token_length(name);
  for (int32_t i = 0; i < p->count; ++i)
    if (og_token_length(p->names[i]) == length &&
        memcmp(og_token_text(&p->reader, p->names[i]),
               og_token_text(&p->reader, name), (size_t)length) == 0)
      return i;
  return -1;
}

static og_status name_find(void *state, const og_reader *reader, og_token name,
                           og_scalar_instruction *out) {
  const loop_parser *p = state;
  const int32_t input = number_of(reader, name, 'x');
  if (og_scalar_constant(reader, name, &out->value)) return OG_OK;
  if (og_token_is(reader, name, "width")) {
    out->op = OG_SCALAR_number;
    out->slot = OG_LOOP_WIDTH_SLOT;
    return OG_OK;
  }
  out->op = OG_SCALAR_load;
  if (input >= 0) {
    out->slot = input;
    if (input < p->input_count) return OG_OK;
    return og_read_error_token(reader, name,
                               "x%d is not an input; the program has %d",
                               (int)input, (int)p->input_count);
  }
  const int32_t statement = statement_find(p, name);
  if (statement < 0)
    return og_read_error_token(
        reader, name, "'%.*s' is not assigned before it is read",
        (int)og_token_length(name), og_token_text(reader, name));
  out->slot = p->input_count + statement;
  return OG_OK;
}

// --- Statements --------------------------------------------------------------

static og_status left_read(loop_parser *p, og_loop_statement *statement) {
  const og_token name = p->reader.token;
  double constant;
  statement->output = number_of(&p->reader, name, 'y');
  if (name.kind != OG_TOKEN_NAME)
    return og_read_wanted(&p->reader, "a name to assign to");
  if (number_of(&p->reader, name, 'x') >= 0 ||
      og_token_is(&p->reader, name, "width") ||
      og_scalar_constant(&p->reader, name, &constant))
    return og_read_error_token(&p->reader, name,
                               "'%.*s' cannot be assigned to; it is an input "
                               "or a constant",
                               (int)og_token_length(name),
                               og_token_text(&p->reader, name));
  if (statement_find(p, name) >= 0)
    return og_read_error_token(&p->reader, name, "'%.*s' is assigned twice",
                               (int)og_token_length(name),
                               og_token_text(&p->reader, name));
  if (statement->output >= p->output_count)
    return og_read_error_token(&p->reader, name,
                               "y%d is not an output; the program has %d",
                               (int)statement->output, (int)p->output_count);
  if (statement->output >= 0) p->outputs |= 1u << statement->output;
  og_reader_advance(&p->reader);
  return og_reader_expect(&p->reader, '=', "'='");
}

static og_loop_reduction reduction_at(const loop_parser *p) {
  for (int32_t r = 1; r < OG_LOOP_REDUCTION_COUNT; ++r)
    if (og_token_is(&p->reader, p->reader.token,
                    og_loop_reduction_name((og_loop_reduction)r)))
      return (og_loop_reduction)r;
  return OG_LOOP_NO_REDUCTION;
}

static bool is_row(const loop_parser *p, const og_loop_statement *statement) {
  if (og_loop_reduces(statement->reduction)) return true;
  if (og_loop_is_running(statement->reduction)) return false;
  for (int32_t i = 0; i < statement->expression.count; ++i) {
    const og_scalar_instruction *code = &statement->expression.code[i];
    if (code->op != OG_SCALAR_load) continue;
    if (code->slot < p->input_count
            ? !p->is_row_input[code->slot]
            : !p->statements[code->slot - p->input_count].is_row)
      return false;
  }
  return true;
}

static og_status statement_read(loop_parser *p, og_arena *arena) {
  og_scalar_code found;
  og_loop_statement statement = {.output = -1};
  const og_scalar_names names = {.find = name_find, .state = p};
  const og_token name = p->reader.token;
  if (p->count == OG_LOOP_STATEMENTS_MAX)
    return og_read_wanted(&p->reader, "at most %d assignments",
                          OG_LOOP_STATEMENTS_MAX);
  OG_TRY(left_read(p, &statement));
  statement.reduction = reduction_at(p);
  if (statement.reduction != OG_LOOP_NO_REDUCTION) {
    og_reader_advance(&p->reader);
    OG_TRY(og_reader_expect(&p->reader, '(', "'('"));
  }
  OG_TRY(og_scalar_parse(&p->reader, &names, OG_CLASSES_FLOAT, &found));
  if (statement.reduction != OG_LOOP_NO_REDUCTION)
    OG_TRY(og_reader_expect(&p->reader, ')', "')'"));
  const size_t bytes = (size_t)found.count * sizeof *found.code;
  og_scalar_instruction *code = og_arena_alloc(arena, bytes);
  if (code == NULL) return og_read_memory(&p->reader);
  memcpy(code, found.code, bytes);
  statement.expression = (og_scalar_program){code, found.count};
  statement.is_row = is_row(p, &statement);
  p->names[p->count] = name;
  p->statements[p->count++] = statement;
  return OG_OK;
}

// --- The whole ---------------------------------------------------------------

static og_status check_outputs(const loop_parser *p) {
  for (int32_t i = 0; i < p->output_count; ++i)
    if ((p->outputs >> i & 1) == 0)
      return og_read_error(&p->reader, 0, p->reader.length,
                           "y%d is never assigned", (int)i);
  return OG_OK;
}

og_status og_loop_parse(const char *text, const bool *is_row_input,
                        int32_t input_count, int32_t output_count,
                        og_arena *arena, og_loop_program *out,
                        opgraft_error *error) {
  loop_parser p = {.is_row_input = is_row_input,
                   .input_count = input_count,
                   .output_count = output_count};
  OG_TRY(og_reader_init(&p.reader, NULL, "program", text, error));
  if (input_count > OG_LOOP_INPUTS_MAX || output_count > OG_LOOP_OUTPUTS_MAX)
    return og_read_error(&p.reader, 0, 0,
                         "%d inputs and %d outputs, expected at most %d and %d",
                         (int)input_count, (int)output_count,
                         OG_LOOP_INPUTS_MAX, OG_LOOP_OUTPUTS_MAX);
  p.statements =
      og_arena_array(arena, OG_LOOP_STATEMENTS_MAX, sizeof *p.statements);
  p.names = og_arena_array(arena, OG_LOOP_STATEMENTS_MAX, sizeof *p.names);
  if (p.statements == NULL || p.names == NULL) return og_read_memory(&p.reader);
  do {
    OG_TRY(statement_read(&p, arena));
  } while (og_reader_take(&p.reader, ';'));
  OG_TRY(og_reader_expect_end(&p.reader, "';', an operator or the end"));
  OG_TRY(check_outputs(&p));
  *out = (og_loop_program){.statements = p.statements,
                           .statement_count = p.count,
                           .input_count = input_count,
                           .output_count = output_count};
  return OG_OK;
}
