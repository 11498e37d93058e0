// SPDX-License-Identifier: Apache-2.0
// Adopted operators: declarations made at run time, whose kernels call what
// someone else wrote.
//
// A kind of callable is one adopt_kind: how its payload is read, and the
// kernel that calls it. What the kernel needs is a struct of the kind's own
// that starts with `adopted`; it is what the kernel finds in call->derived.
// What needs no Python also says how plans make it ready.

#ifndef OG_TORCH_ADOPT_H
#define OG_TORCH_ADOPT_H

#include "host.h"

typedef struct adopt_kind adopt_kind;

typedef struct adopted {
  const adopt_kind *kind;
  char name[64];              // the operator's, for messages
  opgraft_prepared prepared;  // how plans make it ready; zero: they do not
} adopted;

struct adopt_kind {
  const char *name;
  size_t size_bytes;  // of the kind's own struct
  // Reads the payload that Python gave, and sets `prepared`; -1 with an
  // exception set. What it took until then is given back by `reset`.
  int (*read)(adopted *self, PyObject *payload);
  void (*reset)(adopted *self);
  og_status (*run)(const og_call *call);
};

extern const adopt_kind adopt_python, adopt_c, adopt_tvm;

// What og_fail does for a kernel, for a node that was made ready.
og_status adopt_fail(const adopted *self, opgraft_error *error, og_status code,
                     const char *text);

// The tensor with shape and strides of its own, over the same memory; whoever
// takes it calls its deleter. NULL: no memory.
dl_managed *adopt_borrow(const og_tensor *tensor);

// The Python callable behind an operator; NULL where there is none.
const adopted *adopt_find(const opgraft_op *op);

// --- adopt_python.c: callables that take Python objects
// -----------------------------------------------

// Whether the callable makes its results itself.
bool adopt_python_returns(const adopted *self);
// Where a parameter stands in the schema: Inductor has them in another order.
int32_t adopt_python_place(const adopted *self, PyObject *name);
// Whether it takes the arguments with the strides that they have.
bool adopt_python_takes(const adopted *self, const og_call *call);
// Calls it with the caller's own objects, `values` by parameter, once the call
// is inferred. Where it makes its results, fills `fresh` with new references,
// else it writes those in `fresh`. With an exception set: -1, or ADOPT_BROKEN
// where what it gave is not as its rules say.
enum { ADOPT_BROKEN = -2 };
int adopt_python_finish(const adopted *self, const og_call *call,
                        PyObject *const *values, PyObject **fresh);
// The same into the tensors in `fresh` in any case.
int adopt_python_fill(const adopted *self, const og_call *call,
                      PyObject *const *values, PyObject *const *fresh);

#endif  // OG_TORCH_ADOPT_H
