// SPDX-License-Identifier: Apache-2.0
// One call: match arguments, infer, choose a kernel, run.

#ifndef OG_CALL_CALL_H
#define OG_CALL_CALL_H

#include "module/module.h"

// Runs frame->kernel, whose code is not ours: this thread, and each that runs
// a share of its loops, keeps its floating-point environment. A share runs in
// the environment that the kernel had where it asked for the loop.
og_status og_frame_run_kernel(opgraft_frame *frame);
// Whether the kernel takes the call; asks its `supports`.
bool og_frame_supports(const opgraft_frame *frame, const og_kernel *kernel);

// Copies elements between two tensors of equal shape and type; strides may be
// anything, NULL is row-major. The memory does not overlap.
void og_tensor_copy(const og_tensor *to, const og_tensor *from);

// Whether the strides are row-major; dims of size 1 and empty tensors may
// have any.
bool og_tensor_is_contiguous(const og_tensor *tensor);

// The type that each free type of the rule has in this call, by index into the
// type table; -1 where the argument is an absent optional.
void og_frame_types(const opgraft_frame *frame, int32_t *out_index);
// The device type of the first tensor that was given, else the CPU's.
int32_t og_frame_device(const opgraft_frame *frame);
// Whether kernel k has these types.
bool og_kernel_takes(const opgraft_frame *frame, int32_t k,
                     const int32_t *type_index);

#endif  // OG_CALL_CALL_H
