// SPDX-License-Identifier: Apache-2.0
// Formulas of modules as C: the programs that calls of one floating type have,
// with all optional arguments and with none.

#include <opgraft/graph.h>
#include <string.h>

#include "decl/formula.h"
#include "decl/formula_function.h"
#include "decl/types.h"
#include "loop/encode_c.h"
#include "module/module.h"

enum { CODES_MAX = 4096 };

typedef struct coder {
  og_text *out;
  uint64_t digests[CODES_MAX];
  uint32_t count;
} coder;

static const og_dtype single = {OG_CODE_FLOAT, 32, 1};

// --- The types of a call -----------------------------------------------------

// The type that is asked for where the argument may have it, else its first
// one.
static og_dtype argument_type(const og_decl *decl, int32_t tensor,
                              og_dtype asked) {
  const og_type_set set = og_types_of(decl, tensor);
  const int32_t index = og_dtype_index(asked);
  int32_t k = 0;
  if (index >= 0 && (set >> index & 1u)) return asked;
  while (k + 1 < og_dtype_table_count() && !(set >> k & 1u)) ++k;
  return og_dtype_at(k);
}

static og_dtype result_type(const og_decl *decl, int32_t output,
                            og_dtype asked) {
  const int32_t r = output - decl->mutated_count;
  if (r < 0) return argument_type(decl, decl->mutated_tensors[output], asked);
  const og_out_type *type = &decl->out_types[r];
  if (type->kind == OG_OUT_TYPE_FIXED) return type->dtype;
  if (type->kind == OG_OUT_TYPE_SAME)
    return argument_type(decl, type->tensor, asked);
  // Of one floating type beside integers it is the floating one.
  og_dtype found = asked;
  for (int32_t k = 0; k < type->param_count; ++k) {
    const og_param *param = &decl->params[type->params[k]];
    if (param->type != OG_TYPE_TENSOR) continue;
    found = argument_type(decl, param->index, asked);
    if (og_dtype_is_float(found)) break;
  }
  return found;
}

// --- Its forms ---------------------------------------------------------------

static og_loop_form form_of(const struct og_formula *f,
                            const og_formula_place *place) {
  const bool has_row = f->broadcasts || f->item_count == 0 ||
                       (place->items >> (f->item_count - 1) & 1);
  return has_row ? OG_LOOP_RUN : OG_LOOP_ROW;
}

static void operands_find(const og_decl *decl, og_dtype asked,
                          og_loop_operand *operands) {
  const struct og_formula *f = decl->formula;
  for (int32_t i = 0; i < f->input_count; ++i) {
    const og_formula_input *input = &f->inputs[i];
    og_loop_form form = OG_LOOP_ROW;
    if (input->is_position && input->index == OG_FORMULA_COLUMN)
      form = OG_LOOP_RUN;
    if (input->is_tensor) form = form_of(f, &f->in[input->index]);
    operands[i] = (og_loop_operand){
        input->is_tensor ? argument_type(decl, input->index, asked) : single,
        form};
  }
  for (int32_t o = 0; o < f->output_count; ++o) {
    const int32_t r = f->outputs[o].result;
    og_loop_operand *to = &operands[f->input_count + o];
    *to = (og_loop_operand){single, OG_LOOP_ROW};
    if (r < 0) continue;
    to->form = form_of(f, &f->out[r]);
    // Sums are kept in f32.
    if (!((f->sums | f->added) >> r & 1))
      to->dtype = result_type(decl, r, asked);
  }
}

// --- Code --------------------------------------------------------------------

static bool is_known(const coder *c, uint64_t digest) {
  for (uint32_t k = 0; k < c->count; ++k)
    if (c->digests[k] == digest) return true;
  return c->count == CODES_MAX;
}

static void function_write(coder *c, const og_decl *decl,
                           const og_formula_function *fn) {
  char name[32];
  const og_loop_lowered *lowered = og_loop_lowered_of(fn->loop);
  const uint64_t digest = og_loop_digest(lowered);
  if (is_known(c, digest)) return;
  if (c->count == 0) og_loop_c_begin(c->out);
  snprintf(name, sizeof name, "code_%u", (unsigned)c->count);
  og_text_addf(c->out, "\n// %s: ", decl->name);
  for (int32_t k = 0; k < decl->formula->input_count; ++k)
    og_text_addf(c->out, "%s%s", k > 0 ? ", " : "",
                 og_dtype_name(fn->operands[k].dtype));
  og_loop_c_write(og_loop_spec_of(fn->loop), lowered, name, c->out);
  c->digests[c->count++] = digest;
}

static void type_write(coder *c, const og_decl *decl, og_dtype asked,
                       uint32_t given) {
  const struct og_formula *f = decl->formula;
  og_formula_function key = {.class = OG_CLASS_F32, .given = given};
  const og_formula_function *fn;
  bool has_single = false, has_other = false;
  operands_find(decl, asked, key.operands);
  for (int32_t k = 0; k < f->input_count + f->output_count; ++k) {
    const og_dtype dtype = key.operands[k].dtype;
    const bool is_tensor = k < f->input_count
                               ? f->inputs[k].is_tensor
                               : f->outputs[k - f->input_count].result >= 0;
    const bool is_wide = dtype.bits == 64 && dtype.code == OG_CODE_FLOAT;
    has_single |= is_tensor && og_dtype_is_float(dtype) && !is_wide;
    has_other |= is_tensor &&
                 (is_wide || (dtype.code == OG_CODE_UINT && dtype.bits > 8));
  }
  if (has_single && !has_other &&
      og_formula_function_get(f, &key, &fn, NULL) == OG_OK && fn->loop != NULL)
    function_write(c, decl, fn);
}

static void formula_write(coder *c, const og_decl *decl) {
  static const og_dtype asked[] = {
      {OG_CODE_FLOAT, 32, 1}, {OG_CODE_BFLOAT, 16, 1}, {OG_CODE_FLOAT, 16, 1}};
  const struct og_formula *f = decl->formula;
  const uint32_t all =
      f->input_count == OG_LOOP_INPUTS_MAX ? ~0u : (1u << f->input_count) - 1;
  uint32_t positions = 0;
  for (int32_t i = 0; i < f->input_count; ++i)
    positions |= (uint32_t)f->inputs[i].is_position << i;
  for (size_t k = 0; k < sizeof asked / sizeof *asked; ++k) {
    type_write(c, decl, asked[k], all & ~positions);
    if (f->optional != 0)
      type_write(c, decl, asked[k], all & ~positions & ~f->optional);
  }
}

static void codes_write(const coder *c) {
  if (c->count == 0) return;
  og_text_add(c->out, "\nstatic const og_formula_code codes[] = {\n");
  for (uint32_t k = 0; k < c->count; ++k)
    og_text_addf(c->out, "    {0x%llxu, code_%u},\n",
                 (unsigned long long)c->digests[k], (unsigned)k);
  og_text_addf(
      c->out,
      "};\n__attribute__((visibility(\"default\"))) og_formula_codes "
      "opgraft_formula_codes = {sizeof(og_loop_call), %u, codes, 0};\n",
      (unsigned)c->count);
}

size_t opgraft_module_print_code(const opgraft_module *module, char *buffer,
                                 size_t size) {
  og_text text = {0};
  coder *c = og_alloc_zeroed(1, sizeof *c);
  if (c == NULL) return 0;
  c->out = &text;
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const og_decl *decl = opgraft_module_op(module, i)->decl;
    if (decl->formula != NULL) formula_write(c, decl);
  }
  codes_write(c);
  og_free(c);
  return og_text_give(&text, buffer, size);
}
