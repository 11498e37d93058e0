// SPDX-License-Identifier: Apache-2.0
// A graph on CUDA: one capture for each set of sizes, replayed by one call.

#ifndef OG_TORCH_CAPTURED_H
#define OG_TORCH_CAPTURED_H

#include "torch/base/host.h"

int captured_setup(PyObject *module);

#endif  // OG_TORCH_CAPTURED_H
