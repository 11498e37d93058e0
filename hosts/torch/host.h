// SPDX-License-Identifier: Apache-2.0
// What the files of the PyTorch host share.
//
// An operator reaches PyTorch twice: as a builtin that Python calls (fast.c,
// the fast road) and as a boxed kernel that the dispatcher calls (boxed.c, the
// slow road). Both fill the same frame and run the same kernel.

#ifndef OG_TORCH_HOST_H
#define OG_TORCH_HOST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opgraft/opgraft.h>
#include <stdbool.h>

#include "shim.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// --- DLPack's C exchange API (dlpack.h 1.2, by layout)
// --------------------------

typedef struct dl_managed {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_managed *);
  uint64_t flags;
  og_tensor tensor;
} dl_managed;

typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange *previous;
  int (*allocate)(og_tensor *prototype, dl_managed **out, void *error_context,
                  void (*set_error)(void *, const char *, const char *));
  int (*managed_from_object)(void *object, dl_managed **out);
  int (*managed_to_object)(dl_managed *tensor, void **out_object);
  int (*tensor_from_object)(void *object, og_tensor *out);
  int (*current_stream)(int device_type, int32_t device_id, void **out);
} dl_exchange;

// --- One operator in this host
// ----------------------------------------------------

typedef enum param_type {  // og_type's order; Python passes the number
  PARAM_TENSOR,
  PARAM_INT,
  PARAM_SYM_INT,
  PARAM_FLOAT,
  PARAM_BOOL,
  PARAM_STR,
  PARAM_SCALAR,
  PARAM_SCALAR_TYPE,
  PARAM_DEVICE,
} param_type;

typedef struct host_param {
  PyObject *name;           // interned
  PyObject *default_value;  // NULL: required
  param_type type;
  bool is_list;
  bool is_optional;
  bool is_element_optional;
  bool is_keyword_only;
  bool is_mutated;
  int32_t index;  // among the tensor arguments, or among the others
  int32_t place;  // in the schema of an adopted operator
} host_param;

// Each result: a fresh one, or the parameter that it is.
typedef struct host_result {
  int32_t fresh;  // -1: `param`
  int32_t param;
  bool is_list;
} host_result;

enum { HOST_PARAM_MAX = OPGRAFT_ARG_MAX + OPGRAFT_ATTR_MAX };

typedef struct host_op {
  PyObject_HEAD                //
      opgraft_module *module;  // retained
  const opgraft_op *op;
  const struct adopted *adopted;  // the Python callable behind it, or NULL
  host_param params[HOST_PARAM_MAX];
  int32_t param_count;
  int32_t tensor_count;
  host_result results[OPGRAFT_OUT_MAX];
  int32_t result_count;
  int32_t fresh_count;
  int32_t inplace_param;  // the parameter whose memory takes result 0, or -1
  bool has_out_params;    // the boxed .out form: outs follow the parameters
  bool has_tensor_list;
  bool has_mutation;
  bool has_found_dim;
  bool is_raw;         // no guard, no version bump, nothing to fall back on
  PyObject *slow;      // torch.ops.ns.op.default, or what stands for it
  PyObject *gradient;  // autograd.Function.apply, or NULL
  PyObject *reduce;    // (callable, arguments) for pickle
  PyObject *method;    // the builtin itself: the collector sees the cycle
  PyMethodDef definition;
  char *doc;
} host_op;

// Whether fresh result `fresh` is a tensor list.
static inline bool fresh_is_list(const host_op *op, int32_t fresh) {
  for (int32_t r = 0; r < op->result_count; ++r)
    if (op->results[r].fresh == fresh) return op->results[r].is_list;
  return false;
}

// --- extension.c: what every file needs of it
// ---------------------------------------------

// Sets the exception that an error stands for; NULL.
PyObject *module_error(const opgraft_error *error);
// Takes the reference; the capsule gives it back.
PyObject *module_capsule_new(opgraft_module *module);

// --- raised.c: exceptions that cross C, and the stack
// --------------------------------------------------

// The exception that is set is kept for this thread's caller, which ends with
// raised_restore; false if there is none.
void raised_keep(void);
bool raised_restore(void);
void raised_drop(void);
// Whether the thread's stack has too little left to call Python.
#define STACK_TEXT                                                         \
  "the thread's stack is nearly used up: a callable calls itself without " \
  "end, or the thread needs a larger stack (threading.stack_size)"
bool stack_is_short(void);
// 0, or -1 with RecursionError set.
int stack_check(const char *name);

// --- types.c: torch's types and ours
// --------------------------------------------------

int types_setup(PyObject *torch_module);
// 0, or -1 where torch has no such type.
int dtype_to_shim(og_dtype dtype, int32_t *out);
int dtype_from_shim(int32_t code, og_dtype *out);
int dtype_from_object(PyObject *object, og_dtype *out);
PyObject *dtype_to_object(og_dtype dtype);  // borrowed; NULL
PyObject *device_object(void);              // new; NULL with an exception set

// --- guard.c: may the fast road be taken?
// ------------------------------------------------

// Whether the fast road may look at the arguments at all: no mode, transform
// or tracer is in play on this thread.
bool guard_is_quiet(void);
// A plain strided CPU tensor: exact type, no lazy negation or conjugation, no
// wrapper of any kind.
bool guard_is_plain(PyObject *object);
bool guard_requires_grad(PyObject *object);
bool guard_may_be_dual(PyObject *object);
// Whether torch lets this thread write to the tensor; 0, or -1 with an
// exception set: an inference tensor outside inference mode.
int guard_check_write(PyObject *tensor);
// Counts a write; 0, or -1 with an exception set.
int guard_bump_version(PyObject *tensor);
// Whether the unpublished wrap passed its self-test.
bool guard_can_wrap(void);
// The handle inside a tensor object, borrowed; NULL where the self-test did
// not find it.
tensor_handle guard_handle(PyObject *tensor);

PyObject *guard_setup(PyObject *self, PyObject *arguments);
PyObject *guard_learn(PyObject *self, PyObject *arguments);
PyObject *guard_forget(PyObject *self, PyObject *arguments);
PyObject *guard_state(PyObject *self, PyObject *arguments);

// --- fast.c, boxed.c
// ------------------------------------------------------------------------

extern const dl_exchange *exchange;

// The builtin of an operator.
PyObject *fast_call(PyObject *self, PyObject *const *arguments,
                    Py_ssize_t count, PyObject *keywords);
PyObject *infer_call(PyObject *self, PyObject *arguments);
PyObject *check_written_call(PyObject *self, PyObject *arguments);
// Registers `op` with the dispatcher; a capsule that keeps it registered.
PyObject *boxed_register(PyObject *self, PyObject *arguments);

// A new tensor object of this type, shape and strides, whose memory fresh->data
// then is; NULL with an exception set.
PyObject *fresh_make(og_tensor *fresh);
// Reads a tensor object; `is_plain`: the guard saw it. False refuses, an
// exception may be set.
bool tensor_read(PyObject *value, bool is_plain, og_tensor *out);

// An attribute as a Python object; a type as (code, bits).
PyObject *attr_object(const og_attr *attr);
PyObject *sample_call(PyObject *self, PyObject *arguments);

// The host's threads, for a frame whose arguments have `bytes` in all: a call
// too small to share out is told of one thread.
void threads_set(og_call *call, int64_t bytes);
int threads_setup(void);  // once a process
int64_t frame_bytes(const opgraft_frame *frame, int32_t tensor_count);

// --- adopt.c: modules made at run time
// ---------------------------------------------------

PyObject *adopt_make(PyObject *self, PyObject *arguments);
int adopt_c_setup(PyObject *module);  // once; -1 with an exception set
PyObject *library_open(PyObject *self, PyObject *argument);
PyObject *library_find(PyObject *self, PyObject *arguments);

// --- check.c: the verifier over a module of this process
// ------------------------------------------------------

PyObject *module_check(PyObject *self, PyObject *arguments);

#endif  // OG_TORCH_HOST_H
