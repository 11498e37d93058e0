// SPDX-License-Identifier: Apache-2.0
// Calls of a graph, timed step by step.

#include "torch/graph/profile.h"

#include <opgraft/graph_file.h>
#include <stdlib.h>

void profile_init(profile *out) {
  *out = (profile){.ns = NULL};
  pthread_mutex_init(&out->lock, NULL);
}

static void forget(profile *p) {
  free(p->nodes);  // and ns, behind them
  p->nodes = p->ns = NULL;
  p->count = 0;
  p->calls = 0;
}

void profile_reset(profile *p) {
  forget(p);
  pthread_mutex_destroy(&p->lock);
}

void profile_set(profile *p, bool is_on) {
  pthread_mutex_lock(&p->lock);
  forget(p);
  p->is_on = is_on;
  pthread_mutex_unlock(&p->lock);
}

static og_status begin(profile *p, const opgraft_call *call,
                       opgraft_error *error) {
  const int32_t count = opgraft_call_step_count(call);
  opgraft_step step = {.struct_size = sizeof step};
  if (p->nodes != NULL && p->count == count) return OG_OK;
  forget(p);
  p->nodes = calloc(2 * (size_t)count + 1, sizeof *p->nodes);
  if (p->nodes == NULL) return OG_MEMORY;
  p->ns = p->nodes + count;
  p->count = count;
  for (int32_t i = 0; i < count; ++i) {
    const og_status status = opgraft_call_step(call, i, &step, error);
    if (status != OG_OK) return status;
    p->nodes[i] = step.node;
  }
  return OG_OK;
}

og_status profile_run(profile *p, opgraft_call *call, void *const *data,
                      opgraft_error *error) {
  pthread_mutex_lock(&p->lock);
  og_status status = begin(p, call, error);
  if (status == OG_MEMORY) {  // it runs all the same
    status = opgraft_call_run(call, data, error);
  } else if (status == OG_OK) {
    status = opgraft_call_profile(call, data, p->ns, error);
    p->calls += status == OG_OK;
  }
  pthread_mutex_unlock(&p->lock);
  return status;
}

static int time_add(PyObject *times, long long node, long long ns) {
  PyObject *key = PyLong_FromLongLong(node), *value = PyLong_FromLongLong(ns);
  const bool ok =
      key != NULL && value != NULL && PyDict_SetItem(times, key, value) == 0;
  Py_XDECREF(key);
  Py_XDECREF(value);
  return ok ? 0 : -1;
}

PyObject *profile_read(profile *p) {
  pthread_mutex_lock(&p->lock);
  PyObject *times = PyDict_New();
  const long long calls = p->calls;
  for (int32_t i = 0; times != NULL && i < p->count; ++i)
    if (time_add(times, p->nodes[i], p->ns[i]) != 0) Py_CLEAR(times);
  pthread_mutex_unlock(&p->lock);
  return times != NULL ? Py_BuildValue("LN", calls, times) : NULL;
}
