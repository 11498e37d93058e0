// SPDX-License-Identifier: Apache-2.0
// Exceptions that cross C code, and the stack that is left for calls of
// Python.
//
// Invariant: a kept exception is taken by the caller of the same thread whose
// call it ended; whoever ends calls otherwise drops it.

#define _GNU_SOURCE  // pthread_getattr_np

#include "torch/base/raised.h"

#include <pthread.h>

#include "torch/base/host.h"

static _Thread_local PyObject *raised[3];

void raised_keep(void) {
  raised_drop();
  PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
}

bool raised_restore(void) {
  if (raised[0] == NULL) return false;
  PyErr_Restore(raised[0], raised[1], raised[2]);
  raised[0] = raised[1] = raised[2] = NULL;
  return true;
}

void raised_drop(void) {
  for (int i = 0; i < 3; ++i) Py_CLEAR(raised[i]);
}

// --- The stack ---------------------------------------------------------------

// What Python and torch need between two checks.
enum { STACK_RESERVE_BYTES = 1 << 20 };

// The address below which the stack is short; 1: never, since it is unknown.
static uintptr_t stack_limit(void) {
  pthread_attr_t attr;
  void *lowest = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attr) != 0) return 1;
  const int status = pthread_attr_getstack(&attr, &lowest, &size);
  pthread_attr_destroy(&attr);
  if (status != 0) return 1;
  const size_t reserve =
      size / 4 < STACK_RESERVE_BYTES ? size / 4 : STACK_RESERVE_BYTES;
  return (uintptr_t)lowest + reserve;
}

bool stack_is_short(void) {
  static _Thread_local uintptr_t limit;
  if (UNLIKELY(limit == 0)) limit = stack_limit();
  return (uintptr_t)__builtin_frame_address(0) < limit;
}

int stack_check(const char *name) {
  if (LIKELY(!stack_is_short())) return 0;
  PyErr_Format(PyExc_RecursionError, "%s: %s", name, STACK_TEXT);
  return -1;
}
