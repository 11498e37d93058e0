// SPDX-License-Identifier: Apache-2.0
// Adopted operators: declarations made at run time, whose kernels call what
// someone else wrote.
//
// A kind of callable is one adopt_kind: how its payload is read, and the
// kernel that calls it. What the kernel needs is a struct of the kind's own
// that starts with `adopted`; the kernel finds it in call->derived.
// What needs no Python also says how plans make it ready.

#ifndef OG_TORCH_ADOPT_H
#define OG_TORCH_ADOPT_H

#include "torch/base/host.h"

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
  // exception set. `reset` releases what it took until then.
  int (*read)(adopted *self, PyObject *payload);
  // Takes what it needs of the declaration, once the module is made; -1 with an
  // exception set. NULL: nothing.
  int (*bind)(adopted *self, const opgraft_op *op);
  void (*reset)(adopted *self);
  og_status (*run)(const og_call *call);
};

extern const adopt_kind adopt_python, adopt_c, adopt_tvm;

// The Python callable behind an operator; NULL where there is none.
const adopted *adopt_find(const opgraft_op *op);

#endif  // OG_TORCH_ADOPT_H
