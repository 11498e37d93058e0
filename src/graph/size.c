// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols: interning, simplification, evaluation.
//
// Invariants: an expression's operands have smaller ids, so one forward sweep
// evaluates all; no expression has only constant operands.

#include "graph/size.h"

#include <math.h>
#include <string.h>

#include "graph/size_print.h"

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

og_status og_size_float(og_sizes *sizes, double value, opgraft_size *out,
                        opgraft_error *error) {
  if (!isfinite(value))
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "a size is %g, expected a finite number", value);
  const og_size_expr expr = {.op = OG_SIZE_FCONST,
                             .value = og_double_bits(value)};
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

bool og_size_is_float(const og_sizes *sizes, opgraft_size size) {
  return og_size_ops[sizes->exprs[size].op].gives == OG_SIZE_IS_FLOAT;
}

static bool is_constant(const og_sizes *sizes, opgraft_size size) {
  const int32_t op = sizes->exprs[size].op;
  return op == OG_SIZE_CONST || op == OG_SIZE_FCONST;
}

void og_size_resolve(const og_sizes *sizes, const int64_t *values,
                     opgraft_arg *arg) {
  const int64_t value = values[arg->size];
  const bool is_float = og_size_is_float(sizes, arg->size);
  arg->kind = is_float ? OPGRAFT_ARG_FLOAT : OPGRAFT_ARG_INT;
  if (is_float)
    arg->f = og_bits_double(value);
  else
    arg->i = value;
}

// --- Expressions -------------------------------------------------------------

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
  if (x->op == OG_SIZE_CONST || x->op == OG_SIZE_FCONST)
    return x->value < y->value ? -1 : 1;
  if (x->op == OG_SIZE_SYMBOL)
    return strcmp(sizes->symbols[x->value], sizes->symbols[y->value]);
  const int first = size_order(sizes, x->a, y->a);
  return first != 0 ? first : size_order(sizes, x->b, y->b);
}

static og_status float_make(og_sizes *sizes, opgraft_size *operand,
                            opgraft_error *error) {
  if (og_size_is_float(sizes, *operand)) return OG_OK;
  return og_size_make(sizes, OG_SIZE_FLOAT, *operand, *operand, operand, error);
}

// The operator for what its operands are, integers made floats where it takes
// floats or another operand is one.
static og_status operands_convert(og_sizes *sizes, og_size_op *op,
                                  opgraft_size *a, opgraft_size *b,
                                  opgraft_error *error) {
  static const og_size_op with_float[OG_SIZE_OP_COUNT] = {
      [OG_SIZE_ADD] = OG_SIZE_FADD, [OG_SIZE_SUB] = OG_SIZE_FADD,
      [OG_SIZE_MUL] = OG_SIZE_FMUL, [OG_SIZE_MIN] = OG_SIZE_FMIN,
      [OG_SIZE_MAX] = OG_SIZE_FMAX, [OG_SIZE_TRUE_DIV] = OG_SIZE_FDIV};
  const bool has_float =
      og_size_is_float(sizes, *a) || og_size_is_float(sizes, *b);
  if (og_size_ops[*op].takes == OG_SIZE_IS_INT) {
    if (!has_float) return OG_OK;
    if (with_float[*op] == OG_SIZE_CONST)
      return og_error_set(error, OG_INVALID, NULL, NULL,
                          "a size: \"%s\" takes integers, and one operand is "
                          "a float",
                          og_size_ops[*op].text);
    opgraft_size minus;
    if (*op == OG_SIZE_SUB) {  // a - b is a + b * -1, to the bit
      OG_TRY(og_size_float(sizes, -1, &minus, error));
      OG_TRY(og_size_make(sizes, OG_SIZE_FMUL, *b, minus, b, error));
    }
    *op = with_float[*op];
  }
  const bool is_one = *a == *b;
  OG_TRY(float_make(sizes, a, error));
  if (is_one) *b = *a;
  return float_make(sizes, b, error);
}

og_status og_size_make(og_sizes *sizes, og_size_op op, opgraft_size a,
                       opgraft_size b, opgraft_size *out,
                       opgraft_error *error) {
  int64_t value;
  OG_TRY(operands_convert(sizes, &op, &a, &b, error));
  const bool a_known = is_constant(sizes, a), b_known = is_constant(sizes, b);
  if (a_known && b_known) {
    if (!og_size_apply(op, sizes->exprs[a].value, sizes->exprs[b].value,
                       &value)) {
      og_text text = {0};
      og_size_print(sizes, a, &text);
      og_text_addf(&text, " %s ", og_size_ops[op].text);
      og_size_print(sizes, b, &text);
      og_error_set(error, OG_INVALID, NULL, NULL,
                   "the size %s overflows, divides by zero or is not defined",
                   text.failed ? "(no memory to print it)" : text.data);
      og_text_reset(&text);
      return OG_INVALID;
    }
    return og_size_ops[op].gives == OG_SIZE_IS_INT
               ? og_size_const(sizes, value, out, error)
               : og_size_float(sizes, og_bits_double(value), out, error);
  }
  const opgraft_size same = identity(op, a, b);
  if (same >= 0) {
    *out = same;
    return OG_OK;
  }
  const bool commutes = op == OG_SIZE_ADD || op == OG_SIZE_MUL ||
                        op == OG_SIZE_MIN || op == OG_SIZE_MAX ||
                        op == OG_SIZE_FADD || op == OG_SIZE_FMUL;
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
  if (expr.depth > OG_SIZE_DEPTH_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "a size expression is nested more than %d deep",
                        (int)OG_SIZE_DEPTH_MAX);
  return intern(sizes, expr, out, error);
}

og_status og_sizes_eval(const og_sizes *sizes, const int64_t *symbols,
                        int64_t *out_values, opgraft_error *error) {
  for (int32_t i = 0; i < sizes->count; ++i) {
    const og_size_expr *expr = &sizes->exprs[i];
    if (is_constant(sizes, i)) {
      out_values[i] = expr->value;
    } else if (expr->op == OG_SIZE_SYMBOL) {
      out_values[i] = symbols[expr->value];
    } else if (!og_size_apply((og_size_op)expr->op, out_values[expr->a],
                              out_values[expr->b], &out_values[i])) {
      og_text text = {0};
      og_size_print(sizes, i, &text);
      og_error_set(
          error, OG_SHAPE, NULL, NULL,
          "the size %s overflows, divides by zero or is not defined for "
          "these inputs",
          text.failed ? "(no memory to print it)" : text.data);
      og_text_reset(&text);
      return OG_SHAPE;
    }
  }
  return OG_OK;
}
