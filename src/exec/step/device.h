// SPDX-License-Identifier: Apache-2.0
// Devices that graphs run on: the CPU, and those of drivers that are loaded. A
// driver outlives the executables of graphs that use it.

#ifndef OG_EXEC_STEP_DEVICE_H
#define OG_EXEC_STEP_DEVICE_H

#include <opgraft/driver.h>

#include "graph/graph.h"

static inline bool og_is_cpu(og_device device) { return device.type == OG_CPU; }

// NULL for the CPU, and for a device that no driver has.
opgraft_driver *og_driver_of(og_device device);
// Memory aligned to OG_PLAN_ALIGNMENT. OG_DEVICE: `what` is on a device without
// a driver; OG_MEMORY. Any thread.
og_status og_device_allocate(og_device device, size_t size_bytes,
                             const char *what, void **out_memory,
                             opgraft_error *error);
// The tensor as it lies, on the host: itself, or a copy of a device's, whose
// bytes the caller frees with og_free. Waits for the stream; NULL: the device's
// current one.
og_status og_device_fetch(const og_tensor *tensor, void *stream, og_tensor *out,
                          void **out_bytes, opgraft_error *error);
// What no stream uses any more.
void og_device_free(og_device device, void *memory);
// OG_DEVICE where a value of the graph is on a device that no driver has, or
// values are on two devices beside the CPU.
og_status og_graph_devices_check(const opgraft_graph *graph,
                                 opgraft_error *error);
// The device beside the CPU that the graph has values on; else the CPU.
og_device og_graph_device(const opgraft_graph *graph);

// Where a node runs: the device of its first result; without results, of its
// first operand that is not a literal; the CPU where it has neither.
og_device og_node_device(const opgraft_graph *graph, const og_node *node);

#endif  // OG_EXEC_STEP_DEVICE_H
