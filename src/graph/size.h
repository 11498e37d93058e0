// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols, interned: equal expressions, equal ids.

#ifndef OG_GRAPH_SIZE_H
#define OG_GRAPH_SIZE_H

#include <opgraft/graph.h>
#include <stdbool.h>

#include "base/memory.h"
#include "base/text.h"

// X(id, text, operands, what they are, what it gives). An expression is an
// integer or a float; an integer that meets a float becomes one. Text with a
// space or a sign stands between its operands, another is a call.
// clang-format off
#define OG_SIZE_OPS(X)                     \
  X(CONST, "", 0, INT, INT)      /* value */ \
  X(SYMBOL, "", 0, INT, INT)     /* value: index among the symbols */ \
  X(ADD, " + ", 2, INT, INT)               \
  X(SUB, " - ", 2, INT, INT)               \
  X(MUL, "*", 2, INT, INT)                 \
  X(FLOOR_DIV, " // ", 2, INT, INT)  /* rounds to negative infinity */ \
  X(CEIL_DIV, "ceildiv", 2, INT, INT)      \
  X(MOD, " % ", 2, INT, INT)     /* has the sign of b */ \
  X(MIN, "min", 2, INT, INT)               \
  X(MAX, "max", 2, INT, INT)               \
  X(POW, "pow", 2, INT, INT)     /* b >= 0 */ \
  X(TRUNC, "trunc", 1, FLOAT, INT)         \
  X(FLOOR, "floor", 1, FLOAT, INT)         \
  X(CEIL, "ceil", 1, FLOAT, INT)           \
  X(ROUND, "round", 1, FLOAT, INT)  /* halves to even */ \
  X(FCONST, "", 0, FLOAT, FLOAT) /* value: the double's bits */ \
  X(FLOAT, "float", 1, INT, FLOAT)         \
  X(TRUE_DIV, "truediv", 2, INT, FLOAT)    \
  X(FADD, " + ", 2, FLOAT, FLOAT)          \
  X(FMUL, "*", 2, FLOAT, FLOAT)            \
  X(FDIV, "fdiv", 2, FLOAT, FLOAT)         \
  X(FPOW, "fpow", 2, FLOAT, FLOAT)         \
  X(FMIN, "min", 2, FLOAT, FLOAT)          \
  X(FMAX, "max", 2, FLOAT, FLOAT)          \
  X(FTRUNC, "ftrunc", 1, FLOAT, FLOAT)     \
  X(SQRT, "sqrt", 1, FLOAT, FLOAT)         \
  X(EXP, "exp", 1, FLOAT, FLOAT)           \
  X(LOG, "log", 1, FLOAT, FLOAT)           \
  X(LOG2, "log2", 1, FLOAT, FLOAT)         \
  X(SIN, "sin", 1, FLOAT, FLOAT)           \
  X(COS, "cos", 1, FLOAT, FLOAT)           \
  X(TAN, "tan", 1, FLOAT, FLOAT)           \
  X(ASIN, "asin", 1, FLOAT, FLOAT)         \
  X(ACOS, "acos", 1, FLOAT, FLOAT)         \
  X(ATAN, "atan", 1, FLOAT, FLOAT)         \
  X(SINH, "sinh", 1, FLOAT, FLOAT)         \
  X(COSH, "cosh", 1, FLOAT, FLOAT)         \
  X(TANH, "tanh", 1, FLOAT, FLOAT)         \
  X(ASINH, "asinh", 1, FLOAT, FLOAT)
// clang-format on

typedef enum og_size_op {
#define X(id, text, operands, takes, gives) OG_SIZE_##id,
  OG_SIZE_OPS(X)
#undef X
      OG_SIZE_OP_COUNT
} og_size_op;

enum { OG_SIZE_IS_INT, OG_SIZE_IS_FLOAT };

typedef struct og_size_op_info {
  const char *text;
  int32_t operand_count;
  int32_t takes, gives;  // OG_SIZE_IS_*
} og_size_op_info;

extern const og_size_op_info og_size_ops[OG_SIZE_OP_COUNT];

// `a` and `b` are ids below the expression's own; with one operand, b is a.
typedef struct og_size_expr {
  int32_t op;  // og_size_op
  opgraft_size a, b;
  int32_t depth;
  int64_t value;
} og_size_expr;

// Ids 0 and 1 are the numbers 0 and 1.
typedef struct og_sizes {
  og_size_expr *exprs;
  int32_t count, capacity;
  int32_t *slots;  // hash table of ids, -1 is empty
  int32_t slot_count;
  const char **symbols;
  opgraft_size *symbol_ids;
  int32_t symbol_count, symbol_capacity;
  og_arena names;
} og_sizes;

enum { OG_SIZE_ZERO = 0, OG_SIZE_ONE = 1 };
// Bounds every recursion over an expression or its text.
enum { OG_SIZE_DEPTH_MAX = 256 };

og_status og_sizes_init(og_sizes *sizes, opgraft_error *error);
void og_sizes_reset(og_sizes *sizes);

// Failure of these: OG_MEMORY, or OG_INVALID where constants overflow or
// divide by zero, or an operator of integers gets a float.
og_status og_size_const(og_sizes *sizes, int64_t value, opgraft_size *out,
                        opgraft_error *error);
og_status og_size_float(og_sizes *sizes, double value, opgraft_size *out,
                        opgraft_error *error);
og_status og_size_symbol(og_sizes *sizes, const char *name, size_t length,
                         opgraft_size *out, opgraft_error *error);
og_status og_size_make(og_sizes *sizes, og_size_op op, opgraft_size a,
                       opgraft_size b, opgraft_size *out, opgraft_error *error);
// Reads an expression from `text`; *out_used is how far it went.
og_status og_size_read(og_sizes *sizes, const char *text, size_t length,
                       size_t *out_used, opgraft_size *out,
                       opgraft_error *error);
void og_size_print(const og_sizes *sizes, opgraft_size size, og_text *out);
bool og_size_is_float(const og_sizes *sizes, opgraft_size size);
// True with the number if it is an integer constant.
bool og_size_get(const og_sizes *sizes, opgraft_size size, int64_t *out_value);
// One operator's value; floats are their bits. False where it overflows,
// divides by zero or is not defined.
bool og_size_apply(og_size_op op, int64_t a, int64_t b, int64_t *out_value);
// Every expression's value for these symbol values, a float's as its bits;
// `out_values` has sizes->count places. Failure: OG_SHAPE on overflow or
// division by zero of an expression.
og_status og_sizes_eval(const og_sizes *sizes, const int64_t *symbols,
                        int64_t *out_values, opgraft_error *error);

// An argument whose size is a number: an INT or a FLOAT.
void og_size_resolve(const og_sizes *sizes, const int64_t *values,
                     opgraft_arg *arg);

#endif  // OG_GRAPH_SIZE_H
