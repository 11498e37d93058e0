// SPDX-License-Identifier: Apache-2.0
// The errors of the functions of row programs, in units in the last place,
// against libm in double, over floats of every size: none is larger than the
// table states. With OG_LOOP_STEP=61 in the environment it looks at every 61st
// float, 70 million in all, and prints the table.

#include <float.h>
#include <math.h>
#include <opgraft/float16.h>
#include <stdlib.h>

#include "loop/loop.h"
#include "unit/test.h"

enum { BLOCK = 4096, STEP = 9973 };

// 0 where e^-x is not a finite float, as of the scalar primitive.
static double sigmoid(double x) {
  const float e = (float)exp(-x);
  return isinf(e) ? 0 : 1 / (1 + exp(-x));
}
static double rsqrt(double x) { return 1 / sqrt(x); }
static double log_one(double x) { return log1p(x); }
static double cube(double x) { return x * x * x; }
static double inverse(double x) { return 1 / x; }
static double root(double x) { return pow(x, 0.5); }
static double inverse_root(double x) { return pow(x, -0.5); }

static const struct {
  const char *expression;
  double (*reference)(double);
  double ulp;  // stated: the largest with OG_LOOP_STEP=61, rounded up
} rows[] = {
    {"exp(x0)", exp, 1.1},
    {"exp2(x0)", exp2, 1},
    {"expm1(x0)", expm1, 1.5},
    {"log(x0)", log, 0.9},
    {"log2(x0)", log2, 1},
    {"log10(x0)", log10, 1},
    {"log1p(x0)", log_one, 1.5},
    {"tanh(x0)", tanh, 1.4},
    {"erf(x0)", erf, 1},
    {"sigmoid(x0)", sigmoid, 1.7},
    {"sin(x0)", sin, 1.7},
    {"cos(x0)", cos, 1.7},
    {"rsqrt(x0)", rsqrt, 1.5},
    {"pow(x0, 3)", cube, 1.4},
    {"pow(x0, -1)", inverse, 0.5},
    {"pow(x0, 0.5)", root, 0.5},
    {"pow(x0, -0.5)", inverse_root, 1.5},
};
enum { ROWS = sizeof rows / sizeof *rows };

// Infinite where only one is a NaN or an infinity, or the sign of 0 differs.
static double ulp_error(float found, double wanted) {
  const double limit = (double)FLT_MAX * (1 + 0x1p-25);
  int exponent;
  if (isnan(wanted)) return isnan(found) ? 0 : INFINITY;
  if (fabs(wanted) > limit) wanted = copysign(INFINITY, wanted);
  if (isinf(wanted) || isnan(found))
    return (double)found == wanted ? 0 : INFINITY;
  if (isinf(found)) return INFINITY;
  if (wanted == 0 && found == 0)
    return signbit(wanted) != signbit(found) ? INFINITY : 0;
  frexp(wanted, &exponent);
  if (wanted == 0 || exponent < FLT_MIN_EXP) exponent = FLT_MIN_EXP;
  return fabs((double)found - wanted) / ldexp(1, exponent - FLT_MANT_DIG);
}

typedef struct worst {
  double ulp;
  float at;
} worst;

static worst measure(const og_loop *loop, int r, void *scratch,
                     uint64_t stride) {
  static og_float_bits in[BLOCK], out[BLOCK];
  worst found = {0, 0};
  og_loop_call call = {
      .width = BLOCK, .rows = 1, .blocks = 1, .scratch = scratch};
  call.in[0] = in;
  call.out[0] = out;
  for (uint64_t at = 0; at < 1ull << 32;) {
    for (int i = 0; i < BLOCK; ++i, at += stride) in[i].u = (uint32_t)at;
    og_loop_run(loop, &call);
    for (int i = 0; i < BLOCK; ++i) {
      const double ulp =
          ulp_error(out[i].f, rows[r].reference((double)in[i].f));
      if (ulp > found.ulp) found = (worst){ulp, in[i].f};
    }
  }
  return found;
}

static void check_row(int r, const char *asked) {
  const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
  const og_loop_operand operand = {f32, OG_LOOP_RUN};
  char text[64];
  snprintf(text, sizeof text, "y0 = %s", rows[r].expression);
  const og_loop_spec spec = {.text = text,
                             .inputs = &operand,
                             .outputs = &operand,
                             .input_count = 1,
                             .output_count = 1,
                             .isa = og_isa_used()};
  og_loop *loop = NULL;
  opgraft_error error;
  void *scratch = NULL;
  REQUIRE(og_loop_create(&spec, NULL, &loop, &error) == OG_OK);
  scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, BLOCK));
  REQUIRE(scratch != NULL);
  const uint64_t stride = asked != NULL ? (uint64_t)atoi(asked) : STEP;
  const worst found = measure(loop, r, scratch, stride);
  if (!CHECK(found.ulp <= rows[r].ulp))
    printf("%s of %a: %.3f ulp, stated are %.3f\n", rows[r].expression,
           (double)found.at, found.ulp, rows[r].ulp);
  if (asked != NULL)
    printf("%s: %.3f ulp, at %a\n", rows[r].expression, found.ulp,
           (double)found.at);
done:
  og_free(scratch);
  og_loop_destroy(loop);
}

TEST(errors_are_as_stated) {
  const char *asked = getenv("OG_LOOP_STEP");
  for (int r = 0; r < ROWS; ++r) check_row(r, asked);
}

TEST_MAIN("loop_accuracy", CASE_NO_FAULTS(errors_are_as_stated))
