// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols read from text: ours, and what sympy prints of
// torch's.

#include "graph/size_parse.h"

#include <string.h>

typedef struct reader {
  og_sizes *sizes;
  const char *text;
  size_t length;
  size_t at;
  int depth;
  opgraft_error *error;
} reader;

static og_status read_sum(reader *in, opgraft_size *out);
static og_status read_power(reader *in, opgraft_size *out);

static og_status wrong(const reader *in, const char *wanted) {
  const size_t rest = in->length - in->at;
  return og_error_set(in->error, OG_INVALID, NULL, NULL,
                      "size expression: found \"%.*s\", expected %s",
                      (int)(rest < 24 ? rest : 24), in->text + in->at, wanted);
}

static char peek(const reader *in) {
  return in->at < in->length ? in->text[in->at] : '\0';
}

static bool take(reader *in, const char *token) {
  while (peek(in) == ' ') ++in->at;
  const size_t n = strlen(token);
  if (in->length - in->at < n || memcmp(in->text + in->at, token, n) != 0)
    return false;
  in->at += n;
  return true;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t digits_length(const reader *in, size_t from) {
  size_t n = 0;
  while (from + n < in->length && is_digit(in->text[from + n])) ++n;
  return n;
}

// Of a number with a point or an exponent; 0 where it has neither.
static size_t float_length(const reader *in) {
  size_t at = in->at + digits_length(in, in->at);
  const size_t whole = at;
  if (at < in->length && in->text[at] == '.')
    at += 1 + digits_length(in, at + 1);
  if (at < in->length && (in->text[at] == 'e' || in->text[at] == 'E')) {
    size_t from = at + 1;
    if (from < in->length && (in->text[from] == '-' || in->text[from] == '+'))
      ++from;
    const size_t n = digits_length(in, from);
    if (n > 0) at = from + n;
  }
  return at == whole ? 0 : at - in->at;
}

// `sign` is 1 or -1: the least number has no positive one, and -0.0 is not
// 0 - 0.0.
static og_status read_number(reader *in, int sign, opgraft_size *out) {
  int64_t value = 0;
  double real;
  const size_t length = float_length(in);
  if (length > 0) {
    if (!og_double_parse(in->text + in->at, length, &real))
      return wrong(in, "a number");
    in->at += length;
    return og_size_float(in->sizes, sign * real, out, in->error);
  }
  for (; is_digit(peek(in)); ++in->at)
    if (!og_i64_mul(value, 10, &value) ||
        !og_i64_add(value, sign * (peek(in) - '0'), &value))
      return wrong(in, "a number of 64 bits");
  return og_size_const(in->sizes, value, out, in->error);
}

// By sympy's names; then by ours, of the table.
static bool call_find(const char *name, size_t length, og_size_op *out_op) {
  static const struct {
    const char *name;
    og_size_op op;
  } calls[] = {
      {"Min", OG_SIZE_MIN},
      {"Max", OG_SIZE_MAX},
      {"Mod", OG_SIZE_MOD},
      {"PythonMod", OG_SIZE_MOD},
      {"FloorDiv", OG_SIZE_FLOOR_DIV},
      {"CleanDiv", OG_SIZE_FLOOR_DIV},
      {"CeilDiv", OG_SIZE_CEIL_DIV},
      {"PowByNatural", OG_SIZE_POW},
      {"TruncToInt", OG_SIZE_TRUNC},
      {"FloorToInt", OG_SIZE_FLOOR},
      {"CeilToInt", OG_SIZE_CEIL},
      {"RoundToInt", OG_SIZE_ROUND},
      {"TruncToFloat", OG_SIZE_FTRUNC},
      {"ToFloat", OG_SIZE_FLOAT},
      {"IntTrueDiv", OG_SIZE_TRUE_DIV},
      {"FloatTrueDiv", OG_SIZE_FDIV},
      {"FloatPow", OG_SIZE_FPOW},
  };
  static const char opaque[] = "OpaqueUnaryFn_";
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i)
    if (strlen(calls[i].name) == length &&
        memcmp(calls[i].name, name, length) == 0) {
      *out_op = calls[i].op;
      return true;
    }
  if (length > sizeof opaque - 1 &&
      memcmp(name, opaque, sizeof opaque - 1) == 0) {
    name += sizeof opaque - 1;
    length -= sizeof opaque - 1;
  }
  for (int32_t op = 0; op < OG_SIZE_OP_COUNT; ++op)
    if (og_size_precedence(op) == 3 && strlen(og_size_ops[op].text) == length &&
        length > 0 && memcmp(og_size_ops[op].text, name, length) == 0) {
      *out_op = (og_size_op)op;
      return true;
    }
  return false;
}

// Min and Max take any number of operands, the others as many as the table
// says.
static og_status read_call(reader *in, og_size_op op, opgraft_size *out) {
  const og_size_op_info *info = &og_size_ops[op];
  OG_TRY(read_sum(in, out));
  int count = 1;
  for (; info->operand_count == 2 && take(in, ","); ++count) {
    opgraft_size next;
    OG_TRY(read_sum(in, &next));
    OG_TRY(og_size_make(in->sizes, op, *out, next, out, in->error));
  }
  const bool any_count = op == OG_SIZE_MIN || op == OG_SIZE_MAX;
  if (!any_count && count != info->operand_count)
    return wrong(in, "two operands");
  if (!take(in, ")")) return wrong(in, "\",\" or \")\"");
  if (info->operand_count == 2) return OG_OK;
  return og_size_make(in->sizes, op, *out, *out, out, in->error);
}

// Words that mean something else where a size may stand: a symbol of that name
// would not read back as what it was.
static bool is_reserved(const char *name, size_t length) {
  static const char *const words[] = {"true", "false", "none",   "inf",
                                      "nan",  "dtype", "device", "other"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strlen(words[i]) == length && memcmp(words[i], name, length) == 0)
      return true;
  return false;
}

static og_status read_name(reader *in, opgraft_size *out) {
  const size_t begin = in->at;
  while (is_letter(peek(in)) || is_digit(peek(in))) ++in->at;
  const size_t length = in->at - begin;
  og_size_op op;
  if (call_find(in->text + begin, length, &op) && take(in, "("))
    return read_call(in, op, out);
  if (peek(in) == '(') {
    in->at = begin;
    return wrong(in, "a function of sizes, as ceildiv or floor");
  }
  if (is_reserved(in->text + begin, length)) {
    in->at = begin;
    return wrong(in, "a symbol that is not a word of the text form");
  }
  return og_size_symbol(in->sizes, in->text + begin, length, out, in->error);
}

// What follows a minus: -2**2 is -(2**2).
static og_status read_negative(reader *in, opgraft_size *out) {
  opgraft_size of, minus;
  while (peek(in) == ' ') ++in->at;
  const size_t begin = in->at;
  if (is_digit(peek(in))) {
    OG_TRY(read_number(in, -1, out));
    if (!take(in, "**")) return OG_OK;
    in->at = begin;
  }
  OG_TRY(read_power(in, &of));
  if (!og_size_is_float(in->sizes, of))
    return og_size_make(in->sizes, OG_SIZE_SUB, OG_SIZE_ZERO, of, out,
                        in->error);
  OG_TRY(og_size_float(in->sizes, -1, &minus, in->error));
  return og_size_make(in->sizes, OG_SIZE_MUL, of, minus, out, in->error);
}

static og_status read_atom(reader *in, opgraft_size *out) {
  if (take(in, "-")) return read_negative(in, out);
  if (take(in, "(")) {
    OG_TRY(read_sum(in, out));
    return take(in, ")") ? OG_OK : wrong(in, "\")\"");
  }
  if (is_digit(peek(in))) return read_number(in, 1, out);
  if (is_letter(peek(in))) return read_name(in, out);
  return wrong(in, "a number, a symbol or \"(\"");
}

// The depth counts here, where every recursion passes.
static og_status read_power(reader *in, opgraft_size *out) {
  if (++in->depth > OG_SIZE_DEPTH_MAX) return wrong(in, "less nesting");
  OG_TRY(read_atom(in, out));
  --in->depth;
  if (!take(in, "**")) return OG_OK;
  const opgraft_size base = *out;
  opgraft_size exponent;
  int64_t count;
  OG_TRY(read_atom(in, &exponent));
  if (!og_size_get(in->sizes, exponent, &count) || count < 0 || count > 8)
    return wrong(in, "a power from 0 to 8 before this");
  *out = OG_SIZE_ONE;
  for (; count > 0; --count)
    OG_TRY(og_size_make(in->sizes, OG_SIZE_MUL, *out, base, out, in->error));
  return OG_OK;
}

static og_status read_product(reader *in, opgraft_size *out) {
  OG_TRY(read_power(in, out));
  for (;;) {
    og_size_op op;
    if (take(in, "*"))
      op = OG_SIZE_MUL;
    else if (take(in, "//"))
      op = OG_SIZE_FLOOR_DIV;
    else if (take(in, "%"))
      op = OG_SIZE_MOD;
    else
      return OG_OK;
    opgraft_size next;
    OG_TRY(read_power(in, &next));
    OG_TRY(og_size_make(in->sizes, op, *out, next, out, in->error));
  }
}

static og_status read_sum(reader *in, opgraft_size *out) {
  OG_TRY(read_product(in, out));
  for (;;) {
    og_size_op op;
    if (take(in, "+"))
      op = OG_SIZE_ADD;
    else if (take(in, "-"))
      op = OG_SIZE_SUB;
    else
      return OG_OK;
    opgraft_size next;
    OG_TRY(read_product(in, &next));
    OG_TRY(og_size_make(in->sizes, op, *out, next, out, in->error));
  }
}

og_status og_size_read(og_sizes *sizes, const char *text, size_t length,
                       size_t *out_used, opgraft_size *out,
                       opgraft_error *error) {
  reader in = {.sizes = sizes, .text = text, .length = length, .error = error};
  *out_used = 0;
  OG_TRY(read_sum(&in, out));
  while (peek(&in) == ' ') ++in.at;
  *out_used = in.at;
  return OG_OK;
}
