// SPDX-License-Identifier: Apache-2.0
// A device's driver for Python: tensors in its memory, copies, streams, events.
//
// A driver lives as long as the process: tensors that torch holds at its end
// still release their memory.

#include "torch/device/device.h"

#include <opgraft/driver.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "torch/base/layout.h"
#include "torch/base/module.h"
#include "torch/base/tensor.h"
#include "torch/device/state.h"

static const char device_capsule[] = "opgraft.device";

// torch has room for one; under the interpreter lock.
static host_device *loaded;

// A child of fork has the driver's locks as they were, and none of its threads.
static atomic_bool is_forked;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_note(void) { atomic_store(&is_forked, true); }

static void fork_watch(void) { pthread_atfork(NULL, NULL, fork_note); }

static host_device *device_get(PyObject *capsule) {
  return PyCapsule_GetPointer(capsule, device_capsule);
}

bool host_device_is_forked(void) { return atomic_load(&is_forked); }

host_device *host_device_use(PyObject *capsule) {
  if (atomic_load(&is_forked)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "the device was loaded before this process was forked; "
                    "load the device in the process that uses it");
    return NULL;
  }
  return device_get(capsule);
}

// device_is_forked() -> whether a device was loaded before a fork
PyObject *device_is_forked(PyObject *self, PyObject *none) {
  (void)self;
  (void)none;
  return PyBool_FromLong(atomic_load(&is_forked));
}

// --- The driver --------------------------------------------------------------

// On a thread of the driver's: kept until Python asks. The first are kept.
static void report_keep(void *user, og_status code, const char *text) {
  host_device *device = user;
  (void)code;
  pthread_mutex_lock(&device->lock);
  if (device->report_count < REPORTS_MAX) {
    char *copy = malloc(strlen(text) + 1);
    if (copy != NULL) {
      memcpy(copy, text, strlen(text) + 1);
      device->reports[device->report_count++] = copy;
    }
  }
  pthread_mutex_unlock(&device->lock);
}

// device_load(path, options) -> device
PyObject *device_load(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *path;
  const char *options;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "O&s", PyUnicode_FSConverter, &path,
                        &options))
    return NULL;
  host_device *device = calloc(1, sizeof *device);
  if (device == NULL) {
    Py_DECREF(path);
    return PyErr_NoMemory();
  }
  pthread_mutex_init(&device->lock, NULL);
  const og_status status = opgraft_driver_load(PyBytes_AsString(path), options,
                                               &device->driver, &error);
  Py_DECREF(path);
  if (status != OG_OK) {
    free(device);
    return error_raise(&error);
  }
  device->pool = memory_pool_create(device->driver);
  if (device->pool != NULL)
    device->streams = stream_table_create(device->driver, device->pool);
  if (device->streams == NULL) {
    opgraft_driver_destroy(device->driver);
    if (device->pool != NULL) memory_pool_destroy(device->pool);
    free(device);
    return PyErr_NoMemory();
  }
  opgraft_driver_on_report(device->driver, report_keep, device);
  loaded = device;
  pthread_once(&fork_once, fork_watch);
  return PyCapsule_New(device, device_capsule, NULL);
}

// device_close(device): of one that no tensor, and nobody else, ever used.
PyObject *device_close(PyObject *self, PyObject *capsule) {
  (void)self;
  host_device *device = device_get(capsule);
  if (device == NULL || PyCapsule_SetName(capsule, "opgraft.closed") != 0)
    return NULL;
  loaded = NULL;
  opgraft_driver_destroy(device->driver);
  stream_table_destroy(device->streams);
  memory_pool_destroy(device->pool);
  for (int i = 0; i < device->report_count; ++i) free(device->reports[i]);
  pthread_mutex_destroy(&device->lock);
  free(device);
  Py_RETURN_NONE;
}

static PyObject *lacks_list(const opgraft_driver *driver) {
  PyObject *list = PyList_New(0);
  const char *name, *lost;
  for (int32_t i = 0;
       list != NULL && opgraft_driver_lacks(driver, i, &name, &lost); ++i) {
    PyObject *row = Py_BuildValue("(ss)", name, lost);
    if (row == NULL || PyList_Append(list, row) != 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

// device_info(device) -> (name, DLPack type, count, model, bytes, [(function
// that the driver lacks, what is lost)])
PyObject *device_info(PyObject *self, PyObject *capsule) {
  (void)self;
  const host_device *device = device_get(capsule);
  og_device_properties found = {.struct_size = sizeof found};
  opgraft_error error;
  if (device == NULL) return NULL;
  if (opgraft_driver_properties(device->driver, 0, &found, &error) != OG_OK)
    return error_raise(&error);
  PyObject *lacks = lacks_list(device->driver);
  if (lacks == NULL) return NULL;
  return Py_BuildValue("(siisKN)", opgraft_driver_name(device->driver),
                       (int)opgraft_driver_device_type(device->driver),
                       (int)opgraft_driver_device_count(device->driver),
                       found.model, (unsigned long long)found.memory_bytes,
                       lacks);
}

// device_reports(device) -> what the driver reported since the last call
PyObject *device_reports(PyObject *self, PyObject *capsule) {
  (void)self;
  host_device *device = device_get(capsule);
  if (device == NULL) return NULL;
  char *texts[REPORTS_MAX];
  pthread_mutex_lock(&device->lock);
  const int count = device->report_count;
  memcpy(texts, device->reports, sizeof texts);
  device->report_count = 0;
  pthread_mutex_unlock(&device->lock);
  PyObject *list = PyList_New(0);
  for (int i = 0; i < count; ++i) {
    PyObject *text =
        list != NULL ? PyUnicode_DecodeUTF8(
                           texts[i], (Py_ssize_t)strlen(texts[i]), "replace")
                     : NULL;
    if (text == NULL || PyList_Append(list, text) != 0) Py_CLEAR(list);
    Py_XDECREF(text);
    free(texts[i]);
  }
  return list;
}

// --- Tensors -----------------------------------------------------------------

// What a tensor's memory hangs on: DLPack's struct, with sizes behind it.
typedef struct owner {
  dl_managed managed;
  host_device *device;
  memory_block *block;
  int64_t dims[];  // sizes, then strides
} owner;

static void owner_end(dl_managed *managed) {
  owner *o = managed->context;
  if (!atomic_load(&is_forked))  // the pool's lock may be held for ever
    memory_pool_give(o->device->pool, o->block);
  free(o);
}

int device_from_object(PyObject *object, og_device *out) {
  PyObject *type = PyObject_GetAttrString(object, "type");
  PyObject *index = PyObject_GetAttrString(object, "index");
  int status = type != NULL && index != NULL ? 1 : -1;
  *out = (og_device){OG_CPU, 0};
  if (status == 1 && PyUnicode_CompareWithASCIIString(type, "cpu") != 0) {
    const opgraft_driver *driver = loaded != NULL ? loaded->driver : NULL;
    if (driver != NULL && PyUnicode_CompareWithASCIIString(
                              type, opgraft_driver_name(driver)) == 0)
      out->type = opgraft_driver_device_type(driver);
    else
      status = 0;
    if (index != Py_None) out->id = (int32_t)PyLong_AsLong(index);
    if (PyErr_Occurred() != NULL) status = -1;
  }
  Py_XDECREF(type);
  Py_XDECREF(index);
  return status;
}

static int dims_read(PyObject *tuple, int64_t *out) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred() != NULL) return -1;
    if (out[i] < 0) {
      PyErr_Format(PyExc_ValueError,
                   "a size or stride is %lld, expected 0 or more",
                   (long long)out[i]);
      return -1;
    }
  }
  return 0;
}

// The elements that sizes and strides span; -1 where that is too many.
static int64_t span_of(const og_tensor *tensor) {
  int64_t span = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    int64_t reach;
    if (tensor->shape[d] == 0) return 0;
    if (__builtin_mul_overflow(tensor->shape[d] - 1, tensor->strides[d],
                               &reach) ||
        __builtin_add_overflow(span, reach, &span))
      return -1;
  }
  return span;
}

// torch has taken the owner, also where it made no tensor of it.
static PyObject *owner_wrap(owner *o) {
  void *object = NULL;
  if (exchange->managed_to_object(&o->managed, &object) != 0) {
    if (PyErr_Occurred() == NULL)
      PyErr_SetString(PyExc_RuntimeError,
                      "torch made no tensor of the device's memory");
    return NULL;
  }
  return object;
}

// Without memory.
static owner *owner_make(host_device *device, const og_tensor *like) {
  const size_t rank = (size_t)like->ndim;
  owner *o = calloc(1, sizeof *o + 2 * rank * sizeof(int64_t));
  if (o == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  o->device = device;
  o->managed = (dl_managed){.major = exchange->major,
                            .minor = exchange->minor,
                            .context = o,
                            .deleter = owner_end,
                            .tensor = *like};
  o->managed.tensor.shape = o->dims;
  o->managed.tensor.strides = o->dims + rank;
  memcpy(o->dims, like->shape, rank * sizeof *o->dims);
  memcpy(o->dims + rank, like->strides, rank * sizeof *o->dims);
  return o;
}

// Through the published exchange API.
static PyObject *exchange_make(host_device *device, og_tensor *like,
                               size_t size_bytes) {
  const int32_t index = like->device.id;
  opgraft_error error;
  owner *o = owner_make(device, like);
  if (o == NULL) return NULL;
  void *stream = opgraft_driver_current_stream(device->driver, index);
  if (memory_pool_take(device->pool, index, stream, size_bytes, &o->block,
                       &error) != OG_OK) {
    free(o);
    return error_raise(&error);
  }
  like->data = o->managed.tensor.data = memory_block_address(o->block);
  return owner_wrap(o);
}

// By the C++ part.
static PyObject *direct_make(const host_device *device, og_tensor *like,
                             int32_t dtype, size_t size_bytes) {
  opgraft_error error;
  const tensor_handle handle =
      device->tensor_make(like, dtype, size_bytes, &error);
  return handle != NULL ? handle_wrap(handle) : error_raise(&error);
}

// Of the device, with the type, sizes and strides of `like`, whose data becomes
// its memory.
static PyObject *memory_make(host_device *device, og_tensor *like) {
  int64_t bytes = span_of(like);
  int32_t dtype;
  if (bytes < 0 ||
      __builtin_mul_overflow(bytes, (like->dtype.bits + 7) / 8, &bytes)) {
    PyErr_SetString(PyExc_ValueError, "a tensor has more than 2**63 bytes");
    return NULL;
  }
  const bool is_direct = device->tensor_make != NULL && guard_can_wrap() &&
                         dtype_to_shim(like->dtype, &dtype) == 0;
  PyObject *made = is_direct ? direct_make(device, like, dtype, (size_t)bytes)
                             : exchange_make(device, like, (size_t)bytes);
  if (made != NULL) layout_note_device(made);
  return made;
}

static PyObject *device_tensor(og_tensor *like) {
  if (loaded == NULL || atomic_load(&is_forked)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "a result lies on a device that this process has not "
                    "loaded; load it with opgraft.load_device");
    return NULL;
  }
  return memory_make(loaded, like);
}

PyObject *tensor_make(og_tensor *like) {
  if (LIKELY(like->device.type == OG_CPU)) return fresh_make(like);
  if (like->device.type != OG_CUDA) return device_tensor(like);
  PyObject *made = fresh_make(like);
  if (made != NULL) layout_note_device(made);
  return made;
}

// device_empty(device, index, dtype, sizes, strides) -> tensor
PyObject *device_empty(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *type, *sizes, *strides;
  int index;
  og_dtype dtype;
  if (!PyArg_ParseTuple(arguments, "OiOO!O!", &capsule, &index, &type,
                        &PyTuple_Type, &sizes, &PyTuple_Type, &strides))
    return NULL;
  host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  const size_t rank = (size_t)PyTuple_Size(sizes);
  if (dtype_from_object(type, &dtype) != 0)
    return PyErr_Format(PyExc_TypeError, "opgraft knows no tensors of type %R",
                        type);
  int64_t *dims = PyMem_Calloc(2 * rank + 1, sizeof *dims);
  if (dims == NULL) return PyErr_NoMemory();
  og_tensor like = {
      .device = {opgraft_driver_device_type(device->driver), index},
      .ndim = (int32_t)rank,
      .dtype = dtype,
      .shape = dims,
      .strides = dims + rank};
  PyObject *made = NULL;
  if (dims_read(sizes, like.shape) == 0 &&
      dims_read(strides, like.strides) == 0)
    made = memory_make(device, &like);
  PyMem_Free(dims);
  return made;
}

// device_copy(device, index, kind, to, from, bytes, wait): on the current
// stream; `wait`: returns when it is done.
PyObject *device_copy(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  int index, kind, is_waiting;
  unsigned long long to, from, bytes;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OiiKKKp", &capsule, &index, &kind, &to,
                        &from, &bytes, &is_waiting))
    return NULL;
  const host_device *device = host_device_use(capsule);
  if (device == NULL) return NULL;
  opgraft_driver *driver = device->driver;
  void *stream = opgraft_driver_current_stream(driver, index);
  void *target = (void *)(uintptr_t)to;
  const void *source = (const void *)(uintptr_t)from;
  PyThreadState *thread = PyEval_SaveThread();
  og_status status = opgraft_driver_copy(driver, stream, kind, target, source,
                                         (size_t)bytes, &error);
  if (status == OG_OK && is_waiting)
    status = opgraft_driver_stream_synchronize(driver, stream, -1, &error);
  if (status == OG_OK && is_waiting && kind != OPGRAFT_COPY_ON_DEVICE)
    opgraft_driver_host_access(driver,
                               kind == OPGRAFT_COPY_TO_HOST ? target : source,
                               (size_t)bytes, kind == OPGRAFT_COPY_TO_DEVICE);
  PyEval_RestoreThread(thread);
  if (status != OG_OK) return error_raise(&error);
  Py_RETURN_NONE;
}

// device_stats(device, index, reset) -> (live, live bytes, peak bytes, kept
// bytes, driver allocations); `reset`: the peaks start anew
PyObject *device_stats(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  int index, is_reset;
  if (!PyArg_ParseTuple(arguments, "Oip", &capsule, &index, &is_reset))
    return NULL;
  const host_device *device = device_get(capsule);
  if (device == NULL) return NULL;
  const memory_stats s = memory_pool_stats(device->pool, index);
  if (is_reset) memory_pool_reset_peak(device->pool, index);
  return Py_BuildValue(
      "(LLLLL)", (long long)s.tensors.current,
      (long long)s.tensor_bytes.current, (long long)s.tensor_bytes.peak,
      (long long)(s.held_bytes.current - s.tensor_bytes.current),
      (long long)s.driver_count);
}

// device_trim(device): the driver gets what no tensor has.
PyObject *device_trim(PyObject *self, PyObject *capsule) {
  (void)self;
  const host_device *device = host_device_use(capsule);
  opgraft_error error;
  if (device == NULL) return NULL;
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = memory_pool_trim(device->pool, &error);
  PyEval_RestoreThread(thread);
  if (status != OG_OK) return error_raise(&error);
  Py_RETURN_NONE;
}
