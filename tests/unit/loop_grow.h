// SPDX-License-Identifier: Apache-2.0
// Random row programs, and numbers for their operands.

#ifndef TESTS_UNIT_LOOP_GROW_H
#define TESTS_UNIT_LOOP_GROW_H

#include <math.h>

#include "scalar/scalar.h"
#include "unit/loop_make.h"

enum {
  GROW_INPUTS_MAX = 4,
  GROW_OUTPUTS_MAX = 3,
  GROW_TEXT = 8192,
  GROW_WIDTH_MAX = 300
};

typedef struct grown {
  char text[GROW_TEXT];
  size_t length;
  og_loop_operand in[GROW_INPUTS_MAX], out[GROW_OUTPUTS_MAX];
  int32_t in_count, out_count;
  int32_t names;       // s0, s1, ... are assigned
  uint32_t row_names;  // by name: one element for the row
  uint64_t state;
} grown;

static inline int32_t grow_draw(grown *g, int32_t below) {
  return (int32_t)(loop_draw(&g->state) % (uint64_t)below);
}

static inline void grow_put(grown *g, const char *text) {
  const size_t left = sizeof g->text - g->length;
  const int wrote = snprintf(g->text + g->length, left, "%s", text);
  g->length += (size_t)wrote < left ? (size_t)wrote : left - 1;
}

static inline void grow_number(grown *g) {
  static const char *const numbers[] = {
      "0",    "1",    "-1",   "2",     "0.5",       "1e-5",
      "3.25", "-1e4", "1e30", "1e-42", "half",      "width",
      "88.7", "-104", "1e39", "-0.25", "sqrt_half", "gelu_cubic"};
  grow_put(g, numbers[grow_draw(g, sizeof numbers / sizeof *numbers)]);
}

// Writes a leaf. Row values alone where `is_row`.
static inline void grow_leaf(grown *g, bool is_row) {
  char name[16];
  const int32_t kind = grow_draw(g, 8);
  if (kind < 4 && g->names > 0) {
    const int32_t at = grow_draw(g, g->names);
    snprintf(name, sizeof name, "s%d", (int)at);
    if (!is_row || (g->row_names >> at & 1)) {
      grow_put(g, name);
      return;
    }
  }
  const int32_t input = grow_draw(g, g->in_count);
  if (kind < 7 && (!is_row || g->in[input].form == OG_LOOP_ROW)) {
    snprintf(name, sizeof name, "x%d", (int)input);
    grow_put(g, name);
    return;
  }
  grow_number(g);
}

// The primitives that an expression in floats may hold; the plain ones, which
// are most of a program, more often.
static inline int32_t grow_op(grown *g) {
  static const int32_t plain[] = {OG_SCALAR_add, OG_SCALAR_sub,   OG_SCALAR_mul,
                                  OG_SCALAR_mul, OG_SCALAR_add,   OG_SCALAR_fma,
                                  OG_SCALAR_max, OG_SCALAR_min,   OG_SCALAR_lt,
                                  OG_SCALAR_eq,  OG_SCALAR_select};
  if (grow_draw(g, 3) != 0)
    return plain[grow_draw(g, sizeof plain / sizeof *plain)];
  for (;;) {
    const int32_t op = grow_draw(g, OG_SCALAR_COUNT);
    if (op > OG_SCALAR_number && og_loop_has(op)) return op;
  }
}

static inline const char *grow_mark(int32_t op) {
  switch (op) {
    case OG_SCALAR_add:
      return " + ";
    case OG_SCALAR_sub:
      return " - ";
    case OG_SCALAR_mul:
      return " * ";
    case OG_SCALAR_div:
      return " / ";
    case OG_SCALAR_eq:
      return " == ";
    case OG_SCALAR_ne:
      return " != ";
    case OG_SCALAR_lt:
      return " < ";
    case OG_SCALAR_le:
      return " <= ";
    case OG_SCALAR_gt:
      return " > ";
    case OG_SCALAR_ge:
      return " >= ";
    case OG_SCALAR_and:
      return " and ";
    case OG_SCALAR_or:
      return " or ";
    default:
      return NULL;
  }
}

static inline void grow_expression(grown *g, int32_t depth, bool is_row) {
  if (depth == 0 || grow_draw(g, 6) == 0) {
    grow_leaf(g, is_row);
    return;
  }
  const int32_t op = grow_op(g);
  const char *mark = grow_mark(op);
  if (mark == NULL && op != OG_SCALAR_neg && op != OG_SCALAR_not)
    grow_put(g, og_scalar_name(op));
  grow_put(g, op == OG_SCALAR_neg ? "-(" : op == OG_SCALAR_not ? "(not " : "(");
  for (int32_t k = 0; k < og_scalar_arity(op); ++k) {
    if (k > 0) grow_put(g, mark != NULL ? mark : ", ");
    if (op == OG_SCALAR_round_to && k > 0)  // as no other number is written
      grow_put(g, grow_draw(g, 2) != 0 ? "8e0" : "11e0");
    else
      grow_expression(g, depth - 1, is_row);
  }
  grow_put(g, ")");
}

static inline void grow_statement(grown *g, const char *name, bool is_row) {
  static const char *const reductions[] = {"row_sum(", "row_max(", "row_min("};
  static const char *const running[] = {"row_cumsum(", "row_cumsum_reversed("};
  const bool reduces = is_row ? grow_draw(g, 3) != 0 : grow_draw(g, 9) == 0;
  if (g->length > 0) grow_put(g, "; ");
  grow_put(g, name);
  grow_put(g, " = ");
  if (reduces)
    grow_put(g,
             is_row ? reductions[grow_draw(g, 3)] : running[grow_draw(g, 2)]);
  grow_expression(g, 1 + grow_draw(g, 3), is_row && !reduces);
  if (reduces) grow_put(g, ")");
}

static inline og_dtype grow_dtype(grown *g) {
  const og_dtype types[] = {loop_f32,  loop_f32, loop_f32, loop_f32,
                            loop_bf16, loop_f16, loop_i64, loop_i32,
                            loop_i16,  loop_i8,  loop_u8,  loop_bool};
  return types[grow_draw(g, sizeof types / sizeof *types)];
}

static inline og_loop_operand grow_operand(grown *g) {
  const og_dtype dtype = grow_dtype(g);
  return (og_loop_operand){dtype,
                           grow_draw(g, 4) == 0 ? OG_LOOP_ROW : OG_LOOP_RUN};
}

static inline void grow(grown *g, uint64_t seed) {
  memset(g, 0, sizeof *g);
  g->state = seed * 2654435761u + 1;
  g->in_count = 1 + grow_draw(g, GROW_INPUTS_MAX);
  g->out_count = 1 + grow_draw(g, GROW_OUTPUTS_MAX);
  for (int32_t k = 0; k < g->in_count; ++k) g->in[k] = grow_operand(g);
  for (int32_t k = 0; k < g->out_count; ++k) g->out[k] = grow_operand(g);
  const int32_t values = grow_draw(g, 8);
  char name[16];
  for (int32_t k = 0; k < values; ++k) {
    const bool is_row = grow_draw(g, 3) == 0;
    snprintf(name, sizeof name, "s%d", (int)k);
    grow_statement(g, name, is_row);
    g->row_names |= (uint32_t)is_row << k;
    g->names = k + 1;
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    snprintf(name, sizeof name, "y%d", (int)k);
    grow_statement(g, name, g->out[k].form == OG_LOOP_ROW);
  }
}

static inline og_loop_spec grow_spec(const grown *g, og_isa isa) {
  return (og_loop_spec){.text = g->text,
                        .inputs = g->in,
                        .outputs = g->out,
                        .input_count = g->in_count,
                        .output_count = g->out_count,
                        .isa = isa};
}

// The outputs that may be stored past the caches, where rows are whole lines.
static inline uint32_t grow_whole_lines(const grown *g) {
  uint32_t outputs = 0;
  for (int32_t k = 0; k < g->out_count; ++k)
    if (og_loop_may_pass_caches(g->out[k])) outputs |= 1u << k;
  return outputs;
}

// --- Numbers -----------------------------------------------------------------

static inline float grow_value(grown *g) {
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

static inline bool grow_is_float(og_dtype dtype) {
  return dtype.code == OG_CODE_FLOAT || dtype.code == OG_CODE_BFLOAT;
}

// Integers are below 100 in magnitude.
static inline void grow_fill(grown *g, og_dtype dtype, void *at,
                             int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = grow_value(g);
    const bool fits = grow_is_float(dtype) || fabsf(x) < 100;
    loop_set(dtype, at, i, fits ? x : 1);
  }
}

static inline int64_t grow_width(grown *g) {
  static const int64_t widths[] = {0, 1, 5, 8, 13, 16, 17, 24, 31, 64, 77, 300};
  return widths[grow_draw(g, sizeof widths / sizeof *widths)];
}

#endif  // TESTS_UNIT_LOOP_GROW_H
