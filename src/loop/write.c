// SPDX-License-Identifier: Apache-2.0
// The text of a row program.

#include "loop/program.h"

static void value_write(const og_loop_program *program, int32_t statement,
                        og_text *out) {
  const int32_t output = program->statements[statement].output;
  og_text_addf(out, output >= 0 ? "y%d" : "t%d",
               (int)(output >= 0 ? output : statement));
}

static void leaf_write(void *state, const og_scalar_instruction *code,
                       og_text *out) {
  const og_loop_program *program = state;
  if (code->op == OG_SCALAR_number)
    og_text_add(out, "width");
  else if (code->slot < program->input_count)
    og_text_addf(out, "x%d", (int)code->slot);
  else
    value_write(program, code->slot - program->input_count, out);
}

void og_loop_write(const og_loop_program *program, og_text *out) {
  og_loop_program own = *program;
  for (int32_t s = 0; s < program->statement_count; ++s) {
    const og_loop_statement *statement = &program->statements[s];
    const char *reduction = og_loop_reduction_name(statement->reduction);
    if (s > 0) og_text_add(out, "; ");
    value_write(program, s, out);
    og_text_add(out, " = ");
    if (reduction != NULL) og_text_addf(out, "%s(", reduction);
    og_scalar_write(&statement->expression, leaf_write, &own, out);
    if (reduction != NULL) og_text_add(out, ")");
  }
}
