// SPDX-License-Identifier: Apache-2.0
// A launch as a stream keeps it: a copy of the call in one block, whose tensors
// hold addresses that the kernel can read.

#ifndef NPU_CALL_H
#define NPU_CALL_H

#include <opgraft/device.h>
#include <stdbool.h>

#include "npu_memory.h"

// A tensor of a call at the address of users.
typedef struct npu_operand {
  og_tensor own;
  int64_t lead_bytes;  // from its data to the first byte that it touches
  size_t span_bytes;   // to the end of the last one; 0: it touches none
} npu_operand;

typedef struct npu_call {
  og_launch launch;
  og_call call;
  size_t block_bytes;  // of the copy
  int32_t references;  // commands and nodes that hold it; the driver's lock
  // Those that the kernel writes stand first. The operands are the host's, the
  // same tensors as the kernel gets them the stream's, in other cache lines.
  // NULL and 0 where nobody asks for them after the launch.
  npu_operand *operands;
  og_tensor **tensors;
  int32_t operand_count;
  int32_t written_count;
  char reason[256];  // what the kernel said when it failed
} npu_call;

// Calls fn for each tensor that is not NULL, at addresses of users, until one
// fails: results first, entries of a list in its place.
og_status npu_launch_tensors(const og_launch *launch,
                             og_status (*fn)(void *user,
                                             const og_tensor *tensor,
                                             bool is_written),
                             void *user);
// With operands, or without. `spare`, which may be NULL, is taken: a block that
// is used again where it is large enough. NULL where memory is short.
npu_call *npu_call_create(const og_launch *launch, const npu_memory *memory,
                          bool has_operands, npu_call *spare);
// One, of a call with operands, whose tensors may lie elsewhere.
npu_call *npu_call_copy(const npu_call *call);
void npu_call_retain(npu_call *call);
void npu_call_release(npu_call *call);
// Runs the kernel on this thread.
og_status npu_call_run(npu_call *call);

#endif  // NPU_CALL_H
