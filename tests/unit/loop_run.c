// SPDX-License-Identifier: Apache-2.0
// Row programs that models are made of, against double, for every type and
// width of a tail, by every back end that the machine has; each buffer ends at
// an unmapped page or begins behind one. In place where that is allowed.

#define _GNU_SOURCE
#include "loop/code.h"
#include "unit/loop_make.h"

#include <math.h>

enum { ROWS = 3, WIDTH_MAX = 4096, OPERANDS_MAX = 4 };

typedef struct run_case {
  const char *name;
  const char *text;
  int32_t input_count, output_count;
  const char *rows;  // of each input and output: r: one for the row; v: not
  // Fills out[output][i] from in[input][i], of one row.
  void (*reference)(int64_t width, double (*in)[WIDTH_MAX],
                    double (*out)[WIDTH_MAX]);
  double error;      // relative to the largest element of the row
  int32_t in_place;  // the input that output 0 may lie in; -1: none
} run_case;

// --- References --------------------------------------------------------------

static void gelu_bias_residual(int64_t width, double (*in)[WIDTH_MAX],
                               double (*out)[WIDTH_MAX]) {
  for (int64_t i = 0; i < width; ++i) {
    const double x = in[0][i] + in[1][i];
    out[0][i] = 0.5 * x * (1 + erf(x * sqrt(0.5))) + in[2][i];
  }
}

static void softmax(int64_t width, double (*in)[WIDTH_MAX],
                    double (*out)[WIDTH_MAX]) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < width; ++i) most = fmax(most, in[0][i]);
  for (int64_t i = 0; i < width; ++i) sum += exp(in[0][i] - most);
  for (int64_t i = 0; i < width; ++i) out[0][i] = exp(in[0][i] - most) / sum;
}

static void log_softmax(int64_t width, double (*in)[WIDTH_MAX],
                        double (*out)[WIDTH_MAX]) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < width; ++i) most = fmax(most, in[0][i]);
  for (int64_t i = 0; i < width; ++i) sum += exp(in[0][i] - most);
  for (int64_t i = 0; i < width; ++i) out[0][i] = in[0][i] - most - log(sum);
  out[1][0] = log(sum);
}

static void layer_norm(int64_t width, double (*in)[WIDTH_MAX],
                       double (*out)[WIDTH_MAX]) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < width; ++i) mean += in[0][i];
  mean /= (double)width;
  for (int64_t i = 0; i < width; ++i) variance += pow(in[0][i] - mean, 2);
  const double r = 1 / sqrt(variance / (double)width + 1e-5);
  for (int64_t i = 0; i < width; ++i)
    out[0][i] = (in[0][i] - mean) * r * in[1][i] + in[2][i];
  out[1][0] = mean;
  out[2][0] = r;
}

static void rms_norm(int64_t width, double (*in)[WIDTH_MAX],
                     double (*out)[WIDTH_MAX]) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += pow(in[0][i] + in[1][i], 2);
  const double r = 1 / sqrt(sum / (double)width + 1e-6);
  for (int64_t i = 0; i < width; ++i) {
    out[1][i] = in[0][i] + in[1][i];
    out[0][i] = out[1][i] * r * in[2][i];
  }
}

static void silu_mul(int64_t width, double (*in)[WIDTH_MAX],
                     double (*out)[WIDTH_MAX]) {
  for (int64_t i = 0; i < width; ++i)
    out[0][i] = in[0][i] / (1 + exp(-in[0][i])) * in[1][i] * in[2][0];
}

static void extremes(int64_t width, double (*in)[WIDTH_MAX],
                     double (*out)[WIDTH_MAX]) {
  out[0][0] = INFINITY;
  out[1][0] = -INFINITY;
  for (int64_t i = 0; i < width; ++i) {
    out[0][0] = fmin(out[0][0], in[0][i]);
    out[1][0] = fmax(out[1][0], in[0][i]);
  }
}

static const run_case cases[] = {
    {"gelu", "a = x0 + x1; y0 = half * a * (1 + erf(a * sqrt_half)) + x2", 3, 1,
     "vvvv", gelu_bias_residual, 1e-6, 0},
    {"softmax", "m = row_max(x0); e = exp(x0 - m); s = row_sum(e); y0 = e / s",
     1, 1, "vv", softmax, 2e-6, 0},
    {"log_softmax",
     "m = row_max(x0); s = row_sum(exp(x0 - m)); y1 = log(s); "
     "y0 = x0 - m - y1",
     1, 2, "vvr", log_softmax, 2e-6, 0},
    {"layer_norm",
     "m = row_sum(x0); y1 = m / width; c = x0 - y1; v = row_sum(c * c); "
     "y2 = rsqrt(v / width + 1e-5); y0 = c * y2 * x1 + x2",
     3, 3, "vvvvrr", layer_norm, 4e-6, 0},
    {"rms_norm",
     "y1 = x0 + x1; q = row_sum(y1 * y1); r = rsqrt(q / width + 1e-6); y0 = y1 "
     "* r * x2",
     3, 2, "vvvvv", rms_norm, 2e-6, -1},
    {"silu", "y0 = x0 * sigmoid(x0) * x1 * x2", 3, 1, "vvrv", silu_mul, 1e-6,
     1},
    {"extremes", "y0 = row_min(x0); y1 = row_max(x0)", 1, 2, "vrr", extremes, 0,
     -1},
};

// --- One run -----------------------------------------------------------------

typedef struct trial {
  const run_case *c;
  og_dtype dtype;
  int64_t width;
  bool at_begin;     // buffers begin behind a guard
  bool is_in_place;  // output 0 lies in the case's input
  guarded in[OPERANDS_MAX], out[OPERANDS_MAX];
} trial;

static double in_numbers[ROWS][OPERANDS_MAX][WIDTH_MAX];
static double wanted[ROWS][OPERANDS_MAX][WIDTH_MAX];

static bool is_row(const run_case *c, int32_t operand) {
  return c->rows[operand] == 'r';
}

static int64_t row_width(const trial *t, int32_t operand) {
  return is_row(t->c, operand) ? 1 : t->width;
}

static char *place(const trial *t, const guarded *g, int32_t operand) {
  const size_t bytes =
      (size_t)(ROWS * row_width(t, operand)) * og_dtype_bytes(t->dtype);
  return t->at_begin ? guarded_begin(g) : guarded_end(g, bytes);
}

static void fill(const trial *t, og_loop_call *call) {
  uint64_t state = (uint64_t)t->width;
  for (int32_t k = 0; k < t->c->input_count; ++k) {
    const int64_t width = row_width(t, k);
    char *at = place(t, &t->in[k], k);
    call->in[k] = at;
    call->in_row_bytes[k] = width * (int64_t)og_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < ROWS * width; ++i) {
      const float x = (float)(loop_draw(&state) % 4096) / 512 - 4;
      loop_set(t->dtype, at, i, x);
      in_numbers[i / width][k][i % width] = (double)loop_get(t->dtype, at, i);
    }
  }
}

static void outputs(const trial *t, og_loop_call *call) {
  for (int32_t k = 0; k < t->c->output_count; ++k) {
    const int32_t operand = t->c->input_count + k;
    const int64_t bytes =
        row_width(t, operand) * (int64_t)og_dtype_bytes(t->dtype);
    call->out[k] = place(t, &t->out[k], operand);
    call->out_row_bytes[k] = bytes;
    memset(call->out[k], 0x5a, (size_t)(ROWS * bytes));
  }
  if (t->is_in_place) call->out[0] = (void *)call->in[t->c->in_place];
}

static double epsilon_of(og_dtype dtype) {
  return dtype.code == OG_CODE_BFLOAT ? 0x1p-8 : dtype.bits == 16 ? 0x1p-11 : 0;
}

static void compare_output(const trial *t, const og_loop_call *call,
                           int32_t k) {
  const int64_t width = row_width(t, t->c->input_count + k);
  for (int32_t r = 0; r < ROWS; ++r) {
    double largest = 0;
    for (int64_t i = 0; i < width; ++i)
      largest = fmax(largest, fabs(wanted[r][k][i]));
    for (int64_t i = 0; i < width; ++i) {
      const double right = wanted[r][k][i];
      const double found =
          (double)loop_get(t->dtype, call->out[k], r * width + i);
      const double allowed =
          t->c->error * largest + epsilon_of(t->dtype) * fabs(right) + 0x1p-24;
      if (found == right || fabs(found - right) <= allowed) continue;
      CHECK(fabs(found - right) <= allowed);
      printf("%s, %s, width %d, output %d of row %d at %d: %.9g, not %.9g\n",
             t->c->name, og_dtype_name(t->dtype), (int)t->width, (int)k, (int)r,
             (int)i, found, right);
      return;
    }
  }
}

static void run_trial(const trial *t, const og_loop *loop, void *scratch) {
  og_loop_call call = {
      .width = t->width, .rows = ROWS, .blocks = 1, .scratch = scratch};
  fill(t, &call);
  outputs(t, &call);
  for (int32_t r = 0; r < ROWS; ++r)
    t->c->reference(t->width, in_numbers[r], wanted[r]);
  og_loop_run(loop, &call);
  for (int32_t k = 0; k < t->c->output_count; ++k) compare_output(t, &call, k);
}

// --- All ---------------------------------------------------------------------

static og_status loop_of(const run_case *c, og_dtype dtype, og_isa isa,
                         og_loop_code *code, og_loop **out) {
  og_loop_operand operands[2 * OPERANDS_MAX];
  opgraft_error error;
  for (int32_t k = 0; k < c->input_count + c->output_count; ++k)
    operands[k] =
        (og_loop_operand){dtype, is_row(c, k) ? OG_LOOP_ROW : OG_LOOP_RUN};
  const og_loop_spec spec = {.text = c->text,
                             .inputs = operands,
                             .outputs = operands + c->input_count,
                             .input_count = c->input_count,
                             .output_count = c->output_count,
                             .isa = isa};
  const og_status status = og_loop_create(&spec, code, out, &error);
  if (status != OG_OK && status != OG_MEMORY) printf("%s\n", error.text);
  return status;
}

static void run_widths(trial *t, const og_loop *loop, void *scratch) {
  const bool is_integer =
      t->dtype.code != OG_CODE_FLOAT && t->dtype.code != OG_CODE_BFLOAT;
  for (int64_t width = 0; width <= WIDTH_MAX; ++width) {
    if (width == 71) width = 255;
    if (width == 258) width = WIDTH_MAX;
    // Nothing has a mean, nor an extreme that an integer can be.
    if (width == 0 && (t->c->reference == layer_norm || is_integer)) continue;
    t->width = width;
    t->at_begin = width % 2 == 0;
    t->is_in_place = false;
    run_trial(t, loop, scratch);
    if (t->c->in_place < 0) continue;
    CHECK(og_loop_may_overwrite(loop, t->c->in_place));
    t->is_in_place = true;
    run_trial(t, loop, scratch);
  }
}

static void run_one(const run_case *c, og_dtype dtype, og_isa isa,
                    bool is_encoded) {
  og_loop *loop = NULL;
  void *scratch = NULL;
  og_loop_code *code = NULL;
  og_loop_info info;
  trial t = {.c = c, .dtype = dtype};
  const size_t most = (size_t)ROWS * WIDTH_MAX * 8;
  for (int32_t k = 0; k < OPERANDS_MAX; ++k)
    REQUIRE(guarded_init(&t.in[k], most) && guarded_init(&t.out[k], most));
  if (is_encoded) REQUIRE((code = og_loop_code_create()) != NULL);
  REQUIRE(loop_of(c, dtype, isa, code, &loop) == OG_OK);
  if (is_encoded) CHECK(og_loop_code_seal(code));
  og_loop_describe(loop, &info);
  CHECK_STR(info.by, is_encoded ? og_isa_name(isa) : "interpreter");
  scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, WIDTH_MAX));
  REQUIRE(scratch != NULL);
  run_widths(&t, loop, scratch);
done:
  og_free(scratch);
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
  for (int32_t k = 0; k < OPERANDS_MAX; ++k) {
    guarded_reset(&t.in[k]);
    guarded_reset(&t.out[k]);
  }
}

static void run_all(og_isa isa, bool is_encoded) {
  const og_dtype floats[] = {loop_f32, loop_bf16, loop_f16};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k)
    for (int32_t d = 0; d < 3; ++d)
      run_one(&cases[k], floats[d], isa, is_encoded);
  // Whole numbers are exact.
  const og_dtype others[] = {loop_i64, loop_i32, loop_i16,
                             loop_i8,  loop_u8,  loop_bool};
  for (int32_t d = 0; d < 6; ++d)
    run_one(&cases[6], others[d], isa, is_encoded);
}

TEST(programs_of_models_by_the_interpreter) { run_all(OG_ISA_SCALAR, false); }

TEST(programs_of_models_by_the_encoder) {
  if (og_isa_used() >= OG_ISA_AVX2) run_all(OG_ISA_AVX2, true);
  if (og_isa_used() >= OG_ISA_AVX512) run_all(OG_ISA_AVX512, true);
}

// Whether any mapping of the process may be written and executed at once.
static bool is_any_page_both(void) {
  char line[512];
  bool is_both = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return false;
  while (fgets(line, sizeof line, maps) != NULL) {
    const char *flags = strchr(line, ' ');
    is_both |= flags != NULL && strncmp(flags, " rwx", 4) == 0;
  }
  fclose(maps);
  return is_both;
}

TEST(no_page_is_writable_and_executable) {
  static const char bytes[64];
  og_loop_code *code = og_loop_code_create();
  REQUIRE(code != NULL);
  const char *at = og_loop_code_add(code, bytes, sizeof bytes);
  REQUIRE(at != NULL);
  CHECK(!is_any_page_both());
  CHECK(og_loop_code_seal(code));
  CHECK(!is_any_page_both());
  CHECK(memcmp(at, bytes, sizeof bytes) == 0);
done:
  og_loop_code_destroy(code);
}

TEST(code_that_is_not_sealed_is_interpreted) {
  og_loop *loop = NULL, *late = NULL;
  og_loop_info info;
  void *scratch = NULL;
  trial t = {.c = &cases[1], .dtype = loop_f32, .width = 40};
  og_loop_code *code = og_loop_code_create();
  REQUIRE(guarded_init(&t.in[0], 4096) && guarded_init(&t.out[0], 4096));
  REQUIRE(code != NULL);
  REQUIRE(loop_of(t.c, loop_f32, og_isa_used(), code, &loop) == OG_OK);
  og_loop_describe(loop, &info);
  CHECK_STR(info.by, "interpreter");
  CHECK_STR(info.reason, og_isa_used() >= OG_ISA_AVX2
                             ? "its code is not executable"
                             : "the machine has no AVX2");
  scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, t.width));
  REQUIRE(scratch != NULL);
  run_trial(&t, loop, scratch);
  CHECK(og_loop_code_seal(code));
  run_trial(&t, loop, scratch);
  // Sealed code takes no more.
  REQUIRE(loop_of(t.c, loop_f32, og_isa_used(), code, &late) == OG_OK);
  og_loop_describe(late, &info);
  CHECK_STR(info.by, "interpreter");
  run_trial(&t, late, scratch);
done:
  og_free(scratch);
  og_loop_destroy(loop);
  og_loop_destroy(late);
  og_loop_code_destroy(code);
  guarded_reset(&t.in[0]);
  guarded_reset(&t.out[0]);
}

TEST(create_frees_what_it_made) {
  og_loop_code *code = og_loop_code_create();
  og_loop *loop = NULL;
  loop_of(&cases[3], loop_f32, og_isa_used(), code, &loop);
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
}

TEST_MAIN("loop_run", CASE_NO_FAULTS(programs_of_models_by_the_interpreter),
          CASE_NO_FAULTS(programs_of_models_by_the_encoder),
          CASE_NO_FAULTS(no_page_is_writable_and_executable),
          CASE_NO_FAULTS(code_that_is_not_sealed_is_interpreted),
          CASE(create_frees_what_it_made))
