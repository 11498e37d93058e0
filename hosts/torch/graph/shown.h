// SPDX-License-Identifier: Apache-2.0
// What the caller gets of a graph's results, and what autograd takes for a view
// of what.

#ifndef OG_TORCH_SHOWN_H
#define OG_TORCH_SHOWN_H

#include <opgraft/executable.h>

#include "torch/base/host.h"

// Of a result that the caller may write. As python/opgraft/_graph/backend.py
// has it.
enum {
  SHOWN_NOT,  // nothing, or an input
  SHOWN_VIEW,
  SHOWN_ROOT,      // not a view: others of its storage are views of it
  SHOWN_DETACHED,  // autograd knows nothing of it
  SHOWN_AGAIN      // and more: the result so many places from the first again
};

typedef struct shown_results {
  uint8_t *as;  // by result; the holder frees it
  int32_t count;
} shown_results;

// -1 with an exception where memory is missing.
int shown_set(shown_results *shown, PyObject *bytes);
uint8_t shown_as(const shown_results *shown, int32_t position);
bool shown_is(const shown_results *shown, int32_t position);
// Whether the caller gets another tensor of this storage: autograd then has to
// know that a write to one changes the other.
bool shown_is_shared(const shown_results *shown, const opgraft_call *call,
                     int32_t position);
// Whether another result may be the storage's tensor.
bool shown_gives_way(const shown_results *shown, const opgraft_call *call,
                     int32_t position);
// A result that is not a view takes the place of a storage's tensor that lies
// as a view of it does: to autograd the others are views of the result.
bool shown_roots_make(const shown_results *shown, const opgraft_call *call,
                      PyObject **storages, PyObject *results);

#endif  // OG_TORCH_SHOWN_H
