// SPDX-License-Identifier: Apache-2.0
// What the files of the PyTorch host share.
//
// An operator reaches PyTorch twice: as a builtin that Python calls (fast.c,
// the fast path) and as a boxed kernel that the dispatcher calls (boxed.c, the
// slow path). Both fill the same frame and run the same kernel.

#ifndef OG_TORCH_HOST_H
#define OG_TORCH_HOST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opgraft/info.h>
#include <stdbool.h>

#include "torch/base/shim.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// --- One operator in this host

typedef struct host_param {
  PyObject *name;           // interned
  PyObject *default_value;  // NULL: required
  int32_t type;             // OPGRAFT_TYPE_*
  bool is_list;
  bool is_optional;
  bool is_element_optional;
  bool is_keyword_only;
  bool is_mutated;
  bool is_strided;  // the kernels take a tensor of any strides
  int32_t index;    // among the tensor arguments, or among the others
  int32_t place;    // in the schema: a form may have another order
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
  int32_t positional_count;  // parameters that may come by position
  int32_t tensor_count;
  host_result results[OPGRAFT_OUT_MAX];
  int32_t result_count;
  int32_t fresh_count;
  int32_t inplace_param;  // the parameter whose memory takes result 0, or -1
  bool has_out_params;    // the boxed .out form: outs follow the parameters
  bool has_mutation;
  bool has_found_dim;
  bool has_device_kernel;
  bool takes_out;      // out= may bring the memory of the fresh results
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

// --- The functions of opgraft._C, but for those of extension.c

#define METHOD(name, flags, text) \
  PyObject *name(PyObject *self, PyObject *arguments);
#include "torch/base/methods.def"
#undef METHOD

#endif  // OG_TORCH_HOST_H
