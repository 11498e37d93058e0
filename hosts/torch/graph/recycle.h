// SPDX-License-Identifier: Apache-2.0
// Memory of a graph's large results, used again by a later call once nobody
// else holds it: fresh memory costs a fault for each page, in which the system
// fills it with zeros.

#ifndef OG_TORCH_GRAPH_RECYCLE_H
#define OG_TORCH_GRAPH_RECYCLE_H

#include <stddef.h>
#include <stdint.h>

#include "torch/base/host.h"
#include "torch/base/shim.h"

enum { RECYCLE_LEAST_BYTES = 1 << 20 };

// The memory of one result of an earlier call.
typedef struct recycled {
  tensor_handle tensor;       // owned, not visible to anybody; NULL: none
  const uint32_t *use_count;  // of its storage
  void *data;
  int64_t size_bytes;
  og_dtype dtype;
} recycled;

// One slot for each storage of a call, at most one block each. Used under the
// interpreter lock.
typedef struct recycler {
  bool is_on;
  recycled *slots;
  int32_t count;
} recycler;

// A tensor object like `fresh` over the memory of slot `index`, whose address
// fresh->data then is. NULL without an exception where there is none, it is of
// another size or type, or somebody else holds it.
PyObject *recycle_take(const recycler *r, int32_t index, size_t size_bytes,
                       og_tensor *fresh);
// Keeps the memory of `object`, that was made like `fresh`, in slot `index`
// instead of what was there; small memory and that of devices is left alone.
void recycle_keep(recycler *r, int32_t index, size_t size_bytes,
                  PyObject *object, const og_tensor *fresh);
// Frees what it keeps.
void recycle_reset(recycler *r);

#endif  // OG_TORCH_GRAPH_RECYCLE_H
