// SPDX-License-Identifier: Apache-2.0
// Calls of backward operators, made the way autograd makes them.

#ifndef OG_CHECK_RUN_BACKWARD_H
#define OG_CHECK_RUN_BACKWARD_H

#include "check/run/trial.h"

// Whether another operator of the module names it as its backward operator.
bool og_is_backward(const opgraft_op *op);
// The operator whose gradient `op` computes, for the `index`th call; NULL
// where `op` is called by users (its name does not say that it is a backward
// operator).
const opgraft_op *og_forward_of(const opgraft_op *op, int32_t index);

// What a forward call leaves for its backward operator. weight[i] is the
// gradient of output i.
typedef struct og_saved {
  const og_sample *sample;
  const og_inputs *inputs;
  const og_outputs *value;
  const og_array *weight;
} og_saved;

// Whether output i is the operator's result of this number: a fresh one, or
// the mutated argument that is returned.
bool og_is_result(const og_decl *decl, const og_outputs *out, int32_t i,
                  int32_t result);
// What random gradients are for. Draws for different purposes are independent:
// a backward operator that takes one argument for another must not be handed
// equal values for both. The numbers are salts that no other draw uses.
typedef enum og_weights_for {
  OG_WEIGHTS_ARGUMENT = 0x10000, /* an argument of a backward operator */
  OG_WEIGHTS_DIFFERENCE,         /* the sum of which differences are taken */
  OG_WEIGHTS_READ,               /* whether an argument is read */
  OG_WEIGHTS_REFERENCE,          /* comparison with a reference */
} og_weights_for;

// Random gradients for all outputs that have one; false if memory is short.
bool og_weights_draw(const og_outputs *value, uint64_t seed,
                     og_weights_for purpose, og_array *out);
void og_weights_reset(og_array *weight);  // OG_ARRAYS_MAX of them
// The backward operator's call; false where it needs the gradient of an output
// that has none. *out_inputs is the caller's to reset.
bool og_backward_fill(const og_saved *saved, const opgraft_op *op,
                      og_sample *out_sample, og_inputs *out_inputs);

// Makes trial->sample and trial->inputs from trial->forward_sample; false
// where the forward operator refuses every kind of values.
bool og_trial_derive(og_trial *trial);
// Values for `sample`, which has the shapes of the trial's own: drawn by its
// seed, or derived with that seed.
bool og_trial_fill(og_trial *trial, const og_sample *sample, og_inputs *inputs);

#endif  // OG_CHECK_RUN_BACKWARD_H
