// SPDX-License-Identifier: Apache-2.0
// Adopted Python callables: pybind11 and nanobind functions, builtins, plain
// Python, launchers.
//
// The fast path and the dispatcher's kernel hand the caller's own objects on
// (adopt_python_finish); where only memory is known, as in a replay or in a
// check, tensors are made that borrow it for the length of the call.
//
// Invariant: what the callable answers is looked at before anyone else sees
// it: type, shape, new memory, no hidden gradient. A rule that is not kept is
// an error at the first call, not a wrong number in a compiled graph.

#include "torch/adopt/adopt_python.h"

#include <stdlib.h>
#include <string.h>

#include "torch/adopt/adopt.h"
#include "torch/adopt/adopt_share.h"
#include "torch/base/attr.h"
#include "torch/base/guard.h"
#include "torch/base/raised.h"
#include "torch/base/shim.h"
#include "torch/base/types.h"

typedef struct python_param {
  const char *name;  // the operator's, which outlives this
  int32_t index;     // among the tensors, or among the others
  bool is_tensor;
  bool is_list;
  bool is_mutated;
  bool is_dense;  // its strides must be row-major
} python_param;

typedef struct adopted_python {
  adopted base;
  PyObject *callable;
  PyObject *keywords;  // names of the last items, a tuple
  // What the callable takes, in order: a parameter, or -1 - fresh result.
  int32_t items[HOST_PARAM_MAX + OPGRAFT_OUT_MAX];
  int32_t item_count;
  python_param params[HOST_PARAM_MAX];
  int32_t param_count;
  // Where the fresh results stand in its answer; result_count is 1: they are
  // the answer itself.
  int32_t places[OPGRAFT_OUT_MAX];
  int32_t fresh_count;
  int32_t mutated_count;
  int32_t result_count;
  bool returns;
  bool is_gradient;  // it may return None for zeros
  bool is_watched;   // the next call is held against what is declared as read
  PyObject *names;   // of the results, a tuple
} adopted_python;

static const adopted_python *python_of(const adopted *self) {
  return (const adopted_python *)(const void *)self;
}

// --- Reading the payload -----------------------------------------------------

static int ints_read(PyObject *tuple, int32_t *out, int32_t most,
                     int32_t *out_count) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  if (count < 0 || count > most) {
    if (count > most) PyErr_SetString(PyExc_ValueError, "too many arguments");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    out[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(tuple, i));
  *out_count = (int32_t)count;
  return PyErr_Occurred() != NULL ? -1 : 0;
}

// (callable, items, keyword names, returns, whether it is a gradient's)
static int payload_read(adopted *base, PyObject *payload) {
  adopted_python *self = (adopted_python *)(void *)base;
  PyObject *items;
  int returns, is_gradient;
  if (!PyArg_ParseTuple(payload, "OO!O!pp", &self->callable, &PyTuple_Type,
                        &items, &PyTuple_Type, &self->keywords, &returns,
                        &is_gradient)) {
    self->callable = self->keywords = NULL;
    return -1;
  }
  Py_INCREF(self->callable);
  Py_INCREF(self->keywords);
  self->is_watched = true;
  self->returns = returns != 0;
  self->is_gradient = is_gradient != 0;
  return ints_read(items, self->items, HOST_PARAM_MAX + OPGRAFT_OUT_MAX,
                   &self->item_count);
}

static void params_bind(adopted_python *self, const opgraft_op *op) {
  opgraft_param_info info = {.struct_size = sizeof info};
  opgraft_tensor_info tensor = {.struct_size = sizeof tensor};
  for (int32_t p = 0; opgraft_op_get_param(op, p, &info) == OG_OK; ++p) {
    python_param *param = &self->params[self->param_count++];
    const bool is_tensor = info.tensor >= 0;
    if (is_tensor) opgraft_op_get_tensor(op, info.tensor, &tensor);
    *param = (python_param){
        .name = info.name,
        .index = is_tensor ? info.tensor : info.attr,
        .is_tensor = is_tensor,
        .is_list = (info.flags & OPGRAFT_PARAM_LIST) != 0,
        .is_mutated = (info.flags & OPGRAFT_PARAM_MUTATED) != 0,
        .is_dense = is_tensor && tensor.strides != OPGRAFT_STRIDES_ANY,
    };
    self->mutated_count += param->is_mutated;
  }
}

static int results_bind(adopted_python *self, const opgraft_op *op) {
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_result_info result = {.struct_size = sizeof result};
  opgraft_op_get_info(op, &info);
  self->result_count = info.result_count;
  self->names = PyTuple_New(info.result_count);
  if (self->names == NULL) return -1;
  for (int32_t r = 0; r < info.result_count; ++r) {
    opgraft_op_get_result(op, r, &result);
    if (result.fresh >= 0) self->places[self->fresh_count++] = r;
    PyObject *name = PyUnicode_FromString(result.name);
    if (name == NULL) return -1;
    PyTuple_SetItem(self->names, r, name);
  }
  return 0;
}

static int declaration_bind(adopted *base, const opgraft_op *op) {
  adopted_python *self = (adopted_python *)(void *)base;
  params_bind(self, op);
  return results_bind(self, op);
}

static void payload_reset(adopted *base) {
  adopted_python *self = (adopted_python *)(void *)base;
  Py_CLEAR(self->callable);
  Py_CLEAR(self->keywords);
  Py_CLEAR(self->names);
}

// --- The call ----------------------------------------------------------------

static PyObject *callable_call(const adopted_python *self,
                               PyObject *const *values,
                               PyObject *const *fresh) {
  const Py_ssize_t named = PyTuple_Size(self->keywords);
  const Py_ssize_t plain = self->item_count - named;
  PyObject *tuple = PyTuple_New(plain);
  PyObject *dict = named > 0 ? PyDict_New() : NULL;
  PyObject *answer = NULL;
  if (tuple != NULL && (named == 0 || dict != NULL) &&
      stack_check(self->base.name) == 0) {
    for (int32_t i = 0; i < self->item_count; ++i) {
      const int32_t item = self->items[i];
      PyObject *value = item >= 0 ? values[item] : fresh[-1 - item];
      if (i >= plain) {
        PyDict_SetItem(dict, PyTuple_GetItem(self->keywords, i - plain), value);
        continue;
      }
      Py_INCREF(value);
      PyTuple_SetItem(tuple, i, value);
    }
    answer = PyObject_Call(self->callable, tuple, dict);
  }
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  return answer;
}

static PyObject *results_module(void) {
  return PyImport_ImportModule("opgraft._adopt.results");
}

// The answer as a tuple or list where there are several results; steals it.
static PyObject *answer_settle(const adopted_python *self, PyObject *answer) {
  if (!self->returns || self->result_count == 1 || PyTuple_Check(answer) ||
      PyList_Check(answer))
    return answer;
  PyObject *module = results_module();
  PyObject *settled =
      module == NULL
          ? NULL
          : PyObject_CallMethod(module, "several_from", "sOO", self->base.name,
                                answer, self->names);
  Py_XDECREF(module);
  Py_DECREF(answer);
  return settled;
}

// Fresh result `index` in the answer, borrowed.
static PyObject *answer_get(const adopted_python *self, PyObject *answer,
                            int32_t index) {
  if (self->result_count == 1) return answer;
  const bool is_tuple = PyTuple_Check(answer);
  const Py_ssize_t count = is_tuple               ? PyTuple_Size(answer)
                           : PyList_Check(answer) ? PyList_Size(answer)
                                                  : -1;
  if (count != self->result_count) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s: its schema has %d results, the callable returned %s%R; "
                 "fix the schema",
                 self->base.name, (int)self->result_count,
                 count < 0 ? "" : "a sequence of another length: ",
                 (PyObject *)Py_TYPE(answer));
    return NULL;
  }
  return is_tuple ? PyTuple_GetItem(answer, self->places[index])
                  : PyList_GetItem(answer, self->places[index]);
}

// --- Looking at results ------------------------------------------------------

static bool is_dense(const og_tensor *tensor) {
  int64_t wanted = 1;
  if (tensor->strides == NULL) return true;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] == 0) return true;
    if (tensor->shape[i] > 1 && tensor->strides[i] != wanted) return false;
    wanted *= tensor->shape[i];
  }
  return true;
}

static void tensor_print(const og_tensor *tensor, char *out, size_t size) {
  static const char *const codes[] = {"i", "u", "f", "?", "bf", "c", "bool"};
  const char *code = tensor->dtype.code < 7 ? codes[tensor->dtype.code] : "?";
  int used = tensor->dtype.code == OG_CODE_BOOL
                 ? PyOS_snprintf(out, size, "bool[")
                 : PyOS_snprintf(out, size, "%s%d[", code, tensor->dtype.bits);
  for (int32_t i = 0; i < tensor->ndim && used + 24 < (int)size; ++i)
    used += PyOS_snprintf(out + used, size - (size_t)used, "%s%lld",
                          i > 0 ? ", " : "", (long long)tensor->shape[i]);
  PyOS_snprintf(out + used, size - (size_t)used, "]");
}

static bool is_as_declared(const adopted_python *self, int32_t index,
                           const og_tensor *found, const og_tensor *wanted) {
  bool is_equal = found->ndim == wanted->ndim &&
                  found->dtype.code == wanted->dtype.code &&
                  found->dtype.bits == wanted->dtype.bits;
  for (int32_t i = 0; is_equal && i < found->ndim; ++i)
    is_equal = found->shape[i] == wanted->shape[i];
  if (is_equal) return true;
  char is[256], should[256];
  tensor_print(found, is, sizeof is);
  tensor_print(wanted, should, sizeof should);
  PyErr_Format(PyExc_RuntimeError,
               "%s: result %d is %s here, its rules say %s; fix the shape or "
               "dtype rule, or the callable",
               self->base.name, (int)self->places[index], is, should);
  return false;
}

// Whether the result shares memory with an argument.
static bool is_shared(const adopted_python *self, const og_call *call,
                      const og_tensor *found) {
  for (int32_t p = 0; p < self->param_count; ++p) {
    const python_param *param = &self->params[p];
    if (!param->is_tensor) continue;
    const og_tensor *given = call->in[param->index];
    const og_tensor_list *list = &call->in_list[param->index];
    if (given != NULL && opgraft_tensors_overlap(found, given)) return true;
    for (int64_t i = 0; given == NULL && i < list->count; ++i)
      if (list->tensors[i] != NULL &&
          opgraft_tensors_overlap(found, list->tensors[i]))
        return true;
  }
  return false;
}

// A row-major copy that no gradient flows through.
static PyObject *copy_apart(PyObject *found, const og_tensor *view) {
  PyObject *plain = PyObject_CallMethod(found, "detach", NULL);
  const char *copy = is_dense(view) ? "clone" : "contiguous";
  PyObject *made =
      plain != NULL ? PyObject_CallMethod(plain, copy, NULL) : NULL;
  Py_XDECREF(plain);
  return made;
}

static PyObject *sizes_object(const og_tensor *tensor) {
  PyObject *sizes = PyTuple_New(tensor->ndim);
  for (int32_t i = 0; sizes != NULL && i < tensor->ndim; ++i)
    PyTuple_SetItem(sizes, i, PyLong_FromLongLong(tensor->shape[i]));
  return sizes;
}

// A number, an array or None of a gradient as a tensor. `found`
// itself where it is none of these.
static PyObject *tensor_from(const adopted_python *self, PyObject *found,
                             const og_tensor *wanted) {
  PyObject *module = results_module();
  PyObject *sizes = sizes_object(wanted);
  PyObject *type = dtype_to_object(wanted->dtype);
  PyObject *made = NULL;
  if (module != NULL && sizes != NULL)
    made = PyObject_CallMethod(module, "tensor_from", "OOOO", found,
                               type != NULL ? type : Py_None, sizes,
                               self->is_gradient ? Py_True : Py_False);
  Py_XDECREF(sizes);
  Py_XDECREF(module);
  return made;
}

static PyObject *result_check(const adopted_python *self, const og_call *call,
                              int32_t index, PyObject *found,
                              const og_tensor *wanted) {
  og_tensor view;
  if (!guard_is_plain(found) || exchange->tensor_from_object(found, &view)) {
    PyErr_Clear();
    return PyErr_Format(
        PyExc_RuntimeError,
        "%s: result %d is a %R, expected a plain CPU tensor, a numpy array or "
        "a number",
        self->base.name, (int)self->places[index], (PyObject *)Py_TYPE(found));
  }
  if (!is_as_declared(self, index, &view, wanted)) return NULL;
  // A view of an argument requires grad as the argument does, also where
  // gradients are off; it learns through our own gradient.
  const bool is_part = og_numel(&view) == 0 || is_shared(self, call, &view);
  if (guard_requires_grad(found) && !is_part)
    return PyErr_Format(PyExc_RuntimeError,
                        "%s: result %d requires grad, which the callable "
                        "keeps to itself; make what it learns from an "
                        "argument, or call it under torch.no_grad() where "
                        "nothing is to learn",
                        self->base.name, (int)self->places[index]);
  if (is_part || !is_dense(&view)) return copy_apart(found, &view);
  Py_INCREF(found);
  return found;
}

// One result of the answer as the operator's: a new reference, or NULL.
static PyObject *result_take(const adopted_python *self, const og_call *call,
                             int32_t index, PyObject *found,
                             const og_tensor *wanted) {
  if (LIKELY(guard_is_plain(found)))
    return result_check(self, call, index, found, wanted);
  PyObject *made = tensor_from(self, found, wanted);
  if (made == NULL) return NULL;
  PyObject *taken = result_check(self, call, index, made, wanted);
  Py_DECREF(made);
  return taken;
}

// The entries of a list result, which may come as any sequence.
static PyObject *entries_take(const adopted_python *self, const og_call *call,
                              int32_t index, PyObject *found,
                              const og_tensor_list *wanted) {
  const bool is_tuple = PyTuple_Check(found);
  const Py_ssize_t count = is_tuple              ? PyTuple_Size(found)
                           : PyList_Check(found) ? PyList_Size(found)
                                                 : -1;
  if (count < 0)
    return PyErr_Format(
        PyExc_RuntimeError, "%s: result %d is a %R, expected a list of tensors",
        self->base.name, (int)self->places[index], (PyObject *)Py_TYPE(found));
  if (count != (Py_ssize_t)wanted->count)
    return PyErr_Format(PyExc_RuntimeError,
                        "%s: result %d is a list of %zd tensors here, its "
                        "shape rule says %lld",
                        self->base.name, (int)self->places[index], count,
                        (long long)wanted->count);
  PyObject *list = PyList_New(count);
  for (Py_ssize_t i = 0; list != NULL && i < count; ++i) {
    PyObject *item =
        is_tuple ? PyTuple_GetItem(found, i) : PyList_GetItem(found, i);
    PyObject *taken = result_take(self, call, index, item, wanted->tensors[i]);
    if (taken == NULL) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, taken);
  }
  return list;
}

static PyObject *list_take(const adopted_python *self, const og_call *call,
                           int32_t index, PyObject *found,
                           const og_tensor_list *wanted) {
  if (PyTuple_Check(found) || PyList_Check(found))
    return entries_take(self, call, index, found, wanted);
  PyObject *module = results_module();
  PyObject *entries =
      module == NULL
          ? NULL
          : PyObject_CallMethod(module, "list_from", "OLO", found,
                                (long long)wanted->count,
                                self->is_gradient ? Py_True : Py_False);
  PyObject *list = NULL;
  if (entries != NULL) list = entries_take(self, call, index, entries, wanted);
  Py_XDECREF(entries);
  Py_XDECREF(module);
  return list;
}

static PyObject *fresh_take(const adopted_python *self, const og_call *call,
                            int32_t index, PyObject *answer) {
  PyObject *found = answer_get(self, answer, index);
  if (found == NULL) return NULL;
  const og_tensor_list *list = &call->out_list[self->mutated_count + index];
  if (call->out[self->mutated_count + index] == NULL)
    return list_take(self, call, index, found, list);
  return result_take(self, call, index, found,
                     call->out[self->mutated_count + index]);
}

// --- With the caller's objects -----------------------------------------------

bool adopt_python_returns(const adopted *self) {
  return python_of(self)->returns;
}

bool adopt_python_takes(const adopted *base, const og_call *call) {
  const adopted_python *self = python_of(base);
  for (int32_t p = 0; p < self->param_count; ++p) {
    const python_param *param = &self->params[p];
    if (!param->is_dense) continue;
    const og_tensor *given = call->in[param->index];
    const og_tensor_list *list = &call->in_list[param->index];
    if (given != NULL && !is_dense(given)) return false;
    for (int64_t i = 0; given == NULL && i < list->count; ++i)
      if (list->tensors[i] != NULL && !is_dense(list->tensors[i])) return false;
  }
  return true;
}

// --- Arguments that are written though declared as read ----------------------

// What the call may only read, by parameter; None elsewhere.
static PyObject *read_only_values(const adopted_python *self,
                                  PyObject *const *values) {
  PyObject *tuple = PyTuple_New(self->param_count);
  for (int32_t p = 0; tuple != NULL && p < self->param_count; ++p) {
    const python_param *param = &self->params[p];
    PyObject *value =
        param->is_tensor && !param->is_mutated ? values[p] : Py_None;
    Py_INCREF(value);
    PyTuple_SetItem(tuple, p, value);
  }
  return tuple;
}

static int written_find(const adopted_python *self, PyObject *module,
                        PyObject *kept, PyObject *before) {
  PyObject *found =
      PyObject_CallMethod(module, "find_written", "OO", kept, before);
  if (found == NULL) return -1;
  const long at = PyLong_AsLong(found);
  Py_DECREF(found);
  if (at < 0) return PyErr_Occurred() != NULL ? -1 : 0;
  const char *name = self->params[at].name;
  PyErr_Format(PyExc_RuntimeError,
               "%s: the callable wrote argument %s, which the schema declares "
               "as read; declare Tensor(a!) %s, or write a copy",
               self->base.name, name, name);
  return ADOPT_BROKEN;
}

// The call itself; the first one is held against what the schema declares as
// read.
static int answer_make(adopted_python *self, PyObject *const *values,
                       PyObject *const *fresh, bool is_watched,
                       PyObject **out_answer) {
  PyObject *module = NULL, *kept = NULL, *before = NULL;
  int status = 0;
  *out_answer = NULL;
  if (is_watched && self->is_watched) {
    self->is_watched = false;
    module = results_module();
    kept = read_only_values(self, values);
    if (module != NULL && kept != NULL)
      before = PyObject_CallMethod(module, "copies", "(O)", kept);
    if (before == NULL) status = -1;
  }
  if (status == 0) *out_answer = callable_call(self, values, fresh);
  if (*out_answer == NULL) status = -1;
  if (status == 0 && before != NULL)
    status = written_find(self, module, kept, before);
  if (status != 0) Py_CLEAR(*out_answer);
  Py_XDECREF(before);
  Py_XDECREF(kept);
  Py_XDECREF(module);
  return status;
}

// One tensor as two results: each gets memory of its own.
static bool is_given_before(PyObject *const *fresh, int32_t i) {
  for (int32_t j = 0; j < i; ++j)
    if (fresh[j] == fresh[i]) return true;
  return false;
}

static void fresh_renew(PyObject **slot) {
  PyObject *copy = PyObject_CallMethod(*slot, "clone", NULL);
  Py_DECREF(*slot);
  *slot = copy;
}

static int finish(const adopted *base, const og_call *call,
                  PyObject *const *values, PyObject **fresh, bool is_watched) {
  const adopted_python *self = python_of(base);
  PyObject *answer;
  // The lock of Python guards is_watched.
  int status = answer_make((adopted_python *)(uintptr_t)self, values, fresh,
                           is_watched, &answer);
  if (status != 0) return status;
  answer = answer_settle(self, answer);
  if (answer == NULL) return ADOPT_BROKEN;
  for (int32_t i = 0; self->returns && i < self->fresh_count; ++i) {
    fresh[i] = fresh_take(self, call, i, answer);
    if (fresh[i] != NULL && is_given_before(fresh, i)) fresh_renew(&fresh[i]);
    if (fresh[i] != NULL) continue;
    while (--i >= 0) Py_CLEAR(fresh[i]);
    status = ADOPT_BROKEN;
    break;
  }
  Py_DECREF(answer);
  return status;
}

int adopt_python_finish(const adopted *self, const og_call *call,
                        PyObject *const *values, PyObject **fresh) {
  return finish(self, call, values, fresh, true);
}

// --- With memory only --------------------------------------------------------

// A tensor over memory that outlives the call.
static PyObject *tensor_borrow(const og_tensor *tensor) {
  void *object = NULL;
  if (tensor == NULL) Py_RETURN_NONE;
  dl_managed *managed = adopt_borrow(tensor);
  if (managed == NULL) return PyErr_NoMemory();
  if (exchange->managed_to_object(managed, &object) != 0) return NULL;
  return object;
}

static PyObject *list_borrow(const og_tensor_list *list) {
  PyObject *out = PyList_New((Py_ssize_t)list->count);
  for (int64_t i = 0; out != NULL && i < list->count; ++i) {
    PyObject *item = tensor_borrow(list->tensors[i]);
    if (item == NULL) {
      Py_DECREF(out);
      return NULL;
    }
    PyList_SetItem(out, (Py_ssize_t)i, item);
  }
  return out;
}

static PyObject *value_make(const python_param *param, const og_call *call) {
  if (!param->is_tensor) return attr_object(&call->attr[param->index]);
  if (param->is_list) return list_borrow(&call->in_list[param->index]);
  return tensor_borrow(call->in[param->index]);
}

static int copy_into(PyObject *to, PyObject *from) {
  PyObject *done = PyObject_CallMethod(to, "copy_", "O", from);
  Py_XDECREF(done);
  return done != NULL ? 0 : -1;
}

static int fresh_copy(PyObject *to, PyObject *from) {
  if (!PyList_Check(to)) return copy_into(to, from);
  for (Py_ssize_t i = 0; i < PyList_Size(to); ++i)
    if (copy_into(PyList_GetItem(to, i), PyList_GetItem(from, i)) != 0)
      return -1;
  return 0;
}

static int fill(const adopted *base, const og_call *call,
                PyObject *const *values, PyObject *const *fresh,
                bool is_watched) {
  const adopted_python *self = python_of(base);
  PyObject *made[OPGRAFT_OUT_MAX];
  memcpy(made, fresh, (size_t)self->fresh_count * sizeof *made);
  int status = finish(base, call, values, made, is_watched);
  if (status != 0) return status;
  for (int32_t i = 0; self->returns && i < self->fresh_count; ++i) {
    if (status == 0) status = fresh_copy(fresh[i], made[i]);
    Py_DECREF(made[i]);
  }
  return status;
}

int adopt_python_fill(const adopted *self, const og_call *call,
                      PyObject *const *values, PyObject *const *fresh) {
  return fill(self, call, values, fresh, true);
}

// The exception that is set becomes the call's reason, for the verifier; a
// host raises it as it is. A broken rule is not a refusal: the status
// tells the two apart.
static og_status exception_tell(const og_call *call, bool is_broken) {
  PyObject *type, *value, *trace;
  char text[512] = "the callable raised an exception without a text";
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *line = value == NULL ? NULL
                   : is_broken   ? PyObject_Str(value)
                                 : PyUnicode_FromFormat("%R", value);
  const char *found = line != NULL ? PyUnicode_AsUTF8AndSize(line, NULL) : NULL;
  if (found != NULL)
    PyOS_snprintf(text, sizeof text, "%s%.480s",
                  is_broken ? "" : "the callable raised ", found);
  PyErr_Clear();
  Py_XDECREF(line);
  PyErr_Restore(type, value, trace);
  if (is_broken)
    PyErr_Clear();
  else
    raised_keep();
  return og_fail(call, is_broken ? OG_INTERNAL : OG_KERNEL, text);
}

static int objects_make(const adopted_python *self, const og_call *call,
                        PyObject **values, PyObject **fresh) {
  for (int32_t p = 0; p < self->param_count; ++p) {
    values[p] = value_make(&self->params[p], call);
    if (values[p] == NULL) return -1;
  }
  for (int32_t i = 0; i < self->fresh_count; ++i) {
    const int32_t at = self->mutated_count + i;
    fresh[i] = call->out[at] != NULL ? tensor_borrow(call->out[at])
                                     : list_borrow(&call->out_list[at]);
    if (fresh[i] == NULL) return -1;
  }
  return 0;
}

static og_status python_run(const og_call *call) {
  const adopted_python *self = call->derived;
  PyObject *values[HOST_PARAM_MAX] = {NULL};
  PyObject *fresh[OPGRAFT_OUT_MAX] = {NULL};
  const PyGILState_STATE state = PyGILState_Ensure();
  int status = objects_make(self, call, values, fresh);
  // The verifier finds by itself what is written, and names it.
  if (status == 0) status = fill(&self->base, call, values, fresh, false);
  const og_status told =
      status == 0 ? OG_OK : exception_tell(call, status == ADOPT_BROKEN);
  for (int32_t p = 0; p < self->param_count; ++p) Py_XDECREF(values[p]);
  for (int32_t i = 0; i < self->fresh_count; ++i) Py_XDECREF(fresh[i]);
  PyGILState_Release(state);
  return told;
}

const adopt_kind adopt_python = {
    .name = "python",
    .size_bytes = sizeof(adopted_python),
    .read = payload_read,
    .bind = declaration_bind,
    .reset = payload_reset,
    .run = python_run,
};
