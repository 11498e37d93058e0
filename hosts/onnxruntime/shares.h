// SPDX-License-Identifier: Apache-2.0
// A kernel's loops on the session's own threads.

#ifndef OG_HOSTS_ONNXRUNTIME_SHARES_H
#define OG_HOSTS_ONNXRUNTIME_SHARES_H

#include "onnxruntime/abi.h"
#include "shared/call.h"

// What a frame's call.host points to.
typedef struct og_ort_shares {
  ort_api api;
  const void *context;  // of the run
} og_ort_shares;

// The session's intra-op threads run the call's loops, unless it is too small;
// once the arguments are given, before og_host_infer. `shares` lives as long as
// the call. Needs ORT_LEVEL_THREADS.
void og_ort_shares_set(og_host_call *call, og_ort_shares *shares);

#endif  // OG_HOSTS_ONNXRUNTIME_SHARES_H
