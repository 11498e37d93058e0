// SPDX-License-Identifier: Apache-2.0
// Formulas: what is derived, and the derived kernel against libm.

#include <math.h>

#include "decl/decl.h"
#include "decl/formula.h"
#include "decl/infer/infer.h"
#include "unit/test.h"

enum { ROWS = 37, COLUMNS = 23, SIZE = ROWS * COLUMNS };

typedef struct bench {
  og_decl *decl;
  opgraft_frame frame;
  og_tensor x, y;
  int64_t x_shape[2], x_strides[2], y_shape[2], y_strides[2];
  double a;
} bench;

static bool bench_make(bench *b, const og_op *record) {
  opgraft_error error = {0};
  const og_op op = *record;
  memset(b, 0, sizeof *b);
  const og_status status = og_decl_create(&op, sizeof op, &b->decl, &error);
  if (status != OG_OK && status != OG_MEMORY) CHECK_STR(error.text, "");
  if (status != OG_OK) return false;
  b->frame.call = (og_call){.struct_size = sizeof(og_call),
                            .in = b->frame.in,
                            .out = b->frame.out,
                            .attr = b->frame.attr,
                            .dim = b->frame.dim,
                            .threads = 1,
                            .derived = b->decl->formula};
  return true;
}

static bool bench_init(bench *b, const char *schema, const char *row,
                       const char *dtype) {
  const og_op op = {.schema = schema, .row = row, .dtype = dtype};
  return bench_make(b, &op);
}

static og_tensor matrix(void *data, og_dtype dtype, int64_t *shape,
                        int64_t *strides, int64_t rows, int64_t columns) {
  shape[0] = rows;
  shape[1] = columns;
  strides[0] = columns;
  strides[1] = 1;
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 2,
                     .dtype = dtype,
                     .shape = shape,
                     .strides = strides};
}

static bool bench_run(bench *b, void *out) {
  opgraft_error error = {0};
  if (!CHECK_EQ(og_infer(b->decl, &b->frame, &error), OG_OK)) return false;
  b->frame.fresh[0].data = out;
  const og_status status = og_formula_run(&b->frame.call);
  return status != OG_MEMORY && CHECK_EQ(status, OG_OK);
}

static const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};

TEST(functions_are_libm) {
  static const struct {
    const char *text;
    double (*fn)(double);
  } rows[] = {{"exp(x)", exp},   {"log(abs(x))", log}, {"sqrt(abs(x))", sqrt},
              {"tanh(x)", tanh}, {"erf(x)", erf},      {"abs(x)", fabs}};
  static double x[SIZE], out[SIZE];
  for (int i = 0; i < SIZE; ++i) x[i] = (i - 400) / 100.0;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    static bench b;
    if (!bench_init(&b, "f(Tensor x) -> Tensor", rows[r].text, NULL)) return;
    const og_dtype f64 = {OG_CODE_FLOAT, 64, 1};
    b.x = matrix(x, f64, b.x_shape, b.x_strides, ROWS, COLUMNS);
    b.frame.in[0] = &b.x;
    const bool takes_abs = strstr(rows[r].text, "(abs") != NULL;
    if (bench_run(&b, out))
      for (int i = 0; i < SIZE; ++i)
        CHECK(out[i] == rows[r].fn(takes_abs ? fabs(x[i]) : x[i]));
    og_decl_destroy(b.decl);
  }
}

// Every operator once, in the order of the list that gives the expected values.
TEST(operators) {
  static const struct {
    const char *text;
    double wanted;  // of x = 3, y = -2, a = 0.5
  } rows[] = {
      {"x + y", 1},
      {"x - y", 5},
      {"x * y", -6},
      {"x / y", -1.5},
      {"-x", -3},
      {"--x", 3},
      {"x + y * a", 2},
      {"(x + y) * a", 0.5},
      {"x - y - a", 4.5},
      {"x / y / a", -3},
      {"pow(x, 2) + 1e1", 19},
      {"min(x, y, a)", -2},
      {"max(y, a, x)", 3},
      {"select(x > y, a, 7)", 0.5},
      {"select(x < y, a, 7)", 7},
      {"rsqrt(x + 1)", 0.5},
      {"sigmoid(x - 3)", 0.5},
      {"x == 3 and y == -2", 1},
      {"x == 2 or y != -2", 0},
      {"not x <= 2", 1},
      {"not not x >= 3", 1},
      {"1.5 * x > 4", 1},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    static bench b;
    float x = 3, y = -2, out = 99;
    if (!bench_init(&b, "f(Tensor x, Tensor y, Scalar a) -> Tensor",
                    rows[r].text, NULL))
      return;
    b.x = matrix(&x, f32, b.x_shape, b.x_strides, 1, 1);
    b.y = matrix(&y, f32, b.y_shape, b.y_strides, 1, 1);
    b.frame.in[0] = &b.x;
    b.frame.in[1] = &b.y;
    b.frame.attr[0] = (og_attr){.kind = OG_ATTR_FLOAT, .f = 0.5};
    if (bench_run(&b, &out)) CHECK((double)out == rows[r].wanted);
    og_decl_destroy(b.decl);
  }
}

// Transposed, sliced, broadcast and offset arguments, in parts of any length.
TEST(layouts) {
  static bench b;
  static float x[4 * SIZE], y[COLUMNS], out[SIZE];
  for (int i = 0; i < 4 * SIZE; ++i) x[i] = (float)i;
  for (int i = 0; i < COLUMNS; ++i) y[i] = (float)(1000 * i);
  if (!bench_init(&b, "f(Tensor x, Tensor y) -> Tensor", "x + y", NULL)) return;
  static const struct {
    int64_t x_strides[2];
    int64_t y_strides[2];
    int64_t y_shape[2];
    uint64_t offset;
  } rows[] = {
      {{COLUMNS, 1}, {0, 1}, {1, COLUMNS}, 0},
      {{1, ROWS}, {0, 1}, {1, COLUMNS}, 8},
      {{2 * COLUMNS, 2}, {1, 5}, {ROWS, 1}, 4},
      {{0, 0}, {1, 1}, {1, 1}, 12},
      {{COLUMNS, 1}, {0, 0}, {ROWS, COLUMNS}, 0},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    b.x = matrix(x, f32, b.x_shape, b.x_strides, ROWS, COLUMNS);
    b.y = matrix(y, f32, b.y_shape, b.y_strides, 1, 1);
    b.x.byte_offset = rows[r].offset;
    memcpy(b.x_strides, rows[r].x_strides, sizeof b.x_strides);
    memcpy(b.y_strides, rows[r].y_strides, sizeof b.y_strides);
    memcpy(b.y_shape, rows[r].y_shape, sizeof b.y_shape);
    // Where y has a row's length, the call sets its stride there.
    if (b.y_shape[0] == ROWS && b.y_shape[1] == 1) b.y_strides[0] = 0;
    b.frame.in[0] = &b.x;
    b.frame.in[1] = &b.y;
    if (!bench_run(&b, out)) break;
    for (int64_t i = 0; i < ROWS; ++i)
      for (int64_t j = 0; j < COLUMNS; ++j) {
        const int64_t at = i * b.x_strides[0] + j * b.x_strides[1];
        const int64_t y_at = (b.y_shape[0] > 1 ? i * b.y_strides[0] : 0) +
                             (b.y_shape[1] > 1 ? j * b.y_strides[1] : 0);
        const float wanted = x[at + (int64_t)rows[r].offset / 4] + y[y_at];
        CHECK(out[i * COLUMNS + j] == wanted);
      }
  }
  og_decl_destroy(b.decl);
}

// Each type is read and written; what a type cannot hold is cut to its range.
TEST(types) {
  static const struct {
    og_dtype dtype;
    double lowest, highest;
  } rows[] = {
      {{OG_CODE_FLOAT, 16, 1}, -60000, 60000},
      {{OG_CODE_BFLOAT, 16, 1}, -1e30, 1e30},
      {{OG_CODE_FLOAT, 32, 1}, -1e30, 1e30},
      {{OG_CODE_FLOAT, 64, 1}, -1e30, 1e30},
      {{OG_CODE_INT, 8, 1}, -128, 127},
      {{OG_CODE_INT, 16, 1}, -32768, 32767},
      {{OG_CODE_INT, 32, 1}, -2147483648.0, 2147483647},
      {{OG_CODE_INT, 64, 1}, -9223372036854775808.0, 9223372036854775807.0},
      {{OG_CODE_UINT, 8, 1}, 0, 255},
      {{OG_CODE_UINT, 16, 1}, 0, 65535},
      {{OG_CODE_UINT, 32, 1}, 0, 4294967295.0},
      {{OG_CODE_UINT, 64, 1}, 0, 18446744073709551615.0},
      {{OG_CODE_BOOL, 8, 1}, 0, 1},
  };
  static const double values[] = {0, 1, -3, 100, 1e30, -1e30};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    static bench b;
    double x[6], back[6];
    uint64_t stored[6] = {0};
    char dtype[64];
    snprintf(dtype, sizeof dtype, "x: any -> %s", og_dtype_name(rows[r].dtype));
    // Out to the type and back again.
    if (!bench_init(&b, "f(Tensor x) -> Tensor", "x",
                    "x: floating|integral|bool -> f64"))
      return;
    og_decl_destroy(b.decl);
    snprintf(dtype, sizeof dtype, "x: f64 -> %s", og_dtype_name(rows[r].dtype));
    if (!bench_init(&b, "f(Tensor x) -> Tensor", "x", dtype)) return;
    memcpy(x, values, sizeof x);
    const bool is_half =
        rows[r].dtype.bits == 16 && rows[r].dtype.code == OG_CODE_FLOAT;
    if (is_half) x[4] = 60000, x[5] = -60000;
    const og_dtype f64 = {OG_CODE_FLOAT, 64, 1};
    b.x = matrix(x, f64, b.x_shape, b.x_strides, 1, 6);
    b.frame.in[0] = &b.x;
    const bool ran = bench_run(&b, stored);
    og_decl_destroy(b.decl);
    if (!ran || !bench_init(&b, "f(Tensor x) -> Tensor", "x",
                            "x: floating|integral|bool -> f64"))
      return;
    b.x = matrix(stored, rows[r].dtype, b.x_shape, b.x_strides, 1, 6);
    b.frame.in[0] = &b.x;
    if (bench_run(&b, back))
      for (int i = 0; i < 6; ++i) {
        double wanted = x[i];
        if (rows[r].dtype.code == OG_CODE_BOOL) wanted = x[i] != 0;
        if (wanted > rows[r].highest) wanted = rows[r].highest;
        if (wanted < rows[r].lowest) wanted = rows[r].lowest;
        const double error = fabs(back[i] - wanted);
        CHECK(error <= fabs(wanted) * 0.004);
        if (rows[r].dtype.code == OG_CODE_INT) CHECK(error == 0);
      }
    og_decl_destroy(b.decl);
  }
}

TEST(missing_expression) {
  static bench b;
  float x = 1, out;
  if (!bench_init(&b, "f(Tensor x, Scalar a) -> Tensor", "x * a", NULL)) return;
  b.x = matrix(&x, f32, b.x_shape, b.x_strides, 1, 1);
  b.frame.in[0] = &b.x;
  b.frame.attr[0] = (og_attr){.kind = OG_ATTR_COMPLEX, .f = 1, .imag = 1};
  opgraft_error error;
  CHECK_EQ(og_infer(b.decl, &b.frame, &error), OG_OK);
  b.frame.fresh[0].data = &out;
  CHECK_EQ(og_formula_run(&b.frame.call), OG_UNSUPPORTED);
  b.frame.call.derived = NULL;
  CHECK_EQ(og_formula_run(&b.frame.call), OG_INTERNAL);
  og_decl_destroy(b.decl);
}

// --- Rows --------------------------------------------------------------------

static const char norm_schema[] =
    "f(Tensor x, Tensor? w=None, float eps=0.5) -> (Tensor y, Tensor top)";
static const char norm_row[] =
    "s = row_mean(x * x) + eps; y = x / sqrt(s); y = y * w; top = row_max(x)";
static const char norm_shape[] = "x[*N, D], w?[D] -> [*N, D], [*N]";

static double norm_wanted(const float *x, const float *w, int64_t width,
                          int64_t i) {
  double sum = 0;
  for (int64_t k = 0; k < width; ++k) sum += (double)x[k] * (double)x[k];
  return (double)x[i] / sqrt(sum / (double)width + 0.5) *
         (w != NULL ? (double)w[i] : 1);
}

static void norm_check(bench *b, const float *x, const float *w, int64_t rows,
                       int64_t width, const float *y, const float *top) {
  for (int64_t r = 0; r < rows; ++r) {
    float most = -INFINITY;
    for (int64_t i = 0; i < width; ++i) {
      const double wanted = norm_wanted(x + r * width, w, width, i);
      CHECK(fabs((double)y[r * width + i] - wanted) <= fabs(wanted) * 4e-7);
      if (x[r * width + i] > most) most = x[r * width + i];
    }
    CHECK(top[r] == most);
  }
  (void)b;
}

// Rows of several widths, with and without an optional operand, twice: the
// second time the first result is written where x lies.
TEST(rows) {
  static const int64_t widths[] = {1, 7, 23};
  static float x[SIZE], w[COLUMNS], y[SIZE], top[SIZE];
  static bench b;
  for (int i = 0; i < COLUMNS; ++i) w[i] = (float)(i - 7) / 4;
  const og_op op = {
      .schema = norm_schema, .row = norm_row, .shape = norm_shape};
  if (!bench_make(&b, &op)) return;
  for (int round = 0; round < 12; ++round) {
    const int64_t width = widths[round % 3], rows = SIZE / width;
    const bool has_weight = round / 3 % 2 == 1, in_place = round >= 6;
    int64_t shape[1] = {width}, strides[1] = {1};
    const og_tensor weight = {.data = w,
                              .device = {OG_CPU, 0},
                              .ndim = 1,
                              .dtype = f32,
                              .shape = shape,
                              .strides = strides};
    opgraft_error error;
    for (int i = 0; i < SIZE; ++i) y[i] = x[i] = (float)((i * 37) % 101) - 50;
    b.x = matrix(in_place ? y : x, f32, b.x_shape, b.x_strides, rows, width);
    b.frame.in[0] = &b.x;
    b.frame.in[1] = has_weight ? &weight : NULL;
    b.frame.attr[0] = (og_attr){.kind = OG_ATTR_FLOAT, .f = 0.5};
    if (!CHECK_EQ(og_infer(b.decl, &b.frame, &error), OG_OK)) break;
    CHECK_EQ(b.frame.fresh[1].ndim, 1);
    b.frame.fresh[0].data = y;
    b.frame.fresh[1].data = top;
    const og_status status = og_formula_run(&b.frame.call);
    if (status == OG_MEMORY || !CHECK_EQ(status, OG_OK)) break;
    norm_check(&b, x, has_weight ? w : NULL, rows, width, y, top);
  }
  og_decl_destroy(b.decl);
}

// Sums of an empty row are 0; it has no largest element.
TEST(empty_rows) {
  static const struct {
    const char *row;
    og_status status;
  } cases[] = {{"row_sum(x)", OG_OK}, {"row_max(x)", OG_INVALID}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    static bench b;
    float x, out[3] = {9, 9, 9};
    opgraft_error error;
    const og_op op = {.schema = "f(Tensor x) -> Tensor",
                      .shape = "x[*N, D] -> [*N]",
                      .row = cases[k].row};
    if (!bench_make(&b, &op)) return;
    b.x = matrix(&x, f32, b.x_shape, b.x_strides, 3, 0);
    b.frame.in[0] = &b.x;
    CHECK_EQ(og_infer(b.decl, &b.frame, &error), OG_OK);
    b.frame.fresh[0].data = out;
    const og_status status = og_formula_run(&b.frame.call);
    if (status != OG_MEMORY) CHECK_EQ(status, cases[k].status);
    if (status == OG_OK) CHECK(out[0] == 0 && out[2] == 0);
    og_decl_destroy(b.decl);
  }
}

// Programs of integers are exact and wrap.
TEST(integers) {
  static bench b;
  int64_t x[2] = {INT64_MAX, ((int64_t)1 << 53) + 1}, out[2];
  const og_dtype i64 = {OG_CODE_INT, 64, 1};
  if (!bench_init(&b, "f(Tensor x, int n) -> Tensor",
                  "row_sum(x) + bit_and(x, 1) * n", "x: i64 -> i64"))
    return;
  b.x = matrix(x, i64, b.x_shape, b.x_strides, 1, 2);
  b.frame.in[0] = &b.x;
  b.frame.attr[0] = (og_attr){.kind = OG_ATTR_INT, .i = 5};
  if (bench_run(&b, out)) {
    const uint64_t sum = (uint64_t)x[0] + (uint64_t)x[1];
    CHECK_EQ(out[0], (int64_t)(sum + 5));
    CHECK_EQ(out[1], (int64_t)(sum + 5));
  }
  og_decl_destroy(b.decl);
}

// Integers that f32 has not are not compared in f32, but for one with a number
// that it has.
TEST(comparisons) {
  static const struct {
    const char *row;
    og_status status;
  } cases[] = {{"select(n == -100, 0, x)", OG_OK},
               {"select(n == k, 0, x)", OG_OK},
               {"select(n + 1 == k, 0, x)", OG_UNSUPPORTED},
               {"select(n == n * n, 0, x)", OG_UNSUPPORTED}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    static bench b;
    float x = 3, out = 7;
    int64_t n = ((int64_t)1 << 40) + 1;
    opgraft_error error;
    if (!bench_init(&b, "f(Tensor x, Tensor n, int k) -> Tensor", cases[k].row,
                    "x: f32, n: i64 -> f32"))
      return;
    b.x = matrix(&x, f32, b.x_shape, b.x_strides, 1, 1);
    b.y = matrix(&n, (og_dtype){OG_CODE_INT, 64, 1}, b.y_shape, b.y_strides, 1,
                 1);
    b.frame.in[0] = &b.x;
    b.frame.in[1] = &b.y;
    b.frame.attr[0] = (og_attr){.kind = OG_ATTR_INT, .i = -100};
    CHECK_EQ(og_infer(b.decl, &b.frame, &error), OG_OK);
    b.frame.fresh[0].data = &out;
    const og_status status = og_formula_run(&b.frame.call);
    if (status != OG_MEMORY) CHECK_EQ(status, cases[k].status);
    if (status == OG_OK) CHECK(out == 3);
    og_decl_destroy(b.decl);
  }
}

TEST(derives_what_is_missing) {
  opgraft_error error;
  og_decl *decl = NULL;
  const og_op op = {.schema = "f(Tensor N0, Tensor N_) -> Tensor",
                    .row = "N0 + N_",
                    .dtype = "N0: f32|c64, N_: N0 -> N0"};
  const og_status status = og_decl_create(&op, sizeof op, &decl, &error);
  // Complex types are declared, and the derived kernel takes none.
  CHECK(status == OG_INVALID || status == OG_MEMORY);
  const og_op real = {.schema = op.schema, .row = op.row};
  REQUIRE(og_decl_create(&real, sizeof real, &decl, &error) == OG_OK);
  CHECK(decl->is_formula_derived);
  CHECK_EQ(decl->strides[0], OG_STRIDES_ANY);
  CHECK_EQ(decl->dim_count, 2);
  CHECK_STR(decl->record->dtype,
            "N0: floating, N_: floating -> promote(N0, N_)");
done:
  og_decl_destroy(decl);
}

static og_status on_device(const og_call *call) {
  return og_fail(call, OG_INTERNAL, "not called");
}

// The formula stands beside kernels of other devices.
TEST(completes_other_devices) {
  static const og_kernel kernels[] = {
      {.device = OG_CUDA, .dtypes = "f32|bf16", .run = on_device}};
  const og_op op = {.schema = "f(Tensor x) -> Tensor",
                    .row = "half * x",
                    .dtype = "x: f32|bf16 -> x",
                    .kernels = OG_KERNELS(kernels)};
  opgraft_error error;
  og_decl *decl = NULL;
  REQUIRE(og_decl_create(&op, sizeof op, &decl, &error) == OG_OK);
  CHECK(decl->is_formula_derived);
  CHECK_EQ(decl->kernel_count, 2);
  CHECK(decl->kernels[0].run == on_device);
  CHECK_EQ(decl->kernels[1].device, OG_CPU);
  CHECK(decl->kernels[1].run == og_formula_run);
  CHECK(decl->strides[0] != OG_STRIDES_ANY);  // which the kernel does not take
done:
  og_decl_destroy(decl);
}

TEST_MAIN("decl_formula", CASE(functions_are_libm), CASE(operators),
          CASE(layouts), CASE(types), CASE(missing_expression), CASE(rows),
          CASE(empty_rows), CASE(integers), CASE(comparisons),
          CASE(derives_what_is_missing), CASE(completes_other_devices))
