// SPDX-License-Identifier: Apache-2.0
// What a formula is for one call: the class that it computes in, and its row
// program.

#include <string.h>

#include "decl/formula.h"

// --- Programs ----------------------------------------------------------------

typedef struct program_maker {
  const struct og_formula *f;
  const og_formula_choice *choice;
  int32_t inputs[OG_LOOP_INPUTS_MAX];  // by the formula's; -1: a number
  int32_t input_count;
  int32_t *current;  // by name: its last statement
  og_loop_statement *statements;
  int32_t count;
} program_maker;

static void inputs_settle(program_maker *m) {
  const og_formula_choice *choice = m->choice;
  for (int32_t i = 0; i < m->f->input_count; ++i) {
    const bool is_own = choice->numbers == NULL ||
                        m->f->inputs[i].is_position ||
                        (m->f->inputs[i].is_tensor && (choice->given >> i & 1));
    m->inputs[i] = is_own ? m->input_count++ : -1;
  }
}

const char *og_formula_type_name(int32_t precision) {
  return precision == 8    ? "bf16"
         : precision == 11 ? "f16"
         : precision == 24 ? "f32"
         : precision == 53 ? "f64"
                           : NULL;
}

static int32_t precision_of(const og_dtype *types, int32_t input) {
  const og_dtype type =
      types == NULL ? (og_dtype){OG_CODE_FLOAT, 32, 1} : types[input];
  return type.code == OG_CODE_BFLOAT                     ? 8
         : type.code != OG_CODE_FLOAT || type.bits == 64 ? 53
         : type.bits == 16                               ? 11
                                                         : 24;
}

static void leaf_settle(const program_maker *m, og_scalar_instruction *code) {
  const int32_t inputs = m->f->input_count;
  if (code->op == OG_SCALAR_load && code->slot >= inputs) {
    code->slot = m->input_count + m->current[code->slot - inputs];
  } else if (code->op == OG_SCALAR_load && m->inputs[code->slot] < 0) {
    code->op = OG_SCALAR_const;
    code->value = m->choice->numbers[code->slot];
  } else if (code->op == OG_SCALAR_load) {
    code->slot = m->inputs[code->slot];
  } else if (code->op == OG_SCALAR_number && code->slot != OG_LOOP_WIDTH_SLOT) {
    code->op = OG_SCALAR_const;
    code->value =
        code->slot >= OG_FORMULA_PRECISION ? code->slot - OG_FORMULA_PRECISION
        : code->slot >= OG_FORMULA_TYPE
            ? precision_of(m->choice->types, code->slot - OG_FORMULA_TYPE)
            : (m->choice->given >> (code->slot - OG_FORMULA_GIVEN) & 1) != 0;
  }
}

static bool is_row(const program_maker *m, const og_loop_statement *statement) {
  const bool *is_row_input = m->choice->is_row_input;
  if (og_loop_reduces(statement->reduction)) return true;
  if (og_loop_is_running(statement->reduction)) return false;
  for (int32_t k = 0; k < statement->expression.count; ++k) {
    const og_scalar_instruction *code = &statement->expression.code[k];
    if (code->op != OG_SCALAR_load) continue;
    if (code->slot < m->input_count
            ? is_row_input == NULL || !is_row_input[code->slot]
            : !m->statements[code->slot - m->input_count].is_row)
      return false;
  }
  return true;
}

static bool statement_take(program_maker *m, const og_formula_statement *from,
                           og_arena *arena) {
  const int32_t count = from->expression.count;
  og_scalar_instruction *code =
      og_arena_array(arena, (size_t)count, sizeof *code);
  if (code == NULL) return false;
  memcpy(code, from->expression.code, (size_t)count * sizeof *code);
  for (int32_t k = 0; k < count; ++k) leaf_settle(m, &code[k]);
  og_loop_statement *to = &m->statements[m->count];
  *to = (og_loop_statement){.reduction = from->reduction,
                            .output = from->output,
                            .expression = {code, count}};
  if (from->output >= 0 && (m->choice->row_sums >> from->output & 1))
    to->reduction = OG_LOOP_SUM;
  to->is_row = is_row(m, to);
  // Of several values of a result the last one is it.
  for (int32_t s = 0; s < m->count && from->output >= 0; ++s)
    if (m->statements[s].output == from->output) m->statements[s].output = -1;
  m->current[from->name] = m->count++;
  return true;
}

uint32_t og_formula_row_sums(const struct og_formula *f,
                             const og_loop_operand *outputs) {
  const bool ends_in_pack = f->item_count > 0 && f->pack == f->item_count - 1;
  uint32_t sums = 0;
  for (int32_t r = 0; r < f->result_count; ++r)
    if (outputs[r].form == OG_LOOP_ROW && (f->broadcasts || ends_in_pack))
      sums |= f->sums & 1u << r;
  return sums;
}

// A check that is left out holds; where rows are left out nothing is added.
static void checks_fill(program_maker *m) {
  static const og_scalar_instruction one = {.op = OG_SCALAR_const, .value = 1};
  static const og_scalar_instruction zero = {.op = OG_SCALAR_const};
  for (int32_t c = m->f->result_count; c < m->f->output_count; ++c) {
    bool is_there = false;
    for (int32_t s = 0; s < m->count; ++s)
      is_there |= m->statements[s].output == c;
    if (!is_there)
      m->statements[m->count++] = (og_loop_statement){
          .is_row = true,
          .output = c,
          .expression = {m->f->outputs[c].result < 0 ? &one : &zero, 1}};
  }
}

bool og_formula_program(const struct og_formula *formula,
                        const og_formula_choice *choice, og_arena *arena,
                        og_loop_program *out) {
  const size_t most = (size_t)formula->statement_count;
  program_maker m = {
      .f = formula,
      .choice = choice,
      .current =
          og_arena_array(arena, (size_t)formula->name_count, sizeof(int32_t)),
      .statements = og_arena_array(arena, most + OG_LOOP_OUTPUTS_MAX,
                                   sizeof(og_loop_statement))};
  if (m.current == NULL || m.statements == NULL) return false;
  inputs_settle(&m);
  for (int32_t s = 0; s < formula->statement_count; ++s)
    if ((formula->statements[s].needs & ~choice->given) == 0 &&
        !formula->statements[s].is_index &&
        !statement_take(&m, &formula->statements[s], arena))
      return false;
  checks_fill(&m);
  *out = (og_loop_program){.statements = m.statements,
                           .statement_count = m.count,
                           .input_count = m.input_count,
                           .output_count = formula->output_count};
  return true;
}

// --- Classes -----------------------------------------------------------------

const og_tensor *og_formula_tensor(const struct og_formula *f,
                                   const og_call *call, int32_t i) {
  const int32_t r = i - f->input_count;
  if (r >= 0)
    return f->outputs[r].result < 0 ? NULL : call->out[f->outputs[r].result];
  return f->inputs[i].is_tensor ? call->in[f->inputs[i].index] : NULL;
}

// Types that the row engine does not know.
static bool is_wide(og_dtype dtype) {
  return (dtype.code == OG_CODE_FLOAT && dtype.bits == 64) ||
         (dtype.code == OG_CODE_UINT && dtype.bits > 8);
}

static og_class class_of(const struct og_formula *f, const og_call *call) {
  bool has_single = false, has_wide = false, is_integer = f->is_integer;
  for (int32_t i = 0; i < f->input_count + f->output_count; ++i) {
    const og_tensor *t = og_formula_tensor(f, call, i);
    if (t != NULL) {
      has_wide |= is_wide(t->dtype);
      has_single |= og_dtype_is_float(t->dtype) && !is_wide(t->dtype);
      is_integer &= !og_dtype_is_float(t->dtype) &&
                    !(t->dtype.code == OG_CODE_UINT && t->dtype.bits == 64);
    } else if (i < f->input_count && !f->inputs[i].is_tensor &&
               !f->inputs[i].is_position) {
      is_integer &= call->attr[f->inputs[i].index].kind != OG_ATTR_FLOAT;
    }
  }
  if (is_integer) return OG_CLASS_I64;
  return has_single && !has_wide ? OG_CLASS_F32 : OG_CLASS_F64;
}

// Whether input i is an integer, and one that f32 may not have.
static bool is_integer_input(const struct og_formula *f, const og_call *call,
                             int32_t i, bool *out_is_wide) {
  const og_tensor *t = og_formula_tensor(f, call, i);
  *out_is_wide = false;
  if (t != NULL) {
    *out_is_wide = t->dtype.bits >= 32;
    return !og_dtype_is_float(t->dtype);
  }
  if (f->inputs[i].is_tensor || f->inputs[i].is_position) return true;
  const og_attr *attr = &call->attr[f->inputs[i].index];
  if (attr->kind == OG_ATTR_FLOAT) return false;
  *out_is_wide = attr->i >= 1 << 24 || attr->i <= -(1 << 24);
  return true;
}

// Whether f32 would compare other integers than those that are there.
static bool compares_rounded(const struct og_formula *f, const og_call *call) {
  for (int32_t c = 0; c < f->compare_count; ++c) {
    const og_formula_compare *compare = &f->compares[c];
    bool is_integer = true, is_wide_one = false, has_small_number = false;
    for (int32_t i = 0; i < f->input_count; ++i) {
      bool wide;
      if (!(compare->inputs >> i & 1)) continue;
      is_integer &= is_integer_input(f, call, i, &wide);
      is_wide_one |= wide;
      has_small_number |= !f->inputs[i].is_tensor && !wide;
    }
    if (is_integer && is_wide_one &&
        !(compare->is_of_leaves && has_small_number))
      return true;
  }
  return false;
}

og_status og_formula_class(const struct og_formula *formula,
                           const og_call *call, og_class *out_class,
                           const char **out_reason) {
  *out_class = class_of(formula, call);
  if (*out_class == OG_CLASS_F32 && compares_rounded(formula, call)) {
    *out_reason =
        "integers of 32 bits or more are compared beside f32, bf16 or f16; a "
        "formula does so with narrower integers, with f64, or with integers "
        "alone";
    return OG_UNSUPPORTED;
  }
  if (formula->is_real || *out_class == OG_CLASS_I64) return OG_OK;
  *out_reason =
      "the formula computes in integers of up to 63 bits, and a tensor or "
      "number is larger";
  return OG_DTYPE;
}
