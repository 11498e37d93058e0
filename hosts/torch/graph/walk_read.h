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
  X(nn_module_stack) X(fwd_nn_module_stack)
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
int walk_device_check(walk *w, PyObject *val);
int walk_is_tensor(const walk *w, PyObject *object);
entry *walk_entry_new(walk *w, PyObject *node);
int walk_args_read(walk *w, PyObject *positional, PyObject *named,
                   opgraft_arg *out, int32_t *out_count);

// Raises what Python takes as "this graph is not for the engine"; the format
// takes the object as %S, %R or %U. -1.
int walk_refuse(const walk *w, const char *format, PyObject *object);
// What a fake tensor says.
int walk_info_read(walk *w, PyObject *val, opgraft_value_info *info);
int walk_arg_read(walk *w, PyObject *object, opgraft_arg *out, int depth);
entry *walk_entry_find(const walk *w, PyObject *node);
// The next of w->results, a None until it is filled.
opgraft_value_info *walk_result_next(walk *w);
// Fills `e` with the shape of `val`; tensors become results, whose ids are
// their positions until walk_results_name. `views`: by the schema's result.
int walk_result_read(walk *w, PyObject *val, PyObject *views, int32_t which,
                     entry *e);
void walk_results_name(entry *e, const opgraft_value *ids);

#endif  // OG_TORCH_WALK_READ_H
