// SPDX-License-Identifier: Apache-2.0
// Shared libraries whose functions are adopted, as capsules.

#ifndef OG_TORCH_LIBRARY_H
#define OG_TORCH_LIBRARY_H

#include "torch/base/host.h"

PyObject *library_open(PyObject *self, PyObject *argument);
PyObject *library_find(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_LIBRARY_H
