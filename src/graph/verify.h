// SPDX-License-Identifier: Apache-2.0
// Checks what every pass relies on (graph.h, Invariants).

#ifndef OG_GRAPH_VERIFY_H
#define OG_GRAPH_VERIFY_H

#include "graph/graph.h"

// Failure: OG_INTERNAL with the node and what is wrong with it, OG_MEMORY.
og_status og_graph_verify(const opgraft_graph *graph, opgraft_error *error);

#endif  // OG_GRAPH_VERIFY_H
