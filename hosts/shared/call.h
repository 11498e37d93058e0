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
  uint64_t float_env;  // the host's, which end puts back
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
void og_host_input(og_host_call *call, int32_t t, const og_tensor *tensor);
// A mutated argument, row-major. `data` has as many bytes and receives the new
// value; it is the argument's own memory, or shares no byte with it.
void og_host_written(og_host_call *call, int32_t t, const og_tensor *tensor,
                     void *data);
// One more entry of tensor list t, NULL for one that is absent. The entries of
// one list follow each other.
og_status og_host_entry(og_host_call *call, int32_t t, const og_tensor *tensor,
                        opgraft_error *error);
og_status og_host_infer(og_host_call *call, opgraft_error *error);
og_status og_host_run(og_host_call *call, opgraft_error *error);
void og_host_end(og_host_call *call);

// Whether the arguments that are given are enough for several threads.
int og_host_is_shared(const og_host_call *call);

// Bytes of a row-major tensor.
size_t og_host_bytes(const og_tensor *tensor);

#endif  // OG_HOSTS_SHARED_CALL_H
