// SPDX-License-Identifier: Apache-2.0
// Nodes that the host runs: contractions by the shim's own functions, the rest
// by the dispatcher, in both cases over views of the plan's memory and without
// Python; by Python where neither can say it.
//
// Invariants: a state's handles point to where its tensors were at their last
// use, and were made on the thread that used them, whose modes (inference) they
// have; what a state holds of Python is dropped under the interpreter lock
// only, so `release` puts states on a list that graph_context_sweep empties.

#include "torch/graph/node.h"
#include "torch/base/guard.h"
#include "torch/base/pool.h"
#include "torch/base/raised.h"
#include "torch/base/shim.h"
#include "torch/base/tensor.h"
#include "torch/base/threads.h"
#include "torch/base/types.h"
#include "torch/graph/expanded.h"
#include "torch/graph/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct node_state node_state;
typedef bool (*direct_fn)(const node_state *state);

struct node_state {
  node_state *next;  // in the list of dead ones
  graph_context *context;
  direct_fn direct;      // NULL: `recipe`
  const recipe *recipe;  // NULL: Python
  PyObject *recipe_capsule;
  const opgraft_arg **args;  // by the recipe's parameter; NULL: absent
  bool use_out;              // the results are the recipe's .out arguments
  bool in_place;             // its first argument is the result, to be written
  bool is_noted;             // as one that Python runs
  double beta, alpha;        // of a direct contraction
  bound_tensor *in, *out;
  int32_t in_count, out_count;
  stable_value *stack;
  pthread_t owner;  // whose handles these are
  uint64_t modes;   // of the thread, when they were made
  pool memory;
};

// --- Handles -----------------------------------------------------------------

static void bound_drop(bound_tensor *bound) {
  if (bound->handle != NULL)
    shim.aoti_torch_delete_tensor_object(bound->handle);
  bound->handle = NULL;
}

static bool handle_make(const og_tensor *tensor, void *data,
                        tensor_handle *out) {
  int32_t code;
  return dtype_to_shim(tensor->dtype, &code) == 0 &&
         shim.aoti_torch_create_tensor_from_blob_v2(
             data, tensor->ndim, tensor->shape, tensor->strides, 0, code,
             shim.aoti_torch_device_type_cpu(), 0, out,
             shim.aoti_torch_layout_strided(), NULL, 0) == 0;
}

static bool bound_refresh(bound_tensor *bound, const og_tensor *tensor) {
  void *data = (char *)tensor->data + tensor->byte_offset;
  if (LIKELY(bound->handle != NULL && bound->data == data)) return true;
  bound_drop(bound);
  bound->data = data;
  return handle_make(tensor, data, &bound->handle);
}

static og_status fail(const opgraft_node_call *node, og_status code,
                      const char *text, opgraft_error *error) {
  if (error == NULL) return code;
  *error = (opgraft_error){.code = code, .begin = -1, .end = -1};
  strncpy(error->op, node->name, sizeof error->op - 1);
  strncpy(error->text, text, sizeof error->text - 1);
  return code;
}

// Of the shim's last call; what follows a failure there must keep it.
static og_status fail_torch(const opgraft_node_call *node,
                            opgraft_error *error) {
  const char *text = shim.torch_exception_get_what_without_backtrace();
  return fail(node, OG_KERNEL,
              text != NULL && text[0] != 0
                  ? text
                  : "a result has other strides than were inferred when the "
                    "model was compiled: the operator's fake implementation "
                    "disagrees with its kernel",
              error);
}

// ATen's own keep nothing; another's goes through Python, with copies.
static bool may_keep(const opgraft_node_call *node) {
  return node->may_keep && strncmp(node->name, "aten.", 5) != 0;
}

static void handles_drop(node_state *state) {
  for (int32_t i = 0; i < state->in_count; ++i) bound_drop(&state->in[i]);
  for (int32_t i = 0; i < state->out_count; ++i) bound_drop(&state->out[i]);
}

// Whether a result has no memory yet, and the tensor that we make becomes it.
static bool is_to_give(const opgraft_node_call *node, int32_t index) {
  return node->donated != NULL && node->out[index]->data == NULL &&
         og_numel(node->out[index]) > 0;
}

static bool all_refresh(node_state *state, const opgraft_node_call *node) {
  const pthread_t self = pthread_self();
  uint64_t modes = 0;
  if (UNLIKELY(!guard_modes(&modes) || modes != state->modes ||
               !pthread_equal(state->owner, self))) {
    handles_drop(state);
    state->owner = self;
    state->modes = modes;
  }
  for (int32_t i = 0; i < state->in_count; ++i)
    if (node->in[i] != NULL && !bound_refresh(&state->in[i], node->in[i]))
      return false;
  for (int32_t i = 0; i < state->out_count; ++i)
    if (node->out[i] != NULL && !is_to_give(node, i) &&
        !bound_refresh(&state->out[i], node->out[i]))
      return false;
  return true;
}

// --- Contractions ------------------------------------------------------------

static bool run_mm(const node_state *s) {
  return shim.aoti_torch_cpu_mm_out(s->out[0].handle, s->in[0].handle,
                                    s->in[1].handle) == 0;
}

static bool run_bmm(const node_state *s) {
  return shim.aoti_torch_cpu_bmm_out(s->out[0].handle, s->in[0].handle,
                                     s->in[1].handle) == 0;
}

static bool run_addmm(const node_state *s) {
  return shim.aoti_torch_cpu_addmm_out(s->out[0].handle, s->in[0].handle,
                                       s->in[1].handle, s->in[2].handle,
                                       s->beta, s->alpha) == 0;
}

static bool run_baddbmm(const node_state *s) {
  return shim.aoti_torch_cpu_baddbmm_out(s->out[0].handle, s->in[0].handle,
                                         s->in[1].handle, s->in[2].handle,
                                         s->beta, s->alpha) == 0;
}

// Conversions and changes of layout, whatever their name.
static bool run_copy(const node_state *s) {
  return shim.aoti_torch_copy_(s->out[0].handle, s->in[0].handle, 0) == 0;
}

static double scale_of(const opgraft_node_call *node, const char *name) {
  for (int32_t i = 0; i < node->arg_count; ++i) {
    const opgraft_arg *arg = &node->args[i];
    if (arg->name != NULL && strcmp(arg->name, name) == 0)
      return arg->kind == OPGRAFT_ARG_FLOAT ? arg->f : (double)arg->i;
  }
  return 1;
}

// By the engine's operator and the rank of the result, -1: any.
static direct_fn direct_find(const opgraft_node_call *node) {
  const struct {
    const char *op;
    int32_t rank;
    direct_fn run;
    bool is_there;  // torch has it
  } rows[] = {
      {"matmul", 2, run_mm, shim.aoti_torch_cpu_mm_out != NULL},
      {"matmul", 3, run_bmm, shim.aoti_torch_cpu_bmm_out != NULL},
      {"addmm", 2, run_addmm, shim.aoti_torch_cpu_addmm_out != NULL},
      {"addmm", 3, run_baddbmm, shim.aoti_torch_cpu_baddbmm_out != NULL},
      {"copy", -1, run_copy, true},
  };
  if (node->op == NULL || node->out_count != 1) return NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (strcmp(node->op, rows[i].op) == 0 && rows[i].is_there &&
        (rows[i].rank < 0 || rows[i].rank == node->out[0]->ndim))
      return rows[i].run;
  return NULL;
}

// --- The dispatcher ----------------------------------------------------------

static const opgraft_arg *arg_of(const opgraft_node_call *node,
                                 const recipe_param *param, int32_t position) {
  for (int32_t i = 0; i < node->arg_count; ++i) {
    const opgraft_arg *arg = &node->args[i];
    if (arg->name != NULL ? strcmp(arg->name, param->name) == 0 : i == position)
      return arg;
  }
  return NULL;
}

static bool stack_fill(node_state *state, bool *out_is_full) {
  const recipe *r = state->recipe;
  *out_is_full = false;
  for (int32_t p = 0; p < r->param_count; ++p)
    if (!recipe_value(&r->params[p], state->args[p], state->in,
                      &state->stack[p]))
      return false;
  for (int32_t i = 0; state->use_out && i < r->out_count; ++i) {
    tensor_handle handle;
    if (shim.aoti_torch_new_tensor_handle(state->out[i].handle, &handle) != 0)
      return false;
    state->stack[r->param_count + i] = tensor_value(handle);
  }
  *out_is_full = true;
  return true;
}

static bool same_shape(tensor_handle handle, const og_tensor *wanted) {
  int64_t rank, *sizes;
  if (shim.aoti_torch_get_dim(handle, &rank) != 0 || rank != wanted->ndim ||
      shim.aoti_torch_get_sizes(handle, &sizes) != 0)
    return false;
  for (int64_t d = 0; d < rank; ++d)
    if (sizes[d] != wanted->shape[d]) return false;
  return true;
}

static bool has_strides(tensor_handle handle, const og_tensor *wanted) {
  int64_t *strides;
  if (shim.aoti_torch_get_strides(handle, &strides) != 0) return false;
  for (int32_t d = 0; d < wanted->ndim; ++d)
    if (wanted->shape[d] > 1 && strides[d] != wanted->strides[d]) return false;
  return true;
}

static bool has_layout(tensor_handle handle, const og_tensor *wanted) {
  int64_t offset, bytes;
  int32_t code, wanted_code;
  if (!has_strides(handle, wanted) ||
      shim.aoti_torch_get_storage_offset(handle, &offset) != 0 ||
      shim.aoti_torch_get_storage_size(handle, &bytes) != 0 ||
      shim.aoti_torch_get_dtype(handle, &code) != 0 ||
      dtype_to_shim(wanted->dtype, &wanted_code) != 0)
    return false;
  return code == wanted_code && offset == 0 &&
         bytes == og_numel(wanted) * (int64_t)((wanted->dtype.bits + 7u) / 8u);
}

// An operator that returns its argument has no memory to donate.
static bool is_known(const opgraft_node_call *node, const void *data) {
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] != NULL &&
        (const char *)node->in[i]->data + node->in[i]->byte_offset == data)
      return true;
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->donated[r] != NULL && node->out[r]->data == data) return true;
  return false;
}

static tensor_handle like_wanted(const og_tensor *wanted) {
  tensor_handle made = NULL;
  int32_t code;
  if (dtype_to_shim(wanted->dtype, &code) != 0 ||
      shim.aoti_torch_empty_strided(
          wanted->ndim, wanted->shape, wanted->strides, code,
          shim.aoti_torch_device_type_cpu(), 0, &made) != 0)
    return NULL;
  return made;
}

// Takes the handle, whose memory becomes the result's.
static bool handle_give(const opgraft_node_call *node, int32_t index,
                        tensor_handle handle) {
  void *data = NULL;
  if (handle != NULL && shim.aoti_torch_get_data_ptr(handle, &data) == 0) {
    node->out[index]->data = data;
    node->donated[index] = handle;
    return true;
  }
  if (handle != NULL) shim.aoti_torch_delete_tensor_object(handle);
  return false;
}

// The tensor, or a copy that is as the plan wants it, becomes the result.
static bool result_give(const opgraft_node_call *node, int32_t index,
                        tensor_handle from) {
  const og_tensor *wanted = node->out[index];
  void *data = NULL;
  tensor_handle handle = NULL;
  if (has_layout(from, wanted) &&
      shim.aoti_torch_get_data_ptr(from, &data) == 0 && !is_known(node, data))
    return shim.aoti_torch_new_tensor_handle(from, &handle) == 0 &&
           handle_give(node, index, handle);
  handle = like_wanted(wanted);
  if (handle != NULL && expanded_copy(handle, from, wanted))
    return handle_give(node, index, handle);
  if (handle != NULL) shim.aoti_torch_delete_tensor_object(handle);
  return false;
}

// An undefined tensor, None in Python, where the shape function gives one: a
// gradient that is not asked for, a workspace of training. It counts as zeros.
static bool result_clear(const node_state *state, const opgraft_node_call *node,
                         int32_t index) {
  if (!is_to_give(node, index))
    return expanded_copy(state->out[index].handle, NULL, node->out[index]);
  const tensor_handle made = like_wanted(node->out[index]);
  if (made == NULL) return false;
  if (expanded_copy(made, NULL, node->out[index]))
    return handle_give(node, index, made);
  shim.aoti_torch_delete_tensor_object(made);
  return false;
}

// Takes the handle.
static og_status result_put(node_state *state, const opgraft_node_call *node,
                            int32_t index, tensor_handle handle,
                            opgraft_error *error) {
  og_status status = OG_OK;
  const og_tensor *wanted = index < node->out_count ? node->out[index] : NULL;
  if (wanted != NULL && !state->use_out && !state->in_place) {
    bool is_defined = true;
    shim.aoti_torch_is_defined(handle, &is_defined);
    if (UNLIKELY(!is_defined))
      status =
          result_clear(state, node, index) ? OG_OK : fail_torch(node, error);
    else if (!same_shape(handle, wanted))
      status = fail(node, OG_SHAPE,
                    "a result has another shape than was inferred when the "
                    "model was compiled: the operator's fake implementation "
                    "disagrees with its kernel",
                    error);
    else if (is_to_give(node, index)
                 ? !result_give(node, index, handle)
                 : !expanded_copy(state->out[index].handle, handle, wanted))
      status = fail_torch(node, error);
  }
  shim.aoti_torch_delete_tensor_object(handle);
  return status;
}

static og_status results_take(node_state *state, const opgraft_node_call *node,
                              opgraft_error *error) {
  const recipe *r = state->recipe;
  og_status status = OG_OK;
  int32_t index = 0;
  const int32_t count = state->use_out ? r->out_count : r->result_count;
  for (int32_t i = 0; i < count; ++i) {
    if (state->use_out || !r->result_list[i]) {
      const og_status put = result_put(state, node, index++,
                                       value_tensor(state->stack[i]), error);
      if (status == OG_OK) status = put;
      continue;
    }
    const list_handle list = (list_handle)(uintptr_t)state->stack[i];
    size_t size = 0;
    shim.torch_list_size(list, &size);
    for (size_t k = 0; k < size; ++k) {
      stable_value item;
      if (shim.torch_list_get_item(list, k, &item) != 0) continue;
      const og_status put =
          result_put(state, node, index++, value_tensor(item), error);
      if (status == OG_OK) status = put;
    }
    shim.torch_delete_list(list);
  }
  return status;
}

// Whether an .out operator gave its result other memory or another shape. A
// tensor without elements has no address.
static bool is_moved(const node_state *state, const opgraft_node_call *node) {
  for (int32_t i = 0; i < state->recipe->out_count; ++i) {
    void *data = NULL;
    shim.aoti_torch_get_data_ptr(state->out[i].handle, &data);
    if (!same_shape(state->out[i].handle, node->out[i]) ||
        (data != state->out[i].data && og_numel(node->out[i]) > 0))
      return true;
  }
  return false;
}

// Some .out operators (max_unpool2d) change the strides of the tensor that they
// are given: what they wrote goes to where the plan has it.
static bool strides_restore(node_state *state, const opgraft_node_call *node) {
  bool ok = true;
  for (int32_t i = 0; ok && i < state->recipe->out_count; ++i) {
    bound_tensor *out = &state->out[i];
    if (has_strides(out->handle, node->out[i]) || og_numel(node->out[i]) == 0)
      continue;
    const tensor_handle made = like_wanted(node->out[i]);
    ok = made != NULL && shim.aoti_torch_copy_(made, out->handle, 0) == 0;
    bound_drop(out);
    ok = ok && bound_refresh(out, node->out[i]) &&
         shim.aoti_torch_copy_(out->handle, made, 0) == 0;
    if (made != NULL) shim.aoti_torch_delete_tensor_object(made);
  }
  return ok;
}

static og_status run_dispatcher(node_state *state,
                                const opgraft_node_call *node,
                                opgraft_error *error) {
  bool is_full;
  if (!stack_fill(state, &is_full))
    return fail(node, OG_MEMORY, "not enough memory for its arguments", error);
  const recipe *r = state->recipe;
  if (shim.torch_call_dispatcher(state->in_place ? r->inplace_name : r->name,
                                 state->use_out ? r->out_overload : r->overload,
                                 state->stack, SHIM_BUILD_VERSION) != 0)
    return fail_torch(node, error);
  const og_status status = results_take(state, node, error);
  if (status != OG_OK || !state->use_out) return status;
  if (is_moved(state, node))
    return fail(node, OG_SHAPE,
                "a result has another shape than was inferred when the model "
                "was compiled",
                error);
  return strides_restore(state, node) ? OG_OK : fail_torch(node, error);
}

// --- Python ------------------------------------------------------------------

typedef struct foreign_memory {
  dl_managed managed;
  int64_t sizes[];
} foreign_memory;

static void foreign_free(dl_managed *managed) { free(managed); }

// A tensor object over the plan's memory, by the published road.
static PyObject *object_exchange(const og_tensor *tensor) {
  void *object = NULL;
  const size_t rank = (size_t)tensor->ndim;
  foreign_memory *memory =
      calloc(1, sizeof *memory + 2 * rank * sizeof *memory->sizes);
  if (memory == NULL) return PyErr_NoMemory();
  memory->managed = (dl_managed){
      .major = 1, .minor = 2, .deleter = foreign_free, .tensor = *tensor};
  memcpy(memory->sizes, tensor->shape, rank * sizeof *memory->sizes);
  memcpy(memory->sizes + rank, tensor->strides, rank * sizeof *memory->sizes);
  memory->managed.tensor.shape = memory->sizes;
  memory->managed.tensor.strides = memory->sizes + rank;
  if (exchange->managed_to_object(&memory->managed, &object) != 0) return NULL;
  return object;
}

static PyObject *object_make(const og_tensor *tensor) {
  if (!guard_can_wrap() || tensor->device.type != OG_CPU)
    return object_exchange(tensor);
  tensor_handle handle;
  if (!handle_make(tensor, (char *)tensor->data + tensor->byte_offset,
                   &handle)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "opgraft: no view of the plan's memory");
    return NULL;
  }
  return handle_wrap(handle);
}

static PyObject *arg_object(const node_state *state,
                            const opgraft_node_call *node,
                            const opgraft_arg *arg);

// Takes the tensor over the plan's memory.
static PyObject *object_own(PyObject *shared) {
  PyObject *own =
      shared != NULL ? PyObject_CallMethod(shared, "clone", NULL) : NULL;
  Py_XDECREF(shared);
  return own;
}

static PyObject *list_object(const node_state *state,
                             const opgraft_node_call *node,
                             const opgraft_arg *arg) {
  PyObject *list = PyList_New(arg->count);
  for (int32_t i = 0; list != NULL && i < arg->count; ++i) {
    PyObject *item = arg_object(state, node, &arg->list[i]);
    if (item == NULL)
      Py_CLEAR(list);
    else
      PyList_SetItem(list, i, item);
  }
  return list;
}

static PyObject *keep(PyObject *object) {
  Py_XINCREF(object);
  return object;
}

static const char input_prefix[] = "(argument ";
static _Thread_local PyObject *call_arguments;

PyObject *graph_arguments_set(PyObject *arguments) {
  PyObject *before = call_arguments;
  call_arguments = arguments;
  return before;
}

// Python's nodes run on the thread of the call. Borrowed.
static PyObject *other_get(const node_state *state, const char *name) {
  const size_t length = sizeof input_prefix - 1;
  if (strncmp(name, input_prefix, length) != 0)
    return PyDict_GetItemString(state->context->others, name);
  const Py_ssize_t slot = strtol(name + length, NULL, 10);
  return PyList_Check(call_arguments) ? PyList_GetItem(call_arguments, slot)
                                      : PyTuple_GetItem(call_arguments, slot);
}

static PyObject *arg_object(const node_state *state,
                            const opgraft_node_call *node,
                            const opgraft_arg *arg) {
  switch (arg->kind) {
    case OPGRAFT_ARG_VALUE: {
      PyObject *object = object_make(node->in[arg->value]);
      return may_keep(node) ? object_own(object) : object;
    }
    case OPGRAFT_ARG_INT:
      return PyLong_FromLongLong(arg->i);
    case OPGRAFT_ARG_BOOL:
      return PyBool_FromLong(arg->i != 0);
    case OPGRAFT_ARG_FLOAT:
      return PyFloat_FromDouble(arg->f);
    case OPGRAFT_ARG_STR:
      return PyUnicode_FromString(arg->s);
    case OPGRAFT_ARG_DTYPE:
      return keep(dtype_to_object(arg->dtype));
    case OPGRAFT_ARG_DEVICE: {
      char name[GRAPH_DEVICE_NAME];
      graph_device_name(arg->device, name);
      return keep(PyDict_GetItemString(state->context->others, name));
    }
    case OPGRAFT_ARG_LIST:
      return list_object(state, node, arg);
    case OPGRAFT_ARG_OTHER:
      return keep(other_get(state, arg->s));
    default:
      Py_RETURN_NONE;
  }
}

static PyObject *python_call(const node_state *state,
                             const opgraft_node_call *node) {
  int32_t positional = 0;
  PyObject *target = PyList_GetItem(state->context->targets, node->host_node);
  PyObject *named = PyDict_New(), *tuple, *result = NULL;
  for (int32_t i = 0; i < node->arg_count; ++i)
    positional += node->args[i].name == NULL;
  tuple = PyTuple_New(positional);
  bool is_made = target != NULL && tuple != NULL && named != NULL;
  for (int32_t i = 0, at = 0; is_made && i < node->arg_count; ++i) {
    const opgraft_arg *arg = &node->args[i];
    PyObject *object = arg_object(state, node, arg);
    is_made = object != NULL;
    if (is_made && arg->name == NULL) {
      PyTuple_SetItem(tuple, at++, object);
    } else if (is_made) {
      is_made = PyDict_SetItemString(named, arg->name, object) == 0;
      Py_DECREF(object);
    }
  }
  if (is_made) result = PyObject_Call(target, tuple, named);
  Py_XDECREF(tuple);
  Py_XDECREF(named);
  return result;
}

// Takes `to`, NULL where it could not be made.
static bool object_fill(PyObject *to, PyObject *result,
                        const og_tensor *wanted) {
  to = expanded_once(to, wanted);
  PyObject *from = expanded_once(keep(result), wanted);
  PyObject *copied = to != NULL && from != NULL
                         ? PyObject_CallMethod(to, "copy_", "O", from)
                         : NULL;
  Py_XDECREF(to);
  Py_XDECREF(from);
  Py_XDECREF(copied);
  return copied != NULL;
}

// A tensor of a class of its own is copied: what it holds may not be memory.
static bool python_give(const opgraft_node_call *node, int32_t index,
                        PyObject *result) {
  const tensor_handle plain =
      guard_is_plain(result) ? guard_handle(result) : NULL;
  if (plain != NULL && same_shape(plain, node->out[index]) &&
      result_give(node, index, plain))
    return true;
  tensor_handle made = like_wanted(node->out[index]), second;
  if (made == NULL) {
    PyErr_NoMemory();
    return false;
  }
  if (shim.aoti_torch_new_tensor_handle(made, &second) == 0 &&
      object_fill(handle_wrap(second), result, node->out[index]))
    return handle_give(node, index, made);
  shim.aoti_torch_delete_tensor_object(made);
  return false;
}

// Whether the result is an argument that the operator wrote: it is there.
static bool is_written(const opgraft_node_call *node, int32_t index) {
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] == node->out[index]) return true;
  return false;
}

// None where the shape function gives a tensor: see result_clear.
static bool none_put(const node_state *state, const opgraft_node_call *node,
                     int32_t index) {
  if (is_to_give(node, index)) {
    if (result_clear(state, node, index)) return true;
    PyErr_NoMemory();
    return false;
  }
  PyObject *to = expanded_once(object_make(node->out[index]), node->out[index]);
  PyObject *cleared =
      to != NULL ? PyObject_CallMethod(to, "zero_", NULL) : NULL;
  Py_XDECREF(to);
  Py_XDECREF(cleared);
  return cleared != NULL;
}

// Copies the tensors of a result, in the order of its nested lists.
static bool python_put(const node_state *state, const opgraft_node_call *node,
                       PyObject *result, int32_t *at) {
  if (PyTuple_Check(result) || PyList_Check(result)) {
    const bool is_tuple = PyTuple_Check(result);
    const Py_ssize_t count =
        is_tuple ? PyTuple_Size(result) : PyList_Size(result);
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!python_put(
              state, node,
              is_tuple ? PyTuple_GetItem(result, i) : PyList_GetItem(result, i),
              at))
        return false;
    return true;
  }
  const int32_t index = (*at)++;
  if (index >= node->out_count || node->out[index] == NULL) return true;
  if (result == Py_None)
    return is_written(node, index) || none_put(state, node, index);
  if (is_to_give(node, index)) return python_give(node, index, result);
  return object_fill(object_make(node->out[index]), result, node->out[index]);
}

static bool python_note(const graph_context *context, const char *name) {
  PyObject *text = PyUnicode_FromString(name);
  const bool is_noted =
      text != NULL && PySet_Add(context->in_python, text) == 0;
  Py_XDECREF(text);
  return is_noted;
}

static og_status run_python(node_state *state, const opgraft_node_call *node,
                            opgraft_error *error) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  int32_t at = 0;
  PyObject *result = NULL;
  if (!state->is_noted)
    state->is_noted = python_note(state->context, node->name);
  if (state->is_noted) result = python_call(state, node);
  const bool is_put = result != NULL && python_put(state, node, result, &at);
  Py_XDECREF(result);
  if (!is_put) raised_keep();
  PyGILState_Release(lock);
  return is_put ? OG_OK : fail(node, OG_KERNEL, "it raised", error);
}

// --- The engine's questions --------------------------------------------------

static void state_free(node_state *state) {
  handles_drop(state);
  Py_XDECREF(state->recipe_capsule);
  pool memory = state->memory;  // which the state lies in
  pool_free(&memory);
}

void graph_context_sweep(graph_context *context) {
  if (LIKELY(__atomic_load_n(&context->dead, __ATOMIC_RELAXED) == NULL)) return;
  pthread_mutex_lock(&context->lock);
  node_state *dead = context->dead;
  context->dead = NULL;
  pthread_mutex_unlock(&context->lock);
  while (dead != NULL) {
    node_state *state = dead;
    dead = state->next;
    state_free(state);
  }
}

static void host_release(void *opaque, void *opaque_state) {
  graph_context *context = opaque;
  node_state *state = opaque_state;
  pthread_mutex_lock(&context->lock);
  state->next = context->dead;
  context->dead = state;
  pthread_mutex_unlock(&context->lock);
}

// Whether results can be given as .out arguments: all there, none updated.
static bool can_give_out(const recipe *r, const opgraft_node_call *node) {
  if (r->out_count == 0 || r->out_count != node->out_count) return false;
  for (int32_t i = 0; i < node->out_count; ++i)
    if (node->out[i] == NULL || expanded_is(node->out[i])) return false;
  return true;
}

// Whether the first argument is where the result is to be, and holds what it
// starts as: .out would copy a whole cache for the sake of one row.
static bool can_write_first(const recipe *r, const opgraft_node_call *node,
                            const opgraft_arg *first) {
  return r->inplace_name != NULL && node->out_count == 1 && first != NULL &&
         first->kind == OPGRAFT_ARG_VALUE && node->out[0] != NULL &&
         node->in[first->value] == node->out[0] && !expanded_is(node->out[0]);
}

static bool recipe_fits(node_state *state, const opgraft_node_call *node) {
  const recipe *r = state->recipe;
  int32_t known = 0;
  state->args =
      pool_alloc(&state->memory, (size_t)r->param_count + 1, sizeof(void *));
  if (state->args == NULL) return false;
  for (int32_t p = 0; p < r->param_count; ++p) {
    state->args[p] = arg_of(node, &r->params[p], p);
    known += state->args[p] != NULL;
    if (!recipe_takes(&r->params[p], state->args[p])) return false;
  }
  return known == node->arg_count;
}

// The node's recipe, or False; a new reference, NULL with an exception set.
// Python is asked once: a node is prepared anew for each size.
static PyObject *recipe_of(const graph_context *context, int32_t host_node) {
  PyObject *recipes = context->recipes;
  while (PyList_Size(recipes) <= host_node)
    if (PyList_Append(recipes, Py_None) != 0) return NULL;
  PyObject *known = PyList_GetItem(recipes, host_node);
  if (known == NULL) return NULL;
  Py_INCREF(known);
  if (known != Py_None) return known;
  Py_DECREF(known);
  PyObject *target = PyList_GetItem(context->targets, host_node);
  if (target == NULL) return NULL;
  PyObject *found = PyObject_CallFunctionObjArgs(context->recipe_find, target,
                                                 (PyObject *)NULL);
  if (found == NULL) return NULL;
  if (found == Py_None) {
    Py_DECREF(found);
    found = Py_False;
    Py_INCREF(found);
  }
  Py_INCREF(found);  // the list keeps one, the caller has one
  if (PyList_SetItem(recipes, host_node, found) == 0) return found;
  Py_DECREF(found);
  return NULL;
}

static og_status recipe_prepare(node_state *state,
                                const opgraft_node_call *node) {
  if (may_keep(node)) return OG_OK;
  PyObject *capsule = recipe_of(state->context, node->host_node);
  if (capsule == NULL) return OG_INTERNAL;
  state->recipe_capsule = capsule;
  if (capsule == Py_False) return OG_OK;
  state->recipe = recipe_get(capsule);
  if (!recipe_fits(state, node)) {
    state->recipe = NULL;
    return PyErr_Occurred() != NULL ? OG_MEMORY : OG_OK;
  }
  state->in_place = can_write_first(state->recipe, node, state->args[0]);
  state->use_out = !state->in_place && can_give_out(state->recipe, node);
  const int32_t given = state->recipe->param_count + state->recipe->out_count;
  const int32_t size =
      given > state->recipe->result_count ? given : state->recipe->result_count;
  state->stack =
      pool_alloc(&state->memory, (size_t)size + 1, sizeof *state->stack);
  return state->stack != NULL ? OG_OK : OG_MEMORY;
}

// Python's nodes need its lock, and are slower than any kernel; the others need
// nothing of the thread, since their handles are its own. A kernel that writes
// into given memory has none to donate.
static uint32_t flags_of(const node_state *state) {
  const bool is_python = state->direct == NULL && state->recipe == NULL;
  const bool gives = state->direct == NULL && !state->use_out &&
                     !state->in_place && guard_can_wrap() &&
                     shim.aoti_torch_get_storage_size != NULL;
  return (is_python ? OPGRAFT_NODE_SLOW : OPGRAFT_NODE_ANY_THREAD) |
         (gives ? OPGRAFT_NODE_DONATES : 0);
}

// What lies on a device is Python's: the shim makes no views of its memory.
static bool is_on_device(const opgraft_node_call *node) {
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] != NULL && node->in[i]->device.type != OG_CPU) return true;
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] != NULL && node->out[r]->device.type != OG_CPU)
      return true;
  return false;
}

static og_status host_prepare(void *opaque, const opgraft_node_call *node,
                              void **out_state, uint32_t *out_flags,
                              opgraft_error *error) {
  *out_state = NULL;
  pool memory = {0};
  node_state *state = pool_alloc(&memory, 1, sizeof *state);
  if (state == NULL) {
    PyErr_Clear();
    return fail(node, OG_MEMORY, "out of memory", error);
  }
  state->memory = memory;
  state->context = opaque;
  state->in_count = node->in_count;
  state->out_count = node->out_count;
  state->in =
      pool_alloc(&state->memory, (size_t)node->in_count + 1, sizeof *state->in);
  state->out = pool_alloc(&state->memory, (size_t)node->out_count + 1,
                          sizeof *state->out);
  og_status status =
      state->in != NULL && state->out != NULL ? OG_OK : OG_MEMORY;
  const bool is_far = is_on_device(node);
  if (status == OG_OK && !is_far) state->direct = direct_find(node);
  if (state->direct != NULL) {
    state->beta = scale_of(node, "beta");
    state->alpha = scale_of(node, "alpha");
  } else if (status == OG_OK && !is_far) {
    status = recipe_prepare(state, node);
  }
  if (status != OG_OK) {
    if (PyErr_Occurred() != NULL) raised_keep();
    state_free(state);
    return fail(node, status, "could not be prepared", error);
  }
  *out_state = state;
  *out_flags = is_far ? OPGRAFT_NODE_SLOW : flags_of(state);
  return OG_OK;
}

static og_status host_run(void *context, void *opaque,
                          const opgraft_node_call *node, opgraft_error *error) {
  (void)context;
  node_state *state = opaque;
  if (state->direct == NULL && state->recipe == NULL)
    return run_python(state, node, error);
  if (UNLIKELY(!all_refresh(state, node)))
    return fail(node, OG_MEMORY, "no view of the plan's memory", error);
  if (state->direct != NULL)
    return state->direct(state) ? OG_OK : fail_torch(node, error);
  return run_dispatcher(state, node, error);
}

void graph_device_name(og_device device, char *out) {
  snprintf(out, GRAPH_DEVICE_NAME, "device %d:%d", (int)device.type,
           (int)device.id);
}

void graph_input_name(int32_t slot, char *out) {
  snprintf(out, GRAPH_INPUT_NAME, "%s%d)", input_prefix, (int)slot);
}

void graph_host_fill(graph_context *context, opgraft_host *out) {
  *out = (opgraft_host){.struct_size = sizeof *out,
                        .context = context,
                        .prepare = host_prepare,
                        .run = host_run,
                        .release = host_release};
  threads_host(out);
}
