// SPDX-License-Identifier: Apache-2.0
// Random formulas, as many as the argument says: `formula_random 20000`.
//
// A formula of f32, f16 or bf16 computes what its text does as a row program of
// the interpreter, bit for bit, but for which NaN it is: whatever the encoder
// knows of this machine, the dims that operands lack, and their layouts.

#define _GNU_SOURCE
#include "decl/formula.h"
#include "decl/infer/infer.h"
#include "unit/loop_grow.h"

enum { FORMULAS = 600, ROWS = 3, BYTES = ROWS * GROW_WIDTH_MAX * 8 };

static int64_t formula_count = FORMULAS;

// How an operand lies: [R, D], by columns where it is turned; [R]; or [D].
typedef struct lying {
  bool has_rows, is_turned;
  int64_t shape[2], strides[2];
  og_tensor tensor;
  uint8_t data[BYTES], turned[BYTES];
} lying;

typedef struct trial {
  grown g;
  int64_t width;
  lying in[GROW_INPUTS_MAX], out[GROW_OUTPUTS_MAX];
  uint8_t expected[GROW_OUTPUTS_MAX][BYTES];
  og_text schema, shape, dtype;
  opgraft_frame frame;
} trial;

static bool has_width(const og_loop_operand *operand) {
  return operand->form == OG_LOOP_RUN;
}

static const char *dims_of(const og_loop_operand *operand, const lying *l) {
  if (!has_width(operand)) return "[R]";
  return l->has_rows ? "[R, D]" : "[D]";
}

static void texts_write(trial *t) {
  const grown *g = &t->g;
  og_text_add(&t->schema, "f(");
  for (int32_t k = 0; k < g->in_count; ++k) {
    const char *comma = k > 0 ? ", " : "";
    og_text_addf(&t->schema, "%sTensor x%d", comma, (int)k);
    og_text_addf(&t->shape, "%sx%d%s", comma, (int)k,
                 dims_of(&g->in[k], &t->in[k]));
    og_text_addf(&t->dtype, "%sx%d: %s", comma, (int)k,
                 og_dtype_name(g->in[k].dtype));
  }
  og_text_add(&t->schema, ") -> (");
  for (int32_t k = 0; k < g->out_count; ++k) {
    const char *comma = k > 0 ? ", " : "";
    og_text_addf(&t->schema, "%sTensor y%d", comma, (int)k);
    og_text_addf(&t->shape, "%s%s", k > 0 ? ", " : " -> ",
                 dims_of(&g->out[k], &t->out[k]));
    og_text_addf(&t->dtype, "%s%s", k > 0 ? ", " : " -> ",
                 og_dtype_name(g->out[k].dtype));
  }
  og_text_add(&t->schema, ")");
}

static bool names(const grown *g, int32_t input) {
  char name[16];
  snprintf(name, sizeof name, "x%d", (int)input);
  return strstr(g->text, name) != NULL;
}

// Whether the formula is one of f32, arguments have all dims, and one operand
// has them together.
static bool is_suited(const trial *t) {
  const grown *g = &t->g;
  bool has_float = false, has_space = has_width(&g->out[0]);
  bool has_r = false, has_d = false;
  for (int32_t k = 0; k < g->in_count; ++k) {
    has_float |= names(g, k) && grow_is_float(g->in[k].dtype);
    has_r |= t->in[k].has_rows;
    has_d |= has_width(&g->in[k]);
    has_space |= names(g, k) && has_width(&g->in[k]) && t->in[k].has_rows;
  }
  for (int32_t k = 0; k < g->out_count; ++k)
    has_float |= grow_is_float(g->out[k].dtype);
  return has_float && has_space && has_r && has_d;
}

static void tensor_fill(trial *t, const og_loop_operand *operand, lying *l) {
  const bool has_width_too = has_width(operand) && l->has_rows;
  const int64_t item = (int64_t)og_dtype_bytes(operand->dtype);
  l->shape[0] = l->has_rows ? ROWS : t->width;
  l->shape[1] = t->width;
  l->strides[0] = has_width_too ? t->width : 1;
  l->strides[1] = 1;
  l->is_turned = has_width_too && grow_draw(&t->g, 3) == 0;
  l->tensor = (og_tensor){.data = l->data,
                          .device = {OG_CPU, 0},
                          .ndim = has_width_too ? 2 : 1,
                          .dtype = operand->dtype,
                          .shape = l->shape,
                          .strides = l->strides};
  if (!l->is_turned) return;
  for (int64_t r = 0; r < ROWS; ++r)
    for (int64_t i = 0; i < t->width; ++i)
      memcpy(l->turned + (i * ROWS + r) * item,
             l->data + (r * t->width + i) * item, (size_t)item);
  l->tensor.data = l->turned;
  l->strides[0] = 1;
  l->strides[1] = ROWS;
}

static void trial_draw(trial *t, uint64_t seed) {
  memset(t, 0, sizeof *t);
  grow(&t->g, seed);
  t->width = grow_width(&t->g);
  for (int32_t k = 0; k < t->g.in_count; ++k) {
    lying *l = &t->in[k];
    l->has_rows = !has_width(&t->g.in[k]) || grow_draw(&t->g, 4) != 0;
    const int64_t count = ROWS * (has_width(&t->g.in[k]) ? t->width : 1);
    grow_fill(&t->g, t->g.in[k].dtype, l->data, count);
    tensor_fill(t, &t->g.in[k], l);
  }
  for (int32_t k = 0; k < t->g.out_count; ++k) t->out[k].has_rows = true;
}

static bool expected_find(trial *t) {
  const grown *g = &t->g;
  const og_loop_spec spec = grow_spec(g, OG_ISA_SCALAR);
  og_loop_call call = {.width = t->width, .rows = ROWS, .blocks = 1};
  og_loop *loop = NULL;
  opgraft_error error;
  if (og_loop_create(&spec, NULL, &loop, &error) != OG_OK) return false;
  for (int32_t k = 0; k < g->in_count; ++k) {
    const int64_t item = (int64_t)og_dtype_bytes(g->in[k].dtype);
    call.in[k] = t->in[k].data;
    call.in_row_bytes[k] = !t->in[k].has_rows     ? 0
                           : has_width(&g->in[k]) ? t->width * item
                                                  : item;
  }
  for (int32_t k = 0; k < g->out_count; ++k) {
    call.out[k] = t->expected[k];
    call.out_row_bytes[k] = (has_width(&g->out[k]) ? t->width : 1) *
                            (int64_t)og_dtype_bytes(g->out[k].dtype);
  }
  call.scratch = og_alloc_aligned(64, og_loop_scratch_bytes(loop, t->width));
  if (call.scratch != NULL) og_loop_run(loop, &call);
  og_loop_destroy(loop);
  og_free(call.scratch);
  return call.scratch != NULL;
}

static bool is_same(const trial *t) {
  for (int32_t k = 0; k < t->g.out_count; ++k) {
    const og_dtype dtype = t->g.out[k].dtype;
    const size_t item = og_dtype_bytes(dtype);
    const int64_t count = ROWS * (has_width(&t->g.out[k]) ? t->width : 1);
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t *found = t->out[k].data, *expected = t->expected[k];
      if (memcmp(found + (size_t)i * item, expected + (size_t)i * item, item) ==
          0)
        continue;
      const float a = loop_get(dtype, found, i);
      const float b = loop_get(dtype, expected, i);
      if (grow_is_float(dtype) && isnan(a) && isnan(b)) continue;
      printf("y%d[%d] is %a, %a by the row program; width %d, %s, %s\n", (int)k,
             (int)i, (double)a, (double)b, (int)t->width, t->shape.data,
             t->g.text);
      return false;
    }
  }
  return true;
}

// What a formula refuses and a row program does not.
static bool is_refused(const trial *t, og_status status) {
  return status == OG_UNSUPPORTED || (status == OG_INVALID && t->width == 0);
}

static bool trial_run(trial *t, og_decl *decl, bool *out_ran) {
  opgraft_error error = {0};
  opgraft_frame *frame = &t->frame;
  frame->call = (og_call){.struct_size = sizeof frame->call,
                          .in = frame->in,
                          .out = frame->out,
                          .attr = frame->attr,
                          .dim = frame->dim,
                          .threads = 1,
                          .derived = decl->formula};
  for (int32_t k = 0; k < t->g.in_count; ++k) frame->in[k] = &t->in[k].tensor;
  if (og_infer(decl, frame, &error) != OG_OK) {
    printf("%s: %s\n", error.text, t->shape.data);
    return false;
  }
  for (int32_t k = 0; k < t->g.out_count; ++k)
    frame->fresh[k].data = t->out[k].data;
  const og_status status = og_formula_run(&frame->call);
  *out_ran = status == OG_OK;
  if (is_refused(t, status)) return true;
  return CHECK_EQ(status, OG_OK) && is_same(t);
}

// The row program with the formula's names of types.
static void row_write(const char *text, og_text *out) {
  static const char *const names[][2] = {{"8e0", "bf16"}, {"11e0", "f16"}};
  while (*text != '\0') {
    int k = 0;
    while (k < 2 && strncmp(text, names[k][0], strlen(names[k][0])) != 0) ++k;
    if (k < 2)
      og_text_add(out, names[k][1]);
    else
      og_text_add_n(out, text, 1);
    text += k < 2 ? strlen(names[k][0]) : 1;
  }
}

// False where the formula cannot be one.
static bool formula_try(trial *t, bool *out_ran) {
  opgraft_error error;
  og_decl *decl = NULL;
  og_text row = {0};
  texts_write(t);
  row_write(t->g.text, &row);
  const og_op op = {.schema = t->schema.data,
                    .shape = t->shape.data,
                    .dtype = t->dtype.data,
                    .row = row.data};
  const og_status status = og_decl_create(&op, sizeof op, &decl, &error);
  bool same = status == OG_OK;
  if (!same) printf("%s\n%s\n", error.text, t->shape.data);
  if (same && expected_find(t)) same = trial_run(t, decl, out_ran);
  og_decl_destroy(decl);
  og_text_reset(&row);
  og_text_reset(&t->schema);
  og_text_reset(&t->shape);
  og_text_reset(&t->dtype);
  return same;
}

TEST(formulas_are_row_programs) {
  static trial t;
  int64_t ran = 0, tried = 0;
  for (int64_t n = 0; n < formula_count; ++n) {
    bool runs = false;
    trial_draw(&t, (uint64_t)n);
    if (!is_suited(&t)) continue;
    ++tried;
    if (!CHECK(formula_try(&t, &runs))) break;
    ran += runs;
  }
  printf("%" PRId64 " of %" PRId64 " formulas ran, of %" PRId64 "\n", ran,
         tried, formula_count);
  CHECK(ran * 2 > formula_count);
}

int main(int argc, char **argv) {
  // The engine's encoder is part of the program.
  og_loop_code_destroy(og_loop_code_create());
  if (argc > 1) formula_count = strtoll(argv[1], NULL, 10);
  static const test_case cases[] = {CASE_NO_FAULTS(formulas_are_row_programs)};
  return test_run_all("formula_random", cases, 1);
}
