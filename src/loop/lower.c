// SPDX-License-Identifier: Apache-2.0
// Statements as instructions: elements to and from floats, expressions,
// reductions.

#include "loop/lower.h"

#include <string.h>

#include "base/text.h"
#include "loop/build.h"
#include "loop/schedule.h"

typedef struct lowering {
  const og_loop_spec *spec;
  const og_loop_program *source;
  og_loop_lowered *out;
  og_loop_builder builder;
  og_loop_reduce *reductions;
  og_loop_reduced *reduced;  // for the schedule
  og_loop_stored *stored;
  int32_t *values;     // by statement
  bool has_long_nans;  // a NaN may have low bits
} lowering;

// --- Types -------------------------------------------------------------------

static const struct {
  uint8_t code, bits;
  og_loop_memory memory;
} types[] = {
    {OG_CODE_FLOAT, 32, OG_LOOP_32},  {OG_CODE_BFLOAT, 16, OG_LOOP_ZERO16},
    {OG_CODE_FLOAT, 16, OG_LOOP_F16}, {OG_CODE_INT, 32, OG_LOOP_32},
    {OG_CODE_INT, 64, OG_LOOP_I64},   {OG_CODE_INT, 16, OG_LOOP_SIGN16},
    {OG_CODE_INT, 8, OG_LOOP_SIGN8},  {OG_CODE_UINT, 8, OG_LOOP_ZERO8},
    {OG_CODE_BOOL, 8, OG_LOOP_ZERO8},
};

static og_status memory_of(og_dtype dtype, const char *kind, int32_t number,
                           og_loop_memory *out, opgraft_error *error) {
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (types[i].code != dtype.code || types[i].bits != dtype.bits) continue;
    *out = types[i].memory;
    return OG_OK;
  }
  return og_error_set(error, OG_UNSUPPORTED, NULL, NULL,
                      "program: %s%d is %s, which is not computed with in f32",
                      kind, (int)number, og_dtype_name(dtype));
}

static int32_t load(lowering *l, int32_t input) {
  og_loop_builder *b = &l->builder;
  const og_dtype dtype = l->spec->inputs[input].dtype;
  const int32_t x = og_loop_emit(b, OG_LANE_load, -1, -1, -1, (uint32_t)input);
  if (dtype.code == OG_CODE_BFLOAT)
    return og_loop_emit(b, OG_LANE_shift_left, x, -1, -1, 16);
  if (dtype.code == OG_CODE_FLOAT || dtype.bits == 64) return x;
  return og_loop_emit(b, OG_LANE_to_float, x, -1, -1, 0);
}

// What is stored of a float.
static int32_t to_memory(lowering *l, int32_t x, og_dtype dtype) {
  og_loop_builder *b = &l->builder;
  if (dtype.code == OG_CODE_BFLOAT)
    return og_loop_to_bfloat(b, x, l->has_long_nans);
  if (dtype.code == OG_CODE_FLOAT || dtype.bits == 64) return x;
  if (dtype.code == OG_CODE_BOOL)
    return og_loop_emit(b, OG_LANE_and, og_loop_to_mask(b, x),
                        og_loop_number_bits(b, 1), -1, 0);
  const int32_t whole = og_loop_emit(b, OG_LANE_to_int, x, -1, -1, 0);
  if (dtype.bits == 32) return whole;
  return og_loop_emit(b, OG_LANE_and, whole,
                      og_loop_number_bits(b, (1u << dtype.bits) - 1), -1, 0);
}

// --- Statements --------------------------------------------------------------

static int32_t leaf(lowering *l, const og_scalar_instruction *code) {
  const int32_t inputs = l->source->input_count;
  if (code->op == OG_SCALAR_const)
    return og_loop_number_f32(&l->builder, (float)code->value);
  if (code->op == OG_SCALAR_number)
    return og_loop_emit(&l->builder, OG_LANE_width, -1, -1, -1, 0);
  return code->slot < inputs ? load(l, code->slot)
                             : l->values[code->slot - inputs];
}

static int32_t expression(lowering *l, const og_scalar_program *program) {
  int32_t stack[OG_SCALAR_DEPTH_MAX + 1];
  int32_t depth = 0;
  for (int32_t k = 0; k < program->count; ++k) {
    const og_scalar_instruction *code = &program->code[k];
    const int32_t arity = og_scalar_arity(code->op);
    depth -= arity;
    stack[depth] = arity == 0
                       ? leaf(l, code)
                       : og_loop_expand(&l->builder, code->op, &stack[depth]);
    ++depth;
  }
  return stack[0];
}

static int32_t reduce(lowering *l, og_loop_reduction kind, int32_t value) {
  og_loop_builder *b = &l->builder;
  const int32_t pass = b->code[value].pass;
  l->has_long_nans |= kind != OG_LOOP_SUM;  // bits of ones
  if (og_loop_is_running(kind)) {
    const int32_t n = l->out->running_count++;
    l->out->running[n] = (og_loop_running){kind, value, pass, -1};
    return og_loop_emit(b, OG_LANE_summed, -1, -1, -1, (uint32_t)n);
  }
  const int32_t r = l->out->reduction_count++;
  l->reductions[r] = (og_loop_reduce){kind, pass};
  l->reduced[r] = (og_loop_reduced){value, pass};
  return og_loop_emit(b, OG_LANE_joined, -1, -1, -1, (uint32_t)r);
}

static og_status store(lowering *l, const og_loop_statement *statement,
                       int32_t value, opgraft_error *error) {
  const og_loop_operand *output = &l->spec->outputs[statement->output];
  if (output->form == OG_LOOP_ROW && !statement->is_row)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "program: y%d has one element for each element of the "
                        "row, expected one for the row",
                        (int)statement->output);
  l->stored[statement->output] =
      (og_loop_stored){.value = to_memory(l, value, output->dtype),
                       .is_row = output->form == OG_LOOP_ROW};
  return OG_OK;
}

static og_status statements(lowering *l, opgraft_error *error) {
  for (int32_t s = 0; s < l->source->statement_count; ++s) {
    const og_loop_statement *statement = &l->source->statements[s];
    int32_t value = expression(l, &statement->expression);
    if (l->builder.is_short) break;
    if (statement->reduction != OG_LOOP_NO_REDUCTION)
      value = reduce(l, statement->reduction, value);
    l->values[s] = value;
    if (statement->output >= 0) OG_TRY(store(l, statement, value, error));
  }
  return l->builder.is_short ? og_error_set(error, OG_MEMORY, NULL, NULL,
                                            "program: out of memory")
                             : OG_OK;
}

// --- The whole ---------------------------------------------------------------

static og_status operands(lowering *l, opgraft_error *error) {
  const og_loop_spec *spec = l->spec;
  for (int32_t i = 0; i < spec->input_count; ++i) {
    OG_TRY(
        memory_of(spec->inputs[i].dtype, "x", i, &l->out->in_memory[i], error));
    if (spec->inputs[i].form == OG_LOOP_ROW) l->builder.row_inputs |= 1u << i;
    l->has_long_nans |= spec->inputs[i].dtype.code == OG_CODE_FLOAT &&
                        !(spec->number_inputs >> i & 1);
  }
  for (int32_t i = 0; i < spec->output_count; ++i)
    OG_TRY(memory_of(spec->outputs[i].dtype, "y", i, &l->out->out_memory[i],
                     error));
  return OG_OK;
}

static bool allocate(lowering *l, og_arena *arena) {
  const size_t statement_count = (size_t)l->source->statement_count;
  if (!og_loop_builder_init(&l->builder, arena)) return false;
  l->builder.is_strict = l->spec->math == OG_LOOP_MATH_STRICT;
  l->values = og_arena_array(arena, statement_count, sizeof *l->values);
  l->reductions = og_arena_array(arena, statement_count, sizeof *l->reductions);
  l->reduced = og_arena_array(arena, statement_count, sizeof *l->reduced);
  l->stored = og_arena_array(arena, OG_LOOP_OUTPUTS_MAX, sizeof *l->stored);
  l->out->running =
      og_arena_array(arena, statement_count, sizeof *l->out->running);
  l->builder.reductions = l->reductions;
  l->builder.running = l->out->running;
  l->out->reductions = l->reductions;
  return l->values != NULL && l->reductions != NULL && l->reduced != NULL &&
         l->stored != NULL && l->out->running != NULL;
}

og_status og_loop_lower(const og_loop_spec *spec, const og_loop_program *source,
                        og_arena *arena, og_loop_lowered *out,
                        opgraft_error *error) {
  memset(out, 0, sizeof *out);
  lowering l = {.spec = spec, .source = source, .out = out};
  if (!allocate(&l, arena))
    return og_error_set(error, OG_MEMORY, NULL, NULL, "program: out of memory");
  OG_TRY(operands(&l, error));
  OG_TRY(statements(&l, error));
  out->code = l.builder.code;
  out->count = l.builder.count;
  if (!og_loop_schedule(l.reduced, l.stored, source->output_count, arena, out))
    return og_error_set(error, OG_MEMORY, NULL, NULL, "program: out of memory");
  return OG_OK;
}

// --- The digest --------------------------------------------------------------

static void mix(uint64_t *digest, const char *name, int32_t a, int32_t b,
                int32_t c, uint32_t d) {
  const uint32_t numbers[] = {(uint32_t)a, (uint32_t)b, (uint32_t)c, d};
  for (; *name != '\0'; ++name)
    *digest = (*digest ^ (unsigned char)*name) * 0x100000001B3u;
  for (int32_t k = 0; k < 4; ++k)
    *digest = (*digest ^ numbers[k]) * 0x9E3779B97F4A7C15u;
  *digest ^= *digest >> 29;
}

static void steps_mix(uint64_t *digest, const og_loop_step *steps,
                      int32_t count) {
  mix(digest, "steps", count, 0, 0, 0);
  for (int32_t k = 0; k < count; ++k)
    mix(digest, "", (int32_t)steps[k].action, steps[k].value, steps[k].index,
        0);
}

// Of names, not of numbers: enumerations differ between versions.
uint64_t og_loop_digest(const og_loop_lowered *l) {
  uint64_t digest = 0xCBF29CE484222325u;
  for (int32_t v = 0; v < l->count; ++v) {
    const og_loop_instr *i = &l->code[v];
    const bool calls = i->op == OG_LANE_call;
    mix(&digest, og_loop_op_name(i->op), i->a, i->b, i->c, calls ? 0 : i->imm);
    mix(&digest, calls ? og_scalar_name((int32_t)i->imm) : "", i->is_row, 0, 0,
        0);
  }
  for (int32_t r = 0; r < l->reduction_count; ++r)
    mix(&digest, og_loop_reduction_name(l->reductions[r].kind),
        l->reductions[r].pass, 0, 0, 0);
  for (int32_t r = 0; r < l->running_count; ++r)
    mix(&digest, og_loop_reduction_name(l->running[r].kind), l->running[r].pass,
        l->running[r].value, l->running[r].keep, 0);
  for (int32_t p = 0; p < l->pass_count; ++p) {
    steps_mix(&digest, l->passes[p].row_steps, l->passes[p].row_count);
    steps_mix(&digest, l->passes[p].steps, l->passes[p].count);
  }
  for (int32_t k = 0; k < OG_LOOP_INPUTS_MAX; ++k)
    mix(&digest, "in", og_loop_memory_bytes(l->in_memory[k]),
        (int32_t)l->in_memory[k], 0, 0);
  for (int32_t k = 0; k < OG_LOOP_OUTPUTS_MAX; ++k)
    mix(&digest, "out", og_loop_memory_bytes(l->out_memory[k]),
        (int32_t)l->out_memory[k], 0, 0);
  return digest;
}
