// SPDX-License-Identifier: Apache-2.0
// A launch as a stream keeps it: a copy of the call in one block, whose tensors
// hold addresses that the kernel can read.

#ifndef NPU_CALL_H
#define NPU_CALL_H

#include <opgraft/device.h>
#include <stdbool.h>

#include "npu_memory.h"

typedef struct npu_call {
  og_launch launch;
  og_call call;
  int32_t references;  // commands and nodes that hold it; the driver's lock
  // The tensors at the addresses of users: those that the kernel writes first.
  og_tensor *tensors;
  int32_t tensor_count;
  int32_t written_count;
  char reason[256];  // what the kernel said when it failed
} npu_call;

// NULL where memory is short.
npu_call *npu_call_create(const og_launch *launch, const npu_memory *memory);
void npu_call_retain(npu_call *call);
void npu_call_release(npu_call *call);
// Runs the kernel on this thread.
og_status npu_call_run(npu_call *call);

#endif  // NPU_CALL_H
