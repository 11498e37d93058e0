// SPDX-License-Identifier: Apache-2.0
// What is counted of a device's memory. C and C++ (registry.cpp).

#ifndef OG_TORCH_MEMORY_STATS_H
#define OG_TORCH_MEMORY_STATS_H

#include <stdint.h>

typedef struct memory_count {
  int64_t current;
  int64_t peak;
  int64_t added;  // since the start, or since a reset
  int64_t removed;
} memory_count;

typedef struct memory_stats {
  memory_count tensors;  // their memories
  memory_count tensor_bytes;
  memory_count held_bytes;  // theirs, and those that no tensor has
  int64_t driver_count;     // allocations that the driver was asked for
} memory_stats;

#endif  // OG_TORCH_MEMORY_STATS_H
