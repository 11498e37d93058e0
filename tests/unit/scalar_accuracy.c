// SPDX-License-Identifier: Apache-2.0
// The errors of every primitive in every form, in units in the last place,
// against long double: no form is worse than scalar.def states. With
// OG_SCALAR_BLOCKS=16384 in the environment it looks at so many blocks of
// values and prints the table.
//
// The reference has a relative error of 2^-63 or so, which is REFERENCE_ULP of
// a double's last place. Where long double is no wider than double (not on
// x86 and most 64-bit Arm systems), f64 is left out.

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernel/kernel.h"
#include "unit/scalar_accuracy/vectors.h"
#include "unit/test.h"

#define REFERENCE_ULP 0.002
enum { BLOCK = 256, BLOCKS = 512 };

static const struct {
  const char *name;
  og_isa isa;
  const vector_form *forms;
} sets[] = {
#define OG_ISA(name, level, machine, test) \
  machine({#name, OG_ISA_##level, vectors_##name}, )
#include "base/isa.def"
#undef OG_ISA
};
enum { SETS = sizeof sets / sizeof *sets };

typedef long double wide;

// --- References --------------------------------------------------------------

// Division that rounds to the type before it cuts: what trunc_div is.
static wide trunc_div(wide a, wide b, bool is_f32) {
  return truncl(is_f32 ? (wide)((float)a / (float)b)
                       : (wide)((double)a / (double)b));
}

static wide remainder_of(wide a, wide b) {
  const wide r = fmodl(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static wide floor_div(wide a, wide b) {
  if (isinf(b) && isfinite(a) && a != 0)
    return (a < 0) != (b < 0) ? -1 : copysignl(0, a / b);
  const wide q = (a - remainder_of(a, b)) / b;
  return b == 0 ? a / b : roundl(q);
}

// Written out, not taken from the table's forms.
static wide reference(int32_t op, wide a, wide b, wide c, bool is_f32) {
#define IS(id, value)  \
  case OG_SCALAR_##id: \
    return value;
  switch (op) {
    IS(neg, -a)
    IS(not, !(a != 0))
    IS(add, a + b)
    IS(sub, a - b)
    IS(mul, a * b)
    IS(div, a / b)
    IS(eq, a == b)
    IS(ne, a != b)
    IS(lt, a < b)
    IS(le, a <= b)
    IS(gt, a > b)
    IS(ge, a >= b)
    IS(and, a != 0 && b != 0)
    IS(or, a != 0 || b != 0)
    IS(exp, expl(a))
    IS(exp2, exp2l(a))
    IS(expm1, expm1l(a))
    IS(log, logl(a))
    IS(log2, log2l(a))
    IS(log10, log10l(a))
    IS(log1p, log1pl(a))
    IS(sqrt, sqrtl(a))
    IS(rsqrt, 1 / sqrtl(a))
    IS(pow, powl(a, b))
    IS(hypot, hypotl(a, b))
    IS(sin, sinl(a))
    IS(cos, cosl(a))
    IS(tan, tanl(a))
    IS(asin, asinl(a))
    IS(acos, acosl(a))
    IS(atan, atanl(a))
    IS(atan2, atan2l(a, b))
    IS(sinh, sinhl(a))
    IS(cosh, coshl(a))
    IS(tanh, tanhl(a))
    IS(asinh, asinhl(a))
    IS(acosh, acoshl(a))
    IS(atanh, atanhl(a))
    IS(erf, erfl(a))
    IS(erfc, erfcl(a))
    IS(sigmoid, 1 / (1 + expl(-a)))
    IS(floor, floorl(a))
    IS(ceil, ceill(a))
    IS(round, rintl(a))
    IS(trunc, truncl(a))
    IS(floor_div, floor_div(a, b))
    IS(trunc_div, trunc_div(a, b, is_f32))
    IS(remainder, remainder_of(a, b))
    IS(fmod, fmodl(a, b))
    IS(abs, fabsl(a))
    IS(min, isnan(a) || isnan(b) ? NAN : fminl(a, b))
    IS(max, isnan(a) || isnan(b) ? NAN : fmaxl(a, b))
    IS(copysign, copysignl(a, b))
    IS(sign_bit, signbit(a) ? 1 : 0)
    IS(is_inf, isinf(a) ? 1 : 0)
    IS(fma, fmal(a, b, c))
    IS(select, a != 0 ? b : c)
    IS(round_to, a)  // of b that no type has
    default:
      return -12345;  // a primitive without a reference fails
  }
#undef IS
}

// --- Errors ------------------------------------------------------------------

// In units in the last place of a type with `digits` binary digits; infinite
// where only one is a NaN, or infinite.
static double ulp_error(double found, wide wanted, int digits, int exponent_min,
                        double largest) {
  const wide limit = (wide)largest * (1 + ldexpl(1, -digits - 1));
  if (isnan(wanted)) return isnan(found) ? 0 : INFINITY;
  if (fabsl(wanted) > limit) wanted = copysignl(INFINITY, wanted);
  if (isinf(wanted) || isnan(found))
    return (wide)found == wanted ? 0 : INFINITY;
  if (isinf(found)) found = copysign(largest * (1 + ldexp(1, -digits)), found);
  int exponent;
  frexpl(wanted, &exponent);
  if (wanted == 0 || exponent < exponent_min) exponent = exponent_min;
  return (double)(fabsl((wide)found - wanted) / ldexpl(1, exponent - digits));
}

static double error_f32(float found, wide wanted) {
  return ulp_error((double)found, wanted, FLT_MANT_DIG, FLT_MIN_EXP,
                   (double)FLT_MAX);
}

static double error_f64(double found, wide wanted) {
  return ulp_error(found, wanted, DBL_MANT_DIG, DBL_MIN_EXP, DBL_MAX);
}

// --- Values ------------------------------------------------------------------

static uint64_t state;

static uint64_t draw(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 32 | state << 32;
}

// In turns: any bits of a float, numbers up to 1, to 8, and to 100.
static double draw_number(int i) {
  static const double scale[] = {0, 0x1p-63, 0x1p-60, 100 * 0x1p-63};
  static const float special[] = {0,        -0.0f,     1,       -1,
                                  INFINITY, -INFINITY, FLT_MIN, FLT_MAX,
                                  0.5f,     -FLT_MAX,  NAN,     0x1p-149f};
  const og_float_bits bits = {.u = (uint32_t)draw()};
  if (draw() % 64 == 0) return (double)special[draw() % 12];
  if (isnan(bits.f)) return NAN;  // a quiet one
  return i % 4 == 0 ? (double)bits.f : (double)(int64_t)draw() * scale[i % 4];
}

static float in_f32[3][BLOCK], out_f32[BLOCK];
static double in_f64[3][BLOCK], out_f64[BLOCK];

static void fill(void) {
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < BLOCK; ++i) {
      in_f64[k][i] = draw_number(k == 0 ? i : i / 4);
      in_f32[k][i] = (float)in_f64[k][i];
    }
}

static void load_f32(void *none, const og_scalar_instruction *code, int64_t n,
                     void *to) {
  (void)none;
  memcpy(to, in_f32[code->slot], (size_t)n * sizeof(float));
}

static void load_f64(void *none, const og_scalar_instruction *code, int64_t n,
                     void *to) {
  (void)none;
  memcpy(to, in_f64[code->slot], (size_t)n * sizeof(double));
}

// --- Measuring ---------------------------------------------------------------

typedef struct form_error {
  double ulp;
  double at[2];  // where
} form_error;

static void note(form_error *worst, double ulp, double a, double b) {
  if (ulp <= worst->ulp) return;
  *worst = (form_error){ulp, {a, b}};
}

typedef struct row_errors {
  form_error f32, f64, vector[SETS];
} row_errors;

static const struct {
  const char *name;
  int32_t op, arity;
  bool has_float;
  double f32, f64, vector;  // stated
} rows[] = {
#define OG_SCALAR(id, arity, mark, level, classes, vector, ulp_f32, ulp_f64, \
                  ulp_vector, ...)                                           \
  {#id,       OG_SCALAR_##id,                                                \
   arity,     (OG_CLASSES_##classes & OG_CLASSES_FLOAT) != 0,                \
   ulp_f32,   ulp_f64,                                                       \
   ulp_vector},
#include "scalar/scalar.def"
#undef OG_SCALAR
};
enum { ROWS = sizeof rows / sizeof *rows };

// Where the last place of a result counts: sigmoid is 0 where exp(-a) is too
// large, and that vector form is for weights of attention.
static bool is_in_domain(int32_t op, double a, double exp_max) {
  return op != OG_SCALAR_sigmoid || !(a < -exp_max);
}

static bool is_in_vector_domain(int32_t op, float a) {
  if (op == OG_SCALAR_exp2) return a >= -126 && a < 128;
  return !isnan(a) && is_in_domain(op, (double)a, 87);
}

// The interpreter calls the form that the loops call.
static void measure_plain(int r, row_errors *out) {
  og_scalar_instruction code[4] = {{.op = OG_SCALAR_load, .slot = 0},
                                   {.op = OG_SCALAR_load, .slot = 1},
                                   {.op = OG_SCALAR_load, .slot = 2}};
  code[rows[r].arity].op = rows[r].op;
  const og_scalar_program program = {code, rows[r].arity + 1};
  og_scalar_run_f32(&program, BLOCK, load_f32, NULL, out_f32);
  og_scalar_run_f64(&program, BLOCK, load_f64, NULL, out_f64);
  for (int i = 0; i < BLOCK; ++i) {
    const wide a = (wide)in_f32[0][i], b = (wide)in_f32[1][i];
    const wide x = (wide)in_f64[0][i], y = (wide)in_f64[1][i];
    const wide c = (wide)in_f32[2][i], z = (wide)in_f64[2][i];
    if (is_in_domain(rows[r].op, (double)a, 87))
      note(&out->f32,
           error_f32(out_f32[i], reference(rows[r].op, a, b, c, true)),
           (double)a, (double)b);
    if (LDBL_MANT_DIG > DBL_MANT_DIG &&
        is_in_domain(rows[r].op, (double)x, 708))
      note(&out->f64,
           error_f64(out_f64[i], reference(rows[r].op, x, y, z, false)),
           (double)x, (double)y);
  }
}

// NULL where the primitive has no vector form, or the machine not the set.
static const vector_form *vector_find(int s, int32_t op) {
  const vector_form *form = &sets[s].forms[op];
  const bool has_form = strcmp(form->name, "NONE") != 0;
  return has_form && sets[s].isa <= og_isa_used() ? form : NULL;
}

static void measure_vectors(int r, row_errors *out) {
  float in[BLOCK];  // a vector form may assume its domain
  for (int i = 0; i < BLOCK; ++i)
    in[i] = is_in_vector_domain(rows[r].op, in_f32[0][i]) ? in_f32[0][i] : 1;
  for (int s = 0; s < SETS; ++s) {
    const vector_form *form = vector_find(s, rows[r].op);
    if (form == NULL) continue;
    form->run(BLOCK, in, in_f32[1], in_f32[2], out_f32);
    for (int i = 0; i < BLOCK; ++i) {
      const float a = in[i], b = in_f32[1][i], c = in_f32[2][i];
      const wide wanted =
          reference(rows[r].op, (wide)a, (wide)b, (wide)c, true);
      note(&out->vector[s], error_f32(out_f32[i], wanted), (double)a,
           (double)b);
    }
  }
}

static void check_form(const char *name, const char *form,
                       const form_error *found, double stated) {
  if (CHECK(found->ulp <= stated + REFERENCE_ULP)) return;
  printf("%s of %.9g, %.9g in %s: %.3f ulp, scalar.def states %.3f\n", name,
         found->at[0], found->at[1], form, found->ulp, stated);
}

static void print_row(int r, const row_errors *found) {
  printf("%s: f32 %.3f, f64 %.3f", rows[r].name, found->f32.ulp,
         found->f64.ulp);
  for (int s = 0; s < SETS; ++s)
    if (vector_find(s, rows[r].op) != NULL)
      printf(", %s %s %.3f", sets[s].name, sets[s].forms[rows[r].op].name,
             found->vector[s].ulp);
  printf("\n");
}

TEST(errors_are_as_stated) {
  const char *asked = getenv("OG_SCALAR_BLOCKS");
  const int blocks = asked != NULL ? atoi(asked) : BLOCKS;
  for (int r = 0; r < ROWS; ++r) {
    row_errors found = {0};
    state = 1;
    if (!rows[r].has_float) continue;
    for (int k = 0; k < blocks; ++k) {
      fill();
      measure_plain(r, &found);
      measure_vectors(r, &found);
    }
    check_form(rows[r].name, "f32", &found.f32, rows[r].f32);
    check_form(rows[r].name, "f64", &found.f64, rows[r].f64);
    for (int s = 0; s < SETS; ++s)
      check_form(rows[r].name, sets[s].name, &found.vector[s], rows[r].vector);
    if (asked != NULL) print_row(r, &found);
  }
}

TEST_MAIN("scalar_accuracy", CASE_NO_FAULTS(errors_are_as_stated))
