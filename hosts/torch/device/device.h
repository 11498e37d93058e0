// SPDX-License-Identifier: Apache-2.0
// A device's driver for Python: tensors in its memory, copies, streams, events.

#ifndef OG_TORCH_DEVICE_H
#define OG_TORCH_DEVICE_H

#include "torch/base/host.h"

// Reads a torch.device: 1, 0 for one that is neither the CPU nor the loaded
// device, -1 with an exception set.
int device_from_object(PyObject *object, og_device *out);
// A new tensor where `like` lies: on the CPU, on CUDA or on the loaded device,
// there for work of its current stream. It has the type, sizes and strides of
// `like`, whose data becomes its memory. NULL with an exception set.
PyObject *tensor_make(og_tensor *like);

#endif  // OG_TORCH_DEVICE_H
