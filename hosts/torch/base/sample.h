// SPDX-License-Identifier: Apache-2.0
// Sampled calls as Python objects: what check_torch runs through PyTorch.

#ifndef OG_TORCH_SAMPLE_H
#define OG_TORCH_SAMPLE_H

#include "torch/base/host.h"

PyObject *sample_call(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_SAMPLE_H
