// SPDX-License-Identifier: Apache-2.0
// The timed steps of a trace: whose the time between compiled regions is.

#ifndef OG_TRACE_GAPS_H
#define OG_TRACE_GAPS_H

#include "trace/ids.h"
#include "trace/join.h"

typedef struct og_places {
  og_ids frames;
  og_ids graphs;
  bool *explained;         // per frame: some cause names it
  bool *has_graph;         // per frame: Dynamo captured something
  int32_t *root_of_frame;  // what splits it, else what made it compile again;
                           // -1: none
  int32_t *recompile_of_frame;  // -1: it was not compiled again
} og_places;

// Reads the timed steps: the verdict's times, and each root's share of the
// time between regions. False when memory is short.
bool og_gaps_read(og_joined *joined, const og_places *places);

#endif  // OG_TRACE_GAPS_H
