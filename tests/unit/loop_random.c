// SPDX-License-Identifier: Apache-2.0
// Random row programs: what each instruction set's code computes equals what
// the interpreter does, bit for bit, but for which NaN it is. As many programs
// as the argument says: `loop_random 20000`. Buffers end at an unmapped page.

#define _GNU_SOURCE
#include <math.h>

#include "unit/loop_grow.h"

enum { PROGRAMS = 400, ROWS = 3, WIDTH_MAX = 300 };

static int64_t program_count = PROGRAMS;

typedef struct memory {
  guarded in[GROW_INPUTS_MAX], out[GROW_OUTPUTS_MAX];
  uint8_t expected[GROW_OUTPUTS_MAX][ROWS * WIDTH_MAX * 8];
} memory;

static int64_t width_of(const og_loop_operand *operand, int64_t width) {
  return operand->form == OG_LOOP_ROW ? 1 : width;
}

static float draw_number(grown *g) {
  static const float special[] = {
      0,        -0.0f, 1,      -1,   INFINITY, -INFINITY, 0x1p-149f, 0x1p-126f,
      0x1p127f, 0.5f,  -88.5f, 1e6f, -3e9f,    NAN,       -NAN,      100};
  const og_float_bits bits = {.u = (uint32_t)loop_draw(&g->state)};
  switch (grow_draw(g, 8)) {
    case 0:
      return special[grow_draw(g, 16)];
    case 1:
      return bits.f;
    default:
      return (float)(grow_draw(g, 4001) - 2000) / 256;
  }
}

static bool is_float(og_dtype dtype) {
  return dtype.code == OG_CODE_FLOAT || dtype.code == OG_CODE_BFLOAT;
}

static void fill(grown *g, const memory *m, og_loop_call *call) {
  for (int32_t k = 0; k < g->in_count; ++k) {
    const int64_t width = width_of(&g->in[k], call->width);
    const size_t item = og_dtype_bytes(g->in[k].dtype);
    const bool repeats = grow_draw(g, 4) == 0;
    const int64_t count = repeats ? width : ROWS * width;
    char *at = guarded_end(&m->in[k], (size_t)count * item);
    call->in[k] = at;
    call->in_row_bytes[k] = repeats ? 0 : width * (int64_t)item;
    for (int64_t i = 0; i < count; ++i) {
      const float x = draw_number(g);
      const bool fits = is_float(g->in[k].dtype) || fabsf(x) < 100;
      loop_set(g->in[k].dtype, at, i, fits ? x : 1);
    }
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    const int64_t bytes = width_of(&g->out[k], call->width) *
                          (int64_t)og_dtype_bytes(g->out[k].dtype);
    call->out[k] = guarded_end(&m->out[k], (size_t)(ROWS * bytes));
    call->out_row_bytes[k] = bytes;
  }
}

static void clear(const grown *g, const og_loop_call *call) {
  for (int32_t k = 0; k < g->out_count; ++k)
    memset(call->out[k], 0x5a, (size_t)(ROWS * call->out_row_bytes[k]));
}

static void keep_expected(const grown *g, memory *m, const og_loop_call *call) {
  for (int32_t k = 0; k < g->out_count; ++k)
    memcpy(m->expected[k], call->out[k],
           (size_t)(ROWS * call->out_row_bytes[k]));
}

static bool is_same(const grown *g, const memory *m, const og_loop_call *call,
                    const char *by) {
  for (int32_t k = 0; k < g->out_count; ++k) {
    const og_dtype dtype = g->out[k].dtype;
    const size_t item = og_dtype_bytes(dtype);
    const int64_t count = ROWS * call->out_row_bytes[k] / (int64_t)item;
    const uint8_t *found = call->out[k], *expected = m->expected[k];
    for (int64_t i = 0; i < count; ++i) {
      if (memcmp(found + (size_t)i * item, expected + (size_t)i * item, item) ==
          0)
        continue;
      const float a = loop_get(dtype, found, i);
      const float b = loop_get(dtype, expected, i);
      if (is_float(dtype) && isnan(a) && isnan(b)) continue;
      printf("%s: y%d[%d] is %a, %a by the interpreter; width %d, %s\n", by,
             (int)k, (int)i, (double)a, (double)b, (int)call->width, g->text);
      return false;
    }
  }
  return true;
}

static og_loop *loop_of(const grown *g, og_isa isa, og_loop_code *code) {
  const og_loop_spec spec = grow_spec(g, isa);
  og_loop *loop = NULL;
  opgraft_error error;
  if (og_loop_create(&spec, code, &loop, &error) != OG_OK)
    printf("%s\n%s\n", error.text, g->text);
  return loop;
}

static void run_encoded(const grown *g, memory *m, og_loop_call *call,
                        og_isa isa) {
  og_loop_info info;
  og_loop_code *code = og_loop_code_create();
  og_loop *loop = loop_of(g, isa, code);
  REQUIRE(loop != NULL && og_loop_code_seal(code));
  og_loop_describe(loop, &info);
  REQUIRE(CHECK_STR(info.by, og_isa_name(isa)));
  clear(g, call);
  og_loop_run(loop, call);
  CHECK(is_same(g, m, call, info.by));
done:
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
}

static bool run_program(grown *g, memory *m, int64_t seed) {
  static const int64_t widths[] = {0, 1, 5, 8, 13, 16, 17, 24, 31, 64, 77, 300};
  const int before = test_now.missed;
  og_loop_call call = {.rows = ROWS};
  grow(g, (uint64_t)seed);
  call.width = widths[grow_draw(g, 12)];
  og_loop *loop = loop_of(g, OG_ISA_SCALAR, NULL);
  REQUIRE(loop != NULL);
  call.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, call.width));
  REQUIRE(call.scratch != NULL);
  fill(g, m, &call);
  clear(g, &call);
  og_loop_run(loop, &call);
  keep_expected(g, m, &call);
  for (int isa = OG_ISA_AVX2; isa <= OG_ISA_AVX512; ++isa)
    if (isa <= (int)og_isa_used()) run_encoded(g, m, &call, (og_isa)isa);
done:
  og_free(call.scratch);
  og_loop_destroy(loop);
  return test_now.missed == before;
}

TEST(code_equals_the_interpreter) {
  static memory m;
  static grown g;
  int64_t seed = 0;
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.in[k], sizeof *m.expected));
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.out[k], sizeof *m.expected));
  while (seed < program_count && run_program(&g, &m, seed)) ++seed;
  if (program_count != PROGRAMS)
    printf("%d programs are the same\n", (int)seed);
done:
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k) guarded_reset(&m.in[k]);
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k) guarded_reset(&m.out[k]);
}

static const test_case cases[] = {CASE_NO_FAULTS(code_equals_the_interpreter)};

int main(int argc, char **argv) {
  if (argc > 1) program_count = strtoll(argv[1], NULL, 10);
  return test_run_all("loop_random", cases, 1);
}
