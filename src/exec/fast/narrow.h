// SPDX-License-Identifier: Apache-2.0
// The precision that was asked for, OPGRAFT_OPTION_PRECISION_*, in packed
// contractions and convolutions.

#ifndef OG_EXEC_FAST_NARROW_H
#define OG_EXEC_FAST_NARROW_H

#include "exec/step/prep.h"
#include "kernel/kernel.h"

// Whether a product of f32 rounds its operands to bf16. Without dots, bf16
// takes less memory and more arithmetic than f32: it pays while the product
// waits for its panels.
static inline bool og_is_rounded(const og_prep *prep, bool waits) {
  const uint32_t flags = og_precision_of(prep->plan->graph, prep->node);
  return (flags & OPGRAFT_OPTION_PRECISION_BF16) != 0 &&
         (waits || og_contraction_isa(OG_BF16) >= OG_ISA_AVX512_BF16);
}

// The type of weights that stay, as og_precision_of asks for it; 0: their own.
static inline int og_narrow_type(uint32_t flags) {
  return flags & OPGRAFT_OPTION_PRECISION_INT8      ? OG_I8
         : flags & OPGRAFT_OPTION_PRECISION_INT4    ? OG_I4_128
         : flags & OPGRAFT_OPTION_PRECISION_INT4_64 ? OG_I4_64
         : flags & OPGRAFT_OPTION_PRECISION_INT4_32 ? OG_I4_32
                                                    : 0;
}

// Whether the step is one whose operand is rounded because it was asked for.
bool og_matmul_is_narrow(const og_step *step);
// Whether it was to be int8 or int4 and is no more.
bool og_matmul_is_given_up(const og_step *step);
bool og_convolution_is_narrow(const og_step *step);

#endif  // OG_EXEC_FAST_NARROW_H
