// SPDX-License-Identifier: Apache-2.0
// What a walk reads of Python's objects: sizes, fake tensors, arguments.

#ifndef OG_TORCH_WALK_READ_H
#define OG_TORCH_WALK_READ_H

#include "torch/graph/walk.h"

// Attributes and keys that a walk asks for, interned.
// clang-format off
#define WALK_NAMES(X)                                           \
  X(op) X(target) X(args) X(kwargs) X(meta) X(val)         \
  X(stack_trace) X(shape) X(stride) X(storage_offset)      \
  X(dtype) X(fake_device) X(device) X(type) X(layout)      \
  X(_has_symbolic_sizes_strides) X(node) X(_expr)          \
  X(nn_module_stack) X(fwd_nn_module_stack)                \
  X(all_input_nodes) X(is_ordered)
// clang-format on
struct walk_names {
#define X(n) PyObject *n;
  WALK_NAMES(X)
#undef X
};
extern struct walk_names walk_names;

// Once a process; -1 with an exception set.
int walk_names_make(void);
int walk_engine(walk *w, og_status status);
int walk_size_read(walk *w, PyObject *object, opgraft_size *out);
int walk_device_read(walk *w, PyObject *val, og_device *out);
int walk_is_tensor(const walk *w, PyObject *object);
// The number of a new node, or of one that has been numbered; -1 with an
// exception set.
int32_t walk_number_new(walk *w, PyObject *node);
int32_t walk_number_find(const walk *w, PyObject *node);
// A constant that a node stands for.
int walk_constant_set(walk *w, int32_t number, PyObject *object);
// Arguments of the operator that the builder began: positional ones, then named
// ones.
int walk_args_add(walk *w, PyObject *positional, PyObject *named);
int walk_arg_add(walk *w, const char *name, PyObject *object);

// Raises what Python takes as "this graph is not for the engine"; the format
// takes the object as %S, %R or %U. -1.
int walk_refuse(const walk *w, const char *format, PyObject *object);
// What a fake tensor says.
int walk_info_read(walk *w, PyObject *val, opgraft_value_info *info);
// What the operator that the builder began gives. `views`: by the schema's
// result, which is `which`; negative: an item of `val` each.
int walk_result_add(walk *w, PyObject *val, PyObject *views, int32_t which);

#endif  // OG_TORCH_WALK_READ_H
