// SPDX-License-Identifier: Apache-2.0
// GGUF files for Python.

#ifndef OG_TORCH_GGUF_GGUF_H
#define OG_TORCH_GGUF_GGUF_H

#include "torch/base/types.h"

// gguf_read(address, bytes): of a mapped file, ({field: value}, [(name, type,
// shape, offset, bytes)] of the tensors). ValueError says what is wrong.
PyObject *gguf_read(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_GGUF_GGUF_H
