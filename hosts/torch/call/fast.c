// SPDX-License-Identifier: Apache-2.0
// The fast path: an operator as a builtin that Python calls.
//
// In order: match the Python arguments with the parameters, ask the guard,
// read the tensors through DLPack's exchange API, infer, allocate, run, wrap.
// What the guard or a conversion refuses goes to torch.ops, which words its
// own errors; what infer or the kernel refuses is raised here, since the slow
// road would say the same.

#include "torch/call/fast.h"

#include <string.h>

#include "torch/adopt/adopt.h"
#include "torch/adopt/adopt_python.h"
#include "torch/base/cuda.h"
#include "torch/base/guard.h"
#include "torch/base/module.h"
#include "torch/base/raised.h"
#include "torch/base/tensor.h"
#include "torch/base/threads.h"
#include "torch/base/types.h"
#include "torch/device/device.h"

enum { LIST_MAX = 128, OUT_LIST_MAX = 256 };

// What a call needs beside its frame. Nothing in it is initialised but what
// the conversion writes.
typedef struct fast_state {
  opgraft_frame frame;
  opgraft_error error;
  PyObject *values[HOST_PARAM_MAX];  // by parameter, borrowed
  PyObject *outs[OPGRAFT_OUT_MAX];   // out=, borrowed; NULL if none
  og_tensor tensors[OPGRAFT_ARG_MAX];
  og_tensor out_tensors[OPGRAFT_OUT_MAX];
  og_tensor list_tensors[LIST_MAX];
  og_tensor *list_pointers[LIST_MAX];
  int64_t ints[LIST_MAX];
  double floats[LIST_MAX];
  int32_t list_used;
  int32_t int_used;
  int32_t float_used;
  bool has_out;
  bool is_guarded;                     // only plain tensors are taken
  bool is_described;                   // there are no tensors: see op_infer
  bool takes_device;                   // and those of a device
  PyObject *wrapped[OPGRAFT_OUT_MAX];  // fresh results, owned
} fast_state;

// --- Python arguments to parameters ------------------------------------------

static int32_t param_find(const host_op *op, PyObject *name) {
  for (int32_t p = 0; p < op->param_count; ++p)
    if (op->params[p].name == name) return p;
  // Keyword names are interned as a rule, not by law.
  for (int32_t p = 0; p < op->param_count; ++p)
    if (PyUnicode_Compare(op->params[p].name, name) == 0) return p;
  return -1;
}

static bool outs_read(const host_op *op, fast_state *state, PyObject *value) {
  state->has_out = value != Py_None;
  if (!state->has_out) return true;
  if (!op->takes_out) return false;
  if (op->fresh_count == 1) {
    state->outs[0] = value;
    return true;
  }
  if (!PyTuple_CheckExact(value) || PyTuple_Size(value) != op->fresh_count)
    return false;
  for (int32_t i = 0; i < op->fresh_count; ++i)
    state->outs[i] = PyTuple_GetItem(value, i);
  return true;
}

static bool keywords_read(const host_op *op, fast_state *state,
                          PyObject *const *values, PyObject *keywords) {
  static PyObject *out_name;
  if (out_name == NULL) out_name = PyUnicode_InternFromString("out");
  const Py_ssize_t count = PyTuple_Size(keywords);
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject *name = PyTuple_GetItem(keywords, k);
    const int32_t p = name == out_name ? -1 : param_find(op, name);
    if (p >= 0) {
      if (state->values[p] != NULL) return false;
      state->values[p] = values[k];
    } else if ((name != out_name && PyUnicode_Compare(name, out_name) != 0) ||
               !outs_read(op, state, values[k])) {
      return false;
    }
  }
  return true;
}

// False where torch.ops must word the error.
static bool values_read(const host_op *op, fast_state *state,
                        PyObject *const *arguments, Py_ssize_t count,
                        PyObject *keywords) {
  const int32_t given = (int32_t)count;
  if (UNLIKELY(count > op->positional_count)) return false;
  state->has_out = false;
  for (int32_t p = 0; p < given; ++p) state->values[p] = arguments[p];
  for (int32_t p = given; p < op->param_count; ++p) state->values[p] = NULL;
  if (keywords != NULL &&
      !keywords_read(op, state, arguments + count, keywords))
    return false;
  for (int32_t p = given; p < op->param_count; ++p) {
    if (LIKELY(state->values[p] != NULL)) continue;
    if (op->params[p].default_value == NULL) return false;
    state->values[p] = op->params[p].default_value;
  }
  return true;
}

// --- Guard -------------------------------------------------------------------

typedef enum road { ROAD_FAST, ROAD_GRADIENT, ROAD_SLOW } road;

// A list argument as an array of borrowed objects; -1 where it is not a list.
static Py_ssize_t sequence_size(PyObject *value) {
  if (PyList_CheckExact(value)) return PyList_Size(value);
  if (PyTuple_CheckExact(value)) return PyTuple_Size(value);
  return -1;
}

static PyObject *sequence_item(PyObject *value, Py_ssize_t i) {
  return PyList_CheckExact(value) ? PyList_GetItem(value, i)
                                  : PyTuple_GetItem(value, i);
}

static road tensor_road(PyObject *value) {
  if (LIKELY(guard_is_bare(value))) return ROAD_FAST;
  if (!guard_is_plain(value) || guard_may_be_dual(value)) return ROAD_SLOW;
  return shim.aoti_torch_grad_mode_is_enabled() && guard_requires_grad(value)
             ? ROAD_GRADIENT
             : ROAD_FAST;
}

static road list_road(const host_param *param, PyObject *value) {
  const Py_ssize_t size = sequence_size(value);
  if (size < 0) return ROAD_SLOW;
  road worst = ROAD_FAST;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject *item = sequence_item(value, i);
    if (item == Py_None && param->is_element_optional) continue;
    const road found = tensor_road(item);
    if (found > worst) worst = found;
  }
  // autograd.Function does not look into lists.
  return worst == ROAD_GRADIENT ? ROAD_SLOW : worst;
}

// Where an argument refused: the road that takes all of them.
static road call_road(const host_op *op, const fast_state *state) {
  road worst = ROAD_FAST;
  for (int32_t p = 0; p < op->param_count; ++p) {
    const host_param *param = &op->params[p];
    if (param->type != OPGRAFT_TYPE_TENSOR) continue;
    PyObject *value = state->values[p];
    if (value == Py_None) continue;
    const road found =
        param->is_list ? list_road(param, value) : tensor_road(value);
    if (found > worst) worst = found;
  }
  for (int32_t i = 0; state->has_out && i < op->fresh_count; ++i)
    if (tensor_road(state->outs[i]) != ROAD_FAST) return ROAD_SLOW;
  return worst;
}

// --- Conversion: false refuses, and torch.ops answers ------------------------

// (code, bits, sizes, strides[, address]): a tensor without values. Sizes and
// strides are bytes objects of int64, which the caller holds.
static bool description_read(PyObject *value, og_tensor *out) {
  PyObject *sizes, *strides;
  int code, bits;
  unsigned long long address = 0;
  if (!PyArg_ParseTuple(value, "iiSS|K", &code, &bits, &sizes, &strides,
                        &address))
    return false;
  *out = (og_tensor){
      .data = (void *)(uintptr_t)address,
      .device = {OG_CPU, 0},
      .ndim = (int32_t)((size_t)PyBytes_Size(sizes) / sizeof(int64_t)),
      .dtype = {(uint8_t)code, (uint8_t)bits, 1},
      .shape = (int64_t *)(void *)PyBytes_AsString(sizes),
      .strides = (int64_t *)(void *)PyBytes_AsString(strides),
  };
  return PyBytes_Size(sizes) == PyBytes_Size(strides);
}

// Of a tensor that is not bare. The slow path copies one of a device that has
// another layout.
static bool other_argument_read(const fast_state *state, PyObject *value,
                                og_tensor *out) {
  if (state->takes_device && guard_is_device_bare(value))
    return device_plain_read(value, out) && tensor_is_row_major(out);
  return tensor_road(value) == ROAD_FAST && tensor_read(value, true, out);
}

static inline bool argument_read(const fast_state *state, PyObject *value,
                                 og_tensor *out) {
  if (UNLIKELY(state->is_described)) return description_read(value, out);
  if (LIKELY(state->is_guarded) && UNLIKELY(!guard_is_bare(value)))
    return other_argument_read(state, value, out);
  return tensor_read(value, state->is_guarded, out);
}

static bool tensor_list_read(fast_state *state, const host_param *param,
                             PyObject *value) {
  const Py_ssize_t size = sequence_size(value);
  if (size < 0 || size > LIST_MAX - state->list_used) return false;
  og_tensor **pointers = state->list_pointers + state->list_used;
  og_tensor *tensors = state->list_tensors + state->list_used;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject *item = sequence_item(value, i);
    pointers[i] = item == Py_None ? NULL : &tensors[i];
    if (item == Py_None ? !param->is_element_optional
                        : !argument_read(state, item, &tensors[i]))
      return false;
  }
  state->list_used += (int32_t)size;
  state->frame.in[param->index] = NULL;
  state->frame.in_list[param->index] = (og_tensor_list){size, pointers};
  return true;
}

static bool int_read(PyObject *value, int64_t *out) {
  if (UNLIKELY(!PyLong_Check(value))) return false;
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

static bool float_read(PyObject *value, double *out) {
  if (UNLIKELY(!PyFloat_Check(value) && !PyLong_Check(value))) return false;
  *out = PyFloat_AsDouble(value);
  return *out != -1.0 || PyErr_Occurred() == NULL;
}

static bool scalar_read(PyObject *value, og_attr *out) {
  if (value == Py_True || value == Py_False) {
    out->kind = OG_ATTR_BOOL;
    out->i = value == Py_True;
    return true;
  }
  if (PyLong_CheckExact(value)) {
    out->kind = OG_ATTR_INT;
    return int_read(value, &out->i);
  }
  if (PyComplex_CheckExact(value)) {
    out->kind = OG_ATTR_COMPLEX;
    out->f = PyComplex_RealAsDouble(value);
    out->imag = PyComplex_ImagAsDouble(value);
    return true;
  }
  out->kind = OG_ATTR_FLOAT;
  return PyFloat_CheckExact(value) && float_read(value, &out->f);
}

static bool string_read(PyObject *value, og_attr *out) {
  Py_ssize_t size;
  if (!PyUnicode_Check(value)) return false;
  out->kind = OG_ATTR_STR;
  out->s = PyUnicode_AsUTF8AndSize(value, &size);
  out->count = (int64_t)size;
  return out->s != NULL;
}

static bool device_read(PyObject *value, og_attr *out) {
  PyObject *type = PyObject_GetAttrString(value, "type");
  PyObject *index = PyObject_GetAttrString(value, "index");
  const char *name = type != NULL ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  const bool is_read = name != NULL && strcmp(name, "cpu") == 0;
  out->kind = OG_ATTR_DEVICE;
  out->device = (og_device){OG_CPU, 0};
  Py_XDECREF(type);
  Py_XDECREF(index);
  return is_read;
}

static bool one_read(const host_param *param, PyObject *value, og_attr *out) {
  switch (param->type) {
    case OPGRAFT_TYPE_INT:
    case OPGRAFT_TYPE_SYM_INT:
      out->kind = OG_ATTR_INT;
      return int_read(value, &out->i);
    case OPGRAFT_TYPE_BOOL:
      out->kind = OG_ATTR_BOOL;
      out->i = value == Py_True;
      return value == Py_True || value == Py_False;
    case OPGRAFT_TYPE_FLOAT:
      out->kind = OG_ATTR_FLOAT;
      return float_read(value, &out->f);
    case OPGRAFT_TYPE_SCALAR:
      return scalar_read(value, out);
    case OPGRAFT_TYPE_STR:
      return string_read(value, out);
    case OPGRAFT_TYPE_SCALAR_TYPE:
      out->kind = OG_ATTR_DTYPE;
      return dtype_from_object(value, &out->dtype) == 0;
    case OPGRAFT_TYPE_DEVICE:
      return device_read(value, out);
    default:
      return false;
  }
}

static bool list_read(fast_state *state, const host_param *param,
                      PyObject *value, og_attr *out) {
  const Py_ssize_t size = sequence_size(value);
  const bool is_float = param->type == OPGRAFT_TYPE_FLOAT;
  if (size < 0 ||
      (param->type != OPGRAFT_TYPE_INT && param->type != OPGRAFT_TYPE_SYM_INT &&
       param->type != OPGRAFT_TYPE_BOOL && !is_float))
    return false;
  int32_t *used = is_float ? &state->float_used : &state->int_used;
  if (size > LIST_MAX - *used) return false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    og_attr item;
    if (!one_read(param, sequence_item(value, i), &item)) return false;
    if (is_float)
      state->floats[*used + i] = item.f;
    else
      state->ints[*used + i] = item.i;
  }
  out->count = (int64_t)size;
  out->kind = is_float                           ? OG_ATTR_FLOATS
              : param->type == OPGRAFT_TYPE_BOOL ? OG_ATTR_BOOLS
                                                 : OG_ATTR_INTS;
  if (is_float)
    out->floats = state->floats + *used;
  else
    out->ints = state->ints + *used;
  *used += (int32_t)size;
  return true;
}

static inline bool tensor_param_read(fast_state *state, const host_param *param,
                                     PyObject *value) {
  opgraft_frame *frame = &state->frame;
  og_tensor *tensor = &state->tensors[param->index];
  if (UNLIKELY(value == Py_None)) {
    frame->in_list[param->index].count = 0;
    frame->in[param->index] = NULL;
    return param->is_optional;
  }
  if (UNLIKELY(param->is_list)) return tensor_list_read(state, param, value);
  frame->in[param->index] = tensor;
  return argument_read(state, value, tensor);
}

static bool attr_param_read(fast_state *state, const host_param *param,
                            PyObject *value) {
  opgraft_frame *frame = &state->frame;
  og_attr *attr = &frame->attr[param->index];
  if (value == Py_None) {
    attr->kind = OG_ATTR_NONE;
    return param->is_optional;
  }
  return param->is_list ? list_read(state, param, value, attr)
                        : one_read(param, value, attr);
}

static inline bool param_read(fast_state *state, const host_param *param,
                              PyObject *value) {
  return param->type == OPGRAFT_TYPE_TENSOR
             ? tensor_param_read(state, param, value)
             : attr_param_read(state, param, value);
}

static bool frame_fill(const host_op *op, fast_state *state) {
  opgraft_frame_init(&state->frame, op->op);
  state->list_used = state->int_used = state->float_used = 0;
  for (int32_t p = 0; p < op->param_count; ++p)
    if (UNLIKELY(!param_read(state, &op->params[p], state->values[p])))
      return false;
  return true;
}

// --- Memory for fresh results ------------------------------------------------

static PyObject *list_make(og_tensor_list *list) {
  PyObject *result = PyList_New((Py_ssize_t)list->count);
  for (int64_t i = 0; result != NULL && i < list->count; ++i) {
    PyObject *item = tensor_make(list->tensors[i]);
    if (item == NULL) {
      Py_DECREF(result);
      return NULL;
    }
    PyList_SetItem(result, (Py_ssize_t)i, item);
  }
  return result;
}

// Fills state->wrapped; -1 with an exception set, and nothing owned.
static int fresh_allocate(const host_op *op, fast_state *state) {
  opgraft_frame *frame = &state->frame;
  for (int32_t i = 0; i < op->fresh_count; ++i) {
    PyObject *made = NULL;
    if (op->inplace_param >= 0 && i == 0) {
      made = state->values[op->inplace_param];
      Py_INCREF(made);
    } else if (fresh_is_list(op, i)) {
      made = list_make(&frame->fresh_list[i]);
    } else if (state->has_out) {
      made = state->outs[i];
      Py_INCREF(made);
    } else {
      made = tensor_make(&frame->fresh[i]);
    }
    if (made == NULL) {
      while (--i >= 0) Py_DECREF(state->wrapped[i]);
      return -1;
    }
    state->wrapped[i] = made;
  }
  return 0;
}

// Given memory instead of new: out= and the in-place form.
static og_status given_set(const host_op *op, fast_state *state) {
  opgraft_frame *frame = &state->frame;
  if (op->inplace_param >= 0) {
    const host_param *param = &op->params[op->inplace_param];
    return opgraft_frame_set_out(frame, 0, frame->in[param->index],
                                 &state->error);
  }
  for (int32_t i = 0; state->has_out && i < op->fresh_count; ++i) {
    const og_status status =
        opgraft_frame_set_out(frame, i, &state->out_tensors[i], &state->error);
    if (status != OG_OK) return status;
  }
  return OG_OK;
}

// --- The call ----------------------------------------------------------------

// Of the tensor arguments; lists count as large.
int64_t frame_bytes(const opgraft_frame *frame, int32_t tensor_count) {
  int64_t bytes = 0;
  for (int32_t t = 0; t < tensor_count; ++t) {
    const og_tensor *tensor = frame->in[t];
    if (tensor != NULL) bytes += og_numel(tensor) * tensor->dtype.bits / 8;
    if (tensor == NULL && frame->in_list[t].count > 0) bytes += LIST_BYTES;
  }
  return bytes;
}

static int arguments_written(const host_op *op, const fast_state *state,
                             int (*fn)(PyObject *tensor)) {
  if (op->inplace_param >= 0 && fn(state->values[op->inplace_param]) != 0)
    return -1;
  for (int32_t p = 0; op->has_mutation && p < op->param_count; ++p) {
    const host_param *param = &op->params[p];
    PyObject *value = state->values[p];
    if (!param->is_mutated || value == Py_None) continue;
    if (!param->is_list && fn(value) != 0) return -1;
    for (Py_ssize_t i = 0; param->is_list && i < sequence_size(value); ++i)
      if (fn(sequence_item(value, i)) != 0) return -1;
  }
  return 0;
}

// Calls fn for every tensor object that the call writes; -1 where one fails.
static inline int written_each(const host_op *op, const fast_state *state,
                               int (*fn)(PyObject *tensor)) {
  if ((op->has_mutation || op->inplace_param >= 0) &&
      arguments_written(op, state, fn) != 0)
    return -1;
  for (int32_t i = 0; state->has_out && i < op->fresh_count; ++i)
    if (fn(state->outs[i]) != 0) return -1;
  return 0;
}

static og_status kernel_run(const host_op *op, fast_state *state,
                            int64_t bytes) {
  if (cuda_runs(&state->frame))
    return cuda_run(&state->frame, op->tensor_count, &state->error);
  if (LIKELY(bytes < UNLOCK_LEAST_BYTES))
    return opgraft_frame_run(&state->frame, &state->error);
  PyThreadState *thread = PyEval_SaveThread();
  const og_status status = opgraft_frame_run(&state->frame, &state->error);
  PyEval_RestoreThread(thread);
  return status;
}

// A data-dependent result was allocated at its bound: cut what was found.
static int found_cut(const host_op *op, fast_state *state) {
  for (int32_t i = 0; i < op->fresh_count; ++i) {
    if (fresh_is_list(op, i) || state->frame.fresh[i].ndim == 0) continue;
    PyObject *cut =
        PyObject_CallMethod(state->wrapped[i], "narrow", "iiL", 0, 0,
                            (long long)state->frame.fresh[i].shape[0]);
    if (cut == NULL) return -1;
    Py_DECREF(state->wrapped[i]);
    state->wrapped[i] = cut;
  }
  return 0;
}

static PyObject *result_get(const host_op *op, const fast_state *state,
                            int32_t r) {
  const host_result *result = &op->results[r];
  PyObject *object = result->fresh >= 0 ? state->wrapped[result->fresh]
                                        : state->values[result->param];
  Py_INCREF(object);
  return object;
}

static PyObject *results_build(const host_op *op, const fast_state *state) {
  if (op->result_count == 1) return result_get(op, state, 0);
  if (op->result_count == 0) Py_RETURN_NONE;
  PyObject *tuple = PyTuple_New(op->result_count);
  for (int32_t r = 0; tuple != NULL && r < op->result_count; ++r)
    PyTuple_SetItem(tuple, r, result_get(op, state, r));
  return tuple;
}

static PyObject *frame_end(const host_op *op, fast_state *state, bool is_run) {
  PyObject *results = NULL;
  if (is_run &&
      (op->is_raw || written_each(op, state, guard_bump_version) == 0) &&
      (!op->has_found_dim || found_cut(op, state) == 0))
    results = results_build(op, state);
  for (int32_t i = 0; i < op->fresh_count; ++i) Py_DECREF(state->wrapped[i]);
  return results;
}

// A Python callable gets the objects as they came.
static PyObject *adopted_finish(const host_op *op, fast_state *state) {
  const og_call *call = &state->frame.call;
  PyObject *values[HOST_PARAM_MAX];
  for (int32_t p = 0; p < op->param_count; ++p)
    values[op->params[p].place] = state->values[p];
  const bool is_given = state->has_out || op->inplace_param >= 0;
  if (!is_given && adopt_python_returns(op->adopted)) {
    if (adopt_python_finish(op->adopted, call, values, state->wrapped))
      return NULL;
    return frame_end(op, state, true);
  }
  if (fresh_allocate(op, state) != 0) return NULL;
  bool is_run = false;
  if (is_given && given_set(op, state) != OG_OK)
    error_raise(&state->error);
  else
    is_run = adopt_python_fill(op->adopted, call, values, state->wrapped) == 0;
  return frame_end(op, state, is_run);
}

static PyObject *frame_finish(const host_op *op, fast_state *state,
                              int64_t bytes) {
  if (UNLIKELY(op->adopted != NULL) &&
      adopt_python_takes(op->adopted, &state->frame.call))
    return adopted_finish(op, state);
  if (fresh_allocate(op, state) != 0) return NULL;
  const bool is_given = state->has_out || op->inplace_param >= 0;
  bool is_run = false;
  if (is_given && given_set(op, state) != OG_OK)
    error_raise(&state->error);
  else if (kernel_run(op, state, bytes) == OG_OK)
    is_run = true;
  else if (!raised_restore())  // what an adopted callable raised
    error_raise(&state->error);
  return frame_end(op, state, is_run);
}

static PyObject *frame_call(const host_op *op, fast_state *state) {
  opgraft_frame *frame = &state->frame;
  PyObject *results = NULL;
  if (!op->is_raw && written_each(op, state, guard_check_write) != 0)
    return NULL;
  const int64_t bytes = frame_bytes(frame, op->tensor_count);
  threads_set(&frame->call, bytes);
  if (opgraft_frame_infer(frame, &state->error) != OG_OK)
    error_raise(&state->error);
  else
    results = frame_finish(op, state, bytes);
  if (UNLIKELY(frame->heap != NULL)) opgraft_frame_reset(frame);
  return results;
}

// The first call of a road may put another one in its place (op_roads).
static PyObject *road_call(PyObject *function, PyObject *tuple,
                           PyObject *named) {
  Py_INCREF(function);
  PyObject *result = PyObject_Call(function, tuple, named);
  Py_DECREF(function);
  return result;
}

// The slow path, for the call as it came.
static PyObject *slow_call(const host_op *op, PyObject *const *arguments,
                           Py_ssize_t count, PyObject *keywords) {
  PyObject *tuple = PyTuple_New(count);
  PyObject *named = NULL;
  PyObject *result = NULL;
  if (tuple == NULL) return NULL;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(arguments[i]);
    PyTuple_SetItem(tuple, i, arguments[i]);
  }
  const Py_ssize_t named_count = keywords != NULL ? PyTuple_Size(keywords) : 0;
  if (named_count > 0) named = PyDict_New();
  for (Py_ssize_t k = 0; named != NULL && k < named_count; ++k)
    PyDict_SetItem(named, PyTuple_GetItem(keywords, k), arguments[count + k]);
  if (named_count == 0 || named != NULL)
    result = road_call(op->slow, tuple, named);
  Py_DECREF(tuple);
  Py_XDECREF(named);
  return result;
}

static PyObject *gradient_call(const host_op *op, const fast_state *state) {
  PyObject *tuple = PyTuple_New(op->param_count);
  if (tuple == NULL) return NULL;
  for (int32_t p = 0; p < op->param_count; ++p) {
    Py_INCREF(state->values[p]);
    PyTuple_SetItem(tuple, p, state->values[p]);
  }
  PyObject *result = road_call(op->gradient, tuple, NULL);
  Py_DECREF(tuple);
  return result;
}

static bool out_tensors_read(const host_op *op, fast_state *state) {
  for (int32_t i = 0; state->has_out && i < op->fresh_count; ++i)
    if (!argument_read(state, state->outs[i], &state->out_tensors[i]))
      return false;
  return true;
}

// The dispatcher and Inductor call the unguarded builtin: there is
// nothing behind it.
static PyObject *raw_refuse(const host_op *op) {
  if (PyErr_Occurred() == NULL)
    PyErr_Format(PyExc_TypeError,
                 "%s: an argument has a type that its schema does not take",
                 opgraft_op_name(op->op));
  return NULL;
}

// infer(operator, values): the sizes of each fresh result of a call whose
// tensors are described, for a rule that only C can evaluate.
PyObject *op_infer(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object, *values, *out = NULL;
  fast_state state;
  if (!PyArg_ParseTuple(arguments, "OO!", &object, &PyTuple_Type, &values))
    return NULL;
  const host_op *op = (const host_op *)(void *)object;
  state.is_described = true;
  if (PyTuple_Size(values) != op->param_count) return raw_refuse(op);
  for (int32_t p = 0; p < op->param_count; ++p)
    state.values[p] = PyTuple_GetItem(values, p);
  if (!frame_fill(op, &state)) return raw_refuse(op);
  opgraft_frame *frame = &state.frame;
  if (opgraft_frame_infer(frame, &state.error) != OG_OK)
    error_raise(&state.error);
  else
    out = PyList_New(op->fresh_count);
  for (int32_t i = 0; out != NULL && i < op->fresh_count; ++i) {
    const og_tensor *fresh = &frame->fresh[i];
    PyObject *sizes = PyTuple_New(fresh->ndim);
    for (int32_t k = 0; sizes != NULL && k < fresh->ndim; ++k)
      PyTuple_SetItem(sizes, k, PyLong_FromLongLong(fresh->shape[k]));
    if (sizes == NULL) Py_CLEAR(out);
    if (out != NULL) PyList_SetItem(out, i, sizes);
  }
  opgraft_frame_reset(frame);
  return out;
}

static bool described_read(const host_op *op, fast_state *state,
                           PyObject *values, PyObject *outs) {
  state->list_used = 0;
  for (int32_t p = 0; p < op->param_count; ++p)
    if (op->params[p].type == OPGRAFT_TYPE_TENSOR &&
        !param_read(state, &op->params[p], PyTuple_GetItem(values, p)))
      return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(outs); ++i)
    if (!description_read(PyTuple_GetItem(outs, i), &state->out_tensors[i]))
      return false;
  return true;
}

// check_written(operator, values, outs): raises where a call whose tensors are
// described, with addresses, writes memory that it must not.
PyObject *check_written(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object, *values, *outs;
  fast_state state;
  const og_tensor *out[OPGRAFT_OUT_MAX] = {NULL};
  if (!PyArg_ParseTuple(arguments, "OO!O!", &object, &PyTuple_Type, &values,
                        &PyTuple_Type, &outs))
    return NULL;
  const host_op *op = (const host_op *)(void *)object;
  opgraft_frame_init(&state.frame, op->op);
  state.is_described = true;
  if (PyTuple_Size(values) != op->param_count ||
      PyTuple_Size(outs) > op->fresh_count ||
      !described_read(op, &state, values, outs))
    return raw_refuse(op);
  for (Py_ssize_t i = 0; i < PyTuple_Size(outs); ++i)
    out[i] = &state.out_tensors[i];
  if (op->inplace_param >= 0)
    out[0] = state.frame.in[op->params[op->inplace_param].index];
  if (opgraft_frame_check_written(&state.frame, out, &state.error) != OG_OK)
    return error_raise(&state.error);
  Py_RETURN_NONE;
}

PyObject *fast_call(PyObject *self, PyObject *const *arguments,
                    Py_ssize_t count, PyObject *keywords) {
  const host_op *op = (const host_op *)(const void *)self;
  fast_state state;
  state.is_guarded = !op->is_raw;
  state.is_described = false;
  state.takes_device = op->has_device_kernel;
  const bool may_be_fast =
      values_read(op, &state, arguments, count, keywords) &&
      (op->is_raw || guard_is_quiet());
  if (LIKELY(may_be_fast) && LIKELY(frame_fill(op, &state)) &&
      LIKELY(out_tensors_read(op, &state)))
    return frame_call(op, &state);
  if (UNLIKELY(op->is_raw)) return raw_refuse(op);
  PyErr_Clear();
  if (may_be_fast && op->gradient != NULL && !state.has_out &&
      call_road(op, &state) == ROAD_GRADIENT)
    return gradient_call(op, &state);
  return slow_call(op, arguments, count, keywords);
}
