// SPDX-License-Identifier: Apache-2.0
// Passes: what each is, and their list.

#ifndef OG_PASS_PASS_H
#define OG_PASS_PASS_H

#include "graph/graph.h"

// Facts about a graph that a pass may need or end.
enum {
  OG_FACT_FUNCTIONAL = 1,  // nothing but copy_to overwrites a value
};

typedef struct og_pass {
  const char *name;
  uint32_t needs;   // OG_FACT_*
  uint32_t breaks;  // OG_FACT_*
  // *out_changes counts what it did, in the pass's own unit.
  og_status (*run)(opgraft_graph *graph, int32_t *out_changes,
                   opgraft_error *error);
} og_pass;

#define OG_PASS(name) extern const og_pass og_pass_##name;
#include "pass/passes.def"
#undef OG_PASS

#endif  // OG_PASS_PASS_H
