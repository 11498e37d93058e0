// SPDX-License-Identifier: Apache-2.0
// The interpreter: blocks of values on a stack, one primitive at a time.

#include "scalar/forms.h"
#include "scalar/scalar.h"

// --- One primitive on a block, by type ---------------------------------------

#define CALL_1(form) form(a[i])
#define CALL_2(form) form(a[i], b[i])
#define CALL_3(form) form(a[i], b[i], c[i])
#define CASE(id, arity, suffix)                       \
  case OG_SCALAR_##id:                                \
    for (int64_t i = 0; i < n; ++i)                   \
      a[i] = CALL_##arity(og_scalar_##id##_##suffix); \
    break;
#define NO_CASE(id, arity, suffix)

// Replaces a, the first operand, by the value; `value` is a constant's.
typedef void (*apply_fn)(int32_t op, double value, int64_t n, void *first,
                         const void *second, const void *third);

#define APPLY_BEGIN(T)                                 \
  T *a = first;                                        \
  const T *b = second, *c = third;                     \
  switch (op) {                                        \
    case OG_SCALAR_const:                              \
      for (int64_t i = 0; i < n; ++i) a[i] = (T)value; \
      break;

#define ANY CASE
#define FLOAT CASE
#define INT NO_CASE
static void apply_f32(int32_t op, double value, int64_t n, void *first,
                      const void *second, const void *third) {
  APPLY_BEGIN(float)
#define OG_SCALAR(id, arity, mark, level, classes, ...) classes(id, arity, f32)
#include "scalar/scalar.def"
#undef OG_SCALAR
}
}

static void apply_f64(int32_t op, double value, int64_t n, void *first,
                      const void *second, const void *third) {
  APPLY_BEGIN(double)
#define OG_SCALAR(id, arity, mark, level, classes, ...) classes(id, arity, f64)
#include "scalar/scalar.def"
#undef OG_SCALAR
}
}
#undef FLOAT
#undef INT
#define FLOAT NO_CASE
#define INT CASE

static void apply_i64(int32_t op, double value, int64_t n, void *first,
                      const void *second, const void *third) {
  APPLY_BEGIN(int64_t)
#define OG_SCALAR(id, arity, mark, level, classes, ...) classes(id, arity, i64)
#include "scalar/scalar.def"
#undef OG_SCALAR
}
}
#undef ANY
#undef FLOAT
#undef INT

// --- Programs ----------------------------------------------------------------

// The result is the stack's lowest place, which is the caller's.
static void run(const og_scalar_program *program, int64_t n,
                og_scalar_load_fn load, void *state, void *out,
                apply_fn apply) {
  double stack[OG_SCALAR_DEPTH_MAX - 1][OG_SCALAR_BLOCK];
  void *at[OG_SCALAR_DEPTH_MAX + 2] = {out};
  for (int32_t k = 1; k < OG_SCALAR_DEPTH_MAX; ++k) at[k] = stack[k - 1];
  int32_t top = -1;
  for (int32_t k = 0; k < program->count; ++k) {
    const og_scalar_instruction *code = &program->code[k];
    top += 1 - og_scalar_arity(code->op);
    if (code->op == OG_SCALAR_load || code->op == OG_SCALAR_number)
      load(state, code, n, at[top]);
    else
      apply(code->op, code->value, n, at[top], at[top + 1], at[top + 2]);
  }
}

void og_scalar_run_f32(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, float *out) {
  run(program, n, load, state, out, apply_f32);
}

void og_scalar_run_f64(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, double *out) {
  run(program, n, load, state, out, apply_f64);
}

void og_scalar_run_i64(const og_scalar_program *program, int64_t n,
                       og_scalar_load_fn load, void *state, int64_t *out) {
  run(program, n, load, state, out, apply_i64);
}
