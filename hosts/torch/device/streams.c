// SPDX-License-Identifier: Apache-2.0
// Streams and events of a device for Python. A stream is a capsule, a number,
// as torch's C++ has it, or None: the device's default one.

#include <stdlib.h>

#include "torch/base/module.h"
#include "torch/device/device.h"
#include "torch/device/state.h"

static const char stream_capsule[] = "opgraft.stream";
static const char event_capsule[] = "opgraft.event";

typedef struct event_handle {
  host_device *device;
  void *event;
} event_handle;

// --- Streams -----------------------------------------------------------------

static void stream_end(PyObject *capsule) {
  stream_entry *entry = PyCapsule_GetPointer(capsule, stream_capsule);
  if (host_device_is_forked()) return;
  PyThreadState *thread = PyEval_SaveThread();
  stream_entry_release(entry);
  PyEval_RestoreThread(thread);
}

// device_stream(device, index) -> stream
PyObject *device_stream(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  int index;
  stream_entry *entry;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "Oi", &capsule, &index)) return NULL;
  host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  if (stream_table_add(device->streams, index, &entry, &error) != OG_OK)
    return error_raise(&error);
  PyObject *made = PyCapsule_New(entry, stream_capsule, stream_end);
  if (made == NULL) stream_entry_release(entry);
  return made;
}

// device_stream_number(stream) -> what torch's C++ calls it
PyObject *device_stream_number(PyObject *self, PyObject *capsule) {
  (void)self;
  const stream_entry *entry = PyCapsule_GetPointer(capsule, stream_capsule);
  if (entry == NULL) return NULL;
  return PyLong_FromLongLong((long long)stream_entry_number(entry));
}

// A stream for the time of a call.
typedef struct stream_use {
  void *stream;
  stream_entry *held;  // NULL where the arguments of the call hold it
} stream_use;

// False with an exception set where it is not a stream of the device.
static bool stream_use_begin(const host_device *device, int index,
                             PyObject *value, stream_use *out) {
  *out = (stream_use){0};
  if (PyCapsule_CheckExact(value)) {
    const stream_entry *entry = PyCapsule_GetPointer(value, stream_capsule);
    if (entry != NULL) out->stream = stream_entry_stream(entry);
    return entry != NULL;
  }
  if (value != Py_None) {
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != NULL) return false;
    out->held = stream_table_find(device->streams, number);
  }
  out->stream = out->held != NULL
                    ? stream_entry_stream(out->held)
                    : opgraft_driver_default_stream(device->driver, index);
  if (out->stream == NULL)
    PyErr_Format(PyExc_ValueError, "there is no device %d", index);
  return out->stream != NULL;
}

// Under the interpreter lock, which it does not hold while it waits.
static void stream_use_end(stream_use use) {
  if (use.held == NULL) return;
  PyThreadState *thread = PyEval_SaveThread();
  stream_entry_release(use.held);
  PyEval_RestoreThread(thread);
}

// The capsule of this thread's current stream, or None; NULL with an exception
// set. Torch's thread-local objects have the streams: see state.py. No function
// of Python's runs.
static PyObject *current_find(const host_device *device, int32_t index) {
  PyObject *has = PyObject_CallFunctionObjArgs(
      device->has_streams, device->streams_key, (PyObject *)NULL);
  if (has != Py_True) {
    Py_XDECREF(has);
    if (has == NULL) return NULL;
    Py_RETURN_NONE;
  }
  Py_DECREF(has);
  PyObject *streams = PyObject_CallFunctionObjArgs(
      device->get_streams, device->streams_key, (PyObject *)NULL);
  if (streams == NULL) return NULL;
  PyObject *stream = PyTuple_GetItem(streams, index), *found = stream;
  if (stream == Py_None)
    Py_INCREF(found);
  else if (stream != NULL)
    found = PyObject_GetAttrString(stream, "handle");
  Py_DECREF(streams);
  return found;
}

static void *stream_choose(void *user, int32_t index) {
  const host_device *device = user;
  void *stream = NULL;
  if (host_device_is_forked()) return NULL;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *value = current_find(device, index);
  if (value != NULL && value != Py_None) {
    const stream_entry *entry = PyCapsule_GetPointer(value, stream_capsule);
    if (entry != NULL) stream = stream_entry_stream(entry);
  }
  if (PyErr_Occurred() != NULL) PyErr_WriteUnraisable(device->streams_key);
  Py_XDECREF(value);
  PyGILState_Release(state);
  return stream;
}

// device_streams(device, has, get, key): from now on get(key)[index] is the
// current stream of the thread that calls, where has(key) and it is not None;
// else it is the default one. Once.
PyObject *device_streams(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *has, *get, *key;
  if (!PyArg_ParseTuple(arguments, "OOOO", &capsule, &has, &get, &key))
    return NULL;
  host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  if (device->streams_key == NULL) {
    Py_INCREF(has);
    Py_INCREF(get);
    Py_INCREF(key);
    device->has_streams = has;
    device->get_streams = get;
    device->streams_key = key;
    opgraft_driver_on_stream(device->driver, stream_choose, device);
  }
  Py_RETURN_NONE;
}

// True where `status` is OG_OK, False where it says that work goes on.
static PyObject *done_or_busy(og_status status, const opgraft_error *error) {
  if (status != OG_OK && status != OG_BUSY) return error_raise(error);
  return PyBool_FromLong(status == OG_OK);
}

// device_stream_wait(device, index, stream, timeout_ns) -> whether it is done.
// Raises what its work failed with.
PyObject *device_stream_wait(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *value;
  int index;
  long long timeout_ns;
  stream_use use;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiOL", &capsule, &index, &value,
                        &timeout_ns))
    return NULL;
  const host_device *device = host_device_use(capsule);
  if (device == NULL || !stream_use_begin(device, index, value, &use))
    return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_driver_stream_synchronize(
      device->driver, use.stream, timeout_ns, &error);
  PyEval_RestoreThread(thread);
  stream_use_end(use);
  return done_or_busy(status, &error);
}

// device_synchronize(device, index): waits for all streams of it. Raises the
// first failure of theirs, behind the last wait.
PyObject *device_synchronize(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  int index;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "Oi", &capsule, &index)) return NULL;
  const host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status =
      stream_table_synchronize(device->streams, index, &error);
  PyEval_RestoreThread(thread);
  if (status != OG_OK) return error_raise(&error);
  Py_RETURN_NONE;
}

// device_stream_record(device, index, stream, address): the stream uses the
// memory of a tensor that begins there.
PyObject *device_stream_record(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *value;
  int index;
  unsigned long long address;
  stream_use use;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiOK", &capsule, &index, &value, &address))
    return NULL;
  const host_device *device = host_device_use(capsule);
  if (device == NULL || !stream_use_begin(device, index, value, &use))
    return NULL;
  const og_status status = memory_pool_record(
      device->pool, (const void *)(uintptr_t)address, use.stream, &error);
  stream_use_end(use);
  if (status != OG_OK) return error_raise(&error);
  Py_RETURN_NONE;
}

// device_current_get() -> the index of this thread's current device
PyObject *device_current_get(PyObject *self, PyObject *none) {
  (void)self;
  (void)none;
  return PyLong_FromLong(device_current());
}

// device_current_put(index)
PyObject *device_current_put(PyObject *self, PyObject *index) {
  (void)self;
  const long value = PyLong_AsLong(index);
  if (value == -1 && PyErr_Occurred() != NULL) return NULL;
  device_current_set((int32_t)value);
  Py_RETURN_NONE;
}

// device_stream_current(index) -> the number of this thread's current stream,
// where torch's C++ names them
PyObject *device_stream_current(PyObject *self, PyObject *index) {
  (void)self;
  const long value = PyLong_AsLong(index);
  if (value == -1 && PyErr_Occurred() != NULL) return NULL;
  return PyLong_FromLongLong((long long)stream_current((int32_t)value));
}

// device_stream_exchange(index, number) -> the one before
PyObject *device_stream_exchange(PyObject *self, PyObject *arguments) {
  (void)self;
  int index;
  long long number;
  if (!PyArg_ParseTuple(arguments, "iL", &index, &number)) return NULL;
  return PyLong_FromLongLong((long long)stream_exchange(index, number));
}

// --- Events ------------------------------------------------------------------

static void event_end(PyObject *capsule) {
  event_handle *h = PyCapsule_GetPointer(capsule, event_capsule);
  if (!host_device_is_forked())
    opgraft_driver_event_destroy(h->device->driver, h->event, NULL);
  free(h);
}

// device_event(device, index) -> event
PyObject *device_event(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  int index;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "Oi", &capsule, &index)) return NULL;
  host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  event_handle *h = calloc(1, sizeof *h);
  if (h == NULL) return PyErr_NoMemory();
  h->device = device;
  PyObject *made = NULL;
  if (opgraft_driver_event_create(device->driver, index, &h->event, &error) !=
      OG_OK)
    error_raise(&error);
  else
    made = PyCapsule_New(h, event_capsule, event_end);
  if (made == NULL) free(h);
  return made;
}

static PyObject *event_call(PyObject *arguments,
                            og_status (*call)(opgraft_driver *driver,
                                              void *event, void *stream,
                                              opgraft_error *error)) {
  PyObject *capsule, *value;
  int index;
  stream_use use;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiO", &capsule, &index, &value))
    return NULL;
  const event_handle *h = PyCapsule_GetPointer(capsule, event_capsule);
  if (h == NULL || !stream_use_begin(h->device, index, value, &use))
    return NULL;
  const og_status status =
      call(h->device->driver, h->event, use.stream, &error);
  stream_use_end(use);
  if (status != OG_OK) return error_raise(&error);
  Py_RETURN_NONE;
}

// device_event_record(event, index, stream)
PyObject *device_event_record(PyObject *self, PyObject *arguments) {
  (void)self;
  return event_call(arguments, opgraft_driver_event_record);
}

// device_event_wait(event, index, stream): the stream's later work waits.
PyObject *device_event_wait(PyObject *self, PyObject *arguments) {
  (void)self;
  return event_call(arguments, opgraft_driver_event_wait);
}

// device_event_synchronize(event, timeout_ns) -> whether it was reached
PyObject *device_event_synchronize(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  long long timeout_ns;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OL", &capsule, &timeout_ns)) return NULL;
  const event_handle *h = PyCapsule_GetPointer(capsule, event_capsule);
  if (h == NULL) return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_driver_event_synchronize(
      h->device->driver, h->event, timeout_ns, &error);
  PyEval_RestoreThread(thread);
  return done_or_busy(status, &error);
}

// device_event_elapsed(begin, end) -> nanoseconds between two that were reached
PyObject *device_event_elapsed(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *begin, *end;
  int64_t found = 0;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OO", &begin, &end)) return NULL;
  const event_handle *from = PyCapsule_GetPointer(begin, event_capsule);
  const event_handle *to =
      from != NULL ? PyCapsule_GetPointer(end, event_capsule) : NULL;
  if (to == NULL) return NULL;
  if (opgraft_driver_event_elapsed(from->device->driver, from->event, to->event,
                                   &found, &error) != OG_OK)
    return error_raise(&error);
  return PyLong_FromLongLong((long long)found);
}
