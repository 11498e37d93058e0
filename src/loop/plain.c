// SPDX-License-Identifier: Apache-2.0
// Row programs in f64 and in int64.

#include "loop/plain.h"

#include <math.h>
#include <string.h>

#include "loop/lower.h"

// --- Elements ----------------------------------------------------------------

// Cut to the type's range, which a plain cast leaves undefined; a NaN is 0.
static int64_t to_signed(double v, int bits) {
  const double limit = ldexp(1, bits - 1);
  if (!(v == v)) return 0;
  if (v >= limit) return INT64_MAX >> (64 - bits);
  if (v < -limit) return INT64_MIN >> (64 - bits);
  return (int64_t)v;
}

static uint64_t to_unsigned(double v, int bits) {
  if (!(v > 0)) return 0;
  if (v >= ldexp(1, bits)) return UINT64_MAX >> (64 - bits);
  return (uint64_t)v;
}

// X(code, bits, element's type, its value as a number, a float as an element)
#define ELEMENTS(X)                                       \
  X(OG_CODE_FLOAT, 16, og_half, og_half_to_float(v),      \
    og_half_from_float((float)v))                         \
  X(OG_CODE_BFLOAT, 16, og_bfloat, og_bfloat_to_float(v), \
    og_bfloat_from_float((float)v))                       \
  X(OG_CODE_FLOAT, 32, float, v, (float)v)                \
  X(OG_CODE_FLOAT, 64, double, v, v)                      \
  INTEGERS(X)
#define INTEGERS(X)                                              \
  X(OG_CODE_INT, 8, int8_t, v, (int8_t)to_signed(v, 8))          \
  X(OG_CODE_INT, 16, int16_t, v, (int16_t)to_signed(v, 16))      \
  X(OG_CODE_INT, 32, int32_t, v, (int32_t)to_signed(v, 32))      \
  X(OG_CODE_INT, 64, int64_t, v, to_signed(v, 64))               \
  X(OG_CODE_UINT, 8, uint8_t, v, (uint8_t)to_unsigned(v, 8))     \
  X(OG_CODE_UINT, 16, uint16_t, v, (uint16_t)to_unsigned(v, 16)) \
  X(OG_CODE_UINT, 32, uint32_t, v, (uint32_t)to_unsigned(v, 32)) \
  X(OG_CODE_UINT, 64, uint64_t, v, to_unsigned(v, 64))           \
  X(OG_CODE_BOOL, 8, uint8_t, v, v != 0)

#define LOAD(code, bits, T, value, element)                            \
  case code << 8 | bits:                                               \
    for (int64_t i = 0; i < n; ++i) {                                  \
      T v;                                                             \
      memcpy(&v, (const char *)from + (size_t)i * sizeof v, sizeof v); \
      to[i] = (RESULT)(value);                                         \
    }                                                                  \
    break;
#define RESULT double
static void load_f64(og_dtype dtype, int64_t n, const void *from, double *to) {
  switch (dtype.code << 8 | dtype.bits) { ELEMENTS(LOAD) }
}
#undef RESULT
#define RESULT int64_t
static void load_i64(og_dtype dtype, int64_t n, const void *from, int64_t *to) {
  switch (dtype.code << 8 | dtype.bits) { INTEGERS(LOAD) }
}
#undef RESULT
#undef LOAD

#define STORE(code, bits, T, value, element)                   \
  case code << 8 | bits:                                       \
    for (int64_t i = 0; i < n; ++i) {                          \
      const NUMBER v = from[i];                                \
      const T x = ELEMENT(T, code, element);                   \
      memcpy((char *)to + (size_t)i * sizeof x, &x, sizeof x); \
    }                                                          \
    break;
#define NUMBER double
#define ELEMENT(T, code, element) (element)
static void store_f64(og_dtype dtype, int64_t n, const double *from, void *to) {
  switch (dtype.code << 8 | dtype.bits) { ELEMENTS(STORE) }
}
#undef NUMBER
#undef ELEMENT
#define NUMBER int64_t
#define ELEMENT(T, code, element) ((T)((code) == OG_CODE_BOOL ? v != 0 : v))
static void store_i64(og_dtype dtype, int64_t n, const int64_t *from,
                      void *to) {
  switch (dtype.code << 8 | dtype.bits) { INTEGERS(STORE) }
}
#undef NUMBER
#undef ELEMENT
#undef STORE

void og_loop_plain_store(og_class class, og_dtype dtype, int64_t n,
                         const void *from, void *to) {
  if (class == OG_CLASS_F64)
    store_f64(dtype, n, from, to);
  else
    store_i64(dtype, n, from, to);
}

// --- A row -------------------------------------------------------------------

typedef struct plain {
  const og_loop_program *program;
  const og_loop_operand *inputs, *outputs;
  og_class class;
  const og_loop_call *call;
  int64_t row, from;  // `from`: where the block begins
} plain;

static size_t value_count(int64_t width) {
  return (size_t)(width > 0 ? width : 1);
}

size_t og_loop_plain_bytes(const og_loop_program *program, int64_t width) {
  return (size_t)program->statement_count * value_count(width) * sizeof(double);
}

// The values of a statement: 8 bytes each, f64 or int64.
static void *values_at(const plain *p, int32_t statement) {
  double *scratch = p->call->scratch;
  return scratch + (size_t)statement * value_count(p->call->width);
}

static void fill(double *to, const double *one, int64_t n) {
  for (int64_t i = 0; i < n; ++i) memcpy(&to[i], one, sizeof *one);
}

static void input_load(const plain *p, int32_t input, int64_t n, void *to) {
  const og_loop_call *call = p->call;
  const og_loop_operand *operand = &p->inputs[input];
  const bool is_row = operand->form == OG_LOOP_ROW;
  const int64_t item = (int64_t)og_dtype_bytes(operand->dtype);
  const char *at = (const char *)call->in[input] +
                   p->row * call->in_row_bytes[input] +
                   (is_row ? 0 : p->from * item);
  if (p->class == OG_CLASS_F64)
    load_f64(operand->dtype, is_row ? 1 : n, at, to);
  else
    load_i64(operand->dtype, is_row ? 1 : n, at, to);
  if (is_row) fill(to, to, n);
}

static void leaf_load(void *state, const og_scalar_instruction *code, int64_t n,
                      void *to) {
  const plain *p = state;
  const int32_t inputs = p->program->input_count;
  if (code->op == OG_SCALAR_number) {
    const double width = (double)p->call->width;
    if (p->class == OG_CLASS_F64)
      fill(to, &width, n);
    else
      for (int64_t i = 0; i < n; ++i) ((int64_t *)to)[i] = p->call->width;
  } else if (code->slot < inputs) {
    input_load(p, code->slot, n, to);
  } else {
    const int32_t s = code->slot - inputs;
    const double *values = values_at(p, s);
    if (p->program->statements[s].is_row)
      fill(to, values, n);
    else
      memcpy(to, values + p->from, (size_t)n * sizeof *values);
  }
}

// --- Reductions --------------------------------------------------------------

#define JOIN(is_nan, add)             \
  switch (kind) {                     \
    case OG_LOOP_SUM:                 \
      return add;                     \
    case OG_LOOP_MAX:                 \
      return is_nan || a > b ? a : b; \
    default:                          \
      return is_nan || a < b ? a : b; \
  }
static double join_f64(og_loop_reduction kind, double a, double b) {
  JOIN(a != a, a + b)
}
static int64_t join_i64(og_loop_reduction kind, int64_t a, int64_t b){
    JOIN(false, (int64_t)((uint64_t)a + (uint64_t)b))}
#undef JOIN

#define REDUCE(T, suffix, most)                                      \
  static T reduce_##suffix(og_loop_reduction kind, const T *from,    \
                           int64_t width) {                          \
    T parts[OG_LOOP_PARTIALS];                                       \
    for (int32_t k = 0; k < OG_LOOP_PARTIALS; ++k)                   \
      parts[k] = kind == OG_LOOP_SUM   ? 0                           \
                 : kind == OG_LOOP_MAX ? -(most)                     \
                                       : (most);                     \
    for (int64_t i = 0; i < width; ++i)                              \
      parts[i % OG_LOOP_PARTIALS] =                                  \
          join_##suffix(kind, parts[i % OG_LOOP_PARTIALS], from[i]); \
    for (int32_t half = OG_LOOP_PARTIALS / 2; half > 0; half /= 2)   \
      for (int32_t k = 0; k < half; ++k)                             \
        parts[k] = join_##suffix(kind, parts[k], parts[k + half]);   \
    return parts[0];                                                 \
  }
REDUCE(double, f64, (double)INFINITY) REDUCE(int64_t, i64, INT64_MAX)
#undef REDUCE

    static void running_sum(og_class class, og_loop_reduction kind,
                            int64_t width, double *values) {
  const bool is_reversed = kind == OG_LOOP_CUMSUM_REVERSED;
  int64_t *whole = (int64_t *)(void *)values;
  for (int64_t k = 1; k < width; ++k) {
    const int64_t i = is_reversed ? width - 1 - k : k;
    const int64_t before = is_reversed ? i + 1 : i - 1;
    if (class == OG_CLASS_F64)
      values[i] = join_f64(OG_LOOP_SUM, values[before], values[i]);
    else
      whole[i] = join_i64(OG_LOOP_SUM, whole[before], whole[i]);
  }
}

static void statement_run(plain *p, int32_t s) {
  const og_loop_statement *statement = &p->program->statements[s];
  const int64_t width = p->call->width;
  // What is reduced has an element for each column even where it is one value.
  const og_loop_reduction kind = statement->reduction;
  const bool reduces = og_loop_reduces(kind);
  const int64_t count = statement->is_row && !reduces ? 1 : width;
  double *values = values_at(p, s);
  for (p->from = 0; p->from < count; p->from += OG_SCALAR_BLOCK) {
    const int64_t left = count - p->from;
    const int64_t n = left < OG_SCALAR_BLOCK ? left : OG_SCALAR_BLOCK;
    void *at = values + p->from;
    if (p->class == OG_CLASS_F64)
      og_scalar_run_f64(&statement->expression, n, leaf_load, p, at);
    else
      og_scalar_run_i64(&statement->expression, n, leaf_load, p, at);
  }
  if (og_loop_is_running(kind)) running_sum(p->class, kind, width, values);
  if (!reduces) return;
  if (p->class == OG_CLASS_F64)
    *values = reduce_f64(statement->reduction, values, width);
  else
    *(int64_t *)(void *)values = reduce_i64(
        statement->reduction, (const int64_t *)(void *)values, width);
}

static void statement_store(const plain *p, int32_t s) {
  const og_loop_statement *statement = &p->program->statements[s];
  const int32_t o = statement->output;
  const og_loop_operand *operand = &p->outputs[o];
  const int64_t bytes = (int64_t)og_dtype_bytes(operand->dtype);
  const int64_t n = operand->form == OG_LOOP_ROW ? 1 : p->call->width;
  const int64_t step = statement->is_row ? 1 : n;
  char *to = (char *)p->call->out[o] + p->row * p->call->out_row_bytes[o];
  void *values = values_at(p, s);
  for (int64_t i = 0; i < n; i += step)
    og_loop_plain_store(p->class, operand->dtype, step, values, to + i * bytes);
}

void og_loop_plain_run(const og_loop_program *program,
                       const og_loop_operand *inputs,
                       const og_loop_operand *outputs, og_class class,
                       const og_loop_call *call) {
  plain p = {.program = program,
             .inputs = inputs,
             .outputs = outputs,
             .class = class,
             .call = call};
  for (p.row = 0; p.row < call->rows; ++p.row) {
    for (int32_t s = 0; s < program->statement_count; ++s) statement_run(&p, s);
    for (int32_t s = 0; s < program->statement_count; ++s)
      if (program->statements[s].output >= 0) statement_store(&p, s);
  }
}
