// SPDX-License-Identifier: Apache-2.0
// What the join of a trace shares between its two files.

#ifndef OG_TRACE_GAPS_H
#define OG_TRACE_GAPS_H

#include "trace/join.h"

typedef struct og_id {
  int64_t id;
  int32_t index;
} og_id;

typedef struct og_ids {
  og_id *at;  // sorted
  int32_t count;
} og_ids;

typedef struct og_places {
  og_ids frames;
  og_ids graphs;
  bool *explained;         // per frame: some cause names it
  bool *has_graph;         // per frame: Dynamo captured something
  int32_t *root_of_frame;  // -1: none
} og_places;

// -1: there is none.
int32_t og_id_find(const og_ids *ids, int64_t id);

// Reads the timed steps: the verdict's times, and each root's share of the
// time between regions. False when memory is short.
bool og_gaps_read(og_joined *joined, const og_places *places);

#endif  // OG_TRACE_GAPS_H
