// SPDX-License-Identifier: Apache-2.0
// Live ranges of roots.

#include "plan/live.h"

#include <string.h>

// A lane's number is that of its section * OG_LANES_MAX + its own.
enum { LANE_UNSET = -1, LANE_NONE = -2, LANE_SEVERAL = -3 };

static void touch(og_lifetime *root, int32_t step, int32_t lane) {
  if (!root->is_live) root->first = step;
  if (root->lane == LANE_UNSET) root->lane = lane;
  if (root->lane != lane) root->lane = LANE_NONE;
  if (lane >= 0) {
    const int32_t section = lane / OG_LANES_MAX;
    if (root->last_section != section) root->last_lane = lane;
    if (root->last_lane != lane) root->last_lane = LANE_SEVERAL;
    root->last_section = section;
  }
  root->is_live = true;
  root->last = step;
}

static void lanes_mark(og_live *live) {
  const og_lanes *lanes = live->lanes;
  for (int32_t s = 0; s < lanes->count; ++s) live->lane_at[s] = LANE_NONE;
  for (int32_t k = 0; k < lanes->section_count; ++k) {
    const og_section *section = &lanes->sections[k];
    for (int32_t l = 0, s = section->first; l < section->lane_count; ++l)
      for (; s < section->end[l]; ++s) live->lane_at[s] = k * OG_LANES_MAX + l;
  }
}

static void node_touch(og_live *live, const opgraft_graph *graph, int32_t n,
                       int32_t step) {
  const og_value *values = graph->values;
  const og_node *node = &graph->nodes[n];
  const int32_t lane = live->lane_at[step];
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0)
      touch(&live->roots[values[node->in[i]].root], step, lane);
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0)
      touch(&live->roots[values[node->out[r]].root], step, lane);
}

static void ranges_find(og_live *live, const opgraft_graph *graph,
                        const og_join *joins) {
  const int32_t *order = live->lanes->order;
  for (int32_t s = 0; s < live->lanes->count; ++s) {
    node_touch(live, graph, order[s], s);
    if (joins[order[s]].is_joined) node_touch(live, graph, order[s - 1], s);
    if (s + 1 < live->lanes->count && joins[order[s + 1]].is_joined)
      node_touch(live, graph, order[s + 1], s);
  }
}

og_status og_live_init(og_live *live, const opgraft_graph *graph,
                       const og_lanes *lanes, const og_join *joins,
                       opgraft_error *error) {
  *live = (og_live){.lanes = lanes};
  live->roots =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *live->roots);
  live->lane_at =
      og_alloc_zeroed((size_t)graph->node_count + 1, sizeof *live->lane_at);
  if (live->roots == NULL || live->lane_at == NULL) {
    og_live_reset(live);
    return og_graph_no_memory(error);
  }
  for (int32_t v = 0; v < graph->value_count; ++v)
    live->roots[v].lane = live->roots[v].last_section = LANE_UNSET;
  lanes_mark(live);
  ranges_find(live, graph, joins);
  return OG_OK;
}

void og_live_reset(og_live *live) {
  og_free(live->roots);
  og_free(live->lane_at);
  memset(live, 0, sizeof *live);
}

bool og_live_ends(const og_live *live, opgraft_value root, int32_t step) {
  const og_lifetime *life = &live->roots[root];
  const int32_t lane = live->lane_at[step];
  return life->last == step &&
         (lane < 0 || life->last_section != lane / OG_LANES_MAX ||
          life->last_lane == lane);
}

void og_live_extend(og_live *live, opgraft_value root, opgraft_value other) {
  og_lifetime *life = &live->roots[root];
  const og_lifetime *longer = &live->roots[other];
  if (longer->last > life->last) life->last = longer->last;
  if (longer->lane != life->lane) life->lane = LANE_NONE;
}

// The first (or last) step of the section that the step is in.
static int32_t section_edge(const og_live *live, int32_t step, bool is_last) {
  const int32_t lane = live->lane_at[step];
  if (lane < 0) return step;
  const og_section *section = &live->lanes->sections[lane / OG_LANES_MAX];
  return is_last ? og_section_end(section) - 1 : section->first;
}

void og_live_range(const og_live *live, opgraft_value root, int32_t *out_first,
                   int32_t *out_last, int32_t *out_section, int32_t *out_lane) {
  const og_lifetime *life = &live->roots[root];
  const bool is_in_lane = life->lane >= 0;
  *out_section = is_in_lane ? 1 + life->lane / OG_LANES_MAX : 0;
  *out_lane = is_in_lane ? life->lane % OG_LANES_MAX : 0;
  *out_first =
      is_in_lane ? life->first : section_edge(live, life->first, false);
  *out_last = is_in_lane ? life->last : section_edge(live, life->last, true);
}
