// SPDX-License-Identifier: Apache-2.0
// Adopted TVM-FFI functions: called by their C ABI, with DLTensors.
//
// Its structs are those of tvm_ffi/abi.h; its functions are found in the
// process, whose library the caller's function brought along.

#include <dlfcn.h>
#include <string.h>

#include "torch/adopt/adopt_map.h"
#include "torch/adopt/adopt_share.h"
#include "tvm_ffi/abi.h"

typedef int (*safe_call)(void *handle, const tvm_any *arguments, int32_t count,
                         tvm_any *result);

typedef struct adopted_tvm {
  adopted base;
  PyObject *holder;  // keeps the function
  void *handle;      // of a function object; NULL for a bare symbol
  safe_call symbol;
  map_arg args[MAP_ARG_MAX];
  int32_t arg_count;
  int32_t result_out;  // in call->out, where it returns one; else -1
} adopted_tvm;

static struct {
  int (*call)(void *function, const tvm_any *arguments, int32_t count,
              tvm_any *result);
  int (*release)(void *object);
  int (*own)(dl_managed *from, int32_t alignment, int32_t contiguous,
             void **out_tensor);
  void (*error_take)(void **out_error);
} tvm;

static int library_find_functions(void) {
  if (tvm.call != NULL) return 0;
  void *library = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) library = dlopen(NULL, RTLD_NOW);
  void *call = dlsym(library, "TVMFFIFunctionCall");
  void *release = dlsym(library, "TVMFFIObjectDecRef");
  void *take = dlsym(library, "TVMFFIErrorMoveFromRaised");
  void *own = dlsym(library, "TVMFFITensorFromDLPackVersioned");
  if (call == NULL || release == NULL || take == NULL || own == NULL) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "opgraft: libtvm_ffi.so is not loaded, or has no "
        "TVMFFIFunctionCall; import tvm_ffi (0.1.0 or newer) first");
    return -1;
  }
  memcpy(&tvm.release, &release, sizeof release);
  memcpy(&tvm.own, &own, sizeof own);
  memcpy(&tvm.error_take, &take, sizeof take);
  memcpy(&tvm.call, &call, sizeof call);
  return 0;
}

// --- The call ----------------------------------------------------------------

// A bare name passes a tensor object, which the function may count, keep for
// the length of the call, and hand to Python; `x.dl` passes a DLTensor.
static bool is_owned(const map_arg *arg) { return arg->type == MAP_TYPE_void; }

static og_status owned_make(const map_arg *arg, const og_call *call,
                            tvm_any *out) {
  const og_tensor *tensor = map_tensor(arg->steps, call);
  *out = (tvm_any){.type = TVM_NONE};
  if (tensor == NULL) return OG_OK;
  dl_managed *managed = adopt_borrow(tensor);
  if (managed == NULL)
    return og_fail(call, OG_MEMORY, "no memory for a tensor");
  void *object = NULL;
  if (tvm.own(managed, 0, 0, &object) != 0) {
    managed->deleter(managed);
    return og_fail(call, OG_KERNEL, "TVM-FFI does not take the tensor");
  }
  *out = (tvm_any){.type = TVM_TENSOR, .p = object};
  return OG_OK;
}

static og_status argument_make(const map_arg *arg, const og_call *call,
                               og_tensor *slot, tvm_any *out) {
  if (is_owned(arg)) return owned_make(arg, call, out);
  map_value value;
  const og_status status = map_eval(arg, call, 0, &value);
  if (UNLIKELY(status != OG_OK)) return status;
  const map_code code = arg->steps[0].code;
  *out = (tvm_any){.type = TVM_INT};
  if (value.kind == MAP_IS_REAL) {
    out->type = TVM_FLOAT;
    out->f = value.word.f64;
  } else if (value.kind == MAP_IS_POINTER) {
    out->p = code == MAP_dl ? (void *)(uintptr_t)map_fold(value.word.p, slot)
                            : value.word.p;
    out->type = out->p == NULL     ? TVM_NONE
                : code == MAP_dl   ? TVM_DL_TENSOR
                : code == MAP_attr ? TVM_RAW_STR
                                   : TVM_POINTER;
  } else {
    out->i = value.word.i;
    if (code == MAP_attr && arg->step_count == 1) {
      const int32_t kind = call->attr[arg->steps[0].index].kind;
      if (kind == OG_ATTR_BOOL) out->type = TVM_BOOL;
      if (kind == OG_ATTR_NONE) *out = (tvm_any){.type = TVM_NONE};
    }
  }
  return OG_OK;
}

// The function's own text, from an error object: {kind, message} after its
// header, each a pointer and a length.
static const char *error_text(char *text, size_t text_bytes) {
  char *error = NULL;
  PyOS_snprintf(text, text_bytes,
                "the TVM-FFI function failed without a reason");
  tvm.error_take((void **)&error);
  if (error == NULL) return text;
  struct {
    const char *data;
    size_t size;
  } parts[2];
  int32_t type;
  memcpy(&type, error + sizeof(uint64_t), sizeof type);
  memcpy(parts, error + sizeof(tvm_object), sizeof parts);
  if (type == TVM_ERROR && parts[0].size < 64 && parts[1].data != NULL) {
    const int most = parts[1].size < 400 ? (int)parts[1].size : 400;
    PyOS_snprintf(text, text_bytes, "the TVM-FFI function raised %.*s: %.*s",
                  (int)parts[0].size, parts[0].data, most, parts[1].data);
  }
  tvm.release(error);
  return text;
}

static og_status result_copy(const og_call *call, const og_tensor *to,
                             const og_tensor *from) {
  bool is_equal = to->ndim == from->ndim &&
                  to->dtype.code == from->dtype.code &&
                  to->dtype.bits == from->dtype.bits && from->dtype.lanes == 1;
  int64_t dense = 1;
  bool is_dense = true;
  for (int32_t i = to->ndim - 1; is_equal && i >= 0; --i) {
    is_equal = to->shape[i] == from->shape[i];
    if (from->strides != NULL && from->shape[i] > 1)
      is_dense &= from->strides[i] == dense;
    dense *= from->shape[i];
  }
  if (!is_equal)
    return og_fail(call, OG_INTERNAL,
                   "the tensor that it returned has another shape or type than "
                   "its rules say; fix the shape or dtype rule");
  if (to->device.type != from->device.type)
    return og_fail(call, OG_DEVICE,
                   "the tensor that it returned is on another device than its "
                   "arguments; copy it there in the function");
  if (!is_dense && dense > 1)
    return og_fail(call, OG_INTERNAL,
                   "the tensor that it returned is not "
                   "row-major");
  if (dense > 0)
    memcpy(og_data(to), og_data(from), (size_t)(dense * to->dtype.bits / 8));
  return OG_OK;
}

static og_status number_store(const og_call *call, const og_tensor *to,
                              map_type type, map_word word) {
  const og_status status = map_storable(call, to->dtype, type);
  if (status != OG_OK) return status;
  const char *why = map_store(og_data(to), to->dtype, type, word);
  return why == NULL ? OG_OK : og_fail(call, OG_KERNEL, why);
}

static og_status result_take(const adopted_tvm *self, const og_call *call,
                             tvm_any *result) {
  og_status status = OG_OK;
  if (self->result_out >= 0) {
    const og_tensor *to = call->out[self->result_out];
    const char *object = result->p;
    if (result->type == TVM_TENSOR)
      status = result_copy(
          call, to,
          (const og_tensor *)(const void *)(object + sizeof(tvm_object)));
    else if (result->type == TVM_DL_TENSOR)
      status = result_copy(call, to, result->p);
    else if (result->type == TVM_INT)
      status = number_store(call, to, MAP_TYPE_i64, (map_word){.i = result->i});
    else if (result->type == TVM_FLOAT)
      status =
          number_store(call, to, MAP_TYPE_f64, (map_word){.f64 = result->f});
    else
      status = og_fail(call, OG_KERNEL,
                       "it returned no tensor; name the result in call where "
                       "the function writes it: call=\"x, out\"");
  }
  if (result->type >= TVM_OBJECTS) tvm.release(result->p);
  return status;
}

static int function_call(const adopted_tvm *self, const tvm_any *arguments,
                         tvm_any *result) {
  return self->symbol != NULL
             ? self->symbol(NULL, arguments, self->arg_count, result)
             : tvm.call(self->handle, arguments, self->arg_count, result);
}

static void arguments_release(const adopted_tvm *self, const tvm_any *arguments,
                              int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (is_owned(&self->args[i]) && arguments[i].type == TVM_TENSOR)
      tvm.release(arguments[i].p);
}

static og_status tvm_run(const og_call *call) {
  const adopted_tvm *self = call->derived;
  tvm_any arguments[MAP_ARG_MAX];
  og_tensor folded[MAP_ARG_MAX];
  tvm_any result = {.type = TVM_NONE};
  og_status status = OG_OK;
  int32_t made = 0;
  for (; made < self->arg_count; ++made) {
    status =
        argument_make(&self->args[made], call, &folded[made], &arguments[made]);
    if (UNLIKELY(status != OG_OK)) break;
  }
  char text[512];
  if (LIKELY(status == OG_OK)) {
    if (UNLIKELY(function_call(self, arguments, &result) != 0))
      status = og_fail(call, OG_KERNEL, error_text(text, sizeof text));
    else if (result.type != TVM_NONE || self->result_out >= 0)
      status = result_take(self, call, &result);
  }
  arguments_release(self, arguments, made);
  return status;
}

// --- A node of a plan --------------------------------------------------------

// Of a function that writes its results: DLTensors stay where they are, and
// what they point to is the plan's to keep true.
typedef struct ready_tvm {
  const adopted_tvm *self;
  tvm_any arguments[];
} ready_tvm;

static og_status ready_prepare(const opgraft_prepare_call *prepare) {
  const og_call *call = prepare->call;
  const adopted_tvm *self = call->derived;
  ready_tvm *ready = prepare->state;
  og_status status = OG_OK;
  ready->self = self;
  for (int32_t i = 0; i < self->arg_count && status == OG_OK; ++i) {
    const map_arg *arg = &self->args[i];
    tvm_any *value = &ready->arguments[i];
    status = argument_make(arg, call, NULL, value);
    if (status != OG_OK || !map_is_followed(arg, call)) continue;
    value->type = TVM_POINTER;
    status = prepare->follow(prepare, &value->p, map_tensor(arg->steps, call));
  }
  return status;
}

static og_status ready_run(void *state, opgraft_error *error) {
  const ready_tvm *ready = state;
  const adopted_tvm *self = ready->self;
  tvm_any result = {.type = TVM_NONE};
  char text[512];
  if (UNLIKELY(function_call(self, ready->arguments, &result) != 0))
    return adopt_fail(&self->base, error, OG_KERNEL,
                      error_text(text, sizeof text));
  if (result.type >= TVM_OBJECTS) tvm.release(result.p);
  return OG_OK;
}

// --- Reading the payload -----------------------------------------------------

// (holder, handle or 0, symbol or 0, arguments, result's place in out or -1)
static int tvm_read(adopted *base, PyObject *payload) {
  adopted_tvm *self = (adopted_tvm *)(void *)base;
  PyObject *holder, *args;
  unsigned long long handle, symbol;
  if (!PyArg_ParseTuple(payload, "OKKO!i", &holder, &handle, &symbol,
                        &PyList_Type, &args, &self->result_out))
    return -1;
  Py_INCREF(holder);
  self->holder = holder;
  const uintptr_t object = (uintptr_t)handle, address = (uintptr_t)symbol;
  memcpy(&self->handle, &object, sizeof object);
  memcpy(&self->symbol, &address, sizeof address);
  if (library_find_functions() != 0 ||
      map_read(args, self->args, &self->arg_count) != 0)
    return -1;
  bool has_owned = false;
  for (int32_t i = 0; i < self->arg_count; ++i)
    has_owned |= is_owned(&self->args[i]);
  if (self->result_out < 0 && !has_owned)
    self->base.prepared = (opgraft_prepared){
        .struct_size = sizeof self->base.prepared,
        .state_bytes =
            sizeof(ready_tvm) + (size_t)self->arg_count * sizeof(tvm_any),
        .prepare = ready_prepare,
        .run = ready_run,
    };
  return 0;
}

static void tvm_reset(adopted *base) {
  Py_CLEAR(((adopted_tvm *)(void *)base)->holder);
}

const adopt_kind adopt_tvm = {
    .name = "tvm_ffi",
    .size_bytes = sizeof(adopted_tvm),
    .read = tvm_read,
    .reset = tvm_reset,
    .run = tvm_run,
};
