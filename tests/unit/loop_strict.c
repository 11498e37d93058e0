// SPDX-License-Identifier: Apache-2.0
// With OG_LOOP_MATH_STRICT a function of a row program has libm's bits, by the
// interpreter and by the code of every set of this machine: a hundred thousand
// floats of every size, both zeros, infinities, NaN and denormals.

#include <math.h>
#include <opgraft/float16.h>
#include <stdlib.h>

#include "loop/loop.h"
#include "unit/test.h"

enum { COUNT = 100003 };

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }
static float pow_half(float x) { return powf(x, 0.5f); }
static float pow_e(float x) { return powf(x, 2.7182817f); }
static float angle(float x) { return atan2f(x, 0.3f); }
static float gelu(float x) { return 0.5f * x * (1 + erff(x * 0.70710677f)); }

static const struct {
  const char *expression;
  float (*libm)(float);
} rows[] = {
    {"exp(x0)", expf},          {"exp2(x0)", exp2f},
    {"expm1(x0)", expm1f},      {"log(x0)", logf},
    {"log2(x0)", log2f},        {"log10(x0)", log10f},
    {"log1p(x0)", log1pf},      {"sin(x0)", sinf},
    {"cos(x0)", cosf},          {"tan(x0)", tanf},
    {"asin(x0)", asinf},        {"acos(x0)", acosf},
    {"atan(x0)", atanf},        {"sinh(x0)", sinhf},
    {"cosh(x0)", coshf},        {"tanh(x0)", tanhf},
    {"asinh(x0)", asinhf},      {"acosh(x0)", acoshf},
    {"atanh(x0)", atanhf},      {"erf(x0)", erff},
    {"erfc(x0)", erfcf},        {"sigmoid(x0)", sigmoid},
    {"pow(x0, 0.5)", pow_half}, {"pow(x0, 2.7182817)", pow_e},
    {"atan2(x0, 0.3)", angle},  {"half * x0 * (1 + erf(x0 * sqrt_half))", gelu},
};
enum { ROWS = sizeof rows / sizeof *rows };

static float *in, *out;

// Every size of number, and as many near 1, where functions vary.
static void numbers_fill(void) {
  static const float ends[] = {0.0f,       -0.0f,     INFINITY,   -INFINITY,
                               NAN,        0x1p-149f, -0x1p-130f, 3.4e38f,
                               88.722839f, -103.9f,   1.0f,       -1.0f};
  uint64_t state = 7;
  for (int32_t i = 0; i < COUNT; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const og_float_bits bits = {.u = (uint32_t)(state >> 32)};
    in[i] = i % 2 == 0 ? bits.f : (float)(int32_t)bits.u * 0x1p-28f;
  }
  for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i) in[i] = ends[i];
}

static void row_check(int r, og_isa isa) {
  const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
  const og_loop_operand operand = {f32, OG_LOOP_RUN};
  og_loop_code *code = isa > OG_ISA_SCALAR ? og_loop_code_create() : NULL;
  og_loop *loop = NULL;
  void *scratch = NULL;
  opgraft_error error;
  char text[64];
  snprintf(text, sizeof text, "y0 = %s", rows[r].expression);
  const og_loop_spec spec = {.text = text,
                             .inputs = &operand,
                             .outputs = &operand,
                             .input_count = 1,
                             .output_count = 1,
                             .math = OG_LOOP_MATH_STRICT,
                             .isa = isa};
  og_loop_call call = {
      .width = COUNT, .rows = 1, .blocks = 1, .in = {in}, .out = {out}};
  REQUIRE(isa == OG_ISA_SCALAR || code != NULL);
  REQUIRE(og_loop_create(&spec, code, &loop, &error) == OG_OK);
  if (code != NULL) og_loop_code_seal(code);
  call.scratch = scratch =
      og_alloc_aligned(64, og_loop_scratch_bytes(loop, COUNT));
  REQUIRE(scratch != NULL);
  og_loop_run(loop, &call);
  for (int32_t i = 0; i < COUNT; ++i) {
    const float wanted = rows[r].libm(in[i]);
    const bool is_same =
        isnan(wanted) ? isnan(out[i]) != 0 : memcmp(&wanted, &out[i], 4) == 0;
    if (CHECK(is_same)) continue;
    printf("%s of %a: %a, libm has %a\n", rows[r].expression, (double)in[i],
           (double)out[i], (double)wanted);
    break;
  }
done:
  og_free(scratch);
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
}

TEST(functions_are_libm_s) {
  in = malloc(COUNT * sizeof *in);
  out = malloc(COUNT * sizeof *out);
  REQUIRE(in != NULL && out != NULL);
  numbers_fill();
  for (int isa = OG_ISA_SCALAR; isa <= (int)og_isa_used(); ++isa)
    for (int r = 0; r < ROWS; ++r) row_check(r, (og_isa)isa);
done:
  free(in);
  free(out);
}

TEST_MAIN("loop_strict", CASE_NO_FAULTS(functions_are_libm_s))
