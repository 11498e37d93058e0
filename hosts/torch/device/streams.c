// SPDX-License-Identifier: Apache-2.0
// Streams and events of a device for Python. A stream that is None is the
// device's default one.

#include <stdlib.h>

#include "torch/base/module.h"
#include "torch/device/device.h"
#include "torch/device/state.h"

static const char stream_capsule[] = "opgraft.stream";
static const char event_capsule[] = "opgraft.event";

// What a capsule of either kind holds.
typedef struct handle {
  host_device *device;
  int32_t index;
  void *stream;
  void *event;
} handle;

// --- Streams -----------------------------------------------------------------

// Its work is done when its blocks go to the default stream.
static void stream_end(PyObject *capsule) {
  handle *h = PyCapsule_GetPointer(capsule, stream_capsule);
  if (!host_device_is_forked()) {
    opgraft_driver *driver = h->device->driver;
    PyThreadState *thread = PyEval_SaveThread();
    opgraft_driver_stream_synchronize(driver, h->stream, -1, NULL);
    memory_pool_forget(h->device->pool, h->index, h->stream);
    opgraft_driver_stream_destroy(driver, h->stream, NULL);
    PyEval_RestoreThread(thread);
  }
  free(h);
}

static void event_end(PyObject *capsule) {
  handle *h = PyCapsule_GetPointer(capsule, event_capsule);
  if (!host_device_is_forked())
    opgraft_driver_event_destroy(h->device->driver, h->event, NULL);
  free(h);
}

// device_stream(device, index) -> stream; device_event(device, index) -> event
static PyObject *handle_make(PyObject *arguments, bool is_stream) {
  PyObject *capsule;
  int index;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "Oi", &capsule, &index)) return NULL;
  host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  handle *h = calloc(1, sizeof *h);
  if (h == NULL) return PyErr_NoMemory();
  *h = (handle){.device = device, .index = index};
  const og_status status = is_stream
                               ? opgraft_driver_stream_create(
                                     device->driver, index, &h->stream, &error)
                               : opgraft_driver_event_create(
                                     device->driver, index, &h->event, &error);
  PyObject *made = NULL;
  if (status != OG_OK)
    error_raise(&error);
  else if (is_stream)
    made = PyCapsule_New(h, stream_capsule, stream_end);
  else
    made = PyCapsule_New(h, event_capsule, event_end);
  if (made == NULL) free(h);
  return made;
}

PyObject *device_stream(PyObject *self, PyObject *arguments) {
  (void)self;
  return handle_make(arguments, true);
}

PyObject *device_event(PyObject *self, PyObject *arguments) {
  (void)self;
  return handle_make(arguments, false);
}

// NULL with an exception set where it is neither a stream nor None.
static void *stream_of(const host_device *device, int index, PyObject *value) {
  if (value == Py_None) {
    void *stream = opgraft_driver_default_stream(device->driver, index);
    if (stream == NULL)
      PyErr_Format(PyExc_ValueError, "there is no device %d", index);
    return stream;
  }
  const handle *h = PyCapsule_GetPointer(value, stream_capsule);
  return h != NULL ? h->stream : NULL;
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
    const handle *h = PyCapsule_GetPointer(value, stream_capsule);
    if (h != NULL) stream = h->stream;
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
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiOL", &capsule, &index, &value,
                        &timeout_ns))
    return NULL;
  const host_device *device = host_device_use(capsule);
  void *stream = device != NULL ? stream_of(device, index, value) : NULL;
  if (stream == NULL) return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_driver_stream_synchronize(
      device->driver, stream, timeout_ns, &error);
  PyEval_RestoreThread(thread);
  return done_or_busy(status, &error);
}

// device_stream_record(device, index, stream, address): the stream uses the
// memory of a tensor that begins there.
PyObject *device_stream_record(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *value;
  int index;
  unsigned long long address;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiOK", &capsule, &index, &value, &address))
    return NULL;
  const host_device *device = host_device_use(capsule);
  void *stream = device != NULL ? stream_of(device, index, value) : NULL;
  if (stream == NULL) return NULL;
  if (memory_pool_record(device->pool, (const void *)(uintptr_t)address, stream,
                         &error) != OG_OK)
    return error_raise(&error);
  Py_RETURN_NONE;
}

// --- Events ------------------------------------------------------------------

static PyObject *event_call(PyObject *arguments,
                            og_status (*call)(opgraft_driver *driver,
                                              void *event, void *stream,
                                              opgraft_error *error)) {
  PyObject *capsule, *value;
  int index;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiO", &capsule, &index, &value))
    return NULL;
  const handle *h = PyCapsule_GetPointer(capsule, event_capsule);
  void *stream = h != NULL ? stream_of(h->device, index, value) : NULL;
  if (stream == NULL) return NULL;
  if (call(h->device->driver, h->event, stream, &error) != OG_OK)
    return error_raise(&error);
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
  const handle *h = PyCapsule_GetPointer(capsule, event_capsule);
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
  const handle *from = PyCapsule_GetPointer(begin, event_capsule);
  const handle *to =
      from != NULL ? PyCapsule_GetPointer(end, event_capsule) : NULL;
  if (to == NULL) return NULL;
  if (opgraft_driver_event_elapsed(from->device->driver, from->event, to->event,
                                   &found, &error) != OG_OK)
    return error_raise(&error);
  return PyLong_FromLongLong((long long)found);
}
