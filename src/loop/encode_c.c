// SPDX-License-Identifier: Apache-2.0
// Row programs as C.
//
// A pass with a reduction walks tiles of 32 elements, one for each partial
// value, so its loops need not wait for a sum; another pass is one loop.

#include "loop/encode_c.h"

#include <string.h>

#include "loop/call.h"
#include "loop/tables.h"

// --- What stands before ------------------------------------------------------

// Rounding functions are written out: without an instruction a compiler would
// call them.
static const char prelude[] =
    "#include <opgraft/float16.h>\n"
    "#include <stdint.h>\n"
    "#include <string.h>\n"
    "\n"
    "#ifdef __FAST_MATH__\n"
    "#error \"formulas need IEEE arithmetic: compile this file without "
    "-ffast-math\"\n"
    "#endif\n"
    "#if defined(__clang__)\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#define IVDEP _Pragma(\"clang loop vectorize(assume_safety)\")\n"
    "#else\n"
    "#pragma GCC optimize(\"fp-contract=off\", \"no-math-errno\", "
    "\"no-trapping-math\")\n"
    "#define IVDEP _Pragma(\"GCC ivdep\")\n"
    "#endif\n"
    "#define INLINE static inline __attribute__((always_inline, unused))\n"
    "\n"
    "typedef union lane {\n"
    "  float f;\n"
    "  int32_t i;\n"
    "  uint32_t u;\n"
    "} lane;\n"
    "INLINE lane of_bits(uint32_t u) {\n"
    "  lane r;\n"
    "  r.u = u;\n"
    "  return r;\n"
    "}\n"
    "INLINE lane of_float(float f) {\n"
    "  lane r;\n"
    "  r.f = f;\n"
    "  return r;\n"
    "}\n"
    "\n"
    "INLINE float with_sign(float a, float sign) {\n"
    "  return of_bits(of_float(a).u | (of_float(sign).u & 0x80000000u)).f;\n"
    "}\n"
    "INLINE float size_of(float a) { return of_bits(of_float(a).u & "
    "0x7fffffffu).f; }\n"
    "INLINE float rintf_(float a) {\n"
    "  const float rounded = (size_of(a) + 0x1p23f) - 0x1p23f;\n"
    "  return size_of(a) < 0x1p23f ? with_sign(rounded, a) : a;\n"
    "}\n"
    "INLINE int32_t og_loop_to_int(float a) {\n"
    "  return a >= -0x1p31f && a < 0x1p31f ? (int32_t)a : INT32_MIN;\n"
    "}\n"
    "INLINE float truncf_(float a) {\n"
    "  const float whole = (float)(size_of(a) < 0x1p23f ? (int32_t)a : 0);\n"
    "  return size_of(a) < 0x1p23f ? with_sign(size_of(whole), a) : a;\n"
    "}\n"
    "INLINE float floorf_(float a) {\n"
    "  const float whole = truncf_(a);\n"
    "  return whole > a ? whole - 1 : whole;\n"
    "}\n"
    "INLINE float ceilf_(float a) {\n"
    "  const float whole = truncf_(a);\n"
    "  return whole < a ? with_sign(size_of(whole + 1), whole) : whole;\n"
    "}\n"
    "#define sqrtf __builtin_sqrtf\n"
    "#define rintf rintf_\n"
    "#define truncf truncf_\n"
    "#define floorf floorf_\n"
    "#define ceilf ceilf_\n"
    "INLINE uint32_t og_loop_shift_sign(uint32_t a, uint32_t count) {\n"
    "  return a >> count | (a >> 31 != 0 ? ~(~0u >> count) : 0);\n"
    "}\n"
    "INLINE float og_loop_scale(float a, float b) {\n"
    "  const uint32_t n = (uint32_t)og_loop_to_int(b);\n"
    "  const uint32_t half = og_loop_shift_sign(n, 1);\n"
    "  return a * of_bits((half << 23) + 0x3f800000u).f *\n"
    "         of_bits(((n - half) << 23) + 0x3f800000u).f;\n"
    "}\n"
    "#ifdef __FP_FAST_FMAF\n"
    "#define OG_LOOP_FMA __builtin_fmaf\n"
    "#else\n"
    "// Rounded to odd in double, so that the second rounding is right.\n"
    "INLINE float OG_LOOP_FMA(float a, float b, float c) {\n"
    "  union {\n"
    "    double f;\n"
    "    uint64_t u;\n"
    "  } sum;\n"
    "  const double product = (double)a * (double)b, addend = (double)c;\n"
    "  sum.f = product + addend;\n"
    "  const double back = sum.f - product;\n"
    "  const double error = (product - (sum.f - back)) + (addend - back);\n"
    "  const uint64_t step = (error > 0) == (sum.f > 0) ? 1 : (uint64_t)-1;\n"
    "  if ((error < 0 || error > 0) && (sum.u & 1) == 0) sum.u += step;\n"
    "  return (float)sum.f;\n"
    "}\n"
    "#endif\n"
    "INLINE float larger(float a, float b) { return a != a || a > b ? a : b; "
    "}\n"
    "INLINE float smaller(float a, float b) { return a != a || a < b ? a : b; "
    "}\n"
    "INLINE float sum_of(float a, float b) { return a + b; }\n"
    "INLINE int64_t to_i64(float a) {\n"
    "  return a >= -0x1p63f && a < 0x1p63f ? (int64_t)a : INT64_MIN;\n"
    "}\n"
    "#define JOIN(p, by)                                   \\\n"
    "  for (int half = 16; half > 0; half /= 2)            \\\n"
    "    for (int k = 0; k < half; ++k)                    \\\n"
    "      p[k] = by(p[k], p[k + half])\n"
    "\n"
    "typedef struct og_loop_call {\n"
    "  int64_t width, rows, blocks;\n"
    "  const void *in[32];\n"
    "  int64_t in_row_bytes[32], in_block_bytes[32];\n"
    "  void *out[16];\n"
    "  int64_t out_row_bytes[16], out_block_bytes[16];\n"
    "  void *scratch;\n"
    "  _Bool nontemporal;\n"
    "} og_loop_call;\n"
    "typedef struct og_formula_code {\n"
    "  uint64_t digest;\n"
    "  void (*run)(const og_loop_call *call);\n"
    "} og_formula_code;\n"
    "typedef struct og_formula_codes {\n"
    "  uint32_t call_size, count;\n"
    "  const og_formula_code *codes;\n"
    "  // libm's, where an expansion has no value: set by who loads the "
    "module.\n"
    "  float (*call)(const char *name, float a, float b);\n"
    "} og_formula_codes;\n"
    "extern og_formula_codes opgraft_formula_codes;\n";

static const struct {
  int32_t operands;
  const char *result, *form;
} lanes[OG_LANE_COUNT] = {
#define OG_LOOP_OP(id, operands, is_commutative, result, ...) \
  [OG_LANE_##id] = {operands, #result, #__VA_ARGS__},
#include "loop/lanes.def"
#undef OG_LOOP_OP
};

_Static_assert(OG_LOOP_INPUTS_MAX == 32 && OG_LOOP_OUTPUTS_MAX == 16 &&
                   OG_LOOP_PARTIALS == 32,
               "the prelude says these numbers");

void og_loop_c_begin(og_text *out) {
  og_text_add(out, prelude);
  og_text_addf(out, "#define OG_LOOP_TABLE_SIZE %d\n", OG_LOOP_TABLE_SIZE);
  og_text_addf(out,
               "static const float og_loop_tables[%d][OG_LOOP_TABLE_SIZE] = "
               "{\n",
               OG_LOOP_TABLES);
  for (int32_t t = 0; t < OG_LOOP_TABLES; ++t) {
    og_text_add(out, "    {");
    for (int32_t k = 0; k < OG_LOOP_TABLE_SIZE; ++k)
      og_text_addf(out, "%s%af", k > 0 ? ", " : "",
                   (double)og_loop_tables[t][k]);
    og_text_add(out, "},\n");
  }
  og_text_add(out, "};\n\n");
  for (int32_t op = 0; op < OG_LANE_COUNT; ++op) {
    if (lanes[op].form == NULL) continue;
    og_text_addf(out, "INLINE lane lane_%s(", og_loop_op_name((og_loop_op)op));
    for (int32_t k = 0; k < lanes[op].operands; ++k)
      og_text_addf(out, "lane %c, ", (char)('a' + k));
    og_text_addf(out,
                 "uint32_t imm) {\n  lane r;\n  (void)imm;\n  r.%s = %s;\n"
                 "  return r;\n}\n",
                 lanes[op].result, lanes[op].form);
  }
}

// --- One function ------------------------------------------------------------

typedef struct c_writer {
  const og_loop_spec *spec;
  const og_loop_lowered *l;
  og_text *out;
  bool is_row;    // row steps are written
  int32_t depth;  // of what is written, in two spaces
} c_writer;

static void begin_line(const c_writer *w) {
  for (int32_t k = 0; k < w->depth; ++k) og_text_add(w->out, "  ");
}

// A C type, and what a lane is made of its element x.
static const struct {
  const char *type, *load, *store;
} memories[] = {
    [OG_LOOP_32] = {"uint32_t", "of_bits(x)", "v.u"},
    [OG_LOOP_ZERO16] = {"uint16_t", "of_bits(x)", "(uint16_t)v.u"},
    [OG_LOOP_SIGN16] = {"int16_t", "of_bits((uint32_t)(int32_t)x)",
                        "(int16_t)v.u"},
    [OG_LOOP_ZERO8] = {"uint8_t", "of_bits(x)", "(uint8_t)v.u"},
    [OG_LOOP_SIGN8] = {"int8_t", "of_bits((uint32_t)(int32_t)x)",
                       "(int8_t)v.u"},
    [OG_LOOP_F16] = {"og_half", "of_float(og_half_to_float(x))",
                     "og_half_from_float(v.f)"},
    [OG_LOOP_I64] = {"int64_t", "of_float((float)x)", "to_i64(v.f)"},
};

static void load_write(const c_writer *w, int32_t value) {
  const int32_t input = (int32_t)w->l->code[value].imm;
  const bool is_row = w->spec->inputs[input].form == OG_LOOP_ROW;
  const char *type = memories[w->l->in_memory[input]].type;
  og_text_addf(w->out,
               "{ %s x; memcpy(&x, x%d + %s * (int64_t)sizeof x, sizeof x); "
               "v%d = %s; }\n",
               type, (int)input, is_row ? "0" : "i", (int)value,
               memories[w->l->in_memory[input]].load);
}

static void store_write(const c_writer *w, const og_loop_step *step) {
  const og_loop_memory memory = w->l->out_memory[step->index];
  og_text_addf(w->out,
               "{ const lane v = v%d; const %s x = %s; memcpy(y%d + %s * "
               "(int64_t)sizeof x, &x, sizeof x); }\n",
               (int)step->value, memories[memory].type, memories[memory].store,
               (int)step->index, w->is_row ? "0" : "i");
}

static void call_write(const c_writer *w, int32_t value) {
  const og_loop_instr *i = &w->l->code[value];
  og_text_addf(w->out,
               "v%d = v%d.u != 0 ? of_float(opgraft_formula_codes.call(\"%s\", "
               "v%d.f, ",
               (int)value, (int)i->c, og_scalar_name((int32_t)i->imm),
               (int)i->a);
  if (i->b >= 0)
    og_text_addf(w->out, "v%d.f", (int)i->b);
  else
    og_text_add(w->out, "0");
  og_text_add(w->out, ")) : of_bits(0);\n");
}

static void compute_write(const c_writer *w, int32_t value) {
  const og_loop_instr *i = &w->l->code[value];
  const int32_t operands[3] = {i->a, i->b, i->c};
  if (!w->is_row) og_text_addf(w->out, "lane v%d; ", (int)value);
  if (i->op == OG_LANE_load) {
    load_write(w, value);
  } else if (i->op == OG_LANE_call) {
    call_write(w, value);
  } else if (i->op == OG_LANE_joined) {
    og_text_addf(w->out, "v%d = j%u;\n", (int)value, (unsigned)i->imm);
  } else if (i->op == OG_LANE_width) {
    og_text_addf(w->out, "v%d = of_float((float)width);\n", (int)value);
  } else {
    og_text_addf(w->out, "v%d = lane_%s(", (int)value, og_loop_op_name(i->op));
    for (int32_t k = 0; k < lanes[i->op].operands; ++k)
      og_text_addf(w->out, "v%d, ", (int)operands[k]);
    og_text_addf(w->out, "%uu);\n", (unsigned)i->imm);
  }
}

static const char *join_of(og_loop_reduction kind) {
  return kind == OG_LOOP_SUM   ? "sum_of"
         : kind == OG_LOOP_MAX ? "larger"
                               : "smaller";
}

static void step_write(const c_writer *w, const og_loop_step *step) {
  const int value = (int)step->value, index = (int)step->index;
  begin_line(w);
  switch (step->action) {
    case OG_LOOP_COMPUTE:
      compute_write(w, step->value);
      break;
    case OG_LOOP_STORE:
      store_write(w, step);
      break;
    case OG_LOOP_REDUCE:
      og_text_addf(w->out, "p%d[k] = %s(p%d[k], v%d.f);\n", index,
                   join_of(w->l->reductions[index].kind), index, value);
      break;
    case OG_LOOP_KEEP:
      og_text_addf(w->out, "kept[%d * stride + i] = v%d.u;\n", index, value);
      break;
    case OG_LOOP_RELOAD:
      og_text_addf(w->out, "const lane v%d = of_bits(kept[%d * stride + i]);\n",
                   value, index);
      break;
  }
}

static bool is_in(const c_writer *w, int32_t r, int32_t p) {
  return w->l->reductions[r].pass == p;
}

static void partials_begin(const c_writer *w, int32_t p) {
  for (int32_t r = 0; r < w->l->reduction_count; ++r) {
    const og_loop_reduction kind = w->l->reductions[r].kind;
    if (!is_in(w, r, p)) continue;
    og_text_addf(w->out,
                 "      float p%d[32], t%d[32];\n      for (int k = 0; k < 32; "
                 "++k) p%d[k] = of_bits(0x%xu).f, t%d[k] = 0;\n",
                 (int)r, (int)r, (int)r,
                 kind == OG_LOOP_SUM   ? 0u
                 : kind == OG_LOOP_MAX ? 0xff800000u
                                       : 0x7f800000u,
                 (int)r);
  }
}

static void carry_write(const c_writer *w, int32_t r, const char *indent) {
  og_text_addf(w->out,
               "%sfor (int k = 0; k < 32; ++k) t%d[k] += p%d[k], p%d[k] = 0;\n",
               indent, (int)r, (int)r, (int)r);
}

static void partials_end(const c_writer *w, int32_t p) {
  for (int32_t r = 0; r < w->l->reduction_count; ++r) {
    const og_loop_reduction kind = w->l->reductions[r].kind;
    const char of = kind == OG_LOOP_SUM ? 't' : 'p';
    if (!is_in(w, r, p)) continue;
    if (kind == OG_LOOP_SUM) carry_write(w, r, "      ");
    og_text_addf(w->out,
                 "      JOIN(%c%d, %s);\n      j%d = of_float(%c%d[0]);\n", of,
                 (int)r, join_of(kind), (int)r, of, (int)r);
  }
}

static void running_write(const c_writer *w, int32_t p) {
  for (int32_t n = 0; n < w->l->running_count; ++n) {
    const og_loop_running *r = &w->l->running[n];
    if (r->pass != p || r->keep < 0) continue;
    og_text_addf(
        w->out,
        "      {\n        double sum = 0;\n        for (int64_t i = 0; "
        "i < width; ++i) {\n          uint32_t *at = &kept[%d * stride "
        "+ %s];\n          sum += (double)of_bits(*at).f;\n          "
        "*at = of_float((float)sum).u;\n        }\n      }\n",
        (int)r->keep, r->kind == OG_LOOP_CUMSUM ? "i" : "width - 1 - i");
  }
}

static void elements_write(c_writer *w, int32_t p) {
  const og_loop_pass *pass = &w->l->passes[p];
  bool reduces = false;
  for (int32_t r = 0; r < w->l->reduction_count; ++r) reduces |= is_in(w, r, p);
  if (pass->count == 0 && !reduces) return;
  partials_begin(w, p);
  if (reduces) {
    og_text_add(w->out,
                "      for (int64_t from = 0; from < width; from += 32) {\n"
                "        const int n = width - from < 32 ? (int)(width - from) "
                ": 32;\n");
    for (int32_t r = 0; r < w->l->reduction_count; ++r) {
      if (!is_in(w, r, p) || w->l->reductions[r].kind != OG_LOOP_SUM) continue;
      og_text_add(w->out,
                  "        if (from > 0 && from % 4096 == 0 && n == 32)\n");
      carry_write(w, r, "          ");
    }
    og_text_add(
        w->out,
        "        IVDEP\n        for (int k = 0; k < n; ++k) "
        "{\n          const int64_t i = from + k;\n          (void)i;\n");
  } else {
    og_text_add(w->out,
                "      IVDEP\n      for (int64_t i = 0; i < width; ++i) {\n");
  }
  w->depth = reduces ? 5 : 4;
  for (int32_t k = 0; k < pass->count; ++k) step_write(w, &pass->steps[k]);
  og_text_add(w->out, reduces ? "        }\n      }\n" : "      }\n");
  partials_end(w, p);
  running_write(w, p);
}

static void values_write(const c_writer *w) {
  for (int32_t v = 0; v < w->l->count; ++v) {
    const og_loop_instr *i = &w->l->code[v];
    if (i->op == OG_LANE_number)
      og_text_addf(w->out, "  const lane v%d = {.u = 0x%xu};\n  (void)v%d;\n",
                   (int)v, (unsigned)i->imm, (int)v);
  }
  for (int32_t r = 0; r < w->l->reduction_count; ++r)
    og_text_addf(w->out, "  lane j%d;\n", (int)r);
}

static void pointers_write(const c_writer *w) {
  for (int32_t k = 0; k < w->spec->input_count; ++k)
    og_text_addf(w->out,
                 "    const char *x%d = (const char *)call->in[%d] + row * "
                 "call->in_row_bytes[%d] + block * call->in_block_bytes[%d];\n"
                 "    (void)x%d;\n",
                 (int)k, (int)k, (int)k, (int)k, (int)k);
  for (int32_t k = 0; k < w->spec->output_count; ++k)
    og_text_addf(
        w->out,
        "    char *y%d = (char *)call->out[%d] + row * "
        "call->out_row_bytes[%d] + block * call->out_block_bytes[%d];\n",
        (int)k, (int)k, (int)k, (int)k);
  for (int32_t v = 0; v < w->l->count; ++v)
    if (w->l->code[v].is_row && w->l->code[v].op != OG_LANE_number)
      og_text_addf(w->out, "    lane v%d;\n    (void)v%d;\n", (int)v, (int)v);
}

void og_loop_c_write(const og_loop_spec *spec, const og_loop_lowered *lowered,
                     const char *name, og_text *out) {
  c_writer w = {.spec = spec, .l = lowered, .out = out};
  og_text_addf(out,
               "\nstatic void %s(const og_loop_call *call) {\n"
               "  const int64_t width = call->width;\n"
               "  const int64_t stride = (width + 31) / 32 * 32;\n"
               "  uint32_t *kept = (uint32_t *)call->scratch;\n"
               "  (void)stride, (void)kept;\n",
               name);
  values_write(&w);
  og_text_add(out,
              "  for (int64_t n = 0; n < call->rows * call->blocks; ++n) {\n"
              "    const int64_t block = n / call->rows, row = n;\n");
  pointers_write(&w);
  for (int32_t p = 0; p < lowered->pass_count; ++p) {
    og_text_addf(out, "    {  // pass %d\n", (int)p);
    w.is_row = true;
    w.depth = 3;
    for (int32_t k = 0; k < lowered->passes[p].row_count; ++k)
      step_write(&w, &lowered->passes[p].row_steps[k]);
    w.is_row = false;
    elements_write(&w, p);
    og_text_add(out, "    }\n");
  }
  og_text_add(out, "  }\n}\n");
}
