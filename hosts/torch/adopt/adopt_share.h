// SPDX-License-Identifier: Apache-2.0
// What the kinds of adopted callables share.

#ifndef OG_TORCH_ADOPT_SHARE_H
#define OG_TORCH_ADOPT_SHARE_H

#include "torch/adopt/adopt.h"

// What og_fail does for a kernel, for a node that was made ready.
og_status adopt_fail(const adopted *self, opgraft_error *error, og_status code,
                     const char *text);

// The tensor with shape and strides of its own, over the same memory; whoever
// takes it calls its deleter. NULL: no memory.
dl_managed *adopt_borrow(const og_tensor *tensor);

#endif  // OG_TORCH_ADOPT_SHARE_H
