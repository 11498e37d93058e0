// SPDX-License-Identifier: Apache-2.0
// Devices that graphs run on: the memory of their arenas, and their streams.

#ifndef OG_EXEC_STEP_DEVICE_H
#define OG_EXEC_STEP_DEVICE_H

#include "graph/graph.h"

// What replay needs of a device, one row for each type.
typedef struct og_driver {
  int32_t type;  // OG_CPU, ...
  // Aligned to OG_PLAN_ALIGNMENT; NULL when memory is short. Any thread.
  void *(*memory_create)(og_device device, size_t size_bytes);
  void (*memory_destroy)(og_device device, void *memory);
  // The stream of a lane's steps, valid as long as the process. NULL where the
  // device has none: steps run on the thread that replays.
  void *(*stream_get)(og_device device, int32_t lane);
} og_driver;

// NULL for a device that graphs do not run on.
const og_driver *og_driver_find(og_device device);
// OG_DEVICE: `what` is on a device without a driver.
og_status og_driver_missing(og_device device, const char *what,
                            opgraft_error *error);
// OG_DEVICE where a value of the graph is on a device without a driver.
og_status og_graph_drivers_check(const opgraft_graph *graph,
                                 opgraft_error *error);

// Where a node runs: the device of its first result; without results, of its
// first operand that is not a literal; the CPU where it has neither.
og_device og_node_device(const opgraft_graph *graph, const og_node *node);

#endif  // OG_EXEC_STEP_DEVICE_H
