// SPDX-License-Identifier: Apache-2.0
// The slow path's end: an operator as a boxed kernel of torch's dispatcher.
//
// The dispatcher passes no user data to a kernel, so each registration takes a
// function of its own from a fixed pool. Where that is empty, Python registers
// a kernel of its own. A kernel owns every argument on its
// stack and frees each; it runs without the interpreter lock. An error leaves
// by aoti_torch_check, which throws through these frames: by then everything
// is freed and no lock is held.
//
// Invariant: a call may be under way while another thread takes its operator
// away. The registration and each call hold the slot; who leaves last drops
// the operator.

#include "torch/base/host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "torch/base/cuda.h"
#include "torch/base/raised.h"
#include "torch/base/threads.h"
#include "torch/base/types.h"

enum { SLOT_COUNT = 4096, OWNED_MAX = 1024, ITEM_MAX = 1024 };

typedef enum owned_kind {
  OWNED_TENSOR,
  OWNED_CELL,
  OWNED_LIST,
  OWNED_STRING
} owned_kind;

typedef struct owned {
  owned_kind kind;
  void *what;
} owned;

typedef struct boxed_state {
  opgraft_frame frame;
  opgraft_error error;
  owned owned[OWNED_MAX];
  int32_t owned_count;
  tensor_handle handles[OPGRAFT_ARG_MAX];  // by tensor argument, owned above
  tensor_handle outs[OPGRAFT_OUT_MAX];     // of the .out form, owned above
  og_tensor tensors[OPGRAFT_ARG_MAX];
  og_tensor out_tensors[OPGRAFT_OUT_MAX];
  og_tensor items[ITEM_MAX];
  og_tensor *item_pointers[ITEM_MAX];
  int64_t ints[ITEM_MAX];
  double floats[ITEM_MAX];
  const char *strings[ITEM_MAX];
  int32_t item_count, int_count, float_count, string_count;
  tensor_handle fresh[OPGRAFT_OUT_MAX];  // results, owned
  list_handle fresh_list[OPGRAFT_OUT_MAX];
} boxed_state;

// --- Ownership ---------------------------------------------------------------

static void own(boxed_state *state, owned_kind kind, void *what) {
  if (state->owned_count < OWNED_MAX)
    state->owned[state->owned_count++] = (owned){kind, what};
}

static void disown(boxed_state *state, void *what) {
  for (int32_t i = 0; i < state->owned_count; ++i)
    if (state->owned[i].what == what)
      state->owned[i] = state->owned[--state->owned_count];
}

static void owned_free(boxed_state *state) {
  while (state->owned_count > 0) {
    const owned *last = &state->owned[--state->owned_count];
    if (last->kind == OWNED_TENSOR)
      shim.aoti_torch_delete_tensor_object(last->what);
    else if (last->kind == OWNED_LIST)
      shim.torch_delete_list(last->what);
    else if (last->kind == OWNED_STRING)
      shim.torch_delete_string(last->what);
    else
      shim.torch_delete_stable_ivalue(last->what);
  }
}

static og_status refuse(boxed_state *state, const host_op *op,
                        const host_param *param, const char *text) {
  const char *name =
      param != NULL ? PyUnicode_AsUTF8AndSize(param->name, NULL) : "result";
  state->error.code = OG_INVALID;
  PyOS_snprintf(state->error.text, sizeof state->error.text, "%s: %s: %s",
                opgraft_op_name(op->op), name, text);
  return OG_INVALID;
}

// --- Arguments ---------------------------------------------------------------

static og_status tensor_view(boxed_state *state, const host_op *op,
                             const host_param *param, tensor_handle handle,
                             og_tensor *out) {
  int64_t rank = 0;
  int32_t type = 0, device = 0, index = 0, layout = 0;
  const bool is_read =
      shim.aoti_torch_get_layout(handle, &layout) == 0 &&
      layout == shim.aoti_torch_layout_strided() &&
      shim.aoti_torch_get_dim(handle, &rank) == 0 &&
      shim.aoti_torch_get_sizes(handle, &out->shape) == 0 &&
      shim.aoti_torch_get_strides(handle, &out->strides) == 0 &&
      shim.aoti_torch_get_dtype(handle, &type) == 0 &&
      shim.aoti_torch_get_device_type(handle, &device) == 0 &&
      shim.aoti_torch_get_device_index(handle, &index) == 0 &&
      shim.aoti_torch_get_data_ptr(handle, &out->data) == 0;
  if (!is_read)
    return refuse(state, op, param, "is not a strided tensor with data");
  const bool is_cpu = device == shim.aoti_torch_device_type_cpu();
  out->device = (og_device){is_cpu ? OG_CPU : OG_CUDA, index < 0 ? 0 : index};
  if (device != cuda_torch_type(out->device))
    return refuse(state, op, param, "is neither on a CPU nor on CUDA");
  if (dtype_from_shim(type, &out->dtype) != 0)
    return refuse(state, op, param, "has a dtype that opgraft does not know");
  out->ndim = (int32_t)rank;
  out->byte_offset = 0;
  return OG_OK;
}

// Memory of CUDA is not copied by a call: what is only read gets row-major
// here, for a kernel that asks for it. `*handle` is then the copy's.
static og_status dense_make(boxed_state *state, const host_op *op,
                            const host_param *param, tensor_handle *handle,
                            og_tensor *tensor) {
  int64_t strides[OPGRAFT_RANK_MAX], step = 1;
  int32_t code;
  tensor_handle copy;
  const bool is_written =
      param->is_mutated ||
      (op->inplace_param >= 0 && param == &op->params[op->inplace_param]);
  if (tensor->device.type != OG_CUDA || is_written || param->is_strided ||
      tensor_is_row_major(tensor))
    return OG_OK;
  for (int32_t i = tensor->ndim; i-- > 0; step *= tensor->shape[i])
    strides[i] = step;
  if (dtype_to_shim(tensor->dtype, &code) != 0 ||
      shim.aoti_torch_empty_strided(tensor->ndim, tensor->shape, strides, code,
                                    cuda_torch_type(tensor->device),
                                    tensor->device.id, &copy) != 0)
    return refuse(state, op, param, "could not be made row-major");
  own(state, OWNED_TENSOR, copy);
  if (shim.aoti_torch_copy_(copy, *handle, 0) != 0)
    return refuse(state, op, param, "could not be made row-major");
  *handle = copy;
  return tensor_view(state, op, param, copy, tensor);
}

static og_status tensor_read(boxed_state *state, const host_op *op,
                             const host_param *param, tensor_handle handle,
                             og_tensor *out) {
  own(state, OWNED_TENSOR, handle);
  const og_status status = tensor_view(state, op, param, handle, out);
  return status != OG_OK ? status : dense_make(state, op, param, &handle, out);
}

// An optional's content: 0 where it is None. The cell becomes ours to free.
static bool cell_open(boxed_state *state, stable_value *value) {
  if (*value == 0) return false;
  stable_value *cell = (stable_value *)(uintptr_t)*value;
  own(state, OWNED_CELL, cell);
  *value = *cell;
  return true;
}

static og_status tensor_list_take(boxed_state *state, const host_op *op,
                                  const host_param *param, list_handle list) {
  size_t size = 0;
  shim.torch_list_size(list, &size);
  const int32_t left = ITEM_MAX - state->item_count;
  // An entry may own two: the tensor, and its row-major copy.
  if (size > (size_t)left || size > (size_t)(OWNED_MAX - 128) / 2)
    return refuse(state, op, param, "has too many entries");
  og_tensor **pointers = state->item_pointers + state->item_count;
  og_tensor *items = state->items + state->item_count;
  state->item_count += (int32_t)size;
  og_status status = OG_OK;
  for (size_t i = 0; i < size && status == OG_OK; ++i) {
    stable_value value = 0;
    shim.torch_list_get_item(list, i, &value);
    pointers[i] = NULL;
    if (param->is_element_optional && !cell_open(state, &value)) continue;
    pointers[i] = &items[i];
    status = tensor_read(state, op, param, value_tensor(value), &items[i]);
  }
  state->frame.in_list[param->index] =
      (og_tensor_list){(int64_t)size, pointers};
  return status;
}

static void scalar_value(const host_param *param, stable_value value,
                         og_attr *out) {
  og_dtype dtype = {0, 0, 0};
  switch (param->type) {
    case OPGRAFT_TYPE_FLOAT:
      out->kind = OG_ATTR_FLOAT;
      memcpy(&out->f, &value, sizeof value);
      break;
    case OPGRAFT_TYPE_BOOL:
      out->kind = OG_ATTR_BOOL;
      out->i = (value & 0xff) != 0;
      break;
    case OPGRAFT_TYPE_SCALAR_TYPE:
      out->kind = OG_ATTR_DTYPE;
      (void)dtype_from_shim((int32_t)value, &dtype);
      out->dtype = dtype;
      break;
    case OPGRAFT_TYPE_DEVICE:
      out->kind = OG_ATTR_DEVICE;
      out->device = (og_device){OG_CPU, 0};
      break;
    default:
      out->kind = OG_ATTR_INT;
      out->i = (int64_t)value;
  }
}

static og_status string_value(boxed_state *state, const host_op *op,
                              const host_param *param, stable_value value,
                              og_attr *out) {
  string_handle string = (string_handle)(uintptr_t)value;
  size_t size = 0;
  own(state, OWNED_STRING, string);
  out->kind = OG_ATTR_STR;
  if (shim.torch_string_c_str(string, &out->s) != 0 ||
      shim.torch_string_length(string, &size) != 0)
    return refuse(state, op, param, "could not be read as a string");
  out->count = (int64_t)size;
  return OG_OK;
}

static og_status list_value(boxed_state *state, const host_op *op,
                            const host_param *param, stable_value value,
                            og_attr *out) {
  list_handle list = (list_handle)(uintptr_t)value;
  size_t size = 0;
  own(state, OWNED_LIST, list);
  shim.torch_list_size(list, &size);
  const bool is_float = param->type == OPGRAFT_TYPE_FLOAT;
  const bool is_string = param->type == OPGRAFT_TYPE_STR;
  int32_t *used = is_float    ? &state->float_count
                  : is_string ? &state->string_count
                              : &state->int_count;
  if (size > (size_t)(ITEM_MAX - *used))
    return refuse(state, op, param, "has too many entries");
  out->count = (int64_t)size;
  out->kind = is_float                           ? OG_ATTR_FLOATS
              : is_string                        ? OG_ATTR_STRS
              : param->type == OPGRAFT_TYPE_BOOL ? OG_ATTR_BOOLS
                                                 : OG_ATTR_INTS;
  if (is_float)
    out->floats = state->floats + *used;
  else if (is_string)
    out->strs = state->strings + *used;
  else
    out->ints = state->ints + *used;
  for (size_t i = 0; i < size; ++i) {
    stable_value item = 0;
    og_attr attr = {0};
    shim.torch_list_get_item(list, i, &item);
    if (is_string) {
      const og_status status = string_value(state, op, param, item, &attr);
      if (status != OG_OK) return status;
      state->strings[*used] = attr.s;
    } else {
      scalar_value(param, item, &attr);
      if (is_float)
        state->floats[*used] = attr.f;
      else
        state->ints[*used] = attr.i;
    }
    ++*used;
  }
  return OG_OK;
}

static og_status tensor_take(boxed_state *state, const host_op *op,
                             const host_param *param, stable_value value) {
  opgraft_frame *frame = &state->frame;
  frame->in[param->index] = NULL;
  frame->in_list[param->index].count = 0;
  if (param->is_optional && !cell_open(state, &value)) return OG_OK;
  if (param->is_list) {
    own(state, OWNED_LIST, (void *)(uintptr_t)value);
    return tensor_list_take(state, op, param, (list_handle)(uintptr_t)value);
  }
  state->handles[param->index] = value_tensor(value);
  frame->in[param->index] = &state->tensors[param->index];
  return tensor_read(state, op, param, value_tensor(value),
                     &state->tensors[param->index]);
}

static og_status param_take(boxed_state *state, const host_op *op,
                            const host_param *param, stable_value value) {
  if (param->type == OPGRAFT_TYPE_TENSOR)
    return tensor_take(state, op, param, value);
  og_attr *attr = &state->frame.attr[param->index];
  attr->kind = OG_ATTR_NONE;
  if (param->is_optional && !cell_open(state, &value)) return OG_OK;
  if (param->is_list) return list_value(state, op, param, value, attr);
  if (param->type == OPGRAFT_TYPE_STR)
    return string_value(state, op, param, value, attr);
  scalar_value(param, value, attr);
  return OG_OK;
}

// Takes all of the stack, also past a refusal, so that everything is freed.
static og_status stack_take(boxed_state *state, const host_op *op,
                            const stable_value *stack) {
  og_status status = OG_OK;
  for (int32_t p = 0; p < op->param_count; ++p) {
    const og_status taken = param_take(state, op, &op->params[p], stack[p]);
    if (status == OG_OK) status = taken;
  }
  for (int32_t i = 0; op->has_out_params && i < op->fresh_count; ++i) {
    state->outs[i] = value_tensor(stack[op->param_count + i]);
    own(state, OWNED_TENSOR, state->outs[i]);
    const og_status taken =
        tensor_view(state, op, NULL, state->outs[i], &state->out_tensors[i]);
    if (status == OG_OK) status = taken;
  }
  return status;
}

// --- Results -----------------------------------------------------------------

static og_status tensor_make(boxed_state *state, const host_op *op,
                             og_tensor *fresh, tensor_handle *out) {
  int32_t code;
  if (dtype_to_shim(fresh->dtype, &code) != 0 ||
      shim.aoti_torch_empty_strided(fresh->ndim, fresh->shape, fresh->strides,
                                    code, cuda_torch_type(fresh->device),
                                    fresh->device.id, out) != 0)
    return refuse(state, op, NULL, "could not be allocated");
  shim.aoti_torch_get_data_ptr(*out, &fresh->data);
  return OG_OK;
}

static og_status list_make(boxed_state *state, const host_op *op,
                           og_tensor_list *fresh, list_handle *out) {
  if (shim.torch_new_list_reserve_size((size_t)fresh->count, out) != 0)
    return refuse(state, op, NULL, "could not be allocated");
  own(state, OWNED_LIST, *out);
  for (int64_t i = 0; i < fresh->count; ++i) {
    tensor_handle handle;
    const og_status status = tensor_make(state, op, fresh->tensors[i], &handle);
    if (status != OG_OK) return status;
    shim.torch_list_push_back(*out, tensor_value(handle));
  }
  return OG_OK;
}

static og_status fresh_place(boxed_state *state, const host_op *op, int32_t i) {
  opgraft_frame *frame = &state->frame;
  if (op->has_out_params)
    return opgraft_frame_set_out(frame, i, &state->out_tensors[i],
                                 &state->error);
  if (op->inplace_param >= 0 && i == 0)
    return opgraft_frame_set_out(frame, 0,
                                 frame->in[op->params[op->inplace_param].index],
                                 &state->error);
  if (fresh_is_list(op, i))
    return list_make(state, op, &frame->fresh_list[i], &state->fresh_list[i]);
  const og_status status =
      tensor_make(state, op, &frame->fresh[i], &state->fresh[i]);
  if (status == OG_OK) own(state, OWNED_TENSOR, state->fresh[i]);
  return status;
}

// A data-dependent result was allocated at its bound: cut what was found.
static og_status found_cut(boxed_state *state, const host_op *op, int32_t i) {
  if (fresh_is_list(op, i) || state->frame.fresh[i].ndim == 0) return OG_OK;
  stable_value stack[4] = {tensor_value(state->fresh[i]), 0, 0,
                           (stable_value)state->frame.fresh[i].shape[0]};
  disown(state, state->fresh[i]);
  if (shim.torch_call_dispatcher("aten::narrow", "", stack,
                                 SHIM_BUILD_VERSION) != 0)
    return refuse(state, op, NULL, "could not be cut to what was found");
  state->fresh[i] = value_tensor(stack[0]);
  own(state, OWNED_TENSOR, state->fresh[i]);
  return OG_OK;
}

static og_status kernel_run(boxed_state *state, const host_op *op) {
  opgraft_frame *frame = &state->frame;
  return cuda_runs(frame) ? cuda_run(frame, op->tensor_count, &state->error)
                          : opgraft_frame_run(frame, &state->error);
}

static og_status boxed_run(boxed_state *state, const host_op *op) {
  opgraft_frame *frame = &state->frame;
  threads_set(&frame->call, frame_bytes(frame, op->tensor_count));
  og_status status = opgraft_frame_infer(frame, &state->error);
  for (int32_t i = 0; status == OG_OK && i < op->fresh_count; ++i)
    status = fresh_place(state, op, i);
  if (status == OG_OK) status = kernel_run(state, op);
  for (int32_t i = 0;
       status == OG_OK && op->has_found_dim && i < op->fresh_count; ++i)
    status = found_cut(state, op, i);
  return status;
}

// Moves the results to the stack; what was theirs to free no longer is.
static void results_put(boxed_state *state, const host_op *op,
                        stable_value *stack) {
  for (int32_t r = 0; r < op->result_count; ++r) {
    const host_result *result = &op->results[r];
    void *what;
    if (result->fresh < 0)
      what = state->handles[op->params[result->param].index];
    else if (op->has_out_params)
      what = state->outs[result->fresh];
    else if (result->is_list)
      what = state->fresh_list[result->fresh];
    else
      what = state->fresh[result->fresh];
    disown(state, what);
    stack[r] = (stable_value)(uintptr_t)what;
  }
}

// --- The pool ----------------------------------------------------------------

typedef struct slot {
  host_op *op;    // NULL: free
  int32_t users;  // the registration and calls under way; 0: to be dropped
} slot;

static slot slots[SLOT_COUNT];
static int next_slot;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static const host_op *slot_enter(slot *at) {
  int32_t users = __atomic_load_n(&at->users, __ATOMIC_RELAXED);
  do {
    if (users == 0) return NULL;
  } while (!__atomic_compare_exchange_n(&at->users, &users, users + 1, true,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
  return at->op;
}

static void slot_leave(slot *at) {
  if (__atomic_sub_fetch(&at->users, 1, __ATOMIC_ACQ_REL) > 0) return;
  // While the interpreter ends, what it owns goes with the process.
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *op = (PyObject *)(void *)at->op;
  pthread_mutex_lock(&slots_lock);
  at->op = NULL;
  pthread_mutex_unlock(&slots_lock);
  Py_DECREF(op);
  PyGILState_Release(state);
}

static og_status boxed_take_run(const host_op *op, stable_value *stack,
                                boxed_state *state) {
  opgraft_frame_init(&state->frame, op->op);
  state->owned_count = 0;
  state->item_count = state->int_count = 0;
  state->float_count = state->string_count = 0;
  og_status status = stack_take(state, op, stack);
  if (status == OG_OK) status = boxed_run(state, op);
  if (status == OG_OK) results_put(state, op, stack);
  opgraft_frame_reset(&state->frame);
  owned_free(state);
  return status;
}

static void boxed_call(int place, stable_value *stack) {
  boxed_state state;
  char name[64] = "";
  const host_op *op = slot_enter(&slots[place]);
  og_status status = OG_INVALID;
  if (op != NULL) {
    status = boxed_take_run(op, stack, &state);
    // Once the slot is left, the name may be gone.
    if (UNLIKELY(status != OG_OK))
      PyOS_snprintf(name, sizeof name, "%s", opgraft_op_name(op->op));
    slot_leave(&slots[place]);
  } else {
    PyOS_snprintf(state.error.text, sizeof state.error.text,
                  "the operator's module was unloaded during the call");
  }
  if (status != OG_OK)
    shim.aoti_torch_check(false, name, "opgraft", 0, state.error.text);
}

// clang-format off
#define SLOT(n)                                                      \
  static void slot_##n(stable_value *stack, uint64_t argument_count, \
                       uint64_t result_count) {                      \
    (void)argument_count;                                            \
    (void)result_count;                                              \
    boxed_call(0x##n, stack);                                        \
  }
#define SLOTS_16(X, n)                                                    \
  X(n##0)                                                                 \
  X(n##1)                                                                 \
  X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9) X(n##a) \
      X(n##b) X(n##c) X(n##d) X(n##e) X(n##f)
#define SLOTS_256(X, n)                                                       \
  SLOTS_16(X, n##0)                                                           \
  SLOTS_16(X, n##1)                                                           \
  SLOTS_16(X, n##2) SLOTS_16(X, n##3) SLOTS_16(X, n##4) SLOTS_16(X, n##5)     \
      SLOTS_16(X, n##6) SLOTS_16(X, n##7) SLOTS_16(X, n##8) SLOTS_16(X, n##9) \
          SLOTS_16(X, n##a) SLOTS_16(X, n##b) SLOTS_16(X, n##c)               \
              SLOTS_16(X, n##d) SLOTS_16(X, n##e) SLOTS_16(X, n##f)
#define SLOTS_ALL(X) \
  SLOTS_256(X, 0)    \
  SLOTS_256(X, 1)    \
  SLOTS_256(X, 2) SLOTS_256(X, 3) SLOTS_256(X, 4) SLOTS_256(X, 5) SLOTS_256(X, 6) \
  SLOTS_256(X, 7) SLOTS_256(X, 8) SLOTS_256(X, 9) SLOTS_256(X, a) SLOTS_256(X, b) \
  SLOTS_256(X, c) SLOTS_256(X, d) SLOTS_256(X, e) SLOTS_256(X, f)

SLOTS_ALL(SLOT)
#define SLOT_NAME(n) slot_##n,
static const boxed_kernel slot_kernels[SLOT_COUNT] = {SLOTS_ALL(SLOT_NAME)};
// clang-format on

// The slot that was free longest: a thread that read a kernel's address as it
// was taken away finds no other operator behind it.
static int slot_take(host_op *op) {
  int taken = -1;
  pthread_mutex_lock(&slots_lock);
  for (int i = 0; taken < 0 && i < SLOT_COUNT; ++i)
    if (slots[(next_slot + i) % SLOT_COUNT].op == NULL)
      taken = (next_slot + i) % SLOT_COUNT;
  if (taken >= 0) {
    slots[taken].op = op;
    __atomic_store_n(&slots[taken].users, 1, __ATOMIC_RELEASE);
    next_slot = taken + 1;
  }
  pthread_mutex_unlock(&slots_lock);
  return taken;
}

// --- Registration ------------------------------------------------------------

typedef struct registration {
  library_handle library;
  int slot;
} registration;

static void registration_end(registration *r) {
  if (r->library != NULL) shim.aoti_torch_delete_library_object(r->library);
  if (r->slot >= 0) slot_leave(&slots[r->slot]);
  free(r);
}

static void capsule_end(PyObject *capsule) {
  registration_end(PyCapsule_GetPointer(capsule, "opgraft.registration"));
}

// boxed_register(op, namespace, name, key): registers the operator with the
// dispatcher -> a capsule, and dropping it takes the kernel away again; or None
// where the pool is empty.
PyObject *boxed_register(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *object;
  const char *space, *name, *key;
  if (!PyArg_ParseTuple(arguments, "Osss", &object, &space, &name, &key))
    return NULL;
  host_op *op = (host_op *)(void *)object;
  registration *r = calloc(1, sizeof *r);
  if (r == NULL) return PyErr_NoMemory();
  Py_INCREF(object);
  r->slot = slot_take(op);
  if (r->slot < 0) {
    Py_DECREF(object);
    free(r);
    Py_RETURN_NONE;
  }
  if (shim.aoti_torch_library_init_impl(space, key, "opgraft", 0,
                                        &r->library) != 0 ||
      shim.torch_library_impl(r->library, name, slot_kernels[r->slot],
                              SHIM_BUILD_VERSION) != 0) {
    registration_end(r);
    return PyErr_Format(
        PyExc_RuntimeError, "opgraft: torch refused the kernel of %s::%s: %s",
        space, name, shim.torch_exception_get_what_without_backtrace());
  }
  PyObject *capsule = PyCapsule_New(r, "opgraft.registration", capsule_end);
  if (capsule == NULL) registration_end(r);
  return capsule;
}
