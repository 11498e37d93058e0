// SPDX-License-Identifier: Apache-2.0
// The callable that Dynamo and AOTAutograd get for a graph: boxed (it takes
// one list and empties it), one entry into C for the whole region.
//
// Invariants: the graph is replayed with the interpreter lock released where
// it has enough to do; its tensors are read, and results made, under it.

#include "torch/graph/compiled.h"

#include <opgraft/graph_file.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/pool.h"
#include "torch/base/raised.h"
#include "torch/base/tensor.h"
#include "torch/base/threads.h"
#include "torch/device/device.h"
#include "torch/graph/node.h"
#include "torch/graph/recycle.h"
#include "torch/graph/shown.h"
#include "torch/graph/tuning.h"
#include "torch/graph/view.h"
#include "torch/graph/walk.h"

PyTypeObject *compiled_type;

typedef struct compiled {
  PyObject_HEAD  //
      opgraft_executable *executable;
  opgraft_graph *graph;
  walked walked;
  graph_context context;
  PyObject *resolve;  // (tensor) -> one that can be read
  PyObject *below;    // () -> a guard that keeps autograd's keys out
  PyObject *marks;    // tuple: (function, result, what to call it with); NULL
  PyObject *misfit;   // what inputs raise that do not fit; NULL: RuntimeError
  int32_t *written;   // inputs that the graph writes
  int32_t written_count;
  char *repro;  // folder for a call's inputs; NULL
  shown_results shown;
  bool is_kept;        // every call's, not only a failing one's
  bool lets_go;        // of inputs, while it runs: the list is all their holder
  bool is_heavy;       // give the interpreter lock back
  bool is_profiled;    // calls add up the time of each node
  bool is_settled;     // what a first call leaves behind is gone
  recycler recycled;   // memory of large results
  og_tensor *scratch;  // of one call at a time; NULL while it is lent
  PyObject *weak;      // references to it
} compiled;

// --- Inputs ------------------------------------------------------------------

enum {
  INPUT_BYTES = sizeof(og_tensor) + sizeof(og_tensor *) + sizeof(int64_t)
};

typedef struct inputs {
  og_tensor *tensors;
  const og_tensor **in;
  int64_t *ints;
  PyObject *kept;    // list: what was made for this call
  bool may_be_dual;  // forward mode is on: an input may have a tangent
} inputs;

static PyObject *list_get(PyObject *list, Py_ssize_t i) {
  return PyList_Check(list) ? PyList_GetItem(list, i)
                            : PyTuple_GetItem(list, i);
}

// A tensor whose memory is not what it shows (negated, conjugated, a
// subclass): Python makes one that is.
static int input_resolve(compiled *self, PyObject *object, inputs *in,
                         og_tensor *out) {
  PyErr_Clear();
  PyObject *made =
      PyObject_CallFunctionObjArgs(self->resolve, object, (PyObject *)NULL);
  if (made == NULL) return -1;
  if (in->kept == NULL) in->kept = PyList_New(0);
  const int status = in->kept != NULL ? PyList_Append(in->kept, made) : -1;
  Py_DECREF(made);  // the list has it
  if (status != 0) return -1;
  if (!tensor_read(made, false, out)) {
    if (PyErr_Occurred() == NULL)
      PyErr_SetString(PyExc_RuntimeError,
                      "opgraft: an input of a compiled graph has no memory");
    return -1;
  }
  return 0;
}

static int input_read(compiled *self, PyObject *object, inputs *in, int32_t i) {
  in->in[i] = NULL;
  in->ints[i] = 0;
  if (LIKELY(guard_is_plain(object))) {
    in->in[i] = &in->tensors[i];
    if (UNLIKELY(in->may_be_dual) && guard_may_be_dual(object))
      return input_resolve(self, object, in, &in->tensors[i]);
    if (LIKELY(tensor_read(object, true, &in->tensors[i]))) return 0;
  } else if (PyLong_Check(object)) {
    in->ints[i] = PyLong_AsLongLong(object);
    return in->ints[i] == -1 && PyErr_Occurred() != NULL ? -1 : 0;
  }
  in->in[i] = &in->tensors[i];
  if (guard_is_device_plain(object) &&
      tensor_read(object, false, &in->tensors[i]))
    return 0;
  return input_resolve(self, object, in, &in->tensors[i]);
}

// The object behind input `i`, borrowed.
static PyObject *input_object(const compiled *self, PyObject *list, int32_t i) {
  const int32_t slot = self->walked.slots[i];
  return slot >= 0 ? list_get(list, slot)
                   : PyList_GetItem(self->walked.captured, -1 - slot);
}

static int inputs_read(compiled *self, PyObject *list, inputs *in) {
  in->may_be_dual = guard_is_forward();
  for (int32_t i = 0; i < self->walked.slot_count; ++i) {
    PyObject *object = input_object(self, list, i);
    if (UNLIKELY(object == NULL || input_read(self, object, in, i) != 0))
      return -1;
  }
  return 0;
}

// 0, or -1 where torch forbids a write, or one would not reach the caller.
static int writes_check(const compiled *self, PyObject *list,
                        const inputs *in) {
  for (int32_t k = 0; k < self->written_count; ++k) {
    const int32_t i = self->written[k];
    PyObject *object = input_object(self, list, i);
    if (UNLIKELY(object == NULL || guard_check_write(object) != 0)) return -1;
    if (LIKELY(guard_is_plain(object)) || view_is_own(object, &in->tensors[i]))
      continue;
    if (PyErr_Occurred() == NULL)
      PyErr_Format(PyExc_RuntimeError,
                   "opgraft: input %d of a compiled graph is written, and its "
                   "memory does not hold what it shows (a negated or "
                   "conjugated view); clone() it before the call",
                   (int)i);
    return -1;
  }
  return 0;
}

static int reaches_check(const compiled *self, PyObject *list, const inputs *in,
                         const opgraft_call *call) {
  for (int32_t k = 0; k < call->reach_count; ++k) {
    const opgraft_reach *reach = &call->reaches[k];
    PyObject *object = input_object(self, list, reach->input);
    if (object == NULL ||
        view_check(object, &in->tensors[reach->input], reach) != 0)
      return -1;
  }
  return 0;
}

// --- Outputs -----------------------------------------------------------------

static bool is_same(const og_tensor *a, const og_tensor *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d] && a->strides[d] == b->strides[d];
  return same;
}

// Whether the output is all of its storage, as that was made.
static bool is_base(const opgraft_call *call, const opgraft_output *output) {
  const og_tensor *given = call->donated[output->index].tensor;
  if (given == NULL) return call->storages[output->index].whole;
  return output->tensor.byte_offset == 0 && is_same(&output->tensor, given);
}

static PyObject *output_make(compiled *self, const opgraft_call *call,
                             const inputs *in, PyObject *list,
                             PyObject *const *storages, int32_t position) {
  const opgraft_output *output = &call->outputs[position];
  const og_tensor *tensor = &output->tensor;
  PyObject *base;
  switch (output->kind) {
    case OPGRAFT_OUTPUT_STORAGE:
      base = storages[output->index];
      if (shown_as(&self->shown, position) == SHOWN_DETACHED &&
          shown_is_shared(&self->shown, call, position))
        return view_detached(base, tensor, view_offset(tensor));
      if (call->storages[output->index].output == position &&
          is_base(call, output) &&
          !shown_gives_way(&self->shown, call, position))
        break;
      return shown_is_shared(&self->shown, call, position)
                 ? view_tracked(base, tensor, view_offset(tensor))
                 : view_untracked(base, tensor, view_offset(tensor));
    case OPGRAFT_OUTPUT_INPUT:
      base = input_object(self, list, output->index);
      if (shown_is(&self->shown, position))
        return view_tracked(base, tensor, view_offset(tensor));
      if (tensor->byte_offset == 0 && is_same(tensor, in->in[output->index]))
        break;
      return view_untracked(base, tensor, view_offset(tensor));
    case OPGRAFT_OUTPUT_CONSTANT:
      return view_copy(tensor);
    case OPGRAFT_OUTPUT_SIZE:
      return PyLong_FromLongLong(output->size);
    default:
      base = Py_None;
  }
  Py_XINCREF(base);
  return base;
}

static PyObject *outputs_make(compiled *self, const opgraft_call *call,
                              const inputs *in, PyObject *list,
                              PyObject **storages) {
  PyObject *results = PyList_New(call->output_count);
  if (results != NULL &&
      !shown_roots_make(&self->shown, call, storages, results))
    Py_CLEAR(results);
  for (int32_t i = 0; results != NULL && i < call->output_count; ++i) {
    if (PyList_GetItem(results, i) != NULL) continue;
    const uint8_t as = shown_as(&self->shown, i);
    PyObject *object =
        as < SHOWN_AGAIN ? output_make(self, call, in, list, storages, i)
                         : Py_NewRef(PyList_GetItem(results, as - SHOWN_AGAIN));
    if (object == NULL)
      Py_CLEAR(results);
    else
      PyList_SetItem(results, i, object);
  }
  return results;
}

// --- The call ----------------------------------------------------------------

enum { STORAGES_ON_STACK = 32 };

// What the host's steps donated, as objects. False where one is missing.
static bool given_take(const opgraft_call *call, PyObject **storages) {
  bool is_whole = true;
  for (int32_t i = 0; i < call->storage_count; ++i) {
    tensor_handle handle = call->donated[i].owner;
    call->donated[i].owner = NULL;
    if (handle != NULL) storages[i] = handle_wrap(handle);
    is_whole &= storages[i] != NULL;
  }
  return is_whole;
}

// New memory for a storage, or that of an earlier call. It looks like the
// output that is all of it; where several share it, like a row of one type.
static PyObject *memory_make(compiled *self, const opgraft_call *call,
                             int32_t index, void **out_data) {
  const opgraft_storage *storage = &call->storages[index];
  og_tensor fresh = call->outputs[storage->output].tensor;
  const int64_t item = (fresh.dtype.bits + 7) / 8;
  int64_t count = (int64_t)storage->size_bytes / item, stride = 1;
  fresh.byte_offset = 0;
  if (!storage->whole) {
    fresh.ndim = 1;
    fresh.shape = &count;
    fresh.strides = &stride;
  }
  PyObject *object =
      recycle_take(&self->recycled, index, storage->size_bytes, &fresh);
  if (object == NULL && PyErr_Occurred() == NULL) {
    object = tensor_make(&fresh);
    if (object != NULL)
      recycle_keep(&self->recycled, index, storage->size_bytes, object, &fresh);
  }
  *out_data = (char *)fresh.data + fresh.byte_offset;
  return object;
}

// What a call in flight holds, for host_hold.
typedef struct holding {
  compiled *self;
  const opgraft_call *call;
  PyObject *list;
  PyObject **storages;
} holding;

static og_status host_hold(void *call_context, const int32_t *gone,
                           int32_t gone_count, const int32_t *storages,
                           int32_t storage_count, void **out_data,
                           opgraft_error *error) {
  holding *held = call_context;
  og_status status = OG_OK;
  const PyGILState_STATE lock = PyGILState_Ensure();
  for (int32_t i = 0; i < gone_count && PyList_Check(held->list); ++i) {
    const int32_t slot = held->self->walked.slots[gone[i]];
    if (slot < 0) continue;
    Py_INCREF(Py_None);
    PyList_SetItem(held->list, slot, Py_None);
  }
  for (int32_t k = 0; k < storage_count && status == OG_OK; ++k) {
    const int32_t s = storages[k];
    held->storages[s] = memory_make(held->self, held->call, s, &out_data[k]);
    if (held->storages[s] != NULL) continue;
    PyErr_Clear();
    *error = (opgraft_error){.code = OG_MEMORY};
    snprintf(error->text, sizeof error->text,
             "there is no memory for an output of %zu bytes",
             held->call->storages[s].size_bytes);
    status = OG_MEMORY;
  }
  PyGILState_Release(lock);
  return status;
}

static PyObject *call_replay(compiled *self, opgraft_call *call,
                             const inputs *in, PyObject *list,
                             PyObject **storages, void **data) {
  opgraft_error error;
  PyObject *guard = NULL, *results = NULL;
  holding held = {self, call, list, storages};
  call->context = &held;
  for (int32_t i = 0; i < call->storage_count; ++i) {
    data[i] = NULL;
    if (call->donated[i].tensor != NULL || call->donated[i].is_late) continue;
    storages[i] = memory_make(self, call, i, &data[i]);
    if (storages[i] == NULL) return NULL;
  }
  if (call->host_step_count > 0) {
    guard = PyObject_CallObject(self->below, NULL);
    if (guard == NULL) return NULL;
  }
  // In a lane an operator of ATen's may turn out to be Python.
  const bool frees = self->is_heavy || call->section_count > 0;
  PyThreadState *thread = frees ? PyEval_SaveThread() : NULL;
  const og_status status = UNLIKELY(self->is_profiled)
                               ? opgraft_call_profile(call, data, NULL, &error)
                               : opgraft_call_run(call, data, &error);
  if (frees) PyEval_RestoreThread(thread);
  Py_XDECREF(guard);
  const bool is_whole = given_take(call, storages);
  if (LIKELY(status == OG_OK && is_whole))
    results = outputs_make(self, call, in, list, storages);
  else if (status == OG_OK)
    PyErr_SetString(PyExc_RuntimeError,
                    "opgraft: the host left an output without memory");
  else if (!raised_restore())
    error_raise(&error);
  return results;
}

static PyObject *call_begun(compiled *self, opgraft_call *call,
                            const inputs *in, PyObject *list) {
  PyObject *on_stack[STORAGES_ON_STACK] = {NULL};
  void *data_on_stack[STORAGES_ON_STACK];
  PyObject **storages = on_stack, *results = NULL;
  void **data = data_on_stack;
  const size_t count = (size_t)call->storage_count;
  if (UNLIKELY(count > STORAGES_ON_STACK)) {
    storages = calloc(count, sizeof *storages + sizeof *data);
    if (storages == NULL) return PyErr_NoMemory();
    data = (void **)(void *)(storages + count);
  }
  results = call_replay(self, call, in, list, storages, data);
  for (size_t i = 0; i < count; ++i) Py_XDECREF(storages[i]);
  if (storages != on_stack) free(storages);
  return results;
}

// A call is written for whoever looks at it; what failed is told to the caller
// as ever, so trouble with the files is only noted.
static void repro_write(const compiled *self, const inputs *in) {
  PyObject *kind, *value, *trace;
  opgraft_error error;
  if (self->repro == NULL) return;
  PyErr_Fetch(&kind, &value, &trace);
  if (opgraft_repro_write(self->repro, in->in, in->ints,
                          self->walked.slot_count, &error) != OG_OK)
    PySys_WriteStderr("opgraft: the call's inputs could not be written: %s\n",
                      error.text);
  PyErr_Restore(kind, value, trace);
}

static bool is_misfit(og_status code) {
  return code == OG_SHAPE || code == OG_DTYPE || code == OG_DEVICE ||
         code == OG_INVALID;
}

enum { SETTLES_BYTES = 1 << 20 };  // of results, from which on it is worth it

static void call_settle(compiled *self, const opgraft_call *call) {
  size_t bytes = 0;
  for (int32_t i = 0; i < call->storage_count; ++i)
    bytes += call->storages[i].size_bytes;
  self->is_settled = true;
  if (bytes >= SETTLES_BYTES) memory_settle();
}

// AOTAutograd counts the writes of what it calls; a frozen graph is called by
// nobody else.
static int writes_count(const compiled *self, PyObject *list) {
  for (int32_t k = 0; k < self->written_count; ++k) {
    PyObject *object = input_object(self, list, self->written[k]);
    if (object == NULL || guard_bump_version(object) != 0) return -1;
  }
  return 0;
}

// Whether the collector took it apart, which something that it collects with it
// may still call; raises then.
static bool is_cleared(const compiled *self) {
  if (LIKELY(self->resolve != NULL)) return false;
  PyErr_SetString(PyExc_RuntimeError,
                  "opgraft: a compiled graph is called while it is collected");
  return true;
}

static PyObject *call_with(compiled *self, PyObject *list, inputs *in) {
  opgraft_error error = {.code = OG_OK};
  opgraft_call call = {.struct_size = sizeof call};
  if (UNLIKELY(is_cleared(self)) ||
      UNLIKELY(stack_check("a compiled graph") != 0) ||
      UNLIKELY(inputs_read(self, list, in) != 0) ||
      UNLIKELY(writes_check(self, list, in) != 0))
    return NULL;
  if (UNLIKELY(self->is_kept)) repro_write(self, in);
  if (UNLIKELY(opgraft_executable_begin(self->executable, in->in, in->ints,
                                        self->walked.slot_count, &call,
                                        &error) != OG_OK)) {
    if (raised_restore() || self->misfit == NULL || !is_misfit(error.code)) {
      if (PyErr_Occurred() == NULL) error_raise(&error);
      if (!self->is_kept) repro_write(self, in);
    } else {
      PyErr_SetString(self->misfit, error.text);
    }
    return NULL;
  }
  PyObject *results =
      LIKELY(call.reach_count == 0) || reaches_check(self, list, in, &call) == 0
          ? call_begun(self, &call, in, list)
          : NULL;
  if (UNLIKELY(results == NULL) && !self->is_kept) repro_write(self, in);
  if (UNLIKELY(!self->is_settled)) call_settle(self, &call);
  opgraft_call_end(&call);
  if (results != NULL && self->misfit != NULL && writes_count(self, list) != 0)
    Py_CLEAR(results);
  return results;
}

static og_tensor *scratch_take(compiled *self) {
  og_tensor *scratch = self->scratch;
  self->scratch = NULL;
  if (LIKELY(scratch != NULL)) return scratch;
  return malloc(((size_t)self->walked.slot_count + 1) * INPUT_BYTES);
}

static void scratch_give(compiled *self, og_tensor *scratch) {
  if (self->scratch == NULL)
    self->scratch = scratch;
  else
    free(scratch);
}

static PyObject *call_list(compiled *self, PyObject *list) {
  const size_t count = (size_t)self->walked.slot_count + 1;
  og_tensor *scratch = scratch_take(self);
  if (scratch == NULL) return PyErr_NoMemory();
  inputs in = {.tensors = scratch,
               .in = (const og_tensor **)(void *)(scratch + count)};
  in.ints = (int64_t *)(void *)(in.in + count);
  PyObject *before = graph_arguments_set(list);
  PyObject *results = call_with(self, list, &in);
  graph_arguments_set(before);
  Py_XDECREF(in.kept);
  scratch_give(self, scratch);
  graph_context_sweep(&self->context);
  // Boxed: what the caller does not hold is freed.
  if (PyList_Check(list) &&
      PyList_SetSlice(list, 0, PyList_Size(list), NULL) != 0)
    Py_CLEAR(results);
  return results;
}

PyObject *compiled_run(PyObject *object, PyObject *arguments) {
  compiled *self = (compiled *)(void *)object;
  const Py_ssize_t given = PyList_Check(arguments) ? PyList_Size(arguments)
                                                   : PyTuple_Size(arguments);
  if (given != self->walked.argument_count)
    return PyErr_Format(PyExc_TypeError,
                        "a compiled graph got %zd arguments, expected %d",
                        given, (int)self->walked.argument_count);
  Py_INCREF(object);
  PyObject *results = call_list(self, arguments);
  Py_DECREF(object);
  return results;
}

static PyObject *compiled_flat(PyObject *object, PyObject *arguments) {
  const compiled *self = (const compiled *)(const void *)object;
  PyObject *results = compiled_run(object, arguments);
  if (UNLIKELY(self->marks != NULL) && results != NULL &&
      results_mark(self->marks, results) != 0)
    Py_CLEAR(results);
  return results;
}

static PyObject *compiled_mark(PyObject *object, PyObject *marks) {
  compiled *self = (compiled *)(void *)object;
  if (!PyTuple_Check(marks))
    return PyErr_Format(PyExc_TypeError, "mark: %R is not a tuple", marks);
  Py_INCREF(marks);
  Py_XDECREF(self->marks);
  self->marks = marks;
  Py_RETURN_NONE;
}

void compiled_set_error(PyObject *object, PyObject *type) {
  compiled *self = (compiled *)(void *)object;
  Py_INCREF(type);
  Py_XDECREF(self->misfit);
  self->misfit = type;
}

static PyObject *compiled_call(PyObject *object, PyObject *arguments,
                               PyObject *keywords) {
  PyObject *list =
      PyTuple_Size(arguments) == 1 ? PyTuple_GetItem(arguments, 0) : NULL;
  if (list == NULL || keywords != NULL ||
      (!PyList_Check(list) && !PyTuple_Check(list)))
    return PyErr_Format(PyExc_TypeError,
                        "a compiled graph takes one list of arguments");
  return compiled_run(object, list);
}

// --- Making ------------------------------------------------------------------

static void dump_call(void *context, const char *pass, const char *text) {
  if (PyErr_Occurred() != NULL) return;
  PyObject *result = PyObject_CallFunction(context, "ss", pass, text);
  Py_XDECREF(result);  // an exception is seen when finish returns
}

// The graph as it was before its passes, beside the inputs that may come.
static int repro_begin(compiled *self, const char *folder) {
  opgraft_error error;
  const size_t length = strlen(folder);
  self->repro = malloc(length + sizeof "/graph.og");
  if (self->repro == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(self->repro, folder, length);
  memcpy(self->repro + length, "/graph.og", sizeof "/graph.og");
  const og_status status = opgraft_graph_save(self->graph, self->repro, &error);
  self->repro[length] = '\0';
  if (status == OG_OK) return 0;
  error_raise(&error);
  return -1;
}

static int written_find(compiled *self) {
  const size_t count = (size_t)self->walked.slot_count + 1;
  uint8_t *is_written = calloc(count, sizeof *is_written);
  self->written = calloc(count, sizeof *self->written);
  const bool has_memory = is_written != NULL && self->written != NULL;
  if (has_memory)
    opgraft_graph_written(self->graph, is_written);
  else
    PyErr_NoMemory();
  for (int32_t i = 0; has_memory && i < self->walked.slot_count; ++i)
    if (is_written[i] != 0) self->written[self->written_count++] = i;
  free(is_written);
  return has_memory ? 0 : -1;
}

static int executable_make(compiled *self, const opgraft_host *host) {
  opgraft_error error;
  const int64_t bytes = self->walked.result_bytes;
  self->is_heavy = bytes < 0 || bytes >= UNLOCK_LEAST_BYTES;
  if (opgraft_executable_create(self->graph, host, &self->executable, &error) ==
      OG_OK)
    return 0;
  error_raise(&error);
  return -1;
}

static int compiled_finish(compiled *self, int flags, const char *disable,
                           PyObject *dump, int plan_limit, int lanes,
                           const char *rules, const tuning *tuned) {
  opgraft_error error;
  opgraft_host host;
  const opgraft_options options = {
      .struct_size = sizeof options,
      .flags = (uint32_t)flags,
      .disable = disable,
      .dump = dump != Py_None ? dump_call : NULL,
      .context = dump,
  };
  if (opgraft_graph_finish(self->graph, &options, &error) != OG_OK) {
    error_raise(&error);
    return -1;
  }
  if (PyErr_Occurred() != NULL || written_find(self) != 0) return -1;
  graph_host_fill(&self->context, &host);
  // A failing call's inputs are written after it.
  if (self->lets_go && self->repro == NULL) host.memory_event = host_hold;
  host.plan_limit = plan_limit;
  host.rules = rules;
  tuning_host(tuned, &host);
  if (host.lanes == 0) host.lanes = lanes;
  return executable_make(self, &host);
}

static compiled *compiled_new(PyObject *resolve, PyObject *below) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(compiled_type, Py_tp_alloc);
  compiled *self = (compiled *)(void *)allocate(compiled_type, 0);
  if (self == NULL) return NULL;
  pthread_mutex_init(&self->context.lock, NULL);
  self->context.targets = PyList_New(0);
  self->context.recipes = PyList_New(0);
  self->context.in_python = PySet_New(NULL);
  self->resolve = resolve;
  self->below = below;
  Py_INCREF(resolve);
  Py_INCREF(below);
  if (self->context.targets == NULL || self->context.recipes == NULL ||
      self->context.in_python == NULL)
    Py_CLEAR(self);
  return self;
}

static int inputs_take(compiled *self) {
  const int32_t count = opgraft_graph_input_count(self->graph);
  walked *w = &self->walked;
  w->slots = calloc((size_t)count + 1, sizeof *w->slots);
  w->captured = PyList_New(0);
  if (w->slots == NULL) PyErr_NoMemory();
  if (w->slots == NULL || w->captured == NULL) return -1;
  for (int32_t i = 0; i < count; ++i) w->slots[i] = i;
  w->slot_count = w->slot_capacity = w->argument_count = count;
  w->result_bytes = -1;
  return 0;
}

PyObject *compiled_of(opgraft_graph *graph, uint32_t flags, PyObject *resolve,
                      PyObject *below) {
  opgraft_error error;
  opgraft_host host;
  const opgraft_options options = {.struct_size = sizeof options,
                                   .flags = flags};
  compiled *self = compiled_new(resolve, below);
  if (self == NULL) {
    opgraft_graph_release(graph);
    return NULL;
  }
  self->graph = self->walked.graph = graph;
  int status = -1;
  if (opgraft_graph_finish(graph, &options, &error) == OG_OK)
    status = inputs_take(self) == 0 ? written_find(self) : -1;
  else
    error_raise(&error);
  graph_host_fill(&self->context, &host);
  host.prepare = NULL;
  host.run = NULL;
  host.release = NULL;
  host.log = tuning_say;
  if (status == 0) status = executable_make(self, &host);
  if (status != 0) Py_CLEAR(self);
  return (PyObject *)(void *)self;
}

// graph_compile(name, nodes, tools, others, recipe_find, resolve, below,
// flags, disable, dump, plan_limit, lanes, rules, constant_bytes, repro, keep,
// lets_go, recycles, weights_stay, tune_ns, tune_with, shown) -> callable.
// Raises NotImplementedError for a graph that the engine cannot express.
PyObject *graph_compile(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *name, *nodes, *tools, *others, *recipe_find, *resolve, *below;
  PyObject *dump, *shown;
  const char *disable, *rules, *repro;
  int flags, plan_limit, lanes, keep, lets_go, recycles;
  tuning tuned;
  long long constant_bytes;
  if (!PyArg_ParseTuple(
          arguments, "UO!O!O!OOOizOiizLzppppLsS", &name, &PyList_Type, &nodes,
          &PyTuple_Type, &tools, &PyDict_Type, &others, &recipe_find, &resolve,
          &below, &flags, &disable, &dump, &plan_limit, &lanes, &rules,
          &constant_bytes, &repro, &keep, &lets_go, &recycles,
          &tuned.weights_stay, &tuned.most_ns, &tuned.with, &shown))
    return NULL;
  compiled *self = compiled_new(resolve, below);
  if (self == NULL) return NULL;
  self->context.constant_bytes = constant_bytes;
  self->is_kept = keep != 0;
  self->lets_go = lets_go != 0;
  self->recycled.is_on = recycles != 0;
  self->context.others = others;
  self->context.recipe_find = recipe_find;
  Py_INCREF(others);
  Py_INCREF(recipe_find);
  int status = shown_set(&self->shown, shown);
  if (status == 0)
    status = graph_walk(name, nodes, tools, &self->context, &self->walked);
  self->graph = self->walked.graph;
  if (status == 0 && repro != NULL) status = repro_begin(self, repro);
  if (status == 0)
    status = compiled_finish(self, flags, disable, dump, plan_limit, lanes,
                             rules, &tuned);
  if (status != 0) Py_CLEAR(self);
  return (PyObject *)(void *)self;
}

// --- The object --------------------------------------------------------------

// What it holds of Python, each of which may lead back to it.
#define COMPILED_HOLDS(X) \
  X(context.targets)      \
  X(context.recipes)      \
  X(context.in_python)    \
  X(context.others)       \
  X(context.recipe_find)  \
  X(walked.captured) X(resolve) X(below) X(marks) X(misfit)

static int compiled_traverse(PyObject *object, visitproc visit, void *arg) {
  const compiled *self = (const compiled *)(const void *)object;
  Py_VISIT(Py_TYPE(object));
#define X(field) Py_VISIT(self->field);
  COMPILED_HOLDS(X)
#undef X
  return 0;
}

static int compiled_clear(PyObject *object) {
  compiled *self = (compiled *)(void *)object;
#define X(field) Py_CLEAR(self->field);
  COMPILED_HOLDS(X)
#undef X
  return 0;
}

static void compiled_dealloc(PyObject *object) {
  compiled *self = (compiled *)(void *)object;
  PyTypeObject *type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  PyObject_ClearWeakRefs(object);
  opgraft_executable_release(self->executable);
  if (self->graph != NULL) opgraft_graph_release(self->graph);
  recycle_reset(&self->recycled);
  graph_context_sweep(&self->context);
  pthread_mutex_destroy(&self->context.lock);
  compiled_clear(object);
  free(self->shown.as);
  free(self->repro);
  free(self->walked.slots);
  free(self->written);
  free(self->scratch);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

typedef size_t (*text_fn)(const void *, char *, size_t);

static PyObject *text_get(text_fn print, const void *of) {
  const size_t length = print(of, NULL, 0);
  char *text = malloc(length + 1);
  if (text == NULL) return PyErr_NoMemory();
  print(of, text, length + 1);
  PyObject *result = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
  free(text);
  return result;
}

static size_t describe(const void *of, char *text, size_t size) {
  return opgraft_executable_describe(of, text, size);
}
static size_t print_schedule(const void *of, char *text, size_t size) {
  return opgraft_executable_schedule(of, text, size);
}
static size_t print_rules(const void *of, char *text, size_t size) {
  return opgraft_executable_rules(of, text, size);
}
static size_t print_graph(const void *of, char *text, size_t size) {
  return opgraft_graph_print(of, text, size);
}

static PyObject *compiled_stats(PyObject *object, PyObject *none) {
  (void)none;
  return text_get(describe, ((compiled *)(void *)object)->executable);
}

static PyObject *compiled_rules(PyObject *object, PyObject *none) {
  (void)none;
  return text_get(print_rules, ((compiled *)(void *)object)->executable);
}

static PyObject *compiled_profile(PyObject *object, PyObject *is_on) {
  compiled *self = (compiled *)(void *)object;
  self->is_profiled = PyObject_IsTrue(is_on) == 1;
  return text_get(print_schedule, self->executable);
}

static PyObject *compiled_text(PyObject *object, PyObject *none) {
  (void)none;
  return text_get(print_graph, ((compiled *)(void *)object)->graph);
}

// plan({symbol: value}): plans these sizes beforehand.
static PyObject *compiled_plan(PyObject *object, PyObject *sizes) {
  compiled *self = (compiled *)(void *)object;
  enum { SYMBOL_MAX = 64 };
  const char *symbols[SYMBOL_MAX];
  int64_t values[SYMBOL_MAX];
  int32_t count = 0;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  opgraft_error error;
  if (is_cleared(self)) return NULL;
  if (!PyDict_Check(sizes) || PyDict_Size(sizes) > SYMBOL_MAX)
    return PyErr_Format(PyExc_TypeError,
                        "plan: found %R, expected a dict of at most %d sizes",
                        sizes, SYMBOL_MAX);
  while (PyDict_Next(sizes, &at, &key, &value)) {
    symbols[count] = PyUnicode_AsUTF8AndSize(key, NULL);
    values[count] = PyLong_AsLongLong(value);
    if (symbols[count] == NULL || PyErr_Occurred() != NULL) return NULL;
    ++count;
  }
  if (opgraft_executable_plan(self->executable, symbols, values, count,
                              &error) != OG_OK) {
    if (raised_restore()) return NULL;
    return error_raise(&error);
  }
  graph_context_sweep(&self->context);
  Py_RETURN_NONE;
}

PyObject *graph_is_boxed(PyObject *object, void *none) {
  (void)object;
  (void)none;
  Py_RETURN_TRUE;
}

static PyObject *compiled_count(PyObject *object, void *none) {
  (void)none;
  return PyLong_FromLong(((compiled *)(void *)object)->walked.argument_count);
}

static PyObject *compiled_in_python(PyObject *object, void *none) {
  (void)none;
  const compiled *self = (const compiled *)(const void *)object;
  return is_cleared(self) ? NULL : PySequence_List(self->context.in_python);
}

static PyMethodDef compiled_methods[] = {
    {"flat", compiled_flat, METH_VARARGS, "A call with plain arguments."},
    {"mark", compiled_mark, METH_O, "What `flat` says of its results."},
    {"stats", compiled_stats, METH_NOARGS, "What happened, as JSON."},
    {"rules", compiled_rules, METH_NOARGS, "Which kernel runs which node."},
    {"profile", compiled_profile, METH_O,
     "Whether calls time their nodes; the last plan, as JSON."},
    {"text", compiled_text, METH_NOARGS, "The graph after its passes."},
    {"plan", compiled_plan, METH_O, "Plans sizes beforehand."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef compiled_getset[] = {
    {"_boxed_call", graph_is_boxed, NULL, "It takes one list.", NULL},
    {"argument_count", compiled_count, NULL, "In that list.", NULL},
    {"in_python", compiled_in_python, NULL, "Operators that Python runs.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef compiled_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(compiled, weak), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot compiled_slots[] = {
    {Py_tp_dealloc, compiled_dealloc}, {Py_tp_traverse, compiled_traverse},
    {Py_tp_clear, compiled_clear},     {Py_tp_call, compiled_call},
    {Py_tp_methods, compiled_methods}, {Py_tp_getset, compiled_getset},
    {Py_tp_members, compiled_members}, {0, NULL},
};

static PyType_Spec compiled_spec = {
    .name = "opgraft._C.CompiledGraph",
    .basicsize = sizeof(compiled),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = compiled_slots,
};

int compiled_setup(void) {
  compiled_type = (PyTypeObject *)(void *)PyType_FromSpec(&compiled_spec);
  return compiled_type != NULL ? 0 : -1;
}
