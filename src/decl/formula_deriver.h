// SPDX-License-Identifier: Apache-2.0
// Derivatives of one formula, as values behind its own (formula_grad.c), for
// who writes them (formula_differentiate.c).

#ifndef OG_DECL_FORMULA_DERIVER_H
#define OG_DECL_FORMULA_DERIVER_H

#include "decl/formula_dag.h"

// Loads behind the formula's inputs: the gradient of output o (+ o), and the
// result r itself (+ OG_LOOP_OUTPUTS_MAX + r); of tangents, that of input i (+
// i).
typedef struct og_deriver {
  og_dag dag;
  uint32_t smooth_inputs;   // bits: what may have a gradient
  uint32_t smooth_outputs;  // bits
  int32_t *bar;             // by own value: its gradient or tangent, or -1
  bool *is_active;          // depends on a smooth input
  bool *is_still;           // an extreme on which no result depends
  // Gradients by input, -1: zero; tangents by output.
  int32_t values[OG_LOOP_INPUTS_MAX];
} og_deriver;

// False where memory is short or the formula has no derivative. Reset it in
// any case.
bool og_deriver_init(og_deriver *d, const og_decl *decl);
void og_deriver_reset(og_deriver *d);
void og_deriver_gradients(og_deriver *d);
void og_deriver_tangents(og_deriver *d);

#endif  // OG_DECL_FORMULA_DERIVER_H
