// SPDX-License-Identifier: Apache-2.0
// The verifier over a module of this process, whose kernels may be Python's.
//
// Invariant: the interpreter lock is held only where Python is called: by the
// parent in the callbacks and around a fork, by the child in each run.

#include "torch/base/host.h"

#include <opgraft/check.h>
#include <stdlib.h>
#include <string.h>

#include "torch/adopt/adopt.h"
#include "torch/base/module.h"
#include "torch/base/raised.h"

typedef struct check_state {
  PyThreadState *thread;  // of the caller, while the lock is released
  PyObject *progress;     // called with (operator, done, total), or NULL
  char *text;             // the report so far
  size_t length;
  bool is_short;  // of memory
  // An exception of `progress`, or the user's interrupt: raised at the end.
  PyObject *error[3];
} check_state;

static void take_lock(check_state *s) { PyEval_RestoreThread(s->thread); }
static void give_lock(check_state *s) { s->thread = PyEval_SaveThread(); }

// The child has this thread only. Torch's pool, which it has lost as well, is
// not asked for.
static void on_fork(void *user, int32_t phase) {
  check_state *s = user;
  if (phase == OPGRAFT_FORK_BEFORE) {
    take_lock(s);
    PyOS_BeforeFork();
    return;
  }
  if (phase == OPGRAFT_FORK_PARENT) {
    PyOS_AfterFork_Parent();
  } else {
    PyOS_AfterFork_Child();
    PyObject *torch_module = PyImport_ImportModule("torch");
    PyObject *done =
        torch_module == NULL
            ? NULL
            : PyObject_CallMethod(torch_module, "set_num_threads", "i", 1);
    Py_XDECREF(done);
    Py_XDECREF(torch_module);
    PyErr_Clear();
  }
  give_lock(s);
}

static void on_write(void *user, const char *text, size_t length) {
  check_state *s = user;
  char *grown = realloc(s->text, s->length + length);
  if (grown == NULL) {
    s->is_short = true;
    return;
  }
  memcpy(grown + s->length, text, length);
  s->text = grown;
  s->length += length;
}

static void on_progress(void *user, const char *op, int32_t done,
                        int32_t total) {
  check_state *s = user;
  if (s->error[0] != NULL) return;
  take_lock(s);
  PyObject *answer = s->progress == NULL
                         ? NULL
                         : PyObject_CallFunction(s->progress, "sii", op,
                                                 (int)done, (int)total);
  Py_XDECREF(answer);
  if (PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0)
    PyErr_Fetch(&s->error[0], &s->error[1], &s->error[2]);
  give_lock(s);
}

// The user's interrupt, between the calls that `progress` counts.
static int32_t on_stop(void *user) {
  check_state *s = user;
  if (s->error[0] != NULL) return 1;
  take_lock(s);
  if (PyErr_CheckSignals() != 0)
    PyErr_Fetch(&s->error[0], &s->error[1], &s->error[2]);
  give_lock(s);
  return s->error[0] != NULL;
}

static PyObject *report_get(const check_state *s, og_status status,
                            const opgraft_error *error) {
  if (s->error[0] != NULL) {
    PyErr_Restore(s->error[0], s->error[1], s->error[2]);
    return NULL;
  }
  if (s->is_short) return PyErr_NoMemory();
  if (status != OG_OK) return error_raise(error);
  return PyUnicode_FromStringAndSize(s->text != NULL ? s->text : "",
                                     (Py_ssize_t)s->length);
}

// module_check(handle, operator or None, seed, calls, seconds for an operator,
// progress or None) -> the report as JSON
PyObject *module_check(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule, *progress;
  const char *op;
  unsigned long long seed;
  int calls;
  double seconds;
  opgraft_error error;
  if (!PyArg_ParseTuple(arguments, "OzKidO", &capsule, &op, &seed, &calls,
                        &seconds, &progress))
    return NULL;
  const opgraft_module *module = module_get(capsule);
  if (module == NULL) return NULL;
  check_state s = {.progress = progress == Py_None ? NULL : progress};
  const opgraft_check_options options = {
      .struct_size = sizeof options,
      .format = OPGRAFT_CHECK_JSON,
      .seed = seed,
      .calls = calls,
      .operator_limit_ms = (int32_t)(seconds * 1000),
      .op = op,
  };
  const opgraft_check_sink sink = {
      .struct_size = sizeof sink,
      .user = &s,
      .progress = on_progress,
      .write = on_write,
      .fork = on_fork,
      .is_stopped = on_stop,
  };
  give_lock(&s);
  const og_status status = opgraft_check(module, &options, &sink, NULL, &error);
  take_lock(&s);
  raised_drop();
  PyObject *report = report_get(&s, status, &error);
  free(s.text);
  return report;
}
