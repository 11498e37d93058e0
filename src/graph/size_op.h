// SPDX-License-Identifier: Apache-2.0
// The operators of size expressions, on numbers.

#ifndef OG_GRAPH_SIZE_OP_H
#define OG_GRAPH_SIZE_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

// The bits of a double, and back.
static inline int64_t og_double_bits(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline double og_bits_double(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// One operator's value; floats are their bits. False where it overflows,
// divides by zero or is not defined.
bool og_size_apply(og_size_op op, int64_t a, int64_t b, int64_t *out_value);
// How tightly an operator binds in text: 1 a sum, 2 a product, 3 a call.
int og_size_precedence(int32_t op);

#endif  // OG_GRAPH_SIZE_OP_H
