// SPDX-License-Identifier: Apache-2.0
// A plan: one graph at one set of sizes. Which memory every value lies in,
// and at which offset.
//
// Invariants: a plan does not change once made; two roots that are alive at
// once, at one node or in two lanes, do not overlap in an arena; a value lies
// in an arena of its own device.

#ifndef OG_PLAN_PLAN_H
#define OG_PLAN_PLAN_H

#include <opgraft/executable.h>

#include "graph/graph.h"
#include "plan/join.h"
#include "plan/lanes.h"

typedef enum og_place_kind {
  OG_PLACE_NONE,      // has no memory
  OG_PLACE_ARENA,     // index: of the plan's arena
  OG_PLACE_INPUT,     // index: of the input
  OG_PLACE_STORAGE,   // index: of the memory that the host gives for outputs
  OG_PLACE_CONSTANT,  // the value's own bytes
} og_place_kind;

typedef struct og_place {
  int32_t kind;
  int32_t index;
  int64_t offset_bytes;
} og_place;

// What a plan needs of one device: memory for values that live in a call only.
typedef struct og_plan_arena {
  og_device device;
  size_t size_bytes;
  size_t lower_bound_bytes;
  size_t unshared_bytes;  // the sum of all that lies in it
  bool is_kept;           // each instance's own, from call to call
} og_plan_arena;

typedef struct og_buffer {
  int64_t bytes;
  int32_t first, last;  // the steps between which it is alive, both included
  // Where all of these belong to one lane: 1 + its section, and its lane.
  int32_t section, lane;
  int64_t offset;
} og_buffer;

// Memory in an arena, for the values of a root.
typedef struct og_plan_buffer {
  opgraft_value root;
  int32_t arena;
  og_buffer buffer;
} og_plan_buffer;

typedef struct og_plan {
  const opgraft_graph *graph;
  int64_t *symbols;       // by symbol
  int64_t *sizes;         // by size expression
  og_tensor *tensors;     // by value: type, shape, strides; no data
  og_place *places;       // by value
  og_plan_arena *arenas;  // one for each device that has values in it
  int32_t arena_count;
  og_plan_buffer *buffers;
  int32_t buffer_count;
  opgraft_storage *storages;
  opgraft_reach *reaches;  // of inputs
  bool *lent;  // by storage: an operand of what is made there lies there first
  int32_t storage_count;
  int32_t reach_count;
  opgraft_output *outputs;
  int64_t clone_bytes;
  og_lanes lanes;  // the order of the nodes, and its sections
  og_join *joins;  // by node
  bool keeps;      // steady results stay (exec/replay/steady.c)
  og_arena memory;
} og_plan;

enum { OG_PLAN_ALIGNMENT = 64 };

// Beside OPGRAFT_HOST_* in an executable's host.flags, and no part of the
// interface: what is done with large tensors only, as it would not pay, is done
// with all. A test sets it before the first call.
enum { OG_HOST_ANY_SIZE = 1 << 30 };

// From how many bytes on a tensor is large, by the host's flags.
static inline int64_t og_large_bytes(uint32_t flags) {
  return (flags & OG_HOST_ANY_SIZE) != 0 ? 1 : 1 << 16;
}

// `flags` are the host's (OPGRAFT_HOST_*). Sections are made from `lanes`,
// which may be NULL. Failure: OG_SHAPE where a size is negative or a view
// leaves its storage, OG_MEMORY.
og_status og_plan_create(const opgraft_graph *graph, const int64_t *symbols,
                         uint32_t flags, const og_lane_request *lanes,
                         og_plan **out_plan, opgraft_error *error);
void og_plan_destroy(og_plan *plan);

// Whether two values have bytes in common, from their first to their last. Two
// roots do where a result took over an operand's memory.
bool og_plan_overlaps(const og_plan *plan, opgraft_value a, opgraft_value b);

// Of all its arenas.
static inline size_t og_plan_arena_bytes(const og_plan *plan) {
  size_t sum = 0;
  for (int32_t a = 0; a < plan->arena_count; ++a)
    sum += plan->arenas[a].size_bytes;
  return sum;
}

// Input `index` is not what the graph wants.
og_status og_input_wrong(const opgraft_graph *graph, int32_t index,
                         og_status code, const char *what, int64_t found,
                         int64_t wanted, opgraft_error *error);
// What holds for every size: count, device, types, ranks.
og_status og_inputs_check(const opgraft_graph *graph,
                          const og_tensor *const *in, const int64_t *ints,
                          int32_t count, opgraft_error *error);

// The symbols' values that these inputs give. `out_symbols` has a place for
// each of the graph's. OG_SHAPE where a symbol is given two values or none.
og_status og_symbols_bind(const opgraft_graph *graph,
                          const og_tensor *const *in, const int64_t *ints,
                          int64_t *out_symbols, opgraft_error *error);

// The same from names and their values: each symbol of the graph once.
// OG_INVALID for a name that is missing, unknown or there twice.
og_status og_symbols_bind_named(const opgraft_graph *graph,
                                const char *const *names, const int64_t *values,
                                int32_t count, int64_t *out_symbols,
                                opgraft_error *error);

// --- Offsets -----------------------------------------------------------------

// Whether the two are alive together: at one step, or in lanes that may run at
// once. A buffer that is alive outside of its lane is so in the whole section.
static inline bool og_buffers_meet(const og_buffer *a, const og_buffer *b) {
  return (a->first <= b->last && b->first <= a->last) ||
         (a->section > 0 && a->section == b->section && a->lane != b->lane);
}

// Gives each buffer an offset so that no two that are alive together overlap.
// `lanes`, which may be NULL, says what the lower bound is with its sections.
// Source: greedy by size with best-fit gaps (Pisarchyk and Lee, "Efficient
// memory management for deep neural net inference", 2020), tried in several
// orders until one meets the lower bound.
og_status og_buffers_place(og_buffer *buffers, int32_t count, int32_t steps,
                           const og_lanes *lanes, size_t *out_bytes,
                           size_t *out_lower_bound, opgraft_error *error);

#endif  // OG_PLAN_PLAN_H
