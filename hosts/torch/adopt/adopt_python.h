// SPDX-License-Identifier: Apache-2.0
// Adopted Python callables: pybind11 and nanobind functions, builtins, plain
// Python, launchers.

#ifndef OG_TORCH_ADOPT_PYTHON_H
#define OG_TORCH_ADOPT_PYTHON_H

#include "torch/adopt/adopt.h"

// Whether the callable makes its results itself.
bool adopt_python_returns(const adopted *self);
// Whether it takes the arguments with the strides that they have.
bool adopt_python_takes(const adopted *self, const og_call *call);
// Calls it with the caller's own objects, `values` by parameter, once the call
// is inferred. Where it makes its results, fills `fresh` with new references,
// else it writes those in `fresh`. With an exception set: -1, or ADOPT_BROKEN
// where what it gave is not as its rules say.
enum { ADOPT_BROKEN = -2 };
int adopt_python_finish(const adopted *self, const og_call *call,
                        PyObject *const *values, PyObject **fresh);
// The same into the tensors in `fresh` in any case.
int adopt_python_fill(const adopted *self, const og_call *call,
                      PyObject *const *values, PyObject *const *fresh);

#endif  // OG_TORCH_ADOPT_PYTHON_H
