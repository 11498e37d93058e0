// SPDX-License-Identifier: Apache-2.0
// The operators of size expressions, on numbers.

#include "graph/size_op.h"

#include <math.h>

#include "base/memory.h"

const og_size_op_info og_size_ops[OG_SIZE_OP_COUNT] = {
#define X(id, text, operands, takes, gives) \
  [OG_SIZE_##id] = {text, operands, OG_SIZE_IS_##takes, OG_SIZE_IS_##gives},
    OG_SIZE_OPS(X)
#undef X
};

int og_size_precedence(int32_t op) {
  switch (op) {
    case OG_SIZE_ADD:
    case OG_SIZE_SUB:
    case OG_SIZE_FADD:
      return 1;
    case OG_SIZE_MUL:
    case OG_SIZE_MOD:
    case OG_SIZE_FLOOR_DIV:
    case OG_SIZE_FMUL:
      return 2;
    default:
      return 3;
  }
}

// These are false where Python raises: on overflow, on a division by zero, out
// of a function's domain.

static bool int_power(int64_t base, int64_t exponent, int64_t *out) {
  *out = 1;
  if (exponent < 0) return false;
  if (base == 0 || base == 1) {
    *out = exponent == 0 ? 1 : base;
    return true;
  }
  if (base == -1) {
    *out = exponent % 2 == 0 ? 1 : -1;
    return true;
  }
  for (; exponent > 0; --exponent)  // 63 times at most
    if (!og_i64_mul(*out, base, out)) return false;
  return true;
}

static double half_even(double x) {
  const double low = floor(x), part = x - low;
  const bool is_up = part > 0.5 || (part == 0.5 && fmod(low, 2) != 0);
  return is_up ? low + 1 : low;
}

static bool to_int(og_size_op op, double x, int64_t *out) {
  const double whole = op == OG_SIZE_TRUNC   ? trunc(x)
                       : op == OG_SIZE_FLOOR ? floor(x)
                       : op == OG_SIZE_CEIL  ? ceil(x)
                                             : half_even(x);
  if (!(whole >= -0x1p63 && whole < 0x1p63)) return false;
  *out = (int64_t)whole;
  return true;
}

static double apply_float(og_size_op op, double a, double b) {
  static double (*const functions[OG_SIZE_OP_COUNT])(double) = {
      [OG_SIZE_FTRUNC] = trunc, [OG_SIZE_SQRT] = sqrt, [OG_SIZE_EXP] = exp,
      [OG_SIZE_LOG] = log,      [OG_SIZE_LOG2] = log2, [OG_SIZE_SIN] = sin,
      [OG_SIZE_COS] = cos,      [OG_SIZE_TAN] = tan,   [OG_SIZE_ASIN] = asin,
      [OG_SIZE_ACOS] = acos,    [OG_SIZE_ATAN] = atan, [OG_SIZE_SINH] = sinh,
      [OG_SIZE_COSH] = cosh,    [OG_SIZE_TANH] = tanh, [OG_SIZE_ASINH] = asinh,
  };
  if (functions[op] != NULL) return functions[op](a);
  switch (op) {
    case OG_SIZE_FADD:
      return a + b;
    case OG_SIZE_FMUL:
      return a * b;
    case OG_SIZE_FDIV:
      return a / b;
    case OG_SIZE_FPOW:
      return pow(a, b);
    case OG_SIZE_FMIN:
      return b < a ? b : a;
    case OG_SIZE_FMAX:
      return b > a ? b : a;
    default:
      return NAN;
  }
}

static bool apply_int(og_size_op op, int64_t a, int64_t b, int64_t *out) {
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
    case OG_SIZE_POW:
      return int_power(a, b, out);
    default:
      return false;
  }
}

bool og_size_apply(og_size_op op, int64_t a, int64_t b, int64_t *out) {
  const og_size_op_info *info = &og_size_ops[op];
  if (info->gives == OG_SIZE_IS_INT)
    return info->takes == OG_SIZE_IS_INT ? apply_int(op, a, b, out)
                                         : to_int(op, og_bits_double(a), out);
  const double value =
      op == OG_SIZE_FLOAT ? (double)a
      : op == OG_SIZE_TRUE_DIV
          ? (double)a / (double)b
          : apply_float(op, og_bits_double(a), og_bits_double(b));
  *out = og_double_bits(value);
  return isfinite(value) != 0;
}
