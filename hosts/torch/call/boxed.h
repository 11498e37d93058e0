// SPDX-License-Identifier: Apache-2.0
// The slow path's end: an operator as a boxed kernel of torch's dispatcher.

#ifndef OG_TORCH_BOXED_H
#define OG_TORCH_BOXED_H

#include "torch/base/host.h"

// Registers `op` with the dispatcher; a capsule that keeps it registered.
PyObject *boxed_register(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_BOXED_H
