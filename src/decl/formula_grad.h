// SPDX-License-Identifier: Apache-2.0
// What is derived from a formula: operators that are formulas again, as texts.

#ifndef OG_DECL_FORMULA_GRAD_H
#define OG_DECL_FORMULA_GRAD_H

#include "decl/decl.h"

typedef enum og_formula_derivative {
  // f_gradient(gradients of results, arguments, results) -> gradients
  OG_FORMULA_GRADIENT,
  // f_tangent(tangents of arguments, arguments) -> tangents of results
  OG_FORMULA_TANGENT,
} og_formula_derivative;

// An operator's record, whose texts lie in the arena. `out_map` says what it is
// called with and whose gradients its results are; of a tangent the source
// OPGRAFT_GRAD_NEEDS stands for the tangent of an argument, and the targets are
// fresh results. False where nothing can be derived, `out_map` then says
// whether the gradient is zero (OG_GRAD_NONE).
bool og_formula_differentiate(const og_decl *decl, og_formula_derivative kind,
                              og_arena *arena, og_op *out, og_grad *out_map);

// A step of og_decl_create: fills in decl->grad and decl->gradient where the
// author gave no `backward`.
og_status og_formula_grad_parse(og_decl *decl, opgraft_error *error);

#endif  // OG_DECL_FORMULA_GRAD_H
