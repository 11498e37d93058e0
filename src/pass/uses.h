// SPDX-License-Identifier: Apache-2.0
// Who reads each value of a graph, and what writes its storage.

#ifndef OG_PASS_USES_H
#define OG_PASS_USES_H

#include "graph/graph.h"

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

#endif  // OG_PASS_USES_H
