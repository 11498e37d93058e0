// SPDX-License-Identifier: Apache-2.0
// One call of a host that passes dense buffers and takes results in memory
// of its own, arguments that the operator writes included: their new values are
// results, and the host's arguments stay as they are.
//
//   og_host_call call;
//   og_host_begin(&call, op);          // defaults stand
//   og_host_input(&call, t, &tensor);  // or og_host_written, og_host_entry
//   call.frame.attr[a] = ...;
//   og_host_infer(&call, &error);      // call.frame.fresh has sizes and types
//   call.frame.fresh[i].data = ...;    // or opgraft_frame_set_out
//   og_host_run(&call, &error);
//   og_host_end(&call);                // always, after begin

#ifndef OG_HOSTS_SHARED_CALL_H
#define OG_HOSTS_SHARED_CALL_H

#include "shared/own.h"

enum { OG_HOST_STRIDES_MAX = 512, OG_HOST_ENTRIES_MAX = 64 };
// A call whose arguments have fewer bytes in all stays on the thread that makes
// it: to wake others takes longer.
enum { OG_HOST_SHARED_BYTES = 4096 };

typedef struct og_host_call {
  const og_own_op *op;
  uint64_t control;  // of floating point: the host's, which end puts back
  int32_t strides_used;
  int32_t entries_used;
  og_tensor inputs[OPGRAFT_ARG_MAX];
  og_tensor entries[OG_HOST_ENTRIES_MAX];
  og_tensor *entry_pointers[OG_HOST_ENTRIES_MAX];
  int64_t strides[OG_HOST_STRIDES_MAX];
  opgraft_frame frame;
} og_host_call;

// From here to og_host_end the thread runs without flush-to-zero, which hosts
// set and which would change a kernel's results. No argument is given yet:
// optional tensors are absent, lists empty, other arguments have their
// defaults (OG_ATTR_NONE where there is none).
void og_host_begin(og_host_call *call, const og_own_op *op);
// `tensor` is row-major where its strides are NULL. Copied, but for its shape
// and strides. A mutated argument is written where it lies.
static inline void og_host_input(og_host_call *call, int32_t t,
                                 const og_tensor *tensor);
// The same for a tensor that the caller writes field by field where it is to
// lie; og_host_placed follows.
static inline og_tensor *og_host_place(og_host_call *call, int32_t t) {
  return &call->inputs[t];
}
static inline void og_host_placed(og_host_call *call, int32_t t);
// A mutated argument, row-major. `data` has as many bytes and receives the new
// value; it is the argument's own memory, or shares no byte with it.
void og_host_written(og_host_call *call, int32_t t, const og_tensor *tensor,
                     void *data);
// Copies a row-major tensor to `data`, where it lies from then on.
void og_host_written_move(og_tensor *tensor, void *data);
// One more entry of tensor list t, NULL for one that is absent. The entries of
// one list follow each other.
og_status og_host_entry(og_host_call *call, int32_t t, const og_tensor *tensor,
                        opgraft_error *error);
og_status og_host_infer(og_host_call *call, opgraft_error *error);
og_status og_host_run(og_host_call *call, opgraft_error *error);
void og_host_end(og_host_call *call);

// Fresh result i: whether it is a list, its tensors, which are one otherwise.
static inline int og_host_is_list(const og_host_call *call, int32_t i) {
  return (call->op->fresh[i]->flags & OPGRAFT_RESULT_LIST) != 0;
}
static inline int64_t og_host_result_count(const og_host_call *call,
                                           int32_t i) {
  return og_host_is_list(call, i) ? call->frame.fresh_list[i].count : 1;
}
static inline og_tensor *og_host_result(og_host_call *call, int32_t i,
                                        int64_t k) {
  return og_host_is_list(call, i) ? call->frame.fresh_list[i].tensors[k]
                                  : &call->frame.fresh[i];
}
// The tensors of all results, the new values of arguments included.
int64_t og_host_results_count(const og_host_call *call);

// Whether the arguments that are given are enough for several threads.
int og_host_is_shared(const og_host_call *call);

// Bytes of a row-major tensor. Sizes are any that the host gives: before
// inference has looked at them their product may wrap.
static inline size_t og_host_bytes(const og_tensor *tensor) {
  size_t bytes = (tensor->dtype.bits + 7u) / 8u;
  for (int32_t i = 0; i < tensor->ndim; ++i) bytes *= (size_t)tensor->shape[i];
  return bytes;
}

// Where the room has run out strides stay NULL, which means row-major as well;
// the call then copies the tensor's header.
static inline void og_host_strides(og_host_call *call, og_tensor *tensor) {
  if (tensor->strides != NULL || tensor->ndim < 0 ||
      tensor->ndim > OG_HOST_STRIDES_MAX - call->strides_used)
    return;
  tensor->strides = call->strides + call->strides_used;
  call->strides_used += tensor->ndim;
  uint64_t step = 1;  // wraps where og_host_bytes does
  for (int32_t i = tensor->ndim; i-- > 0;) {
    tensor->strides[i] = (int64_t)step;
    step *= tensor->shape[i] > 1 ? (uint64_t)tensor->shape[i] : 1;
  }
}

static inline void og_host_placed(og_host_call *call, int32_t t) {
  og_host_strides(call, &call->inputs[t]);
  call->frame.in[t] = &call->inputs[t];
}

static inline void og_host_input(og_host_call *call, int32_t t,
                                 const og_tensor *tensor) {
  call->inputs[t] = *tensor;
  og_host_placed(call, t);
}

#endif  // OG_HOSTS_SHARED_CALL_H
