// SPDX-License-Identifier: Apache-2.0
// A call that stays inferred for the next one, which only compares its
// arguments with those that inference has seen. One of each operator pays, or
// of each set of attributes; one of each node of a graph, 22 KB each, did not
// (ONNX Runtime, 101 nodes of one operator on a Zen 3: 164 ns more than the
// smallest operator, 154 without).
//
//   if (og_host_kept_take(kept)) {
//     is_same = og_host_kept_matches(kept, t, &tensor), for each tensor
//     if (is_same) {
//       og_host_kept_begin(kept, &error);
//       kept->call.frame.fresh[i].data = ...;  // as behind og_host_infer
//       og_host_run(&kept->call, &error);
//       og_host_kept_end(kept);                // always, after begin
//     } else {
//       og_host_kept_restart(kept);            // for og_host_begin
//       ... as in call.h, on &kept->call, with
//       og_host_kept_keep(kept);               // behind og_host_infer
//     }
//     og_host_kept_give(kept);
//   }
//
// Other arguments than tensors are the caller's to compare. They are kept as
// they are: numbers, or addresses of memory that stays.

#ifndef OG_HOSTS_SHARED_KEPT_H
#define OG_HOSTS_SHARED_KEPT_H

#include <string.h>

#include "shared/call.h"

typedef struct og_host_kept {
  og_own_busy busy;  // with a call
  int32_t is_inferred;
  uint8_t is_given[OPGRAFT_ARG_MAX];
  uint8_t is_dense[OPGRAFT_ARG_MAX];  // row-major: may come without strides
  int64_t *fresh_strides[OPGRAFT_OUT_MAX];
  int64_t sizes[OG_HOST_STRIDES_MAX];  // and strides of the arguments
  og_host_call call;
} og_host_kept;

// NULL where the operator's calls cannot be kept (tensor lists, sizes that the
// kernel finds) or memory is short: og_host_kept_take takes that too.
og_host_kept *og_host_kept_create(const og_own_op *op);
void og_host_kept_destroy(og_host_kept *kept);

// 0 where another thread has it: that call is then made by itself.
static inline int og_host_kept_take(og_host_kept *kept) {
  return kept != NULL &&
         __atomic_exchange_n(&kept->busy.is_set, 1, __ATOMIC_ACQUIRE) == 0;
}
static inline void og_host_kept_give(og_host_kept *kept) {
  __atomic_store_n(&kept->busy.is_set, 0, __ATOMIC_RELEASE);
}

// Whether tensor argument t, NULL for one that is absent, has the type, sizes
// and strides that it had. If so its memory is the tensor's from now on.
static inline int og_host_kept_matches(og_host_kept *kept, int32_t t,
                                       const og_tensor *tensor);

void og_host_kept_restart(og_host_kept *kept);
// Behind og_host_infer, before results are set.
void og_host_kept_keep(og_host_kept *kept);

// As begin to infer do; OG_INVALID where what is written overlaps.
og_status og_host_kept_begin(og_host_kept *kept, opgraft_error *error);
void og_host_kept_end(og_host_kept *kept);

// One of each operator, in entries of the host's that begin with it. A file
// that serves several hosts has a table for each.
typedef struct og_host_kept_table {
  size_t entry_bytes;
  int32_t is_made;  // atomic; stays, so that none is made while a process ends
  int32_t count;
  char *entries;  // NULL: memory was short, or it was dropped
} og_host_kept_table;

// The entry of operator `op`, for this thread alone until its call is given;
// NULL where another thread has it, or where its calls cannot be kept.
void *og_host_kept_table_take(og_host_kept_table *table, int32_t op);
// When the file is unmapped.
void og_host_kept_table_drop(og_host_kept_table *table);

static inline int og_host_kept_matches(og_host_kept *kept, int32_t t,
                                       const og_tensor *tensor) {
  og_tensor *own = &kept->call.inputs[t];
  if (tensor == NULL || !kept->is_given[t])
    return tensor == NULL && !kept->is_given[t];
  if (own->ndim != tensor->ndim ||
      memcmp(&own->device, &tensor->device, sizeof own->device) != 0 ||
      memcmp(&own->dtype, &tensor->dtype, sizeof own->dtype) != 0 ||
      (tensor->strides == NULL && !kept->is_dense[t]))
    return 0;
  for (int32_t i = 0; i < own->ndim; ++i) {
    if (own->shape[i] != tensor->shape[i]) return 0;
    if (tensor->strides != NULL && own->strides[i] != tensor->strides[i])
      return 0;
  }
  own->data = tensor->data;
  own->byte_offset = tensor->byte_offset;
  return 1;
}

#endif  // OG_HOSTS_SHARED_KEPT_H
