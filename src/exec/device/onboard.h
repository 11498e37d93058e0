// SPDX-License-Identifier: Apache-2.0
// What an instance does on a device: launches, captured and launched as a whole
// where the driver can, and copies from and to the host.

#ifndef OG_EXEC_DEVICE_ONBOARD_H
#define OG_EXEC_DEVICE_ONBOARD_H

#include <opgraft/device.h>

#include "exec/device/twin.h"

// Sets instance->onboard, to NULL where all values are the CPU's.
og_status og_onboard_make(og_instance *instance, const og_plan *plan,
                          opgraft_error *error);
// When all steps are prepared.
og_status og_onboard_settle(og_instance *instance, opgraft_error *error);
// Waits for what the device still does.
void og_onboard_release(og_instance *instance);

// Prepares a node of the graph's own operators that runs on the device, or
// copies from or to it. OG_UNSUPPORTED, without an error, where the driver runs
// no kernels of the engine; `prepare` makes such a kernel.
og_status og_prepare_onboard(og_prep *prep, og_node_prepare_fn prepare);
// Has the step give `launch`, whose call stays, to the driver, on the stream of
// the call in flight, which it sets. `workspace_bytes` of the device's memory
// become the call's.
og_status og_prepare_launch(og_prep *prep, const og_launch *launch,
                            og_call *call);

// Of a node on the device: whether results that start as an operand have to be
// copied first. OG_SHAPE where one of them is not row-major.
og_status og_starts_prepare(og_prep *prep, bool *out_are_copied);
// Copies them, on the stream of the call in flight.
og_status og_starts_copy(const og_onboard *onboard, const og_node *node,
                         og_tensor *const *in, og_tensor *const *out,
                         opgraft_error *error);

// A call begins: on the thread's current stream, behind what the instance did
// on another one before.
og_status og_onboard_begin(og_instance *instance, opgraft_error *error);
// The stream of the call in flight; NULL where all runs on the CPU.
void *og_onboard_stream(const og_instance *instance);
// All steps. An error names the step.
og_status og_onboard_run(og_instance *instance, const og_run *run);

#endif  // OG_EXEC_DEVICE_ONBOARD_H
