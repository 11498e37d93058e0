// SPDX-License-Identifier: Apache-2.0
// A formula as it runs, by the types, forms and arguments that a call has.
#ifndef OPGRAFT_SRC_DECL_FORMULA_FUNCTION_H
#define OPGRAFT_SRC_DECL_FORMULA_FUNCTION_H

#include "decl/formula.h"

enum { OG_FORMULA_OPERANDS_MAX = OG_LOOP_INPUTS_MAX + OG_LOOP_OUTPUTS_MAX };

// A program for one choice of types, forms and arguments that are there.
typedef struct og_formula_function {
  struct og_formula_function *next;
  og_class class;
  uint32_t given;
  og_loop_operand operands[OG_FORMULA_OPERANDS_MAX];  // inputs, then results
  uint32_t nontemporal;                               // results, by number
  bool prefetch;
  og_arena arena;
  og_loop_program program;
  og_loop_code *code;
  og_loop *loop;  // of class F32
  // The module's own code, where there is no encoded one; NULL: interpreted.
  void (*compiled)(const og_loop_call *call);
} og_formula_function;

// The function of key's class, arguments and operands, made at the first call.
// It lives as long as the formula. Any thread. Failure: OG_MEMORY, or what the
// program's text is refused for.
og_status og_formula_function_get(const struct og_formula *f,
                                  const og_formula_function *key,
                                  const og_formula_function **out,
                                  opgraft_error *error);

#endif
