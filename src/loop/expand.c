// SPDX-License-Identifier: Apache-2.0
// Scalar primitives as vector instructions.
//
// Polynomials are the fits of tools/loop_fit.py, some of them in tables.c. The
// errors of the functions, in units in the last place, stand in
// tests/unit/loop_accuracy.c. A function that has no expansion here, and the
// rare operands that an expansion cannot compute, are libm's (OG_LANE_call).

#include <math.h>

#include "loop/build.h"
#include "loop/tables.h"
#include "scalar/scalar.h"

typedef og_loop_builder builder;

#define LOG2_E 0x1.715476p+0f
#define LN2_HIGH 0x1.62e430p-1f
#define LN2_LOW -0x1.05c610p-29f
// A float whose last place is 1: what is added to it is rounded to an integer,
// which then stands in the low bits.
#define MAGIC 0x1.8p23f
#define SIGN 0x80000000u
#define ONE_BITS 0x3f800000u

static int32_t num(builder *b, float x) { return og_loop_number_f32(b, x); }
static int32_t bits(builder *b, uint32_t x) {
  return og_loop_number_bits(b, x);
}
static int32_t one(builder *b, og_loop_op op, int32_t x) {
  return og_loop_emit(b, op, x, -1, -1, 0);
}
static int32_t two(builder *b, og_loop_op op, int32_t x, int32_t y) {
  return og_loop_emit(b, op, x, y, -1, 0);
}
static int32_t shift(builder *b, og_loop_op op, int32_t x, uint32_t count) {
  return og_loop_emit(b, op, x, -1, -1, count);
}
// The number of a table that the low bits of x choose.
static int32_t pick(builder *b, int32_t x, uint32_t table) {
  return og_loop_emit(b, OG_LANE_pick, x, -1, -1, table);
}
static int32_t add(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_add, x, y);
}
static int32_t sub(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_sub, x, y);
}
static int32_t mul(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_mul, x, y);
}
static int32_t divide(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_div, x, y);
}
static int32_t multiply_add(builder *b, int32_t x, int32_t y, int32_t z) {
  return og_loop_emit(b, OG_LANE_fma, x, y, z, 0);
}
static int32_t choose(builder *b, int32_t mask, int32_t x, int32_t y) {
  return og_loop_emit(b, OG_LANE_select, mask, x, y, 0);
}
static int32_t less(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_lt, x, y);
}
static int32_t magnitude(builder *b, int32_t x) {
  return two(b, OG_LANE_and, x, bits(b, ~SIGN));
}
static int32_t negate(builder *b, int32_t x) {
  return two(b, OG_LANE_xor, x, bits(b, SIGN));
}
// The sign of x given to y, which has none.
static int32_t signed_as(builder *b, int32_t x, int32_t y) {
  return two(b, OG_LANE_or, y, two(b, OG_LANE_and, x, bits(b, SIGN)));
}
// Bounds that let a NaN pass.
static int32_t at_least(builder *b, float bound, int32_t x) {
  return two(b, OG_LANE_max, num(b, bound), x);
}
static int32_t at_most(builder *b, float bound, int32_t x) {
  return two(b, OG_LANE_min, num(b, bound), x);
}

// Coefficients from the highest degree down.
static int32_t polynomial(builder *b, int32_t x, const float *c,
                          int32_t count) {
  int32_t sum = num(b, c[0]);
  for (int32_t k = 1; k < count; ++k)
    sum = multiply_add(b, sum, x, num(b, c[k]));
  return sum;
}
#define POLYNOMIAL(b, x, c) polynomial(b, x, c, sizeof(c) / sizeof *(c))

// libm's value where the mask holds.
static int32_t call(builder *b, int32_t op, const int32_t *x, int32_t mask) {
  const int32_t second = og_scalar_arity(op) > 1 ? x[1] : OG_LOOP_NO_VALUE;
  return og_loop_emit(b, OG_LANE_call, x[0], second, mask, (uint32_t)op);
}

// --- Exponentials ------------------------------------------------------------

// x = n ln 2 + rest; the low bits of `whole` are n.
typedef struct exp_parts {
  int32_t whole, n, rest;
} exp_parts;

static exp_parts exp_split(builder *b, int32_t x) {
  exp_parts p;
  p.whole = multiply_add(b, x, num(b, LOG2_E), num(b, MAGIC));
  p.n = sub(b, p.whole, num(b, MAGIC));
  p.rest = multiply_add(b, p.n, num(b, -LN2_HIGH), x);  // exact
  p.rest = multiply_add(b, p.n, num(b, -LN2_LOW), p.rest);
  return p;
}

// e^rest - 1.
static int32_t exp_part(builder *b, int32_t rest) {
  static const float c[] = {0x1.6a4d6ep-10f, 0x1.123e58p-7f, 0x1.5558b8p-5f,
                            0x1.55548cp-3f, 0x1.fffffcp-2f};
  const int32_t q = POLYNOMIAL(b, rest, c);
  return multiply_add(b, mul(b, rest, rest), q, rest);
}

// e^rest; 1 is added last, so that it rounds once.
static int32_t exp_rest(builder *b, int32_t rest) {
  return add(b, exp_part(b, rest), num(b, 1));
}

// s * 2^n where n is in [-126, 127].
static int32_t scale(builder *b, int32_t s, int32_t whole) {
  const int32_t n = shift(b, OG_LANE_shift_left, whole, 23);
  return mul(b, s, two(b, OG_LANE_int_add, n, bits(b, ONE_BITS)));
}

static int32_t exp_of(builder *b, int32_t x) {
  const exp_parts p = exp_split(b, at_most(b, 89, at_least(b, -104, x)));
  return two(b, OG_LANE_scale, exp_rest(b, p.rest), p.n);
}

// e^x for x in [-87, 88].
static int32_t exp_near(builder *b, int32_t x) {
  const exp_parts p = exp_split(b, x);
  return scale(b, exp_rest(b, p.rest), p.whole);
}

static int32_t exp2_of(builder *b, int32_t x) {
  static const float c[] = {0x1.e4e422p-17f, 0x1.44142ep-13f, 0x1.5da280p-10f,
                            0x1.3b2a58p-7f,  0x1.c6b070p-5f,  0x1.ebfbe0p-3f,
                            0x1.62e430p-1f};
  x = at_most(b, 129, at_least(b, -151, x));
  const int32_t n = one(b, OG_LANE_round, x), rest = sub(b, x, n);
  const int32_t s = multiply_add(b, rest, POLYNOMIAL(b, rest, c), num(b, 1));
  return two(b, OG_LANE_scale, s, n);
}

// 2^n (e^rest - 1) + (2^n - 1), at half the scale so that 2^128 is not needed.
static int32_t expm1_of(builder *b, int32_t x) {
  static const float c[] = {0x1.9e8b3ep-13f, 0x1.6d4050p-10f, 0x1.1112d0p-7f,
                            0x1.5554f4p-5f,  0x1.555554p-3f,  0x1.000000p-1f};
  const exp_parts p = exp_split(b, at_most(b, 89, at_least(b, -60, x)));
  const int32_t q = POLYNOMIAL(b, p.rest, c);
  const int32_t part = multiply_add(b, mul(b, p.rest, p.rest), q, p.rest);
  const int32_t power =
      two(b, OG_LANE_int_add, shift(b, OG_LANE_shift_left, p.whole, 23),
          num(b, 0.5f));
  const int32_t half =
      multiply_add(b, power, part, sub(b, power, num(b, 0.5f)));
  const int32_t is_tiny = less(b, magnitude(b, x), num(b, 0x1p-24f));
  return choose(b, is_tiny, x, add(b, half, half));
}

// 1 / (1 + e^-x), the sum at half the scale, so that 2^128 is not needed. It is
// 1 + 2^n, what that was rounded by, and 2^n (e^rest - 1): the small ones are
// joined first, so that one rounding counts.
static int32_t sigmoid_of(builder *b, int32_t x) {
  const exp_parts p =
      exp_split(b, at_most(b, 89, at_least(b, -60, negate(b, x))));
  const int32_t half = num(b, 0.5f);
  const int32_t power =
      two(b, OG_LANE_int_add, shift(b, OG_LANE_shift_left, p.whole, 23), half);
  const int32_t high = add(b, power, half);
  const int32_t lost = add(b, sub(b, power, high), half);
  const int32_t low = multiply_add(b, power, exp_part(b, p.rest), lost);
  const int32_t sum = add(b, high, low);
  return divide(b, num(b, 1), add(b, sum, sum));
}

// Near zero an odd polynomial, else 1 - 2 / (e^2x + 1).
static int32_t tanh_of(builder *b, int32_t x) {
  static const float c[] = {0x1.1a3338p-9f,  -0x1.0c60d2p-7f, 0x1.63a58ap-6f,
                            -0x1.b9f18ap-5f, 0x1.11107ap-3f,  -0x1.555554p-2f};
  const int32_t a = magnitude(b, x), s = mul(b, x, x);
  const int32_t near = multiply_add(b, mul(b, s, POLYNOMIAL(b, s, c)), a, a);
  const int32_t e = exp_near(b, at_most(b, 20, add(b, a, a)));
  const int32_t far =
      sub(b, num(b, 1), divide(b, num(b, 2), add(b, e, num(b, 1))));
  return signed_as(b, x, choose(b, less(b, a, num(b, 0.625f)), near, far));
}

// By pieces of equal width, each a polynomial of the distance from its middle.
// From the last piece on erf is 1.
static int32_t erf_of(builder *b, int32_t x) {
  const float width = 17.0f / 32, most = 3.98f;
  const int32_t a = at_most(b, most, magnitude(b, x));
  const int32_t piece = multiply_add(b, a, num(b, 1 / width), num(b, MAGIC));
  const int32_t n = sub(b, piece, num(b, MAGIC));
  const int32_t t = multiply_add(b, n, num(b, -width), a);  // exact
  int32_t sum = pick(b, piece, OG_LOOP_ERF + OG_LOOP_ERF_DEGREE);
  for (uint32_t k = OG_LOOP_ERF_DEGREE - 1; k > 0; --k)
    sum = multiply_add(b, sum, t, pick(b, piece, OG_LOOP_ERF + k));
  const int32_t lead = multiply_add(b, t, pick(b, piece, OG_LOOP_ERF_LEAD),
                                    pick(b, piece, OG_LOOP_ERF));
  return signed_as(b, x, multiply_add(b, sum, t, lead));
}

// --- Logarithms --------------------------------------------------------------

// The logarithm of m 2^e for m = 1 + f in [sqrt(1/2), sqrt(2)).
typedef struct log_base {
  float high, low;  // of the logarithm of 2
  float lead;       // f (lead + rest(f))
  float c[10];
} log_base;

static const log_base base_e = {
    LN2_HIGH,
    LN2_LOW,
    1,
    {-0x1.37a76cp-4f, 0x1.0836f8p-3f, -0x1.0f4950p-3f, 0x1.227432p-3f,
     -0x1.542582p-3f, 0x1.99a3e0p-3f, -0x1.000432p-2f, 0x1.555550p-2f,
     -0x1.fffff8p-2f, 0}};
static const log_base base_2 = {
    1,
    0,
    0x1.715476p+0f,
    {-0x1.c4f106p-4f, 0x1.7f1852p-3f, -0x1.87b690p-3f, 0x1.a2c694p-3f,
     -0x1.eaa75ep-3f, 0x1.277f66p-2f, -0x1.715af2p-2f, 0x1.ec7094p-2f,
     -0x1.715470p-1f, 0x1.49daeap-26f}};
static const log_base base_10 = {
    0x1.344136p-2f,
    -0x1.ec10c0p-27f,
    0x1.bcb7b2p-2f,
    {-0x1.0ec1eap-5f, 0x1.cc0924p-5f, -0x1.d7c748p-5f, 0x1.f87530p-5f,
     -0x1.27699ep-4f, 0x1.63cf60p-4f, -0x1.bcbf52p-4f, 0x1.287a72p-3f,
     -0x1.bcb7aap-3f, -0x1.5bc102p-27f}};

// x = m 2^e; `exponent` is e, `field` e where a float's exponent stands.
typedef struct log_parts {
  int32_t exponent, field, m;
} log_parts;

static log_parts log_split(builder *b, int32_t x) {
  log_parts p;
  const int32_t sqrt_half = bits(b, 0x3f3504f3u);
  const int32_t e =
      shift(b, OG_LANE_shift_sign, two(b, OG_LANE_int_sub, x, sqrt_half), 23);
  p.field = shift(b, OG_LANE_shift_left, e, 23);
  p.exponent = one(b, OG_LANE_to_float, e);
  p.m = two(b, OG_LANE_int_sub, x, p.field);
  return p;
}

static int32_t log_join(builder *b, const log_base *base, int32_t e,
                        int32_t f) {
  const int32_t rest = POLYNOMIAL(b, f, base->c);
  const int32_t low =
      base->low != 0 ? multiply_add(b, f, rest, mul(b, e, num(b, base->low)))
                     : mul(b, f, rest);
  const int32_t log_m = base->lead == 1
                            ? add(b, f, low)
                            : multiply_add(b, f, num(b, base->lead), low);
  return base->high == 1 ? add(b, e, log_m)
                         : multiply_add(b, e, num(b, base->high), log_m);
}

// At 0, below it, and at infinity, where the log is of `shifted`.
static int32_t log_ends(builder *b, int32_t x, int32_t shifted_zero,
                        int32_t log) {
  log = choose(b, less(b, x, num(b, INFINITY)), log, x);
  const int32_t end = choose(b, two(b, OG_LANE_eq, x, shifted_zero),
                             num(b, -INFINITY), num(b, NAN));
  return choose(b, two(b, OG_LANE_le, x, shifted_zero), end, log);
}

static int32_t log_of(builder *b, const log_base *base, int32_t x) {
  const int32_t is_small = less(b, x, num(b, 0x1p-126f));
  const int32_t scaled = choose(b, is_small, mul(b, x, num(b, 0x1p23f)), x);
  const log_parts p = log_split(b, scaled);
  const int32_t e =
      sub(b, p.exponent, two(b, OG_LANE_and, is_small, num(b, 23)));
  return log_ends(b, x, num(b, 0),
                  log_join(b, base, e, sub(b, p.m, num(b, 1))));
}

// log(u) of u = 1 + x, whose rounding error is added to the mantissa.
static int32_t log1p_of(builder *b, int32_t x) {
  const int32_t unit = num(b, 1), u = add(b, x, unit);
  const int32_t back = sub(b, u, unit);
  const int32_t error = add(b, sub(b, unit, sub(b, u, back)), sub(b, x, back));
  const log_parts p = log_split(b, u);
  // 2^-e as 2^(1 - e) / 2: e may be 128.
  const int32_t inverse = two(b, OG_LANE_int_sub, num(b, 2), p.field);
  const int32_t f =
      multiply_add(b, mul(b, error, num(b, 0.5f)), inverse, sub(b, p.m, unit));
  const int32_t log =
      log_ends(b, x, num(b, -1), log_join(b, &base_e, p.exponent, f));
  const int32_t is_tiny = less(b, magnitude(b, x), num(b, 0x1p-24f));
  return choose(b, is_tiny, x, log);
}

// --- Angles ------------------------------------------------------------------

// x less the nearest multiple of pi / 2, in three parts; beyond 2^20 libm's.
static int32_t sin_or_cos(builder *b, int32_t op, const int32_t *operand) {
  const int32_t x = *operand;
  static const float sin_c[] = {0x1.763344p-19f, -0x1.a044d0p-13f,
                                0x1.111164p-7f, -0x1.555556p-3f};
  static const float cos_c[] = {0x1.98f196p-16f, -0x1.6c08a2p-10f,
                                0x1.555544p-5f};
  int32_t whole = multiply_add(b, x, num(b, 0x1.45f306p-1f), num(b, MAGIC));
  const int32_t n = sub(b, whole, num(b, MAGIC));
  int32_t r = multiply_add(b, n, num(b, -0x1.921fb6p+0f), x);
  r = multiply_add(b, n, num(b, 0x1.777a5cp-25f), r);
  r = multiply_add(b, n, num(b, 0x1.ee59dap-50f), r);
  const int32_t s = mul(b, r, r);
  const int32_t sine =
      multiply_add(b, mul(b, s, POLYNOMIAL(b, s, sin_c)), r, r);
  const int32_t cosine =
      multiply_add(b, mul(b, s, s), POLYNOMIAL(b, s, cos_c),
                   multiply_add(b, s, num(b, -0.5f), num(b, 1)));
  if (op == OG_SCALAR_cos) whole = two(b, OG_LANE_int_add, whole, bits(b, 1));
  const int32_t is_odd =
      shift(b, OG_LANE_shift_sign, shift(b, OG_LANE_shift_left, whole, 31), 31);
  const int32_t sign = two(
      b, OG_LANE_and, shift(b, OG_LANE_shift_left, whole, 30), bits(b, SIGN));
  int32_t value = two(b, OG_LANE_xor, choose(b, is_odd, cosine, sine), sign);
  const int32_t a = magnitude(b, x);
  if (op == OG_SCALAR_sin)
    value = choose(b, less(b, a, num(b, 0x1p-12f)), x, value);
  const int32_t is_far = less(b, num(b, 0x1p20f), a);
  return choose(b, is_far, call(b, op, operand, is_far), value);
}

// --- Powers ------------------------------------------------------------------

// Exponents for which products are as near as libm's power.
static int32_t pow_of(builder *b, const int32_t *x) {
  const int32_t all = bits(b, ~0u), base = x[0];
  const og_loop_instr *exponent = &b->code[x[1]];
  const og_loop_lane lane = {.u = exponent->imm};
  if (exponent->op != OG_LANE_number) return call(b, OG_SCALAR_pow, x, all);
  const float power = lane.f;
  if (power == 0) return num(b, 1);
  if (power == 1) return base;
  if (power == 2) return mul(b, base, base);
  if (power == 3) return mul(b, mul(b, base, base), base);
  if (power == -1) return divide(b, num(b, 1), base);
  if (power != 0.5f && power != -0.5f) return call(b, OG_SCALAR_pow, x, all);
  const int32_t root = add(b, one(b, OG_LANE_sqrt, base), num(b, 0));
  const int32_t is_end = two(b, OG_LANE_eq, base, num(b, -INFINITY));
  const int32_t value = choose(b, is_end, num(b, INFINITY), root);
  return power > 0 ? value : divide(b, num(b, 1), value);
}

// --- Choosing ----------------------------------------------------------------

// The instruction returns its second operand where one is a NaN.
static int32_t extreme(builder *b, og_loop_op op, int32_t x, int32_t y) {
  const og_loop_instr *first = &b->code[x], *second = &b->code[y];
  const og_loop_lane of_first = {.u = first->imm},
                     of_second = {.u = second->imm};
  if (first->op == OG_LANE_number)
    return of_first.f != of_first.f ? x : two(b, op, x, y);
  if (second->op == OG_LANE_number && of_second.f == of_second.f &&
      of_second.f != 0)
    return two(b, op, y, x);
  return choose(b, two(b, OG_LANE_ne, x, x), x, two(b, op, x, y));
}

// The sign of a NaN that arithmetic made counts as +.
static int32_t sign_source(builder *b, int32_t x) {
  if (b->code[x].has_sign) return x;
  return choose(b, two(b, OG_LANE_ne, x, x), bits(b, 0x7fc00000u), x);
}

static int32_t compare(builder *b, og_loop_op op, int32_t x, int32_t y) {
  return og_loop_from_mask(b, two(b, op, x, y));
}

// --- All ---------------------------------------------------------------------

static int32_t function(builder *b, int32_t op, const int32_t *x) {
  switch (b->is_strict ? (int32_t)OG_SCALAR_COUNT : op) {
    case OG_SCALAR_exp:
      return exp_of(b, x[0]);
    case OG_SCALAR_exp2:
      return exp2_of(b, x[0]);
    case OG_SCALAR_expm1:
      return expm1_of(b, x[0]);
    case OG_SCALAR_log:
      return log_of(b, &base_e, x[0]);
    case OG_SCALAR_log2:
      return log_of(b, &base_2, x[0]);
    case OG_SCALAR_log10:
      return log_of(b, &base_10, x[0]);
    case OG_SCALAR_log1p:
      return log1p_of(b, x[0]);
    case OG_SCALAR_sigmoid:
      return sigmoid_of(b, x[0]);
    case OG_SCALAR_tanh:
      return tanh_of(b, x[0]);
    case OG_SCALAR_erf:
      return erf_of(b, x[0]);
    case OG_SCALAR_sin:
    case OG_SCALAR_cos:
      return sin_or_cos(b, op, x);
    case OG_SCALAR_pow:
      return pow_of(b, x);
    default:
      return call(b, op, x, bits(b, ~0u));
  }
}

// --- Rounding to narrower types ----------------------------------------------

// Rounds to nearest, ties to even; a NaN stays a NaN. Where its low bits are 0,
// as in bf16, adding does not carry.
int32_t og_loop_to_bfloat(builder *b, int32_t x, bool may_carry) {
  const int32_t high = shift(b, OG_LANE_shift_right, x, 16);
  const int32_t odd = two(b, OG_LANE_and, high, bits(b, 1));
  const int32_t half = two(b, OG_LANE_int_add, odd, bits(b, 0x7fff));
  const int32_t sum = two(b, OG_LANE_int_add, x, half);
  const int32_t rounded = shift(b, OG_LANE_shift_right, sum, 16);
  if (!may_carry) return rounded;
  const int32_t quiet = two(b, OG_LANE_or, high, bits(b, 0x40));
  const int32_t is_nan = two(b, OG_LANE_ne, x, x);
  return choose(b, is_nan, quiet, rounded);
}

// A number that has a unit in the last place of f16 in its own, added and taken
// away, rounds to it.
static int32_t to_half(builder *b, int32_t x) {
  const int32_t power = two(b, OG_LANE_and, x, bits(b, 0x7f800000u));
  const int32_t large = mul(b, at_least(b, 0x1p-14f, power), num(b, 0x1.8p13f));
  const int32_t rounded = sub(b, add(b, x, large), large);
  const int32_t is_finite = less(b, magnitude(b, x), num(b, 65520));
  return choose(b, is_finite, signed_as(b, x, rounded),
                mul(b, x, num(b, INFINITY)));
}

static int32_t round_to(builder *b, int32_t x, int32_t precision) {
  const int32_t bfloat =
      shift(b, OG_LANE_shift_left, og_loop_to_bfloat(b, x, true), 16);
  return choose(
      b, two(b, OG_LANE_eq, precision, num(b, 8)), bfloat,
      choose(b, two(b, OG_LANE_eq, precision, num(b, 11)), to_half(b, x), x));
}

int32_t og_loop_expand(og_loop_builder *b, int32_t op, const int32_t *x) {
  if (b->is_short) return 0;
  switch (op) {
    case OG_SCALAR_neg:
      return negate(b, x[0]);
    case OG_SCALAR_abs:
      return magnitude(b, x[0]);
    case OG_SCALAR_add:
      return add(b, x[0], x[1]);
    case OG_SCALAR_sub:
      return sub(b, x[0], x[1]);
    case OG_SCALAR_mul:
      return mul(b, x[0], x[1]);
    case OG_SCALAR_div:
      return divide(b, x[0], x[1]);
    case OG_SCALAR_fma:
      return multiply_add(b, x[0], x[1], x[2]);
    case OG_SCALAR_sqrt:
      return one(b, OG_LANE_sqrt, x[0]);
    case OG_SCALAR_rsqrt:
      return divide(b, num(b, 1), one(b, OG_LANE_sqrt, x[0]));
    case OG_SCALAR_floor:
      return one(b, OG_LANE_floor, x[0]);
    case OG_SCALAR_ceil:
      return one(b, OG_LANE_ceil, x[0]);
    case OG_SCALAR_round:
      return one(b, OG_LANE_round, x[0]);
    case OG_SCALAR_trunc:
      return one(b, OG_LANE_trunc, x[0]);
    case OG_SCALAR_round_to:
      return round_to(b, x[0], x[1]);
    case OG_SCALAR_trunc_div:
      return one(b, OG_LANE_trunc, divide(b, x[0], x[1]));
    case OG_SCALAR_min:
      return extreme(b, OG_LANE_min, x[0], x[1]);
    case OG_SCALAR_max:
      return extreme(b, OG_LANE_max, x[0], x[1]);
    case OG_SCALAR_eq:
      return compare(b, OG_LANE_eq, x[0], x[1]);
    case OG_SCALAR_ne:
      return compare(b, OG_LANE_ne, x[0], x[1]);
    case OG_SCALAR_lt:
      return compare(b, OG_LANE_lt, x[0], x[1]);
    case OG_SCALAR_le:
      return compare(b, OG_LANE_le, x[0], x[1]);
    case OG_SCALAR_gt:
      return compare(b, OG_LANE_lt, x[1], x[0]);
    case OG_SCALAR_ge:
      return compare(b, OG_LANE_le, x[1], x[0]);
    case OG_SCALAR_not:
      return og_loop_from_mask(
          b, two(b, OG_LANE_xor, og_loop_to_mask(b, x[0]), bits(b, ~0u)));
    case OG_SCALAR_and:
      return og_loop_from_mask(b, two(b, OG_LANE_and, og_loop_to_mask(b, x[0]),
                                      og_loop_to_mask(b, x[1])));
    case OG_SCALAR_or:
      return og_loop_from_mask(b, two(b, OG_LANE_or, og_loop_to_mask(b, x[0]),
                                      og_loop_to_mask(b, x[1])));
    case OG_SCALAR_select:
      return choose(b, og_loop_to_mask(b, x[0]), x[1], x[2]);
    case OG_SCALAR_copysign:
      return signed_as(b, sign_source(b, x[1]), magnitude(b, x[0]));
    case OG_SCALAR_sign_bit:
      return og_loop_from_mask(
          b, shift(b, OG_LANE_shift_sign, sign_source(b, x[0]), 31));
    case OG_SCALAR_is_inf:
      return compare(b, OG_LANE_eq, magnitude(b, x[0]), num(b, INFINITY));
    default:
      return function(b, op, x);
  }
}
