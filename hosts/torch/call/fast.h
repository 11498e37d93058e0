// SPDX-License-Identifier: Apache-2.0
// The fast path: an operator as a builtin that Python calls.

#ifndef OG_TORCH_FAST_H
#define OG_TORCH_FAST_H

#include "torch/base/host.h"

// The builtin of an operator.
PyObject *fast_call(PyObject *self, PyObject *const *arguments,
                    Py_ssize_t count, PyObject *keywords);

#endif  // OG_TORCH_FAST_H
