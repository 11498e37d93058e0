// SPDX-License-Identifier: Apache-2.0
// When the storage of each root is in use, by the steps of a plan's order.

#ifndef OG_PLAN_LIVE_H
#define OG_PLAN_LIVE_H

#include "graph/graph.h"
#include "plan/join.h"

// A root's live range.
typedef struct og_lifetime {
  bool is_live;         // a step touches it
  int32_t first, last;  // steps that touch it, or any of its views
  int32_t lane;  // the lane whose steps alone do; negative: several, none
  // The section that touched it last, and by which of its lanes.
  int32_t last_section, last_lane;
} og_lifetime;

typedef struct og_live {
  const og_lanes *lanes;
  og_lifetime *roots;  // by value
  int32_t *lane_at;    // by step; negative outside of sections
} og_live;

// `lanes` outlives it. What one of two joined nodes touches is in use during
// both.
og_status og_live_init(og_live *live, const opgraft_graph *graph,
                       const og_lanes *lanes, const og_join *joins,
                       opgraft_error *error);
// A zeroed one is allowed.
void og_live_reset(og_live *live);

// Whether `step` is the last to touch the root: no later step does, nor one
// that may run beside it.
bool og_live_ends(const og_live *live, opgraft_value root, int32_t step);
// `root` is in use as long as `other` too, which takes over its memory.
void og_live_extend(og_live *live, opgraft_value root, opgraft_value other);
// The steps during which the root's memory holds nothing else. One whose steps
// are all in one lane has 1 + its section and that lane, others 0 and 0.
void og_live_range(const og_live *live, opgraft_value root, int32_t *out_first,
                   int32_t *out_last, int32_t *out_section, int32_t *out_lane);

#endif  // OG_PLAN_LIVE_H
