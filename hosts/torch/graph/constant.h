// SPDX-License-Identifier: Apache-2.0
// Python constants as arguments of a record.

#ifndef OG_TORCH_CONSTANT_H
#define OG_TORCH_CONSTANT_H

#include <opgraft/executable.h>

#include "torch/base/pool.h"

// A Python constant as an argument: numbers, strings, dtypes, lists of these;
// what the engine has no kind for becomes OTHER, its text a key of `others`.
// 0, or -1 with an exception set.
typedef struct constants {
  pool *memory;
  PyObject *others;  // dict: text -> object
} constants;
int constant_read(const constants *c, PyObject *object, opgraft_arg *out);

#endif  // OG_TORCH_CONSTANT_H
