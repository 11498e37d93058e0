// SPDX-License-Identifier: Apache-2.0
// Adopted C symbols: called from C, by prototype, with no Python at a call.

#ifndef OG_TORCH_ADOPT_C_H
#define OG_TORCH_ADOPT_C_H

#include "torch/base/host.h"

int adopt_c_setup(PyObject *module);  // once; -1 with an exception set

#endif  // OG_TORCH_ADOPT_C_H
