// SPDX-License-Identifier: Apache-2.0
// Reads a graph from text (docs/ir.md). The input is not trusted.

#ifndef OG_GRAPH_PARSE_H
#define OG_GRAPH_PARSE_H

#include "graph/graph.h"

// opgraft_graph_parse for text whose constants may lie in `data`, which stays
// as long as the graph.
og_status og_graph_parse_data(const char *text, size_t length, const char *data,
                              size_t data_bytes, opgraft_graph **out_graph,
                              opgraft_error *error);

#endif  // OG_GRAPH_PARSE_H
