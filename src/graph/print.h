// SPDX-License-Identifier: Apache-2.0
// A graph as text (docs/ir.md) and as a picture for Graphviz.

#ifndef OG_GRAPH_PRINT_H
#define OG_GRAPH_PRINT_H

#include "graph/graph.h"

void og_graph_print(const opgraft_graph *graph, og_text *out);
// Constants are said as "data OFFSET": the offset of each value is given.
void og_graph_print_data(const opgraft_graph *graph, const int64_t *offsets,
                         og_text *out);

// By value: the number that the text calls it by where it has no name. To be
// freed with og_free; NULL when memory is short.
int32_t *og_graph_numbers(const opgraft_graph *graph);
// "%x", "%3" or a literal's number; "none" for -1.
void og_graph_print_value(const opgraft_graph *graph, const int32_t *numbers,
                          opgraft_value id, og_text *out);

#endif  // OG_GRAPH_PRINT_H
