// SPDX-License-Identifier: Apache-2.0
// Random row programs, as many as the argument says: `loop_random 20000`.
//
// What each instruction set's code computes equals what the interpreter does,
// bit for bit, but for which NaN it is; the digest that it prints is the same
// under every OPGRAFT_ISA. Non-temporal stores, where rows are whole lines,
// store the same. With libm's functions both equal statements that the
// scalar interpreter runs one by one. Where output 0 may lie in an input's
// memory it gets the same bits there. Buffers end at an unmapped page.

#define _GNU_SOURCE
#include "unit/loop_grow.h"

enum { PROGRAMS = 400, ROWS = 3, WIDTH_MAX = GROW_WIDTH_MAX };

static int64_t program_count = PROGRAMS;

typedef struct memory {
  guarded in[GROW_INPUTS_MAX], out[GROW_OUTPUTS_MAX];
  uint8_t expected[GROW_OUTPUTS_MAX][ROWS * WIDTH_MAX * 8];
} memory;

static int64_t width_of(const og_loop_operand *operand, int64_t width) {
  return operand->form == OG_LOOP_ROW ? 1 : width;
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
    grow_fill(g, g->in[k].dtype, at, count);
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

// FNV-1a over all results, with one NaN for all.
static uint64_t digest = 0xcbf29ce484222325u;

static void digest_add(const grown *g, const og_loop_call *call) {
  for (int32_t k = 0; k < g->out_count; ++k) {
    const int64_t item = (int64_t)og_dtype_bytes(g->out[k].dtype);
    const int64_t count = ROWS * call->out_row_bytes[k] / item;
    for (int64_t i = 0; i < count; ++i) {
      og_float_bits bits = {.f = loop_get(g->out[k].dtype, call->out[k], i)};
      if (isnan(bits.f)) bits.u = 0x7fc00000u;
      digest = (digest ^ bits.u) * 0x100000001b3u;
    }
  }
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
      if (grow_is_float(dtype) && isnan(a) && isnan(b)) continue;
      printf("%s: y%d[%d] is %a, %a by the interpreter; width %d, %s\n", by,
             (int)k, (int)i, (double)a, (double)b, (int)call->width, g->text);
      return false;
    }
  }
  return true;
}

static og_loop *loop_of(const grown *g, og_loop_math math, og_isa isa,
                        og_loop_code *code) {
  og_loop_spec spec = grow_spec(g, isa);
  spec.math = math;
  spec.nontemporal = grow_whole_lines(g);
  spec.prefetch = true;
  og_loop *loop = NULL;
  opgraft_error error;
  if (og_loop_create(&spec, code, &loop, &error) != OG_OK)
    printf("%s\n%s\n", error.text, g->text);
  return loop;
}

// Rows of whole lines, and buffers that end at a page.
static void run_nontemporal(const grown *g, const memory *m,
                            const og_loop *loop, const og_loop_call *call,
                            const char *by) {
  og_loop_call asking = *call;
  if (call->width * 2 % OG_LOOP_LINE != 0) return;
  asking.nontemporal = true;
  clear(g, call);
  og_loop_run(loop, &asking);
  CHECK(is_same(g, m, call, by));
}

// The same rows, each a block of its own that moves the rest of the way.
static void run_blocks(const grown *g, const memory *m, const og_loop *loop,
                       const og_loop_call *call, const char *by) {
  enum { ASIDE = 4096 };
  og_loop_call moved = *call;
  moved.rows = 1;
  moved.blocks = ROWS;
  for (int32_t k = 0; k < g->in_count; ++k) {
    moved.in_row_bytes[k] = ASIDE;
    moved.in_block_bytes[k] = call->in_row_bytes[k] - ASIDE;
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    moved.out_row_bytes[k] = -ASIDE;
    moved.out_block_bytes[k] = call->out_row_bytes[k] + ASIDE;
  }
  clear(g, call);
  og_loop_run(loop, &moved);
  CHECK(is_same(g, m, call, by));
}

// The input whose memory output 0 may take, or -1.
static int32_t in_place_of(const grown *g, const og_loop *loop,
                           const og_loop_call *call) {
  for (int32_t k = 0; k < g->in_count; ++k)
    if (og_dtype_equal(g->in[k].dtype, g->out[0].dtype) &&
        g->in[k].form == g->out[0].form && call->in_row_bytes[k] != 0 &&
        og_loop_may_overwrite(loop, k))
      return k;
  return -1;
}

static void run_in_place(const grown *g, const memory *m, const og_loop *loop,
                         const og_loop_call *call, const char *by) {
  const int32_t k = in_place_of(g, loop, call);
  og_loop_call moved = *call;
  if (k < 0) return;
  clear(g, call);
  memcpy(call->out[0], call->in[k], (size_t)(ROWS * call->in_row_bytes[k]));
  moved.in[k] = call->out[0];
  og_loop_run(loop, &moved);
  CHECK(is_same(g, m, call, by));
}

static void run_encoded(const grown *g, memory *m, og_loop_call *call,
                        og_loop_math math, og_isa isa) {
  og_loop_info info;
  og_loop_code *code = og_loop_code_create();
  og_loop *loop = loop_of(g, math, isa, code);
  REQUIRE(loop != NULL && og_loop_code_seal(code));
  og_loop_describe(loop, &info);
  REQUIRE(CHECK_STR(info.by, og_isa_name(isa)));
  clear(g, call);
  og_loop_run(loop, call);
  CHECK(is_same(g, m, call, info.by));
  run_blocks(g, m, loop, call, info.by);
  run_nontemporal(g, m, loop, call, info.by);
  run_in_place(g, m, loop, call, info.by);
done:
  og_loop_destroy(loop);
  og_loop_code_destroy(code);
}

// --- Statements one by one ---------------------------------------------------

enum { VALUES_MAX = GROW_INPUTS_MAX + 16 };

// Of one row: inputs, then statements.
typedef struct oracle {
  float values[VALUES_MAX][WIDTH_MAX];
  int64_t width;
  int64_t from;
} oracle;

static void oracle_load(void *state, const og_scalar_instruction *code,
                        int64_t n, void *to) {
  const oracle *o = state;
  float *out = to;
  for (int64_t i = 0; i < n; ++i)
    out[i] = code->op == OG_SCALAR_number ? (float)o->width
                                          : o->values[code->slot][o->from + i];
}

static float joined(float a, float b, og_loop_reduction kind) {
  if (kind == OG_LOOP_SUM) return a + b;
  if (isnan(a)) return a;
  return (kind == OG_LOOP_MAX ? a > b : a < b) ? a : b;
}

static float reduced(const float *x, int64_t n, og_loop_reduction kind) {
  float partials[16];
  for (int32_t k = 0; k < 16; ++k)
    partials[k] = kind == OG_LOOP_SUM   ? 0
                  : kind == OG_LOOP_MAX ? -INFINITY
                                        : INFINITY;
  for (int64_t i = 0; i < n; ++i)
    partials[i % 16] = joined(partials[i % 16], x[i], kind);
  for (int32_t half = 8; half > 0; half /= 2)
    for (int32_t k = 0; k < half; ++k)
      partials[k] = joined(partials[k], partials[k + half], kind);
  return partials[0];
}

static void running(float *x, int64_t n, og_loop_reduction kind) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = kind == OG_LOOP_CUMSUM ? k : n - 1 - k;
    sum += (double)x[i];
    x[i] = (float)sum;
  }
}

static void oracle_statement(oracle *o, const og_loop_statement *s,
                             float *out) {
  static float found[WIDTH_MAX + OG_SCALAR_BLOCK];
  const int64_t width = o->width > 0 ? o->width : 1;
  for (o->from = 0; o->from < width; o->from += OG_SCALAR_BLOCK) {
    const int64_t left = width - o->from;
    og_scalar_run_f32(&s->expression,
                      left < OG_SCALAR_BLOCK ? left : OG_SCALAR_BLOCK,
                      oracle_load, o, found + o->from);
  }
  const bool reduces = og_loop_reduces(s->reduction);
  const float row = reduces ? reduced(found, o->width, s->reduction) : 0;
  if (og_loop_is_running(s->reduction)) running(found, o->width, s->reduction);
  for (int64_t i = 0; i < WIDTH_MAX; ++i)
    out[i] = reduces ? row : i < width ? found[i] : 0;
}

// Integers are compared where a cast of the number has one meaning.
static bool is_right(og_dtype dtype, const void *at, int64_t i, float wanted) {
  uint8_t cast[8] = {0};
  const float found = loop_get(dtype, at, i);
  if (!grow_is_float(dtype) && dtype.code != OG_CODE_BOOL &&
      !(fabsf(wanted) < 100))
    return true;
  if (dtype.code == OG_CODE_BOOL) return found == (float)(wanted != 0);
  loop_set(dtype, cast, 0, wanted);
  const float rounded = loop_get(dtype, cast, 0);
  return found == rounded ? signbit(found) == signbit(rounded)
                          : isnan(found) && isnan(rounded);
}

static bool oracle_compare(const grown *g, const og_loop_call *call,
                           const oracle *o, const og_loop_program *program,
                           int64_t row) {
  for (int32_t s = 0; s < program->statement_count; ++s) {
    const int32_t k = program->statements[s].output;
    if (k < 0) continue;
    const int64_t width = width_of(&g->out[k], call->width);
    for (int64_t i = 0; i < width; ++i) {
      const float wanted = o->values[g->in_count + s][i];
      if (is_right(g->out[k].dtype, call->out[k], row * width + i, wanted))
        continue;
      printf("y%d[%d, %d] is %a, by statements %a; width %d, %s\n", (int)k,
             (int)row, (int)i,
             (double)loop_get(g->out[k].dtype, call->out[k], row * width + i),
             (double)wanted, (int)call->width, g->text);
      return false;
    }
  }
  return true;
}

static void oracle_check(const grown *g, const og_loop_call *call) {
  static oracle o;
  og_arena arena = {0};
  og_loop_program program;
  opgraft_error error;
  bool is_row[GROW_INPUTS_MAX], is_right_so_far = true;
  for (int32_t k = 0; k < g->in_count; ++k)
    is_row[k] = g->in[k].form == OG_LOOP_ROW;
  REQUIRE(og_loop_parse(g->text, is_row, g->in_count, g->out_count, &arena,
                        &program, &error) == OG_OK);
  o.width = call->width;
  for (int64_t r = 0; r < ROWS && is_right_so_far; ++r) {
    for (int32_t k = 0; k < g->in_count; ++k) {
      const int64_t item = (int64_t)og_dtype_bytes(g->in[k].dtype);
      const int64_t first = r * call->in_row_bytes[k] / item;
      for (int64_t i = 0; i < call->width || i == 0; ++i)
        if (call->width > 0 || is_row[k])
          o.values[k][i] = loop_get(g->in[k].dtype, call->in[k],
                                    first + (is_row[k] ? 0 : i));
    }
    for (int32_t s = 0; s < program.statement_count; ++s)
      oracle_statement(&o, &program.statements[s], o.values[g->in_count + s]);
    is_right_so_far = oracle_compare(g, call, &o, &program, r);
  }
  CHECK(is_right_so_far);
done:
  og_arena_destroy(&arena);
}

// Where the scalar interpreter may differ: its fused multiply-add rounds twice,
// and it tells the sign of a NaN.
static bool has_oracle(const grown *g) {
  static const char *const others[] = {"fma(", "sign_bit(", "copysign("};
  for (size_t k = 0; k < sizeof others / sizeof *others; ++k)
    if (strstr(g->text, others[k]) != NULL) return false;
  return true;
}

// --- Programs ----------------------------------------------------------------

static bool run_program(grown *g, memory *m, og_loop_math math, int64_t seed) {
  const int before = test_now.missed;
  og_loop_call call = {.rows = ROWS, .blocks = 1};
  grow(g, (uint64_t)seed);
  call.width = grow_width(g);
  og_loop *loop = loop_of(g, math, OG_ISA_SCALAR, NULL);
  REQUIRE(loop != NULL);
  call.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, call.width));
  REQUIRE(call.scratch != NULL);
  fill(g, m, &call);
  clear(g, &call);
  og_loop_run(loop, &call);
  keep_expected(g, m, &call);
  run_blocks(g, m, loop, &call, "the interpreter");
  if (math == OG_LOOP_MATH_FAST)
    digest_add(g, &call);
  else if (has_oracle(g))
    oracle_check(g, &call);
  for (int isa = OG_ISA_AVX2; isa <= OG_ISA_AVX512; ++isa)
    if (isa <= (int)og_isa_used()) run_encoded(g, m, &call, math, (og_isa)isa);
done:
  og_free(call.scratch);
  og_loop_destroy(loop);
  return test_now.missed == before;
}

static void run_programs(og_loop_math math) {
  static memory m;
  static grown g;
  int64_t seed = 0;
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.in[k], sizeof *m.expected));
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k)
    REQUIRE(guarded_init(&m.out[k], sizeof *m.expected));
  while (seed < program_count && run_program(&g, &m, math, seed)) ++seed;
  if (program_count != PROGRAMS)
    printf("%d programs are the same; digest %016" PRIx64 "\n", (int)seed,
           digest);
done:
  for (int32_t k = 0; k < GROW_INPUTS_MAX; ++k) guarded_reset(&m.in[k]);
  for (int32_t k = 0; k < GROW_OUTPUTS_MAX; ++k) guarded_reset(&m.out[k]);
}

TEST(code_equals_the_interpreter) { run_programs(OG_LOOP_MATH_FAST); }

TEST(with_libm_both_equal_statements_one_by_one) {
  run_programs(OG_LOOP_MATH_STRICT);
}

static const test_case cases[] = {
    CASE_NO_FAULTS(code_equals_the_interpreter),
    CASE_NO_FAULTS(with_libm_both_equal_statements_one_by_one)};

int main(int argc, char **argv) {
  if (argc > 1) program_count = strtoll(argv[1], NULL, 10);
  return test_run_all("loop_random", cases, 2);
}
