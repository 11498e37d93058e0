// SPDX-License-Identifier: Apache-2.0
// Foreign nodes get their operators from the graph's modules.

#ifndef OG_IMPORT_LINK_H
#define OG_IMPORT_LINK_H

#include "graph/graph.h"

// Has a node call its operator of one of the graph's modules, if there is one;
// origin->reason then says why not, or is NULL. The node has its updates.
void og_foreign_link(const opgraft_graph *graph, og_node *node,
                     og_origin *origin);

#endif  // OG_IMPORT_LINK_H
