// SPDX-License-Identifier: Apache-2.0
// CUDA in a build of torch that has it: torch's own memory and streams. Nothing
// here calls CUDA.

#ifndef OG_TORCH_CUDA_H
#define OG_TORCH_CUDA_H

#include "torch/base/host.h"

// torch's number for the type of a device that it runs itself, the CPU or CUDA;
// -1 for any other.
int32_t cuda_torch_type(og_device device);
// Whether the kernel that infer chose runs on CUDA.
static inline bool cuda_runs(const opgraft_frame *frame) {
  return UNLIKELY(frame->kernel->device == OG_CUDA);
}
// Before such a kernel runs: its stream is torch's current one of the device on
// which the call's tensors are, and its workspace is torch's memory, which
// *out_workspace holds (NULL where it needs none). OG_DEVICE, OG_MEMORY.
og_status cuda_begin(opgraft_frame *frame, int32_t tensor_count,
                     tensor_handle *out_workspace, opgraft_error *error);
// After it: torch's allocator lets later work of the stream alone have the
// memory.
void cuda_end(opgraft_frame *frame, tensor_handle workspace);
static inline og_status cuda_run(opgraft_frame *frame, int32_t tensor_count,
                                 opgraft_error *error) {
  tensor_handle workspace;
  og_status status = cuda_begin(frame, tensor_count, &workspace, error);
  if (status != OG_OK) return status;
  status = opgraft_frame_run(frame, error);
  cuda_end(frame, workspace);
  return status;
}

#endif  // OG_TORCH_CUDA_H
