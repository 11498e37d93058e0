// SPDX-License-Identifier: Apache-2.0
// May the fast path be taken?

#ifndef OG_TORCH_GUARD_H
#define OG_TORCH_GUARD_H

#include "torch/base/host.h"
#include "torch/base/layout.h"

// torch.Tensor and Parameter.
extern PyTypeObject *guard_tensor_type, *guard_parameter_type;

// Whether the fast path may look at the arguments at all: no mode, transform
// or tracer is in play on this thread.
bool guard_is_quiet(void);
// What tells this thread's modes (inference, say) apart; false where that is
// not known. Without the interpreter lock, too.
bool guard_modes(uint64_t *out);
// A plain strided CPU tensor: exact type, no lazy negation or conjugation, no
// wrapper of any kind.
bool guard_is_plain(PyObject *object);
// The same of a tensor that autograd keeps nothing of, so that it neither
// requires a gradient nor carries a tangent. False decides nothing.
static inline bool guard_is_bare(PyObject *object) {
  const PyTypeObject *type = Py_TYPE(object);
  if ((type != guard_tensor_type && type != guard_parameter_type) ||
      !torch_layout.has_keys)
    return false;
  const char *impl = layout_impl(object);
  const uint64_t keys = layout_word(impl, torch_layout.keys);
  return (keys == torch_layout.plain || keys == torch_layout.plain_inference) &&
         layout_word(impl, torch_layout.gradient) == 0;
}
// A tensor of the loaded device as it was made. False decides nothing.
static inline bool guard_is_device_plain(PyObject *object) {
  const PyTypeObject *type = Py_TYPE(object);
  return (type == guard_tensor_type || type == guard_parameter_type) &&
         layout_is_device_plain(object);
}
// The same of one that autograd keeps nothing of.
static inline bool guard_is_device_bare(PyObject *object) {
  return guard_is_device_plain(object) &&
         layout_word(layout_impl(object), torch_layout.gradient) == 0;
}
bool guard_requires_grad(PyObject *object);
// Whether forward-mode differentiation is on, and, where it may be, whether the
// tensor may carry a tangent.
bool guard_is_forward(void);
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

#endif  // OG_TORCH_GUARD_H
