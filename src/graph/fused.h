// SPDX-License-Identifier: Apache-2.0
// What a node `fused` means: a row program over the last dim of its operands.
//
// Operands broadcast to one shape, [.., W]; the program runs once for each of
// its rows. An operand whose last dim is 1 is one element for each row. A
// result has the shape [.., W], or, where the program computes one element a
// row for it, [.., 1] or [..].

#ifndef OG_GRAPH_FUSED_H
#define OG_GRAPH_FUSED_H

#include "graph/graph.h"
#include "loop/program.h"

typedef struct og_fused {
  og_loop_program program;
  int32_t ndim;
  opgraft_size shape[OPGRAFT_RANK_MAX];
  bool is_row_input[OG_LOOP_INPUTS_MAX];
  bool is_row_result[OG_LOOP_OUTPUTS_MAX];  // stored as one element a row
  // It reduces a row, asks for its width, or has a result of one element a
  // row: rows must stay what they are.
  bool needs_rows;
  bool needs_elements;  // rows without elements are an error
} og_fused;

// Reads and checks a node. What `out` points to lies in the arena. Failure:
// OG_INVALID with what is wrong, OG_MEMORY.
og_status og_fused_read(const opgraft_graph *graph, const og_node *node,
                        og_arena *arena, og_fused *out, opgraft_error *error);

// Checks only. `out_is_elementwise`: element i of a result needs element i of
// the operands only.
og_status og_fused_check(const opgraft_graph *graph, const og_node *node,
                         bool *out_is_elementwise, opgraft_error *error);

#endif  // OG_GRAPH_FUSED_H
