// SPDX-License-Identifier: Apache-2.0
// Expressions over symbols read from text.

#ifndef OG_GRAPH_SIZE_PARSE_H
#define OG_GRAPH_SIZE_PARSE_H

#include "graph/size.h"

// Reads an expression from `text`; *out_used is how far it went.
og_status og_size_read(og_sizes *sizes, const char *text, size_t length,
                       size_t *out_used, opgraft_size *out,
                       opgraft_error *error);

#endif  // OG_GRAPH_SIZE_PARSE_H
