// SPDX-License-Identifier: Apache-2.0
// Passes: what each is, and what they share.

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

// --- Uses --------------------------------------------------------------------

enum { OG_USE_NEVER = -1, OG_USE_OUTPUT = INT32_MAX };

// By value; made once at the start of a pass.
typedef struct og_uses {
  int32_t *last;         // the last node that reads it, OG_USE_OUTPUT, NEVER
  int32_t *count;        // reads by nodes and outputs
  int32_t *born;         // the node that wrote what it names; views: their base
  bool *root_is_output;  // by root: an output lies in this storage
  int32_t *root_write;   // by root: the first node that overwrites it, or -1
} og_uses;

og_status og_uses_init(og_uses *uses, const opgraft_graph *graph,
                       opgraft_error *error);
void og_uses_reset(og_uses *uses);

// --- Replacing values --------------------------------------------------------

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

#endif  // OG_PASS_PASS_H
