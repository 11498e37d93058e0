// SPDX-License-Identifier: Apache-2.0
// One text, two readers: every pointwise row of ops.def parses, and the loop
// that the compiler made of it gives what the interpreter gives, bit for bit,
// in every type that the row computes in.

#include <float.h>
#include <math.h>

#include "exec/plain/pointwise.h"
#include "graph/op.h"
#include "scalar/forms.h"
#include "unit/test.h"

enum { BLOCK = OG_SCALAR_BLOCK, OPERANDS = OG_LOOP_OPERANDS, BLOCKS = 64 };

// --- Values ------------------------------------------------------------------

static const double float_values[] = {
    0.0,      -0.0,       1,         -1,     0.5,     -0.5,     2,
    3,        -3,         6,         20,     21,      -100,     1e-30,
    1e30,     INFINITY,   -INFINITY, NAN,    FLT_MIN, 0x1p-149, -0x1p-149,
    -FLT_MAX, 0x1p24 + 1, 0x1p-1060, DBL_MAX};
static const int64_t int_values[] = {0,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     3,
                                     7,
                                     -7,
                                     10,
                                     62,
                                     63,
                                     64,
                                     -64,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX - 1,
                                     INT64_MIN + 1,
                                     INT64_C(1) << 31,
                                     INT64_C(1) << 32,
                                     100,
                                     -100};
enum {
  FLOAT_VALUES = sizeof float_values / sizeof *float_values,
  INT_VALUES = sizeof int_values / sizeof *int_values,
};

static uint64_t state = 1;

static uint64_t draw(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 32 | state << 32;
}

// Special values, numbers near one, and any bits.
static double draw_float(void) {
  const uint64_t kind = draw() % 4;
  const og_float_bits bits = {.u = (uint32_t)draw()};
  if (kind < 2) return float_values[draw() % FLOAT_VALUES];
  if (kind == 2) return (double)(int64_t)draw() * 0x1p-61;
  return (double)bits.f;
}

static int64_t draw_int(void) {
  const uint64_t kind = draw() % 4;
  if (kind < 2) return int_values[draw() % INT_VALUES];
  return kind == 2 ? (int64_t)(draw() % 200) - 100 : (int64_t)draw();
}

// --- Loops and programs ------------------------------------------------------

typedef union block {
  float f32[BLOCK];
  double f64[BLOCK];
  int64_t i64[BLOCK];
} block;

static block in[OPERANDS], looped, run;

// `bool_only`: only 0 and 1, of integers.
static void fill(og_class of, bool bool_only) {
  for (int k = 0; k < OPERANDS; ++k)
    for (int i = 0; i < BLOCK; ++i) {
      if (of == OG_CLASS_F32) in[k].f32[i] = (float)draw_float();
      if (of == OG_CLASS_F64) in[k].f64[i] = draw_float();
      if (of == OG_CLASS_I64)
        in[k].i64[i] = bool_only ? (int64_t)(draw() % 2) : draw_int();
    }
}

static void operand_load(void *size, const og_scalar_instruction *code,
                         int64_t n, void *to) {
  memcpy(to, &in[code->slot], (size_t)n * *(size_t *)size);
}

static bool same(og_class of, int i) {
  if (of == OG_CLASS_I64) return looped.i64[i] == run.i64[i];
  if (of == OG_CLASS_F64)
    return memcmp(&looped.f64[i], &run.f64[i], 8) == 0 ||
           (isnan(looped.f64[i]) && isnan(run.f64[i]));
  return memcmp(&looped.f32[i], &run.f32[i], 4) == 0 ||
         (isnan(looped.f32[i]) && isnan(run.f32[i]));
}

static double value_of(og_class of, const block *b, int i) {
  return of == OG_CLASS_F32   ? (double)b->f32[i]
         : of == OG_CLASS_F64 ? b->f64[i]
                              : (double)b->i64[i];
}

// The loop has a form of its own for operands that are one number.
static void check_block(int32_t op, og_class of,
                        const og_scalar_program *program, const int64_t *step) {
  size_t size = of == OG_CLASS_F32 ? sizeof(float) : sizeof(double);
  const void *pointers[OPERANDS];
  for (int k = 0; k < OPERANDS; ++k) {
    pointers[k] = &in[k];
    for (int i = 1; i < BLOCK && step[k] == 0; ++i)
      memcpy((char *)&in[k] + (size_t)i * size, &in[k], size);
  }
  og_pointwise_rows[op].loop[of][og_loop_set()](BLOCK, &looped, pointers, step);
  if (of == OG_CLASS_F32)
    og_scalar_run_f32(program, BLOCK, operand_load, &size, run.f32);
  else if (of == OG_CLASS_F64)
    og_scalar_run_f64(program, BLOCK, operand_load, &size, run.f64);
  else
    og_scalar_run_i64(program, BLOCK, operand_load, &size, run.i64);
  for (int i = 0; i < BLOCK; ++i) {
    if (CHECK(same(of, i))) continue;
    printf("%s of %g, %g, %g, %g: the loop gives %.17g, the program %.17g\n",
           og_ops[op].name, value_of(of, &in[0], i), value_of(of, &in[1], i),
           value_of(of, &in[2], i), value_of(of, &in[3], i),
           value_of(of, &looped, i), value_of(of, &run, i));
    return;
  }
}

static void check_row(int32_t op, og_class of, bool bool_only,
                      const og_scalar_program *program) {
  static const int64_t steps[][OPERANDS] = {
      {1, 1, 0, 0}, {1, 0, 0, 0}, {1, 1, 1, 1}, {0, 1, 1, 0}};
  for (int k = 0; k < BLOCKS; ++k) {
    fill(of, bool_only);
    check_block(op, of, program, steps[k % 4]);
  }
}

TEST(loops_are_programs) {
  int rows = 0;
  for (int32_t op = 0; op < OG_IR_COUNT; ++op) {
    opgraft_error error = {0};
    og_scalar_code code;
    if ((og_ops[op].flags & OG_OP_POINTWISE) == 0) continue;
    if (!CHECK_EQ(og_op_parse(op, &code, &error), OG_OK)) {
      CHECK_STR(error.text, "");
      continue;
    }
    const og_scalar_program program = {code.code, code.count};
    for (og_class of = OG_CLASS_F32; of < OG_CLASS_NONE; ++of) {
      const bool has_form = (og_ops[op].classes >> of & 1) != 0;
      CHECK_EQ(og_pointwise_rows[op].loop[of][0] != NULL, has_form);
      if (!has_form) continue;
      check_row(op, of, false, &program);
      if (of == OG_CLASS_I64) check_row(op, of, true, &program);
    }
    ++rows;
  }
  CHECK(rows > 80);
}

// --- Names -------------------------------------------------------------------

#define OG_FORM(name) og_scalar_##name##_T
#define T T
#include "scalar/names.h"
#define STRING(...) #__VA_ARGS__
#define EXPANDED(...) STRING(__VA_ARGS__)
#define OPERANDS_1 (a)
#define OPERANDS_2 (a, b)
#define OPERANDS_3 (a, b, c)
#define CALL(id, operands) id operands

// In C, every primitive and every constant has its name.
TEST(names_are_complete) {
  static const char *const names[][2] = {
#define OG_SCALAR(id, arity, ...) {EXPANDED(CALL(id, OPERANDS_##arity)), #id},
#include "scalar/scalar.def"
#undef OG_SCALAR
#define OG_SCALAR_CONSTANT(name, value) {EXPANDED(name), #name},
#include "scalar/constants.def"
#undef OG_SCALAR_CONSTANT
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const size_t length = strlen(names[i][1]);
    if (!CHECK(strncmp(names[i][0], names[i][1], length) != 0))
      printf("names.h has no '%s'\n", names[i][1]);
  }
}

TEST_MAIN("scalar_rows", CASE_NO_FAULTS(loops_are_programs),
          CASE_NO_FAULTS(names_are_complete))
