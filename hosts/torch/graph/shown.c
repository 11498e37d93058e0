// SPDX-License-Identifier: Apache-2.0
// What the caller gets of a graph's results, and what autograd takes for a view
// of what.

#include "torch/graph/shown.h"
#include "torch/graph/view.h"

#include <stdlib.h>
#include <string.h>

int shown_set(shown_results *shown, PyObject *bytes) {
  const size_t count = (size_t)PyBytes_Size(bytes);
  shown->as = malloc(count + 1);
  if (shown->as == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(shown->as, PyBytes_AsString(bytes), count);
  shown->count = (int32_t)count;
  return 0;
}

uint8_t shown_as(const shown_results *shown, int32_t position) {
  return position < shown->count ? shown->as[position] : SHOWN_NOT;
}

bool shown_is(const shown_results *shown, int32_t position) {
  const uint8_t as = shown_as(shown, position);
  return as != SHOWN_NOT && as < SHOWN_AGAIN;
}

bool shown_is_shared(const shown_results *shown, const opgraft_call *call,
                     int32_t position) {
  const opgraft_output *output = &call->outputs[position];
  bool shared = false;
  for (int32_t i = 0; i < call->output_count; ++i)
    shared |= i != position && shown_is(shown, i) &&
              call->outputs[i].kind == OPGRAFT_OUTPUT_STORAGE &&
              call->outputs[i].index == output->index;
  return shared && shown_is(shown, position);
}

bool shown_gives_way(const shown_results *shown, const opgraft_call *call,
                     int32_t position) {
  const uint8_t as = shown_as(shown, position);
  return (as == SHOWN_VIEW || as == SHOWN_DETACHED) &&
         shown_is_shared(shown, call, position);
}

bool shown_roots_make(const shown_results *shown, const opgraft_call *call,
                      PyObject **storages, PyObject *results) {
  for (int32_t i = 0; i < call->output_count; ++i) {
    const opgraft_output *output = &call->outputs[i];
    if (shown_as(shown, i) != SHOWN_ROOT ||
        output->kind != OPGRAFT_OUTPUT_STORAGE ||
        output->tensor.byte_offset != 0)
      continue;
    const int32_t first = call->storages[output->index].output;
    if (first < 0 || first == i || !shown_gives_way(shown, call, first))
      continue;
    PyObject *root =
        view_untracked(storages[output->index], &output->tensor, 0);
    if (root == NULL) return false;
    Py_DECREF(storages[output->index]);
    storages[output->index] = root;
    PyList_SetItem(results, i, Py_NewRef(root));
  }
  return true;
}
