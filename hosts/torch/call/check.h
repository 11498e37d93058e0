// SPDX-License-Identifier: Apache-2.0
// The verifier over a module of this process, whose kernels may be Python's.

#ifndef OG_TORCH_CHECK_H
#define OG_TORCH_CHECK_H

#include "torch/base/host.h"

PyObject *module_check(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_CHECK_H
