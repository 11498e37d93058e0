// SPDX-License-Identifier: Apache-2.0
// Contractions whose result the next node of a plan's order reads element by
// element, so that both may run as one step.
//
// Who runs a node is decided later (exec/choose/choose.h), so a plan is right
// for one step and for two: what either node touches is in use while both run,
// and what the reader writes shares no memory with what the contraction reads.

#ifndef OG_PLAN_JOIN_H
#define OG_PLAN_JOIN_H

#include "graph/graph.h"
#include "plan/lanes.h"

// Of a fused node.
typedef struct og_join {
  bool is_joined;
  bool keeps_result;    // others need the contraction's result too
  int32_t contraction;  // the node right before in the order
} og_join;

// By node, in `memory`.
og_status og_joins_find(const opgraft_graph *graph, const og_lanes *lanes,
                        og_arena *memory, og_join **out_joins,
                        opgraft_error *error);

// The contraction whose result, or a view of it, a node reads; -1 where it
// reads none.
int32_t og_contraction_read_by(const opgraft_graph *graph, const og_node *node);

#endif  // OG_PLAN_JOIN_H
