// SPDX-License-Identifier: Apache-2.0
// Row programs of one plan: equal ones are compiled once, and others are not
// taken for equal.

#include <math.h>

#include "machine.h"
#include "test.h"

enum { ROWS = 6, WIDTH = 37 };

// Two layers of the same two programs; the third has the first one's text, but
// reads one element for a row where the first reads a run.
static const char layers[] =
    "graph layers(%x: f32[6, 37], %r: f32[6, 1]) {\n"
    "  %a: f32[6, 37] = fused(%x, %x; program=\"y0 = exp(x0) + x1\")\n"
    "  %b: f32[6, 37] = fused(%a; program=\"t0 = row_sum(x0); y0 = x0 / t0\")\n"
    "  %c: f32[6, 37] = fused(%b, %a; program=\"y0 = exp(x0) + x1\")\n"
    "  %d: f32[6, 37] = fused(%c; program=\"t0 = row_sum(x0); y0 = x0 / t0\")\n"
    "  %e: f32[6, 37] = fused(%d, %r; program=\"y0 = exp(x0) + x1\")\n"
    "  return %e\n"
    "}\n";

static void layer(float (*x)[WIDTH], float (*y)[WIDTH], float (*to)[WIDTH]) {
  for (int r = 0; r < ROWS; ++r)
    for (int i = 0; i < WIDTH; ++i) to[r][i] = expf(x[r][i]) + y[r][i];
}

static void shares(float (*x)[WIDTH], float (*to)[WIDTH]) {
  for (int r = 0; r < ROWS; ++r) {
    double sum = 0;
    for (int i = 0; i < WIDTH; ++i) sum += (double)x[r][i];
    for (int i = 0; i < WIDTH; ++i) to[r][i] = (float)((double)x[r][i] / sum);
  }
}

static float x[ROWS][WIDTH], r[ROWS], y[ROWS][WIDTH], wanted[ROWS][WIDTH];

static void expect(void) {
  static float a[ROWS][WIDTH], b[ROWS][WIDTH], c[ROWS][WIDTH], d[ROWS][WIDTH];
  for (int i = 0; i < ROWS; ++i) {
    r[i] = (float)i / 8;
    for (int k = 0; k < WIDTH; ++k)
      x[i][k] = (float)((i * WIDTH + k) * 7 % 23) / 32;
  }
  layer(x, x, a);
  shares(a, b);
  layer(b, a, c);
  shares(c, d);
  for (int i = 0; i < ROWS; ++i)
    for (int k = 0; k < WIDTH; ++k) wanted[i][k] = expf(d[i][k]) + r[i];
}

static bool machine_run(machine *m) {
  int64_t shape[2][2] = {{ROWS, WIDTH}, {ROWS, 1}};
  int64_t strides[2][2] = {{WIDTH, 1}, {1, 1}};
  og_tensor tensors[2];
  const og_tensor *in[2] = {&tensors[0], &tensors[1]};
  void *storage[1] = {y}, *data[2] = {x, r};
  opgraft_call call = {.struct_size = sizeof call};
  for (int i = 0; i < 2; ++i)
    tensors[i] = (og_tensor){.data = data[i],
                             .device = {OG_CPU, 0},
                             .ndim = 2,
                             .dtype = {OG_CODE_FLOAT, 32, 1},
                             .shape = shape[i],
                             .strides = strides[i]};
  if (opgraft_executable_begin(m->executable, in, NULL, 2, &call, &m->error) !=
      OG_OK)
    return false;
  const og_status status = opgraft_call_run(&call, storage, &m->error);
  opgraft_call_end(&call);
  return status == OG_OK;
}

TEST(equal_programs_are_compiled_once) {
  machine m = {0};
  static char said[1 << 15];
  const opgraft_host host = {.struct_size = sizeof host, .threads = 1};
  expect();
  REQUIRE(machine_make(&m, layers, &host));
  REQUIRE(machine_run(&m));
  for (int i = 0; i < ROWS; ++i)
    for (int k = 0; k < WIDTH; ++k)
      CHECK(fabsf(y[i][k] - wanted[i][k]) <= 1e-6f * fabsf(wanted[i][k]));
  CHECK_EQ(stats_of(&m).fast_nodes, 5);
  REQUIRE(opgraft_executable_describe(m.executable, said, sizeof said) <
          sizeof said);
  CHECK(strstr(said, "\"programs_compiled\": 3,") != NULL);
  CHECK(strstr(said, "\"row_programs\": 5") != NULL);
done:
  machine_free(&m);
}

TEST_MAIN("exec_programs", CASE(equal_programs_are_compiled_once))
