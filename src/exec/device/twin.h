// SPDX-License-Identifier: Apache-2.0
// Kernels of the engine on a device that runs C functions.
//
// They are prepared over a twin of the instance, whose pointers are set, as a
// kernel begins, from what the driver gives it: the addresses that the device
// has for the call's tensors.

#ifndef OG_EXEC_DEVICE_TWIN_H
#define OG_EXEC_DEVICE_TWIN_H

#include "exec/step/prep.h"

typedef struct og_twin og_twin;
typedef struct og_twin_kernel og_twin_kernel;
// Prepares a node as the only step of prep->instance (exec/replay/instance.h).
typedef og_status (*og_node_prepare_fn)(og_prep *prep, og_tensor **operands);

// All memory that a plan's values may lie in has a number: inputs, then
// storages, then arenas. -1: a constant, or none.
int32_t og_base_of(const og_plan *plan, const og_place *place);
int32_t og_base_count(const og_plan *plan);
// What follows it in the instance.
og_reloc_list *og_base_list(const og_instance *instance, int32_t base);

// In the instance's memory; NULL when memory is short.
og_twin *og_twin_make(og_instance *instance, const og_plan *plan);
// When all kernels are prepared.
void og_twin_seal(og_twin *twin);
void og_twin_release(og_twin *twin);

// *out_kernel is NULL where the node has nothing to do.
og_status og_twin_prepare(og_twin *twin, og_prep *prep,
                          og_node_prepare_fn prepare,
                          const og_twin_kernel **out_kernel);
// The `run` of a launch whose call->derived is the kernel: on a thread of the
// driver's, one kernel of a twin at a time.
og_status og_twin_run(const og_call *call);

#endif  // OG_EXEC_DEVICE_TWIN_H
