// SPDX-License-Identifier: Apache-2.0
// A graph on CUDA: what Dynamo and AOTAutograd call, boxed as a compiled graph
// is. A call looks for a capture of its sizes and addresses, copies the inputs
// that moved, launches, and makes tensor objects of the results.
//
// Invariants: captures are made in Python (_graph/captures.py), which `slow`
// calls; nothing of CUDA's is known here. A capture that lends its results is
// not replayed while a tensor shares the memory of one. From the first copy to
// the last result a call holds the lock of its device, since captures share
// memory for what they do not return; work of two streams is ordered by `wait`.

#include "torch/graph/captured.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "torch/base/tensor.h"
#include "torch/graph/capture.h"
#include "torch/graph/compiled.h"

enum { DEVICES_MAX = 64, ARGS_ON_STACK = 32, FEW_COPIES = 2 };

// What the captures of one device share.
static struct {
  PyThread_type_lock lock;
  unsigned long owner;  // the thread that holds it
  bool is_held;
  void *stream;  // of the last replay
  bool has_stream;
} devices[DEVICES_MAX];

typedef struct captured {
  PyObject_HEAD          //
      PyObject *slow;    // (self, list) -> results
  PyObject *stream_now;  // (device index) -> int
  PyObject *index;       // the argument of stream_now
  PyObject *is_taken;    // () -> bool: somebody captures this stream
  PyObject *wait;        // (int): the current stream waits for that one
  PyObject *copy;        // (targets, sources)
  PyObject *span;        // (tensor) -> its memory as one row
  PyObject *weak;        // references to it
  uint64_t keys[2];      // of a plain tensor of the device; in inference mode
  int32_t argument_count;
  int32_t device;
  capture *first;  // the most recently used one
  long long next_id;
  long long replays, copied, lent, fresh, waits;
} captured;

static PyTypeObject *captured_type;

// --- The lock ----------------------------------------------------------------

// False: this thread has it already.
static bool device_lock(const captured *self) {
  PyThread_type_lock lock = devices[self->device].lock;
  const unsigned long thread = PyThread_get_thread_ident();
  if (UNLIKELY(!PyThread_acquire_lock(lock, NOWAIT_LOCK))) {
    if (devices[self->device].is_held && devices[self->device].owner == thread)
      return false;
    Py_BEGIN_ALLOW_THREADS  //
        PyThread_acquire_lock(lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
  }
  devices[self->device].owner = thread;
  devices[self->device].is_held = true;
  return true;
}

static void device_unlock(const captured *self) {
  devices[self->device].is_held = false;
  PyThread_release_lock(devices[self->device].lock);
}

// --- Inputs ------------------------------------------------------------------

static PyObject *item(PyObject *list, Py_ssize_t i) {
  return PyList_Check(list) ? PyList_GetItem(list, i)
                            : PyTuple_GetItem(list, i);
}

// Whether the object's memory holds what it shows, on the device.
static bool is_plain(const captured *self, PyObject *object) {
  const PyTypeObject *type = Py_TYPE(object);
  if (type != guard_tensor_type && type != guard_parameter_type) return false;
  const uint64_t keys = layout_word(layout_impl(object), torch_layout.keys);
  return keys == self->keys[0] || keys == self->keys[1];
}

// False: an argument that only `slow` can tell about.
static bool args_read(const captured *self, PyObject *list, og_tensor *tensors,
                      int64_t *ints) {
  for (int32_t i = 0; i < self->argument_count; ++i) {
    PyObject *object = item(list, i);
    tensors[i].ndim = -1;
    ints[i] = 0;
    if (LIKELY(is_plain(self, object))) {
      if (UNLIKELY(!plain_read(object, guard_handle(object), &tensors[i])))
        return false;
    } else if (PyLong_Check(object)) {
      ints[i] = PyLong_AsLongLong(object);
      if (ints[i] == -1 && PyErr_Occurred() != NULL) return false;
    } else if (object != Py_None) {
      return false;
    }
  }
  return true;
}

static bool arg_fits(const capture_arg *arg, const og_tensor *tensor,
                     int64_t value) {
  if (arg->kind == CAPTURE_INT) return tensor->ndim < 0 && value == arg->value;
  const size_t bytes = (size_t)arg->at.ndim * sizeof *tensor->shape;
  return tensor->ndim == arg->at.ndim &&
         memcmp(&tensor->dtype, &arg->dtype, sizeof arg->dtype) == 0 &&
         (bytes == 0 ||
          (memcmp(tensor->shape, arg->at.sizes, bytes) == 0 &&
           memcmp(tensor->strides, arg->at.strides, bytes) == 0)) &&
         (arg->kind == CAPTURE_COPIED || tensor->data == arg->data);
}

static bool capture_fits(const captured *self, const capture *c,
                         const og_tensor *tensors, const int64_t *ints) {
  for (int32_t i = 0; i < self->argument_count; ++i)
    if (!arg_fits(&c->args[i], &tensors[i], ints[i])) return false;
  return true;
}

// The capture that this call may replay, which becomes the first one; NULL.
// One that lends comes before one whose results are copied.
static capture *capture_find(captured *self, const og_tensor *tensors,
                             const int64_t *ints) {
  capture **found = NULL;
  for (capture **c = &self->first; *c != NULL; c = &(*c)->next) {
    if (!capture_fits(self, *c, tensors, ints)) continue;
    if ((*c)->lends && capture_is_live(*c)) continue;
    if (found == NULL || ((*c)->lends && !(*found)->lends)) found = c;
    if ((*found)->lends) break;
  }
  if (found == NULL) return NULL;
  capture *const c = *found;
  *found = c->next;
  c->next = self->first;
  self->first = c;
  return c;
}

// --- Copies ------------------------------------------------------------------

static int copy_many(const captured *self, PyObject *targets,
                     PyObject *sources) {
  const Py_ssize_t count = PyList_Size(targets);
  for (Py_ssize_t i = 0; count <= FEW_COPIES && i < count; ++i)
    if (shim.aoti_torch_copy_(guard_handle(PyList_GetItem(targets, i)),
                              guard_handle(PyList_GetItem(sources, i)),
                              1) != 0) {
      PyErr_SetString(PyExc_RuntimeError,
                      "opgraft: torch could not copy an input or a result of "
                      "a captured graph; its message is in the log");
      return -1;
    }
  if (count <= FEW_COPIES) return 0;
  PyObject *done = PyObject_CallFunctionObjArgs(self->copy, targets, sources,
                                                (PyObject *)NULL);
  Py_XDECREF(done);
  return done == NULL ? -1 : 0;
}

// Adds `from`'s memory to the copies, all of the span where `arg` is one.
static int copy_add(const captured *self, const capture_arg *arg,
                    PyObject *argument, PyObject *buffers,
                    PyObject *arguments) {
  PyObject *row = NULL;
  if (arg->is_span) {
    row = PyObject_CallFunctionObjArgs(self->span, argument, (PyObject *)NULL);
    if (row == NULL) return -1;
    argument = row;
  }
  const int status = PyList_Append(buffers, arg->buffer) == 0 &&
                             PyList_Append(arguments, argument) == 0
                         ? 0
                         : -1;
  Py_XDECREF(row);
  return status;
}

// Into the buffers, or with `is_back` from those that the graph writes.
static int inputs_copy(captured *self, const capture *c, PyObject *list,
                       const og_tensor *tensors, bool is_back) {
  int status = 0;
  PyObject *buffers = NULL, *arguments = NULL;
  for (int32_t i = 0; i < self->argument_count && status == 0; ++i) {
    const capture_arg *arg = &c->args[i];
    if (arg->kind != CAPTURE_COPIED || tensors[i].data == arg->data ||
        tensors[i].data == NULL || (is_back && !arg->is_written))
      continue;
    if (buffers == NULL) {
      buffers = PyList_New(0);
      arguments = PyList_New(0);
      if (buffers == NULL || arguments == NULL) status = -1;
    }
    if (status == 0)
      status = copy_add(self, arg, item(list, i), buffers, arguments);
    ++self->copied;
  }
  if (status == 0 && buffers != NULL)
    status = is_back ? copy_many(self, arguments, buffers)
                     : copy_many(self, buffers, arguments);
  Py_XDECREF(buffers);
  Py_XDECREF(arguments);
  return status;
}

// --- Results -----------------------------------------------------------------

static PyObject *view_make(PyObject *base, const capture_place *at) {
  tensor_handle made;
  if (LIKELY(shim.aoti_torch__reinterpret_tensor(guard_handle(base), at->ndim,
                                                 at->sizes, at->strides,
                                                 at->offset, &made) == 0))
    return handle_wrap(made);
  PyErr_SetString(PyExc_RuntimeError,
                  "opgraft: torch could not make a view for a result of a "
                  "captured graph; its message is in the log");
  return NULL;
}

static PyObject *fresh_like(PyObject *base) {
  tensor_handle handle = guard_handle(base), made;
  int64_t rank, *sizes, *strides;
  int32_t dtype, type, index;
  if (shim.aoti_torch_get_dim(handle, &rank) == 0 &&
      shim.aoti_torch_get_sizes(handle, &sizes) == 0 &&
      shim.aoti_torch_get_strides(handle, &strides) == 0 &&
      shim.aoti_torch_get_dtype(handle, &dtype) == 0 &&
      shim.aoti_torch_get_device_type(handle, &type) == 0 &&
      shim.aoti_torch_get_device_index(handle, &index) == 0 &&
      shim.aoti_torch_empty_strided(rank, sizes, strides, dtype, type, index,
                                    &made) == 0)
    return handle_wrap(made);
  PyErr_SetString(PyExc_MemoryError,
                  "opgraft: could not allocate a result of a captured graph");
  return NULL;
}

// What the results are parts of: the capture's own tensors, or copies.
static PyObject *bases_make(captured *self, const capture *c) {
  PyObject *made = PyList_New(0), *own = PyList_New(0);
  bool works = made != NULL && own != NULL;
  for (int32_t b = 0; works && b < c->base_count; ++b) {
    PyObject *base = c->bases[b].tensor;
    PyObject *fresh = c->lends ? base : fresh_like(base);
    works = fresh != NULL && PyList_Append(made, fresh) == 0 &&
            PyList_Append(own, base) == 0;
    if (!c->lends) Py_XDECREF(fresh);
  }
  if (c->lends)
    self->lent += c->base_count;
  else
    self->fresh += c->base_count;
  if (works && !c->lends && c->base_count > 0)
    works = copy_many(self, made, own) == 0;
  Py_XDECREF(own);
  if (!works) Py_CLEAR(made);
  return made;
}

static PyObject *result_make(const capture *c, const capture_out *out,
                             PyObject *list, PyObject *bases) {
  PyObject *object = out->value;
  if (out->kind == CAPTURE_PART) {
    object = PyList_GetItem(bases, out->index);
    if (c->lends || !out->is_whole) return view_make(object, &out->at);
  } else if (out->kind == CAPTURE_INPUT) {
    object = item(list, out->index);
    if (!out->is_whole) return view_make(object, &out->at);
  }
  Py_INCREF(object);
  return object;
}

static PyObject *results_make(captured *self, const capture *c,
                              PyObject *list) {
  PyObject *bases = bases_make(self, c);
  PyObject *results = bases != NULL ? PyList_New(c->out_count) : NULL;
  for (int32_t i = 0; results != NULL && i < c->out_count; ++i) {
    PyObject *object = result_make(c, &c->outs[i], list, bases);
    if (object == NULL)
      Py_CLEAR(results);
    else
      PyList_SetItem(results, i, object);
  }
  Py_XDECREF(bases);
  return results;
}

// --- The call ----------------------------------------------------------------

static int wait_for(captured *self, void *stream) {
  PyObject *handle = PyLong_FromVoidPtr(stream);
  PyObject *done = handle != NULL ? PyObject_CallFunctionObjArgs(
                                        self->wait, handle, (PyObject *)NULL)
                                  : NULL;
  Py_XDECREF(handle);
  Py_XDECREF(done);
  ++self->waits;
  return done == NULL ? -1 : 0;
}

// Puts this call behind the last replay on the device, whose memory it uses,
// and behind whoever read what this capture lent last.
static int streams_order(captured *self, capture *c, void *stream) {
  void *const last = devices[self->device].stream;
  const bool is_other = devices[self->device].has_stream && last != stream;
  if (UNLIKELY(is_other) && wait_for(self, last) != 0) return -1;
  if (UNLIKELY(c->has_stream && c->stream != stream &&
               (!is_other || c->stream != last)) &&
      wait_for(self, c->stream) != 0)
    return -1;
  devices[self->device].stream = c->stream = stream;
  devices[self->device].has_stream = c->has_stream = true;
  return 0;
}

static PyObject *capture_run(captured *self, capture *c, PyObject *list,
                             const og_tensor *tensors) {
  PyObject *stream = PyObject_CallFunctionObjArgs(self->stream_now, self->index,
                                                  (PyObject *)NULL);
  if (stream == NULL) return NULL;
  void *const handle = PyLong_AsVoidPtr(stream);
  Py_DECREF(stream);
  if (streams_order(self, c, handle) != 0 ||
      inputs_copy(self, c, list, tensors, false) != 0)
    return NULL;
  PyObject *done = PyObject_CallObject(c->replay, NULL);
  if (done == NULL) return NULL;
  Py_DECREF(done);
  ++self->replays;
  ++c->replays;
  if (c->has_written && inputs_copy(self, c, list, tensors, true) != 0)
    return NULL;
  return results_make(self, c, list);
}

// Whether somebody captures the current stream, so that nothing may be
// launched as a graph; -1 with an exception set.
static int stream_is_taken(const captured *self) {
  PyObject *taken = PyObject_CallObject(self->is_taken, NULL);
  const int is_taken = taken != NULL ? PyObject_IsTrue(taken) : -1;
  Py_XDECREF(taken);
  return is_taken;
}

// A new reference to the results; NULL without an exception: no capture fits.
static PyObject *call_fast(captured *self, PyObject *list, og_tensor *tensors,
                           int64_t *ints) {
  if (UNLIKELY(!args_read(self, list, tensors, ints))) return NULL;
  const int is_taken = stream_is_taken(self);
  if (UNLIKELY(is_taken != 0) || UNLIKELY(!device_lock(self))) return NULL;
  PyObject *results = NULL;
  capture *c = capture_find(self, tensors, ints);
  if (LIKELY(c != NULL)) {
    ++c->uses;  // it may be dropped while it runs
    results = capture_run(self, c, list, tensors);
    if (--c->uses == 0 && c->is_dropped) capture_free(c);
  }
  device_unlock(self);
  return results;
}

static PyObject *call_with(captured *self, PyObject *list, bool may_capture) {
  og_tensor on_stack[ARGS_ON_STACK];
  int64_t ints_on_stack[ARGS_ON_STACK];
  og_tensor *tensors = on_stack;
  int64_t *ints = ints_on_stack;
  const size_t count = (size_t)self->argument_count;
  if (UNLIKELY(self->slow == NULL)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "opgraft: a captured graph is called while it is "
                    "collected");
    return NULL;
  }
  if (UNLIKELY(count > ARGS_ON_STACK)) {
    tensors = malloc(count * (sizeof *tensors + sizeof *ints));
    if (tensors == NULL) return PyErr_NoMemory();
    ints = (int64_t *)(void *)(tensors + count);
  }
  PyObject *results = call_fast(self, list, tensors, ints);
  if (tensors != on_stack) free(tensors);
  if (LIKELY(results != NULL) || PyErr_Occurred() != NULL) return results;
  if (may_capture)
    return PyObject_CallFunctionObjArgs(self->slow, (PyObject *)(void *)self,
                                        list, (PyObject *)NULL);
  Py_RETURN_NONE;
}

static PyObject *captured_run(PyObject *object, PyObject *list,
                              bool may_capture) {
  captured *self = (captured *)(void *)object;
  const Py_ssize_t given =
      PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
  if (given != self->argument_count)
    return PyErr_Format(PyExc_TypeError,
                        "a captured graph got %zd arguments, expected %d",
                        given, (int)self->argument_count);
  Py_INCREF(object);
  PyObject *results = call_with(self, list, may_capture);
  // Boxed: what the caller does not hold is freed.
  if (may_capture && PyList_Check(list) &&
      PyList_SetSlice(list, 0, PyList_Size(list), NULL) != 0)
    Py_CLEAR(results);
  Py_DECREF(object);
  return results;
}

static PyObject *captured_call(PyObject *object, PyObject *arguments,
                               PyObject *keywords) {
  PyObject *list =
      PyTuple_Size(arguments) == 1 ? PyTuple_GetItem(arguments, 0) : NULL;
  if (list == NULL || keywords != NULL ||
      (!PyList_Check(list) && !PyTuple_Check(list)))
    return PyErr_Format(PyExc_TypeError,
                        "a captured graph takes one list of arguments");
  return captured_run(object, list, true);
}

static PyObject *captured_flat(PyObject *object, PyObject *arguments) {
  return captured_run(object, arguments, true);
}

// replay(list): None where no capture fits.
static PyObject *captured_replay(PyObject *object, PyObject *list) {
  if (!PyList_Check(list))
    return PyErr_Format(PyExc_TypeError, "replay takes a list");
  return captured_run(object, list, false);
}

// --- Captures ----------------------------------------------------------------

static void capture_drop(capture *c) {
  c->is_dropped = true;
  if (c->uses == 0) capture_free(c);
}

// add(args, outs, bases, replay, lends) -> number. capture.h has the forms.
static PyObject *captured_add(PyObject *object, PyObject *arguments) {
  captured *self = (captured *)(void *)object;
  capture *c = capture_read(arguments, self->argument_count);
  if (c == NULL) return NULL;
  c->id = self->next_id++;
  c->next = self->first;
  self->first = c;
  return PyLong_FromLongLong(c->id);
}

// drop(number): False where there is none.
static PyObject *captured_drop(PyObject *object, PyObject *number) {
  captured *self = (captured *)(void *)object;
  const long long id = PyLong_AsLongLong(number);
  if (id == -1 && PyErr_Occurred() != NULL) return NULL;
  for (capture **c = &self->first; *c != NULL; c = &(*c)->next) {
    if ((*c)->id != id) continue;
    capture *const found = *c;
    *c = found->next;
    capture_drop(found);
    Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

static void captures_clear(captured *self) {
  while (self->first != NULL) {
    capture *const c = self->first;
    self->first = c->next;
    capture_drop(c);
  }
}

// order(): numbers of the captures, the most recently used one first.
static PyObject *captured_order(PyObject *object, PyObject *none) {
  (void)none;
  const captured *self = (const captured *)(const void *)object;
  PyObject *list = PyList_New(0);
  for (const capture *c = self->first; list != NULL && c != NULL; c = c->next) {
    PyObject *id = PyLong_FromLongLong(c->id);
    if (id == NULL || PyList_Append(list, id) != 0) Py_CLEAR(list);
    Py_XDECREF(id);
  }
  return list;
}

static PyObject *captured_counts(PyObject *object, PyObject *none) {
  (void)none;
  const captured *self = (const captured *)(const void *)object;
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "replays", self->replays,
                       "copied_inputs", self->copied, "lent_results",
                       self->lent, "copied_results", self->fresh,
                       "stream_waits", self->waits);
}

// --- The object --------------------------------------------------------------

#define CAPTURED_HOLDS(X) \
  X(slow) X(stream_now) X(index) X(is_taken) X(wait) X(copy) X(span)

static int captured_traverse(PyObject *object, visitproc visit, void *arg) {
  const captured *self = (const captured *)(const void *)object;
  Py_VISIT(Py_TYPE(object));
#define X(field) Py_VISIT(self->field);
  CAPTURED_HOLDS(X)
#undef X
  for (const capture *c = self->first; c != NULL; c = c->next)
    Py_VISIT(c->replay);
  return 0;
}

static int captured_clear(PyObject *object) {
  captured *self = (captured *)(void *)object;
#define X(field) Py_CLEAR(self->field);
  CAPTURED_HOLDS(X)
#undef X
  captures_clear(self);
  return 0;
}

static void captured_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  PyObject_ClearWeakRefs(object);
  captured_clear(object);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

static int samples_read(captured *self, PyObject *samples) {
  if (!torch_layout.has_keys || !guard_can_wrap()) {
    PyErr_SetString(PyExc_NotImplementedError,
                    "tensors of this torch lie otherwise than opgraft knows: "
                    "captures need a version that opgraft was tested with");
    return -1;
  }
  for (int i = 0; i < 2; ++i) {
    PyObject *sample = PyTuple_GetItem(samples, i);
    if (sample == NULL) return -1;
    if (Py_TYPE(sample) != guard_tensor_type) {
      PyErr_SetString(PyExc_TypeError, "a sample is not a plain tensor");
      return -1;
    }
    self->keys[i] = layout_word(layout_impl(sample), torch_layout.keys);
  }
  return 0;
}

static int device_begin(captured *self) {
  if (self->device < 0 || self->device >= DEVICES_MAX) {
    PyErr_Format(PyExc_ValueError, "device %d, expected 0 to %d",
                 (int)self->device, DEVICES_MAX - 1);
    return -1;
  }
  if (devices[self->device].lock == NULL)
    devices[self->device].lock = PyThread_allocate_lock();
  if (devices[self->device].lock != NULL) return 0;
  PyErr_NoMemory();
  return -1;
}

// captured_storage(tensor): the address of a plain tensor's storage, and of its
// users: how many. Unlike untyped_storage() it leaves no object behind, which
// would count as a user from then on.
PyObject *captured_storage(PyObject *module, PyObject *tensor) {
  (void)module;
  const PyTypeObject *type = Py_TYPE(tensor);
  if (!torch_layout.has_keys ||
      (type != guard_tensor_type && type != guard_parameter_type))
    return PyErr_Format(PyExc_TypeError,
                        "captured_storage: found %R, expected a plain tensor",
                        (PyObject *)Py_TYPE(tensor));
  return Py_BuildValue(
      "NI", PyLong_FromVoidPtr((void *)(uintptr_t)capture_storage(tensor)),
      (unsigned int)capture_users(tensor));
}

// captured_new(argument_count, device, samples, slow, stream_now, is_taken,
// wait, copy, span)
PyObject *captured_new(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *samples, *held[6];
  int count, device;
  if (!PyArg_ParseTuple(arguments, "iiO!OOOOOO", &count, &device, &PyTuple_Type,
                        &samples, &held[0], &held[1], &held[2], &held[3],
                        &held[4], &held[5]))
    return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(captured_type, Py_tp_alloc);
  captured *self = (captured *)(void *)allocate(captured_type, 0);
  if (self == NULL) return NULL;
  PyObject **const fields[] = {&self->slow, &self->stream_now, &self->is_taken,
                               &self->wait, &self->copy,       &self->span};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i) {
    Py_INCREF(held[i]);
    *fields[i] = held[i];
  }
  self->argument_count = count;
  self->device = device;
  self->index = PyLong_FromLong(device);
  if (self->index == NULL || samples_read(self, samples) != 0 ||
      device_begin(self) != 0)
    Py_CLEAR(self);
  return (PyObject *)(void *)self;
}

static PyObject *captured_count(PyObject *object, void *none) {
  (void)none;
  return PyLong_FromLong(((captured *)(void *)object)->argument_count);
}

static PyMethodDef captured_methods[] = {
    {"flat", captured_flat, METH_VARARGS, "A call with plain arguments."},
    {"replay", captured_replay, METH_O, "A call that captures nothing."},
    {"add", captured_add, METH_VARARGS, "One capture more; its number."},
    {"drop", captured_drop, METH_O, "Frees one."},
    {"order", captured_order, METH_NOARGS, "Numbers, by last use."},
    {"counts", captured_counts, METH_NOARGS, "What happened."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef captured_getset[] = {
    {"_boxed_call", graph_is_boxed, NULL, "It takes one list.", NULL},
    {"argument_count", captured_count, NULL, "In that list.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef captured_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(captured, weak), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot captured_slots[] = {
    {Py_tp_dealloc, captured_dealloc}, {Py_tp_traverse, captured_traverse},
    {Py_tp_clear, captured_clear},     {Py_tp_call, captured_call},
    {Py_tp_methods, captured_methods}, {Py_tp_getset, captured_getset},
    {Py_tp_members, captured_members}, {0, NULL},
};

static PyType_Spec captured_spec = {
    .name = "opgraft._C.CapturedGraph",
    .basicsize = sizeof(captured),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = captured_slots,
};

int captured_setup(PyObject *module) {
  captured_type = (PyTypeObject *)(void *)PyType_FromSpec(&captured_spec);
  return captured_type == NULL
             ? -1
             : PyModule_AddObjectRef(module, "CapturedGraph",
                                     (PyObject *)(void *)captured_type);
}
