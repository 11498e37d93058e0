// SPDX-License-Identifier: Apache-2.0
// The grain of parallel loops: below which size work stays on one thread.
//
// A loop is cut into shares of at least `grain` items, so one of fewer than two
// grains is not cut. To hand a share to another thread takes about 2 us; a
// share of these sizes takes 3 to 25 us of one core (AVX-512, 3 GHz). A grain
// of 1 means that an item alone is that much work.
//
// Operators, kernels and the engine have their limits here, and nowhere else
// (tools/layers.py). Hosts see public headers only: torch's are in
// hosts/torch/base/threads.h.

#ifndef OG_BASE_GRAIN_H
#define OG_BASE_GRAIN_H

#include <stdint.h>

// The work of a share.
enum {
  // Elements that vector code passes over once: rows of a norm, a compiled
  // pointwise loop, gathered elements, a copy to another layout.
  OG_GRAIN_LIGHT = 16384,
  // Elements that are passed over twice or take an exponential: the gradient
  // of a norm, a gated activation, a reduction, an interpreted expression.
  OG_GRAIN_MEDIUM = 8192,
  // Elements that plain code passes over several times: softmax and scans in
  // double, the choice of the largest, merged states, bytes made of 8 flags.
  OG_GRAIN_HEAVY = 4096,
  OG_GRAIN_BYTES = 65536,  // of rows that are copied from anywhere in memory
  // Of rows that are copied right after they were computed: a core copies four
  // times as much where its cache holds them.
  OG_GRAIN_CACHED_BYTES = 262144,
  OG_GRAIN_PRODUCTS = 65536,  // multiply-adds of a contraction in plain code
};

// Items of a share, where an item's work hardly varies.
enum {
  OG_GRAIN_TOKENS = 8,    // turned by a rotary embedding, all heads of each
  OG_GRAIN_PANELS = 4,    // of weights that are packed
  OG_GRAIN_BLOCKS = 2,    // of a graph file, 64 KiB each, that are checked
  OG_GRAIN_COLUMNS = 16,  // neighbours that are added to, in one cache line
};

// Lanes: parts of a graph that run at once (exec/replay/lane_trial.c).
enum {
  OG_LANES_LEAST_NS = 20000,  // nothing is gained where a replay takes less
  OG_LANES_FORK_NS = 2000,    // what a section costs, until that is measured
};

// The items that make up `share` of work, where each is `item` of it; an
// item without work counts as 1.
static inline int64_t og_grain(int64_t share, int64_t item) {
  return 1 + share / (item > 0 ? item : 1);
}

#endif  // OG_BASE_GRAIN_H
