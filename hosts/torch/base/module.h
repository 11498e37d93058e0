// SPDX-License-Identifier: Apache-2.0
// Modules as capsules, and errors of the library as exceptions.

#ifndef OG_TORCH_MODULE_H
#define OG_TORCH_MODULE_H

#include "torch/base/host.h"

// Sets the exception that an error stands for; NULL.
PyObject *error_raise(const opgraft_error *error);
// Takes the reference; the capsule releases it.
PyObject *module_capsule_new(opgraft_module *module);
// Borrowed; NULL with an exception set where it is another capsule.
opgraft_module *module_get(PyObject *capsule);

#endif  // OG_TORCH_MODULE_H
