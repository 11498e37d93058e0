// SPDX-License-Identifier: Apache-2.0
// Integer expressions over symbols: interning, simplification, evaluation.
//
// Invariants: an expression's operands have smaller ids, so one forward sweep
// evaluates all; no expression has only constant operands.

#include "graph/size.h"

#include <string.h>

// Bounds every recursion over an expression or its text.
enum { DEPTH_MAX = 256 };

static og_status no_memory(opgraft_error *error) {
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "not enough memory for a graph's sizes");
}

static uint32_t expr_hash(const og_size_expr *expr) {
  uint64_t hash = (uint64_t)expr->value * 0x9e3779b97f4a7c15u;
  hash ^= (uint64_t)(uint32_t)expr->op << 56;
  hash = (hash ^ (uint64_t)(uint32_t)expr->a) * 0xff51afd7ed558ccdu;
  hash = (hash ^ (uint64_t)(uint32_t)expr->b) * 0xc4ceb9fe1a85ec53u;
  return (uint32_t)(hash >> 32);
}

static bool expr_equal(const og_size_expr *x, const og_size_expr *y) {
  return x->op == y->op && x->a == y->a && x->b == y->b && x->value == y->value;
}

static void slot_put(og_sizes *sizes, opgraft_size id) {
  const uint32_t mask = (uint32_t)sizes->slot_count - 1;
  uint32_t at = expr_hash(&sizes->exprs[id]) & mask;
  while (sizes->slots[at] >= 0) at = (at + 1) & mask;
  sizes->slots[at] = id;
}

static og_status sizes_grow(og_sizes *sizes, opgraft_error *error) {
  const int32_t capacity = sizes->capacity ? sizes->capacity * 2 : 64;
  og_size_expr *exprs =
      og_realloc(sizes->exprs, (size_t)capacity * sizeof *exprs);
  if (exprs == NULL) return no_memory(error);
  sizes->exprs = exprs;
  int32_t *slots = og_alloc((size_t)capacity * 2 * sizeof *slots);
  if (slots == NULL) return no_memory(error);
  og_free(sizes->slots);
  sizes->slots = slots;
  sizes->slot_count = capacity * 2;
  sizes->capacity = capacity;
  for (int32_t i = 0; i < sizes->slot_count; ++i) slots[i] = -1;
  for (int32_t i = 0; i < sizes->count; ++i) slot_put(sizes, i);
  return OG_OK;
}

static og_status intern(og_sizes *sizes, og_size_expr expr, opgraft_size *out,
                        opgraft_error *error) {
  if (sizes->slot_count > 0) {
    const uint32_t mask = (uint32_t)sizes->slot_count - 1;
    for (uint32_t at = expr_hash(&expr) & mask; sizes->slots[at] >= 0;
         at = (at + 1) & mask)
      if (expr_equal(&sizes->exprs[sizes->slots[at]], &expr)) {
        *out = sizes->slots[at];
        return OG_OK;
      }
  }
  if (sizes->count == sizes->capacity) OG_TRY(sizes_grow(sizes, error));
  sizes->exprs[sizes->count] = expr;
  slot_put(sizes, sizes->count);
  *out = sizes->count++;
  return OG_OK;
}

og_status og_sizes_init(og_sizes *sizes, opgraft_error *error) {
  opgraft_size id;
  memset(sizes, 0, sizeof *sizes);
  OG_TRY(og_size_const(sizes, 0, &id, error));
  return og_size_const(sizes, 1, &id, error);
}

void og_sizes_reset(og_sizes *sizes) {
  og_free(sizes->exprs);
  og_free(sizes->slots);
  og_free(sizes->symbols);
  og_free(sizes->symbol_ids);
  og_arena_destroy(&sizes->names);
  memset(sizes, 0, sizeof *sizes);
}

og_status og_size_const(og_sizes *sizes, int64_t value, opgraft_size *out,
                        opgraft_error *error) {
  const og_size_expr expr = {.op = OG_SIZE_CONST, .value = value};
  return intern(sizes, expr, out, error);
}

og_status og_size_symbol(og_sizes *sizes, const char *name, size_t length,
                         opgraft_size *out, opgraft_error *error) {
  for (int32_t i = 0; i < sizes->symbol_count; ++i)
    if (strlen(sizes->symbols[i]) == length &&
        memcmp(sizes->symbols[i], name, length) == 0) {
      *out = sizes->symbol_ids[i];
      return OG_OK;
    }
  if (sizes->symbol_count == sizes->symbol_capacity) {
    const int32_t capacity =
        sizes->symbol_capacity ? sizes->symbol_capacity * 2 : 8;
    const char **symbols =
        og_realloc(sizes->symbols, (size_t)capacity * sizeof *symbols);
    if (symbols == NULL) return no_memory(error);
    sizes->symbols = symbols;
    opgraft_size *ids =
        og_realloc(sizes->symbol_ids, (size_t)capacity * sizeof *ids);
    if (ids == NULL) return no_memory(error);
    sizes->symbol_ids = ids;
    sizes->symbol_capacity = capacity;
  }
  const char *copy = og_arena_strndup(&sizes->names, name, length);
  if (copy == NULL) return no_memory(error);
  const og_size_expr expr = {.op = OG_SIZE_SYMBOL,
                             .value = sizes->symbol_count};
  OG_TRY(intern(sizes, expr, out, error));
  sizes->symbols[sizes->symbol_count] = copy;
  sizes->symbol_ids[sizes->symbol_count++] = *out;
  return OG_OK;
}

bool og_size_get(const og_sizes *sizes, opgraft_size size, int64_t *out_value) {
  *out_value = sizes->exprs[size].value;
  return sizes->exprs[size].op == OG_SIZE_CONST;
}

// The value of one operator; false on overflow or division by zero.
static bool apply(og_size_op op, int64_t a, int64_t b, int64_t *out) {
  switch (op) {
    case OG_SIZE_ADD:
      return og_i64_add(a, b, out);
    case OG_SIZE_SUB:
      return og_i64_sub(a, b, out);
    case OG_SIZE_MUL:
      return og_i64_mul(a, b, out);
    case OG_SIZE_MIN:
      *out = a < b ? a : b;
      return true;
    case OG_SIZE_MAX:
      *out = a > b ? a : b;
      return true;
    case OG_SIZE_FLOOR_DIV:
      return og_i64_floor_div(a, b, out);
    case OG_SIZE_CEIL_DIV:
      return og_i64_ceil_div(a, b, out);
    case OG_SIZE_MOD:
      return og_i64_floor_mod(a, b, out);
    default:
      return false;
  }
}

// An operand that the whole is equal to, or -1.
static opgraft_size identity(og_size_op op, opgraft_size a, opgraft_size b) {
  switch (op) {
    case OG_SIZE_ADD:
      return a == OG_SIZE_ZERO ? b : b == OG_SIZE_ZERO ? a : -1;
    case OG_SIZE_SUB:
      return b == OG_SIZE_ZERO ? a : a == b ? OG_SIZE_ZERO : -1;
    case OG_SIZE_MUL:
      if (a == OG_SIZE_ZERO || b == OG_SIZE_ZERO) return OG_SIZE_ZERO;
      return a == OG_SIZE_ONE ? b : b == OG_SIZE_ONE ? a : -1;
    case OG_SIZE_FLOOR_DIV:
    case OG_SIZE_CEIL_DIV:
      return b == OG_SIZE_ONE ? a : -1;
    case OG_SIZE_MOD:
      return b == OG_SIZE_ONE ? OG_SIZE_ZERO : -1;
    case OG_SIZE_MIN:
    case OG_SIZE_MAX:
      return a == b ? a : -1;
    default:
      return -1;
  }
}

// An order of expressions by what they say, not by when they were made: text
// that is printed and read again is printed the same.
static int size_order(const og_sizes *sizes, opgraft_size a, opgraft_size b) {
  if (a == b) return 0;
  const og_size_expr *x = &sizes->exprs[a], *y = &sizes->exprs[b];
  if (x->op != y->op) return x->op < y->op ? -1 : 1;
  if (x->op == OG_SIZE_CONST) return x->value < y->value ? -1 : 1;
  if (x->op == OG_SIZE_SYMBOL)
    return strcmp(sizes->symbols[x->value], sizes->symbols[y->value]);
  const int first = size_order(sizes, x->a, y->a);
  return first != 0 ? first : size_order(sizes, x->b, y->b);
}

og_status og_size_make(og_sizes *sizes, og_size_op op, opgraft_size a,
                       opgraft_size b, opgraft_size *out,
                       opgraft_error *error) {
  int64_t x, y, value;
  const bool a_known = og_size_get(sizes, a, &x);
  const bool b_known = og_size_get(sizes, b, &y);
  if (a_known && b_known) {
    if (!apply(op, x, y, &value))
      return og_error_set(error, OG_INVALID, NULL, NULL,
                          "the size %lld (operator %d) %lld overflows or "
                          "divides by zero",
                          (long long)x, (int)op, (long long)y);
    return og_size_const(sizes, value, out, error);
  }
  const opgraft_size same = identity(op, a, b);
  if (same >= 0) {
    *out = same;
    return OG_OK;
  }
  const bool commutes = op == OG_SIZE_ADD || op == OG_SIZE_MUL ||
                        op == OG_SIZE_MIN || op == OG_SIZE_MAX;
  // Constants last.
  if (commutes && (a_known || (!b_known && size_order(sizes, a, b) > 0))) {
    const opgraft_size swap = a;
    a = b;
    b = swap;
  }
  const int32_t deep_a = sizes->exprs[a].depth, deep_b = sizes->exprs[b].depth;
  const og_size_expr expr = {.op = (int32_t)op,
                             .a = a,
                             .b = b,
                             .depth = 1 + (deep_a > deep_b ? deep_a : deep_b)};
  if (expr.depth > DEPTH_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "a size expression is nested more than %d deep",
                        (int)DEPTH_MAX);
  return intern(sizes, expr, out, error);
}

og_status og_sizes_eval(const og_sizes *sizes, const int64_t *symbols,
                        int64_t *out_values, opgraft_error *error) {
  for (int32_t i = 0; i < sizes->count; ++i) {
    const og_size_expr *expr = &sizes->exprs[i];
    if (expr->op == OG_SIZE_CONST) {
      out_values[i] = expr->value;
    } else if (expr->op == OG_SIZE_SYMBOL) {
      out_values[i] = symbols[expr->value];
    } else if (!apply((og_size_op)expr->op, out_values[expr->a],
                      out_values[expr->b], &out_values[i])) {
      og_text text = {0};
      og_size_print(sizes, i, &text);
      og_error_set(error, OG_SHAPE, NULL, NULL,
                   "the size %s overflows or divides by zero for these inputs",
                   text.failed ? "(no memory to print it)" : text.data);
      og_text_reset(&text);
      return OG_SHAPE;
    }
  }
  return OG_OK;
}

// --- Text --------------------------------------------------------------------

static const char *const operator_text[] = {[OG_SIZE_ADD] = " + ",
                                            [OG_SIZE_SUB] = " - ",
                                            [OG_SIZE_MUL] = "*",
                                            [OG_SIZE_MOD] = " % ",
                                            [OG_SIZE_FLOOR_DIV] = " // "};
static const char *const call_text[] = {[OG_SIZE_CEIL_DIV] = "ceildiv",
                                        [OG_SIZE_MIN] = "min",
                                        [OG_SIZE_MAX] = "max"};

static int precedence(int32_t op) {
  if (op == OG_SIZE_ADD || op == OG_SIZE_SUB) return 1;
  if (op == OG_SIZE_MUL || op == OG_SIZE_MOD || op == OG_SIZE_FLOOR_DIV)
    return 2;
  return 3;
}

static void size_print_in(const og_sizes *sizes, opgraft_size size, int least,
                          og_text *out) {
  const og_size_expr *expr = &sizes->exprs[size];
  if (expr->op == OG_SIZE_CONST) {
    og_text_addf(out, "%lld", (long long)expr->value);
  } else if (expr->op == OG_SIZE_SYMBOL) {
    og_text_add(out, sizes->symbols[expr->value]);
  } else if (precedence(expr->op) == 3) {
    og_text_addf(out, "%s(", call_text[expr->op]);
    size_print_in(sizes, expr->a, 0, out);
    og_text_add(out, ", ");
    size_print_in(sizes, expr->b, 0, out);
    og_text_add(out, ")");
  } else {
    const int own = precedence(expr->op);
    if (own < least) og_text_add(out, "(");
    size_print_in(sizes, expr->a, own, out);
    og_text_add(out, operator_text[expr->op]);
    size_print_in(sizes, expr->b, own + 1, out);
    if (own < least) og_text_add(out, ")");
  }
}

void og_size_print(const og_sizes *sizes, opgraft_size size, og_text *out) {
  size_print_in(sizes, size, 0, out);
}

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
                      "size expression: found \"%.*s\", wanted %s",
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

static og_status read_number(reader *in, opgraft_size *out) {
  int64_t value = 0;
  for (; is_digit(peek(in)); ++in->at)
    if (!og_i64_mul(value, 10, &value) ||
        !og_i64_add(value, peek(in) - '0', &value))
      return wrong(in, "a number of 63 bits");
  return og_size_const(in->sizes, value, out, in->error);
}

static bool call_find(const char *name, size_t length, og_size_op *out_op) {
  static const struct {
    const char *name;
    og_size_op op;
  } calls[] = {
      {"Min", OG_SIZE_MIN},
      {"min", OG_SIZE_MIN},
      {"Max", OG_SIZE_MAX},
      {"max", OG_SIZE_MAX},
      {"Mod", OG_SIZE_MOD},
      {"PythonMod", OG_SIZE_MOD},
      {"FloorDiv", OG_SIZE_FLOOR_DIV},
      {"CleanDiv", OG_SIZE_FLOOR_DIV},
      {"CeilDiv", OG_SIZE_CEIL_DIV},
      {"ceildiv", OG_SIZE_CEIL_DIV},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i)
    if (strlen(calls[i].name) == length &&
        memcmp(calls[i].name, name, length) == 0) {
      *out_op = calls[i].op;
      return true;
    }
  return false;
}

// Min and Max take any number of operands, the others two.
static og_status read_call(reader *in, og_size_op op, opgraft_size *out) {
  OG_TRY(read_sum(in, out));
  int count = 1;
  for (; take(in, ","); ++count) {
    opgraft_size next;
    OG_TRY(read_sum(in, &next));
    OG_TRY(og_size_make(in->sizes, op, *out, next, out, in->error));
  }
  const bool any_count = op == OG_SIZE_MIN || op == OG_SIZE_MAX;
  if (!any_count && count != 2) return wrong(in, "two operands");
  return take(in, ")") ? OG_OK : wrong(in, "\",\" or \")\"");
}

// Words that mean something else where a size may stand: a symbol of that name
// would not read back as what it was.
static bool is_reserved(const char *name, size_t length) {
  static const char *const words[] = {"true", "false", "none",  "inf",
                                      "nan",  "dtype", "device"};
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
    return wrong(in, "Min, Max, Mod, FloorDiv or CeilDiv");
  }
  if (is_reserved(in->text + begin, length)) {
    in->at = begin;
    return wrong(in, "a symbol that is no word of the text form");
  }
  return og_size_symbol(in->sizes, in->text + begin, length, out, in->error);
}

static og_status read_atom(reader *in, opgraft_size *out) {
  if (take(in, "-")) {
    opgraft_size of;
    OG_TRY(read_power(in, &of));
    return og_size_make(in->sizes, OG_SIZE_SUB, OG_SIZE_ZERO, of, out,
                        in->error);
  }
  if (take(in, "(")) {
    OG_TRY(read_sum(in, out));
    return take(in, ")") ? OG_OK : wrong(in, "\")\"");
  }
  if (is_digit(peek(in))) return read_number(in, out);
  if (is_letter(peek(in))) return read_name(in, out);
  return wrong(in, "a number, a symbol or \"(\"");
}

// The depth counts here, where every recursion passes.
static og_status read_power(reader *in, opgraft_size *out) {
  if (++in->depth > DEPTH_MAX) return wrong(in, "less nesting");
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
