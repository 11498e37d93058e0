// SPDX-License-Identifier: Apache-2.0
// The operands of matmul and addmm: [.., M, K] x [.., K, N] -> [.., M, N],
// alone or as beta * c + alpha * a b.

#ifndef OG_EXEC_STEP_CONTRACTION_H
#define OG_EXEC_STEP_CONTRACTION_H

#include "exec/step/operands.h"

typedef struct og_contraction {
  og_operands io;
  const og_tensor *a, *b, *c;  // c: NULL where there is none
  int64_t m, n, k;
  og_nest batch;  // result, a, b and c over the leading dims
  int64_t batches;
  double alpha, beta;
  og_tensor shift;  // c broadcast to the result's shape
} og_contraction;

// The operands of batch `index`: offsets in bytes of result, a, b, c.
static inline void og_contraction_batch(const og_contraction *s, int64_t index,
                                        int64_t *out_offsets) {
  og_nest_point(&s->batch, index, out_offsets);
}

// Whether b has int8, which only packed kernels multiply with floats.
static inline bool og_contraction_is_int8(const og_prep *prep) {
  if (prep->node->op != OG_IR_matmul || prep->in[1] == NULL) return false;
  const og_dtype type = prep->in[1]->dtype;
  return type.code == OG_CODE_INT && type.bits == 8 &&
         og_is_float(prep->out[0]);
}

// Fills `s`, which og_state_begin made, from the node's operands and
// attributes; fails where shapes or types do not fit.
og_status og_contraction_read(og_prep *prep, og_contraction *s);
// Has the broadcast operand follow c's memory; when the step begins.
void og_contraction_bind(og_contraction *s);

#endif  // OG_EXEC_STEP_CONTRACTION_H
