// SPDX-License-Identifier: Apache-2.0
// Lanes: stretches of a plan in which independent work runs on several
// threads at once.
//
// The nodes of a section are split into lanes that do not touch what another
// of its lanes writes; sections and the nodes between them run one after the
// other. A lane's nodes stand together in the plan's order, so that running
// all of it on one thread is right as well.

#ifndef OG_PLAN_LANES_H
#define OG_PLAN_LANES_H

#include "graph/graph.h"

enum { OG_LANES_MAX = 16 };

enum {
  OG_STEP_PINNED = 1,  // runs on the thread that calls: lane 0
  OG_STEP_ALONE = 2,   // in no section
};

// What sections are made from. The arrays go by node.
typedef struct og_lane_request {
  const int64_t *cost_ns;
  const uint8_t *flags;  // OG_STEP_*
  int32_t lanes;         // at most
  int64_t fork_ns;       // what a section costs beside its work
} og_lane_request;

typedef struct og_section {
  int32_t first;  // position in the order
  int32_t lane_count;
  int32_t end[OG_LANES_MAX];  // positions behind the last of each lane
} og_section;

typedef struct og_lanes {
  int32_t *order;  // nodes with work, as they run
  int32_t count;
  og_section *sections;
  int32_t section_count;
  int64_t saved_ns;  // by the request's costs
} og_lanes;

// A node that runs: no view, not removed.
static inline bool og_node_runs(const og_node *node) {
  return !node->is_removed && !og_op_is(node, OG_OP_VIEW);
}

// The graph's own order; with a request, its sections besides. In `memory`.
og_status og_lanes_find(const opgraft_graph *graph,
                        const og_lane_request *request, og_arena *memory,
                        og_lanes *out_lanes, opgraft_error *error);

static inline int32_t og_section_end(const og_section *section) {
  return section->end[section->lane_count - 1];
}

#endif  // OG_PLAN_LANES_H
