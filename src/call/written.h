// SPDX-License-Identifier: Apache-2.0
// What a call writes shares memory with nothing else that it is given.

#ifndef OG_CALL_WRITTEN_H
#define OG_CALL_WRITTEN_H

#include "module/module.h"

// That no argument which the operator mutates overlaps itself or another
// argument. Tensors without data are passed over. Failure: OG_INVALID, with
// both names and what to do.
og_status og_frame_check_mutated(const opgraft_frame *frame,
                                 opgraft_error *error);
// The same of `tensor`, which takes fresh result `index`: it may be an
// argument itself where the declaration says so (`inplace`, or a kernel that is
// the formula `row`). Results before it are set.
og_status og_frame_check_out(const opgraft_frame *frame, int32_t index,
                             const og_tensor *tensor, opgraft_error *error);

#endif  // OG_CALL_WRITTEN_H
