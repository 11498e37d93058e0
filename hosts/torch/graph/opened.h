// SPDX-License-Identifier: Apache-2.0
// Graph files from Python: written, packed, opened.

#ifndef OG_TORCH_OPENED_H
#define OG_TORCH_OPENED_H

#include "torch/base/host.h"

PyObject *graph_export(PyObject *self, PyObject *arguments);
PyObject *graph_open(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_OPENED_H
