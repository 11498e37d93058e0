// SPDX-License-Identifier: Apache-2.0
// A device's driver for Python: tensors in its memory, copies, streams, events.

#ifndef OG_TORCH_DEVICE_H
#define OG_TORCH_DEVICE_H

#include "torch/base/host.h"

// Reads a torch.device: 1, 0 for one that is neither the CPU nor the loaded
// device, -1 with an exception set.
int device_from_object(PyObject *object, og_device *out);
// A new tensor of the loaded device, for work of its current stream, with the
// type, sizes and strides of `like`, whose data becomes its memory. NULL with
// an exception set.
PyObject *device_tensor(og_tensor *like);
// A new tensor where `like` lies: on the CPU, on CUDA or on the loaded device.
PyObject *tensor_make(og_tensor *like);

// By name in opgraft._C; device.c says what each takes.
PyObject *device_load(PyObject *self, PyObject *arguments);
PyObject *device_close(PyObject *self, PyObject *capsule);
PyObject *device_is_forked(PyObject *self, PyObject *none);
PyObject *device_info(PyObject *self, PyObject *capsule);
PyObject *device_empty(PyObject *self, PyObject *arguments);
PyObject *device_copy(PyObject *self, PyObject *arguments);
PyObject *device_stats(PyObject *self, PyObject *arguments);
PyObject *device_reports(PyObject *self, PyObject *capsule);
PyObject *device_trim(PyObject *self, PyObject *capsule);

// streams.c says what each takes.
PyObject *device_stream(PyObject *self, PyObject *arguments);
PyObject *device_stream_number(PyObject *self, PyObject *capsule);
PyObject *device_stream_current(PyObject *self, PyObject *index);
PyObject *device_stream_exchange(PyObject *self, PyObject *arguments);
PyObject *device_streams(PyObject *self, PyObject *arguments);
PyObject *device_synchronize(PyObject *self, PyObject *arguments);
PyObject *device_current_get(PyObject *self, PyObject *none);
PyObject *device_current_put(PyObject *self, PyObject *index);
PyObject *device_stream_wait(PyObject *self, PyObject *arguments);
PyObject *device_stream_record(PyObject *self, PyObject *arguments);
PyObject *device_event(PyObject *self, PyObject *arguments);
PyObject *device_event_record(PyObject *self, PyObject *arguments);
PyObject *device_event_wait(PyObject *self, PyObject *arguments);
PyObject *device_event_synchronize(PyObject *self, PyObject *arguments);
PyObject *device_event_elapsed(PyObject *self, PyObject *arguments);

// registry.c says what it takes.
PyObject *device_register(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_DEVICE_H
