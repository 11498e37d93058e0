// SPDX-License-Identifier: Apache-2.0
// Graph files: a line of fixed length, the text, the constants
// (docs/graph-file.md). What is read is not trusted.

#ifndef OG_GRAPH_FILE_H
#define OG_GRAPH_FILE_H

#include "graph/graph.h"

// A graph from a file's bytes, which stay as long as the graph and begin at a
// multiple of 64. `path` is for messages.
og_status og_graph_read(const char *bytes, size_t size_bytes, const char *path,
                        opgraft_graph **out_graph, opgraft_error *error);

#endif  // OG_GRAPH_FILE_H
