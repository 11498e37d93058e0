// SPDX-License-Identifier: Apache-2.0
// Attributes as Python objects.

#ifndef OG_TORCH_ATTR_H
#define OG_TORCH_ATTR_H

#include "torch/base/host.h"

// A number, string, list, torch.dtype, torch.device or None: new, or NULL with
// an exception set. Once types_setup has run.
PyObject *attr_object(const og_attr *attr);

#endif  // OG_TORCH_ATTR_H
