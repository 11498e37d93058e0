// SPDX-License-Identifier: Apache-2.0
// May the fast path be taken?
//
// Two sets of tests answer that. The published one calls what torch's Python
// API offers. The quick one reads what torch does not publish: the thread's
// dispatch words, a tensor's dispatch keys and gradient pointer. Where those
// lie is not assumed: guard_learn is shown tensors and modes whose answers are
// known, looks for words that tell them apart, reads memory only through the
// kernel while it looks, and leaves the published tests in place unless every
// sample is told right.

#include "torch/base/guard.h"

#include <dlfcn.h>
#include <string.h>

#include "torch/base/host.h"
#include "torch/base/layout.h"
#include "torch/base/types.h"

enum { OBJECT_WORDS = 8 };

PyTypeObject *guard_tensor_type;
PyTypeObject *guard_parameter_type;
static PyObject *requires_grad_descriptor;
static descrgetfunc requires_grad_get;
static PyCFunction dispatch_stack_length, function_stack_length;
static PyObject *dispatch_stack_self, *function_stack_self;
static PyObject *is_tracing;
static PyObject *dispatch_keys_are_plain;  // (tensor) -> bool, published calls
static PyObject *autocast_enabled;
static PyObject *increment_version;
static PyObject *check_write;  // (tensor): raises where torch forbids a write
static PyObject *profiler_names;  // the profiler module's globals
static PyObject *profiler_flag;   // the name of the one that says it is on
static PyObject *forward_names;   // torch.autograd.forward_ad's globals
static PyObject *forward_level;   // the name of its level, below 0: off

// What guard_learn found, beside `torch_layout`.
static struct {
  bool has_words;         // thread words tell modes apart
  bool has_wrap;          // wrap_tensor makes tensors
  bool has_bump;          // bump_version counts
  uint64_t quiet[2];      // the thread's words, nothing in play
  uint64_t inference[2];  // the same inside inference_mode
} learnt;

static _Thread_local const uint64_t *thread_words;

static const uint64_t *words_get(void) {
  if (UNLIKELY(thread_words == NULL))
    thread_words = dlsym(shim.c10, "_ZN3c104impl26raw_local_dispatch_key_setE");
  return thread_words;
}

// --- Published tests ---------------------------------------------------------

static bool is_zero(PyObject *result) {
  const bool is_quiet =
      result != NULL && (result == Py_False || PyLong_AsLong(result) == 0);
  Py_XDECREF(result);
  if (UNLIKELY(PyErr_Occurred() != NULL)) PyErr_Clear();
  return is_quiet;
}

static bool is_false(PyObject *callable, PyObject *argument) {
  PyObject *result =
      PyObject_CallFunctionObjArgs(callable, argument, (PyObject *)NULL);
  Py_XDECREF(result);
  if (result == NULL) PyErr_Clear();
  return result == Py_False;
}

static bool published_is_quiet(void) {
  return is_zero(dispatch_stack_length(dispatch_stack_self, NULL)) &&
         is_zero(function_stack_length(function_stack_self, NULL)) &&
         is_false(is_tracing, NULL) && is_false(autocast_enabled, NULL);
}

static bool published_is_plain(PyObject *tensor) {
  PyObject *result = PyObject_CallFunctionObjArgs(dispatch_keys_are_plain,
                                                  tensor, (PyObject *)NULL);
  Py_XDECREF(result);
  if (result == NULL) PyErr_Clear();
  return result == Py_True;
}

// --- The tests ---------------------------------------------------------------

// A profiler shows what goes through the dispatcher, by name.
static bool is_profiled(void) {
  return PyDict_GetItemWithError(profiler_names, profiler_flag) == Py_True;
}

bool guard_is_quiet(void) {
  if (UNLIKELY(is_profiled())) return false;
  if (UNLIKELY(!learnt.has_words)) return published_is_quiet();
  const uint64_t *words = words_get();
  const bool is_usual =
      words[0] == learnt.quiet[0] && words[1] == learnt.quiet[1];
  if (UNLIKELY(!is_usual) &&
      (words[0] != learnt.inference[0] || words[1] != learnt.inference[1]))
    return false;
  return shim.function_stack_length() == 0;
}

bool guard_modes(uint64_t *out) {
  if (UNLIKELY(!learnt.has_words)) return false;
  *out = words_get()[0];
  return true;
}

bool guard_is_plain(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (UNLIKELY(type != guard_tensor_type && type != guard_parameter_type))
    return false;
  if (UNLIKELY(!torch_layout.has_keys)) return published_is_plain(object);
  const uint64_t keys = layout_word(layout_impl(object), torch_layout.keys);
  return keys == torch_layout.plain || keys == torch_layout.plain_inference;
}

bool guard_is_forward(void) {
  PyObject *level = PyDict_GetItem(forward_names, forward_level);
  return level != NULL && PyLong_AsLong(level) >= 0;
}

// What carries a tangent has what autograd keeps of a tensor.
bool guard_may_be_dual(PyObject *object) {
  if (LIKELY(torch_layout.has_keys &&
             layout_word(layout_impl(object), torch_layout.gradient) == 0))
    return false;
  return guard_is_forward();
}

bool guard_requires_grad(PyObject *object) {
  if (torch_layout.has_keys &&
      layout_word(layout_impl(object), torch_layout.gradient) == 0)
    return false;
  PyObject *result = requires_grad_get(requires_grad_descriptor, object,
                                       (PyObject *)Py_TYPE(object));
  Py_XDECREF(result);
  if (result == NULL) PyErr_Clear();
  return result != Py_False;
}

tensor_handle guard_handle(PyObject *tensor) {
  return torch_layout.has_keys
             ? (tensor_handle)(void *)((char *)tensor + torch_layout.impl)
             : NULL;
}

bool guard_can_wrap(void) { return learnt.has_wrap; }

int guard_check_write(PyObject *tensor) {
  if (LIKELY(torch_layout.has_keys && learnt.has_words)) {
    if (LIKELY(layout_is_counted(tensor))) return 0;
    if (words_get()[0] == learnt.inference[0]) return 0;
  }
  PyObject *result =
      PyObject_CallFunctionObjArgs(check_write, tensor, (PyObject *)NULL);
  Py_XDECREF(result);
  return result == NULL ? -1 : 0;
}

int guard_bump_version(PyObject *tensor) {
  if (LIKELY(learnt.has_bump)) {
    // An inference tensor has no counter.
    if (LIKELY(layout_is_counted(tensor))) {
      shim.bump_version((const char *)tensor + torch_layout.impl);
      return 0;
    }
    if (words_get()[0] == learnt.inference[0]) return 0;
  }
  PyObject *result = PyObject_CallFunction(increment_version, "((O))", tensor);
  Py_XDECREF(result);
  return result == NULL ? -1 : 0;
}

// --- Learning ----------------------------------------------------------------

typedef struct samples {
  PyObject *fresh;      // tuple of plain tensors that autograd never saw
  PyObject *plain;      // tuple of plain tensors, none of which needs a grad
  PyObject *gradient;   // tuple of plain tensors that need one
  PyObject *inference;  // tuple of inference tensors
  PyObject *special;    // tuple of tensors that must be refused
  PyObject *sized;      // tuple of plain tensors of many ranks and types
} samples;

// Whether word `at` is `value` in each tensor of the tuple (or in none).
static bool tuple_agrees(PyObject *tuple, size_t impl, size_t at,
                         uint64_t value, bool want_equal) {
  uint64_t words[LAYOUT_WORDS];
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    if (!layout_peek(PyTuple_GetItem(tuple, i), impl, words)) return false;
    if ((words[at] == value) != want_equal) return false;
  }
  return true;
}

static bool keys_fit(const samples *s, size_t impl, size_t at, uint64_t plain,
                     uint64_t inference) {
  return plain != 0 && plain != inference &&
         tuple_agrees(s->fresh, impl, at, plain, true) &&
         tuple_agrees(s->plain, impl, at, plain, true) &&
         tuple_agrees(s->gradient, impl, at, plain, true) &&
         tuple_agrees(s->inference, impl, at, inference, true) &&
         tuple_agrees(s->special, impl, at, plain, false) &&
         tuple_agrees(s->special, impl, at, inference, false);
}

// The pointer to what autograd keeps: absent in tensors that it never saw. A
// view has one too, so a pointer that is there only asks for a closer look.
static bool gradient_find(const samples *s, size_t impl, size_t *out_at) {
  for (size_t at = 0; at < LAYOUT_WORDS; ++at)
    if (tuple_agrees(s->fresh, impl, at, 0, true) &&
        tuple_agrees(s->gradient, impl, at, 0, false)) {
      *out_at = at;
      return true;
    }
  return false;
}

static bool keys_learn(const samples *s) {
  uint64_t plain[LAYOUT_WORDS], inference[LAYOUT_WORDS];
  for (size_t i = 2; i < OBJECT_WORDS; ++i) {
    const size_t impl = i * 8;
    if (PyTuple_Size(s->fresh) == 0 ||
        !layout_peek(PyTuple_GetItem(s->fresh, 0), impl, plain) ||
        !layout_peek(PyTuple_GetItem(s->inference, 0), impl, inference))
      continue;
    for (size_t at = 0; at < LAYOUT_WORDS; ++at) {
      size_t gradient;
      if (!keys_fit(s, impl, at, plain[at], inference[at])) continue;
      if (!gradient_find(s, impl, &gradient)) return false;
      torch_layout.impl = impl;
      torch_layout.keys = at * 8;
      torch_layout.gradient = gradient * 8;
      torch_layout.plain = plain[at];
      torch_layout.plain_inference = inference[at];
      return true;
    }
  }
  return false;
}

// words: (mode name, word 0, word 1)... as guard_words saw them.
static bool words_learn(PyObject *seen) {
  uint64_t quiet[2] = {0, 0}, inference[2] = {0, 0};
  PyObject *first = PyTuple_GetItem(seen, 0);
  PyObject *second = PyTuple_GetItem(seen, 1);
  for (int i = 0; i < 2; ++i) {
    quiet[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(first, i));
    inference[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(second, i));
  }
  for (Py_ssize_t m = 2; m < PyTuple_Size(seen); ++m) {
    PyObject *pair = PyTuple_GetItem(seen, m);
    uint64_t mode[2];
    for (int i = 0; i < 2; ++i)
      mode[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, i));
    if ((mode[0] == quiet[0] && mode[1] == quiet[1]) ||
        (mode[0] == inference[0] && mode[1] == inference[1]))
      return false;
  }
  memcpy(learnt.quiet, quiet, sizeof quiet);
  memcpy(learnt.inference, inference, sizeof inference);
  return PyErr_Occurred() == NULL;
}

static bool wrap_works(void) {
  const int64_t size = 3, stride = 1;
  int32_t code;
  tensor_handle handle;
  og_tensor view;
  if (shim.wrap_tensor == NULL ||
      dtype_to_shim((og_dtype){OG_CODE_FLOAT, 32, 1}, &code) != 0 ||
      shim.aoti_torch_empty_strided(1, &size, &stride, code,
                                    shim.aoti_torch_device_type_cpu(), 0,
                                    &handle) != 0)
    return false;
  void *data = NULL;
  shim.aoti_torch_get_data_ptr(handle, &data);
  PyObject *object = shim.wrap_tensor(handle);
  shim.aoti_torch_delete_tensor_object(handle);
  const bool works = object != NULL && Py_TYPE(object) == guard_tensor_type &&
                     exchange->tensor_from_object(object, &view) == 0 &&
                     view.data == data && view.ndim == 1 && view.shape[0] == 3;
  Py_XDECREF(object);
  return works;
}

// Whether the handle inside an object answers as the object does.
static bool handle_works(PyObject *tensor) {
  og_tensor view;
  void *data = NULL;
  int64_t rank = -1, *sizes = NULL;
  tensor_handle handle = guard_handle(tensor);
  return exchange->tensor_from_object(tensor, &view) == 0 &&
         shim.aoti_torch_get_data_ptr(handle, &data) == 0 &&
         shim.aoti_torch_get_dim(handle, &rank) == 0 &&
         shim.aoti_torch_get_sizes(handle, &sizes) == 0 && data == view.data &&
         rank == view.ndim &&
         memcmp(sizes, view.shape, (size_t)rank * sizeof *sizes) == 0;
}

static bool bump_works(PyObject *tensor) {
  PyObject *before = PyObject_GetAttrString(tensor, "_version");
  if (before == NULL) return false;
  shim.bump_version((const char *)tensor + torch_layout.impl);
  PyObject *after = PyObject_GetAttrString(tensor, "_version");
  const bool works =
      after != NULL && PyLong_AsLong(after) == PyLong_AsLong(before) + 1;
  Py_DECREF(before);
  Py_XDECREF(after);
  return works;
}

// (dispatch words of this thread) as a pair: shown to guard_learn later.
static PyObject *words_now(void) {
  const uint64_t *words = shim.c10 != NULL ? words_get() : NULL;
  if (words == NULL) return Py_BuildValue("KK", 0ULL, 0ULL);
  return Py_BuildValue("KK", (unsigned long long)words[0],
                       (unsigned long long)words[1]);
}

// guard_learn(): this thread's words. guard_learn(words, fresh, plain,
// gradient, inference, special, sized, function_stack): learns; True where all
// of it worked.
PyObject *guard_learn(PyObject *self, PyObject *arguments) {
  (void)self;
  if (PyTuple_Size(arguments) == 0) return words_now();
  PyObject *words;
  samples s;
  int function_stack_moves;
  if (!PyArg_ParseTuple(arguments, "OOOOOOOp", &words, &s.fresh, &s.plain,
                        &s.gradient, &s.inference, &s.special, &s.sized,
                        &function_stack_moves))
    return NULL;
  memset(&learnt, 0, sizeof learnt);
  memset(&torch_layout, 0, sizeof torch_layout);
  const bool has_thread = shim.c10 != NULL && words_get() != NULL &&
                          shim.function_stack_length != NULL;
  const bool has_words =
      has_thread && function_stack_moves && words_learn(words);
  torch_layout.has_keys = keys_learn(&s);
  if (torch_layout.has_keys)
    torch_layout.has_keys = handle_works(PyTuple_GetItem(s.fresh, 0));
  layout_learn_sizes(s.sized);
  learnt.has_words = has_words;
  learnt.has_wrap = wrap_works();
  learnt.has_bump = torch_layout.has_keys && learnt.has_words &&
                    shim.bump_version != NULL &&
                    bump_works(PyTuple_GetItem(s.fresh, 0));
  if (PyErr_Occurred() != NULL) PyErr_Clear();
  return PyBool_FromLong(learnt.has_words && torch_layout.has_sizes &&
                         learnt.has_wrap && learnt.has_bump);
}

// Back to published calls only.
PyObject *guard_forget(PyObject *self, PyObject *arguments) {
  (void)self;
  (void)arguments;
  memset(&learnt, 0, sizeof learnt);
  memset(&torch_layout, 0, sizeof torch_layout);
  Py_RETURN_NONE;
}

// The function stack's length, for the self-test.
static long stack_now(void) {
  return shim.function_stack_length != NULL ? (long)shim.function_stack_length()
                                            : -1;
}

PyObject *guard_state(PyObject *self, PyObject *arguments) {
  (void)self;
  (void)arguments;
  return Py_BuildValue("{s:O,s:O,s:O,s:O,s:O,s:l}", "words",
                       learnt.has_words ? Py_True : Py_False, "keys",
                       torch_layout.has_keys ? Py_True : Py_False, "sizes",
                       torch_layout.has_sizes ? Py_True : Py_False, "wrap",
                       learnt.has_wrap ? Py_True : Py_False, "bump",
                       learnt.has_bump ? Py_True : Py_False, "function_stack",
                       stack_now());
}

static void keep(PyObject **slot, PyObject *object) {
  Py_INCREF(object);
  Py_XDECREF(*slot);
  *slot = object;
}

// guard_setup(Tensor, Parameter, requires_grad, dispatch stack, function
// stack, is_tracing, keys_are_plain, autocast, increment_version, profiler's
// globals, forward_ad's, check_write)
PyObject *guard_setup(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *a[12];
  if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOOO", &a[0], &a[1], &a[2], &a[3],
                        &a[4], &a[5], &a[6], &a[7], &a[8], &a[9], &a[10],
                        &a[11]))
    return NULL;
  if (PyCFunction_GetFlags(a[3]) != METH_NOARGS ||
      PyCFunction_GetFlags(a[4]) != METH_NOARGS) {
    PyErr_SetString(PyExc_RuntimeError,
                    "opgraft: torch's mode counters have another form than "
                    "before; this version of torch is not supported");
    return NULL;
  }
  static PyObject *tensor_object, *parameter_object, *stacks[2];
  keep(&tensor_object, a[0]);
  keep(&parameter_object, a[1]);
  keep(&requires_grad_descriptor, a[2]);
  keep(&stacks[0], a[3]);
  keep(&stacks[1], a[4]);
  keep(&is_tracing, a[5]);
  keep(&dispatch_keys_are_plain, a[6]);
  keep(&autocast_enabled, a[7]);
  keep(&increment_version, a[8]);
  keep(&profiler_names, a[9]);
  if (profiler_flag == NULL)
    profiler_flag = PyUnicode_InternFromString("_is_profiler_enabled");
  keep(&forward_names, a[10]);
  if (forward_level == NULL)
    forward_level = PyUnicode_InternFromString("_current_level");
  keep(&check_write, a[11]);
  guard_tensor_type = (PyTypeObject *)(void *)tensor_object;
  guard_parameter_type = (PyTypeObject *)(void *)parameter_object;
  requires_grad_get =
      (descrgetfunc)PyType_GetSlot(Py_TYPE(a[2]), Py_tp_descr_get);
  dispatch_stack_length = PyCFunction_GetFunction(a[3]);
  dispatch_stack_self = PyCFunction_GetSelf(a[3]);
  function_stack_length = PyCFunction_GetFunction(a[4]);
  function_stack_self = PyCFunction_GetSelf(a[4]);
  Py_RETURN_NONE;
}
