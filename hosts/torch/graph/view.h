// SPDX-License-Identifier: Apache-2.0
// Results: parts of another tensor's memory, copies, what is said of them.

#ifndef OG_TORCH_VIEW_H
#define OG_TORCH_VIEW_H

#include <opgraft/executable.h>

#include "torch/base/host.h"

// Shape and strides of `view`, `offset` elements behind where `base` begins. A
// tensor of its own to autograd, at the cost of an allocation.
PyObject *view_untracked(PyObject *base, const og_tensor *view, int64_t offset);
// As torch.as_strided gives it, so that autograd knows whose memory a write
// changes; it needs no gradient where `base` needs one.
PyObject *view_tracked(PyObject *base, const og_tensor *view, int64_t offset);
// The same as detach() gives it: a write counts for `base` too, but autograd
// takes neither for a view of the other.
PyObject *view_detached(PyObject *base, const og_tensor *view, int64_t offset);
// Elements from the begin of its storage.
int64_t view_offset(const og_tensor *tensor);
// A tensor of its own with the elements of `tensor`, which are dense.
PyObject *view_copy(const og_tensor *tensor);
// Whether what was read of an object that is not plain is its own memory.
bool view_is_own(PyObject *object, const og_tensor *tensor);
// What AOTAutograd's wrapper says of results, where Dynamo does not call it.
// marks: tuple of (function, which result, what to call it with).
int results_mark(PyObject *marks, PyObject *results);
// 0, or -1 where a view (as_strided) is not in an input's storage, which eager
// mode refuses. Memory that was made for this call has no more than it shows.
int view_check(PyObject *object, const og_tensor *tensor,
               const opgraft_reach *reach);

#endif  // OG_TORCH_VIEW_H
