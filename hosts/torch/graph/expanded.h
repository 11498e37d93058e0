// SPDX-License-Identifier: Apache-2.0
// Results of which a dim is expanded: its elements share memory, where torch
// refuses to write.

#ifndef OG_TORCH_EXPANDED_H
#define OG_TORCH_EXPANDED_H

#include "torch/base/host.h"
#include "torch/base/shim.h"

bool expanded_is(const og_tensor *wanted);
// Copies `from`, or zeros where it is NULL, to a tensor that is as expected.
// False, with or without a text of torch's, where `from` has elements that
// `to` has no room for.
bool expanded_copy(tensor_handle to, tensor_handle from,
                   const og_tensor *wanted);
// Takes the object, which may be NULL: what of it is to be written, the first
// element of each dim that is expanded.
PyObject *expanded_once(PyObject *object, const og_tensor *wanted);

#endif  // OG_TORCH_EXPANDED_H
