// SPDX-License-Identifier: Apache-2.0
// The loops that the compiler makes of the pointwise rows of ops.def.

#ifndef OG_EXEC_PLAIN_POINTWISE_H
#define OG_EXEC_PLAIN_POINTWISE_H

#include "base/loops.h"
#include "graph/graph.h"

enum { OG_LOOP_OPERANDS = 4 };

// Runs over n elements of T; operand k has its next one `step[k]` further (0 or
// 1). All OG_LOOP_OPERANDS can be read, whatever the row's arity.
typedef void (*og_loop_fn)(int64_t n, void *out, const void *const *in,
                           const int64_t *step);

typedef struct og_pointwise_row {
  bool is_of_result;  // T is the result's, else the operands'
  // NULL: it has no form for the type
  og_loop_fn loop[OG_CLASS_NONE][OG_LOOP_SETS];
} og_pointwise_row;

extern const og_pointwise_row og_pointwise_rows[OG_IR_COUNT];

#endif  // OG_EXEC_PLAIN_POINTWISE_H
