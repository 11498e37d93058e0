// SPDX-License-Identifier: Apache-2.0
// One call: match arguments, infer, choose a kernel, run.

#ifndef OG_CALL_CALL_H
#define OG_CALL_CALL_H

#include <opgraft/device.h>

#include "module/module.h"

// Runs frame->kernel, whose code is not ours: this thread, and each that runs
// a share of its loops, keeps its floating-point environment. A share runs in
// the environment that the kernel had where it asked for the loop.
og_status og_frame_run_kernel(opgraft_frame *frame);
// The same with the kernel's reason as the error, or that it gave none.
og_status og_frame_run_explained(opgraft_frame *frame, opgraft_error *error);
// Whether the kernel takes the call; asks its `supports`.
bool og_frame_supports(const opgraft_frame *frame, const og_kernel *kernel);

// What the driver of the device gets of frame->kernel, which is a device's,
// with its call as it stands in the frame. OG_UNSUPPORTED where a tensor has
// strides that the kernel does not take: memory of a device is not copied here.
og_status og_frame_launch_make(opgraft_frame *frame, og_launch *out_launch,
                               opgraft_error *error);
// Gives frame->kernel, which is a device's, to the driver of that device, on
// call.stream or the device's default stream. Returns before it has run.
og_status og_frame_launch(opgraft_frame *frame, opgraft_error *error);

// Copies elements between two tensors of equal shape and type; strides may be
// anything, NULL is row-major. The memory does not overlap.
void og_tensor_copy(const og_tensor *to, const og_tensor *from);

// Whether the strides are row-major; dims of size 1 and empty tensors may
// have any.
bool og_tensor_is_contiguous(const og_tensor *tensor);
// Whether a tensor has strides that the rule accepts.
static inline bool og_strides_fit(const og_tensor *tensor,
                                  og_stride_rule rule) {
  if (rule == OG_STRIDES_ANY) return tensor->strides != NULL;
  if (rule == OG_STRIDES_LAST && tensor->strides != NULL) {
    const int32_t last = tensor->ndim - 1;
    return last < 0 || tensor->shape[last] <= 1 || tensor->strides[last] == 1;
  }
  return tensor->strides != NULL && og_tensor_is_contiguous(tensor);
}

// The type that each free type of the rule has in this call, by index into the
// type table; -1 where the argument is an absent optional.
void og_frame_types(const opgraft_frame *frame, int32_t *out_index);
// The device type of the first tensor that was given, else the CPU's.
int32_t og_frame_device(const opgraft_frame *frame);
// Whether kernel k has these types.
bool og_kernel_takes(const opgraft_frame *frame, int32_t k,
                     const int32_t *type_index);

#endif  // OG_CALL_CALL_H
