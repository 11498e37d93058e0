// SPDX-License-Identifier: Apache-2.0
// Expressions over the primitives, as programs.
//
// Precedence is Python's: or, and, not, comparison, + -, * /, unary minus.

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "scalar/scalar.h"

enum {
  LEVEL_OR,
  LEVEL_AND,
  LEVEL_NOT,  // a prefix
  LEVEL_COMPARE,
  LEVEL_SUM,
  LEVEL_PRODUCT,
  LEVEL_UNARY,
  LEVEL_FUNCTION,  // no operator
};

static const struct {
  const char *name;
  int32_t arity;
  int32_t mark;  // of an operator; 0: its name is a word
  int32_t level;
  uint32_t classes;
} rows[OG_SCALAR_COUNT] = {
    [OG_SCALAR_const] = {"const", 0, 0, LEVEL_FUNCTION, 0},
    [OG_SCALAR_load] = {"load", 0, 0, LEVEL_FUNCTION, 0},
    [OG_SCALAR_number] = {"number", 0, 0, LEVEL_FUNCTION, 0},
#define OG_SCALAR(id, arity, mark, level, classes, vector, ulp_f32, ulp_f64, \
                  ulp_vector, on_float, on_int)                              \
  [OG_SCALAR_##id] = {#id, arity, mark, LEVEL_##level, OG_CLASSES_##classes},
#include "scalar/scalar.def"
#undef OG_SCALAR
};

enum { FIRST = OG_SCALAR_number + 1 };  // of the primitives

typedef struct scalar_parser {
  og_reader *reader;
  const og_scalar_names *names;
  uint32_t classes;
  og_scalar_code *out;
} scalar_parser;

static og_status parse_level(scalar_parser *s, int32_t level);

const char *og_scalar_name(int32_t op) { return rows[op].name; }

int32_t og_scalar_arity(int32_t op) { return rows[op].arity; }

uint32_t og_scalar_classes(int32_t op) { return rows[op].classes; }

bool og_scalar_constant(const og_reader *reader, og_token name,
                        double *out_value) {
  static const struct {
    const char *name;
    double value;
  } constants[] = {
#define OG_SCALAR_CONSTANT(name, value) {#name, value},
#include "scalar/constants.def"
#undef OG_SCALAR_CONSTANT
  };
  for (size_t i = 0; i < sizeof constants / sizeof *constants; ++i) {
    if (!og_token_is(reader, name, constants[i].name)) continue;
    *out_value = constants[i].value;
    return true;
  }
  return false;
}

static og_status emit(scalar_parser *s, og_scalar_instruction instruction) {
  og_scalar_code *out = s->out;
  const int32_t depth = out->depth + 1 - rows[instruction.op].arity;
  if (out->count == OG_SCALAR_CODE_MAX || depth > OG_SCALAR_DEPTH_MAX)
    return og_read_wanted(s->reader, "a shorter expression");
  out->code[out->count++] = instruction;
  out->depth = depth;
  return OG_OK;
}

static og_status emit_op(scalar_parser *s, int32_t op) {
  return emit(s, (og_scalar_instruction){.op = op});
}

// --- Names and functions -----------------------------------------------------

static bool is_allowed(const scalar_parser *s, int32_t op) {
  return (rows[op].classes & s->classes) == s->classes;
}

// Whether an operator is written as a word that is not a function's name.
static bool is_word(int32_t op) {
  return rows[op].mark == 0 && rows[op].level != LEVEL_FUNCTION;
}

// Lists the functions, but for those that have an operator.
static og_status refuse_function(const scalar_parser *s, og_token name) {
  char list[1024];
  size_t length =
      s->names->functions == NULL
          ? 0
          : (size_t)snprintf(list, sizeof list, "%s", s->names->functions);
  int32_t last = OG_SCALAR_COUNT - 1;
  while (!is_allowed(s, last) || rows[last].level != LEVEL_FUNCTION) --last;
  for (int32_t op = FIRST; op <= last && length < sizeof list; ++op) {
    if (!is_allowed(s, op) || rows[op].level != LEVEL_FUNCTION) continue;
    length += (size_t)snprintf(list + length, sizeof list - length, "%s%s",
                               length == 0  ? ""
                               : op == last ? " or "
                                            : ", ",
                               rows[op].name);
  }
  return og_read_error_token(
      s->reader, name, "unknown function '%.*s'; expected %s",
      (int)og_token_length(name), og_token_text(s->reader, name), list);
}

static og_status parse_primitive(scalar_parser *s, og_token name) {
  int32_t op = FIRST;
  while (op < OG_SCALAR_COUNT && (!is_allowed(s, op) || is_word(op) ||
                                  !og_token_is(s->reader, name, rows[op].name)))
    ++op;
  if (op == OG_SCALAR_COUNT) return refuse_function(s, name);
  const bool takes_more = op == OG_SCALAR_min || op == OG_SCALAR_max;
  og_reader_advance(s->reader);
  OG_TRY(parse_level(s, LEVEL_OR));
  for (int32_t n = 1; n < rows[op].arity; ++n) {
    OG_TRY(og_reader_expect(s->reader, ',', "',' and the next argument"));
    OG_TRY(parse_level(s, LEVEL_OR));
  }
  OG_TRY(emit_op(s, op));
  while (takes_more && og_reader_take(s->reader, ',')) {
    OG_TRY(parse_level(s, LEVEL_OR));
    OG_TRY(emit_op(s, op));
  }
  return og_reader_expect(s->reader, ')', "')'");
}

// What the caller knows comes first.
static og_status parse_name(scalar_parser *s) {
  const og_token name = s->reader->token;
  og_scalar_instruction found = {.op = OG_SCALAR_const};
  bool is_known = false;
  og_reader_advance(s->reader);
  const bool is_call = og_reader_at(s->reader, '(');
  if (s->names->call != NULL && (is_call || og_reader_at(s->reader, '[')))
    OG_TRY(s->names->call(s->names->state, s->reader, name, &found, &is_known));
  if (is_call && !is_known) return parse_primitive(s, name);
  if (!is_known)
    OG_TRY(s->names->find(s->names->state, s->reader, name, &found));
  return emit(s, found);
}

static og_status parse_primary(scalar_parser *s) {
  const og_token token = s->reader->token;
  og_scalar_instruction number = {.op = OG_SCALAR_const};
  if (token.kind == OG_TOKEN_INT || token.kind == OG_TOKEN_NUMBER) {
    if (!og_double_parse(og_token_text(s->reader, token),
                         (size_t)og_token_length(token), &number.value))
      return og_read_wanted(s->reader, "a shorter number");
    og_reader_advance(s->reader);
    return emit(s, number);
  }
  if (token.kind == OG_TOKEN_NAME) return parse_name(s);
  if (!og_reader_take(s->reader, '('))
    return og_read_wanted(s->reader, "an argument, a number or '('");
  OG_TRY(parse_level(s, LEVEL_OR));
  return og_reader_expect(s->reader, ')', "')'");
}

// --- Operators ---------------------------------------------------------------

// The operation of the operator of this level at the current token, or -1.
static int32_t operator_at(const scalar_parser *s, int32_t level) {
  for (int32_t op = FIRST; op < OG_SCALAR_COUNT; ++op) {
    if (rows[op].level != level || !is_allowed(s, op)) continue;
    if (rows[op].mark != 0 ? og_reader_at(s->reader, rows[op].mark)
                           : og_reader_at_word(s->reader, rows[op].name))
      return op;
  }
  return -1;
}

static og_status parse_unary(scalar_parser *s) {
  int32_t minuses = 0;
  while (og_reader_take(s->reader, '-')) ++minuses;
  OG_TRY(parse_primary(s));
  for (; minuses > 0; --minuses) OG_TRY(emit_op(s, OG_SCALAR_neg));
  return OG_OK;
}

// What stands on either side of an operator of this level.
static og_status parse_operand(scalar_parser *s, int32_t level) {
  int32_t nots = 0;
  if (level == LEVEL_PRODUCT) return parse_unary(s);
  while (level == LEVEL_AND && og_reader_take_word(s->reader, "not")) ++nots;
  OG_TRY(parse_level(s, level == LEVEL_AND ? LEVEL_COMPARE : level + 1));
  for (; nots > 0; --nots) OG_TRY(emit_op(s, OG_SCALAR_not));
  return OG_OK;
}

static og_status parse_level(scalar_parser *s, int32_t level) {
  if (level == LEVEL_OR && ++s->reader->nesting > OG_NESTING_MAX)
    return og_read_wanted(s->reader, "fewer parentheses");
  OG_TRY(parse_operand(s, level));
  for (int32_t op; (op = operator_at(s, level)) >= 0;) {
    og_reader_advance(s->reader);
    OG_TRY(parse_operand(s, level));
    OG_TRY(emit_op(s, op));
    if (level == LEVEL_COMPARE && operator_at(s, level) >= 0)
      return og_read_wanted(s->reader, "'and': comparisons are not chained");
  }
  if (level == LEVEL_OR) --s->reader->nesting;
  return OG_OK;
}

og_status og_scalar_parse(og_reader *reader, const og_scalar_names *names,
                          uint32_t classes, og_scalar_code *out) {
  scalar_parser s = {
      .reader = reader, .names = names, .classes = classes, .out = out};
  out->count = 0;
  out->depth = 0;
  return parse_level(&s, LEVEL_OR);
}

// --- Writing -----------------------------------------------------------------

typedef struct scalar_writer {
  const og_scalar_program *program;
  int32_t sizes[OG_SCALAR_CODE_MAX];  // instructions of the value ending here
  og_scalar_name_fn name;
  void *state;
  og_text *out;
} scalar_writer;

static void write_value(const scalar_writer *w, int32_t at, int32_t level);

// The level of what instruction `at` gives.
static int32_t level_of(const scalar_writer *w, int32_t at) {
  const og_scalar_instruction *code = &w->program->code[at];
  const bool is_below =
      code->value < 0 || (code->value == 0 && signbit(code->value));
  return code->op == OG_SCALAR_const && is_below ? LEVEL_UNARY
                                                 : rows[code->op].level;
}

static void write_const(const scalar_writer *w, double value) {
  if (isinf(value))
    og_text_add(w->out, value < 0 ? "-infinity" : "infinity");
  else
    og_text_add_double(w->out, value);
}

static void write_function(const scalar_writer *w, int32_t at) {
  const int32_t op = w->program->code[at].op;
  int32_t ends[3], end = at - 1;
  for (int32_t k = rows[op].arity - 1; k >= 0; --k) {
    ends[k] = end;
    end -= w->sizes[end];
  }
  og_text_addf(w->out, "%s(", rows[op].name);
  for (int32_t k = 0; k < rows[op].arity; ++k) {
    if (k > 0) og_text_add(w->out, ", ");
    write_value(w, ends[k], LEVEL_OR);
  }
  og_text_add(w->out, ")");
}

static void write_sign(const scalar_writer *w, int32_t op) {
  static const char *const wide[] = {[OG_MARK_LE - 256] = "<=",
                                     [OG_MARK_GE - 256] = ">=",
                                     [OG_MARK_EQ - 256] = "==",
                                     [OG_MARK_NE - 256] = "!="};
  const int32_t mark = rows[op].mark;
  if (mark == 0)
    og_text_addf(w->out, " %s ", rows[op].name);
  else if (mark >= 256)
    og_text_addf(w->out, " %s ", wide[mark - 256]);
  else
    og_text_addf(w->out, " %c ", (char)mark);
}

// A value where only one of this level or above may stand.
static void write_value(const scalar_writer *w, int32_t at, int32_t level) {
  const og_scalar_instruction *code = &w->program->code[at];
  const int32_t own = level_of(w, at);
  const bool is_apart = own < level;
  if (is_apart) og_text_add(w->out, "(");
  if (code->op == OG_SCALAR_const) {
    write_const(w, code->value);
  } else if (rows[code->op].arity == 0) {
    w->name(w->state, code, w->out);
  } else if (own == LEVEL_FUNCTION) {
    write_function(w, at);
  } else if (rows[code->op].arity == 1) {
    og_text_add(w->out, own == LEVEL_NOT ? "not " : "-");
    write_value(w, at - 1, own);
  } else {
    const int32_t left = at - 1 - w->sizes[at - 1];
    write_value(w, left, own == LEVEL_COMPARE ? own + 1 : own);
    write_sign(w, code->op);
    write_value(w, at - 1, own == LEVEL_AND ? LEVEL_NOT : own + 1);
  }
  if (is_apart) og_text_add(w->out, ")");
}

void og_scalar_write(const og_scalar_program *program, og_scalar_name_fn name,
                     void *state, og_text *out) {
  scalar_writer w = {
      .program = program, .name = name, .state = state, .out = out};
  for (int32_t k = 0; k < program->count; ++k) {
    w.sizes[k] = 1;
    for (int32_t n = rows[program->code[k].op].arity; n > 0; --n)
      w.sizes[k] += w.sizes[k - w.sizes[k]];
  }
  write_value(&w, program->count - 1, LEVEL_OR);
}
