// SPDX-License-Identifier: Apache-2.0
// Replaces values by others, everywhere at once.

#ifndef OG_PASS_REWRITE_H
#define OG_PASS_REWRITE_H

#include "graph/graph.h"

// Collects replacements and applies all at once.
typedef struct og_rewrite {
  opgraft_graph *graph;
  opgraft_value *to;  // by value
} og_rewrite;

og_status og_rewrite_init(og_rewrite *rewrite, opgraft_graph *graph,
                          opgraft_error *error);
// Every use of `from` becomes one of `to`, which has the same shape and, if
// `from` is a root with views, the same strides.
void og_rewrite_set(og_rewrite *rewrite, opgraft_value from, opgraft_value to);
opgraft_value og_rewrite_get(const og_rewrite *rewrite, opgraft_value value);
// Also frees the collection.
og_status og_rewrite_apply(og_rewrite *rewrite, opgraft_error *error);

#endif  // OG_PASS_REWRITE_H
