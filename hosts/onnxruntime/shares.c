// SPDX-License-Identifier: Apache-2.0
// Loops over ONNX Runtime's thread pool.
//
// Invariant: a loop has at most call->threads shares, and a share's number is
// its worker. ONNX Runtime does not tell how many threads it has: one share for
// each processor keeps them all at work.

#define _GNU_SOURCE
#include "onnxruntime/shares.h"

#include <pthread.h>
#include <sched.h>

typedef struct loop {
  og_task_fn fn;
  void *state;
  int64_t total;
  int64_t count;       // of shares
  uint64_t float_env;  // of the thread that asked
} loop;

// Of the share that this thread runs, plus 1; 0 outside.
static _Thread_local int32_t own_worker;

static int32_t processors;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void processors_count(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  processors =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void share_run(void *state, size_t index) {
  const loop *l = state;
  const int64_t i = (int64_t)index, each = l->total / l->count;
  const int64_t rest = l->total % l->count;
  const int64_t begin = i * each + (i < rest ? i : rest);
  // A session may have its threads make small numbers zero.
  const uint64_t before = opgraft_float_env_get();
  opgraft_float_env_set(l->float_env);
  own_worker = (int32_t)i + 1;
  l->fn(l->state, begin, begin + each + (i < rest), (int32_t)i);
  own_worker = 0;
  opgraft_float_env_set(before);
}

static og_status fail(const og_call *call, const og_ort_shares *shares,
                      void *status) {
  ORT(shares->api, release_status)(status);
  return og_fail(call, OG_INTERNAL, "ONNX Runtime did not run a loop");
}

static og_status parallel_for(const og_call *call, int64_t total, int64_t grain,
                              og_task_fn fn, void *state) {
  const og_ort_shares *shares = call->host;
  int64_t count = grain > 0 ? total / grain : total;
  if (count > call->threads) count = call->threads;
  if (count < 2 || own_worker != 0) {
    fn(state, 0, total, own_worker != 0 ? own_worker - 1 : 0);
    return OG_OK;
  }
  loop l = {fn, state, total, count, opgraft_float_env_get()};
  void *status = ORT(shares->api, parallel_for)(shares->context, share_run,
                                                (size_t)count, 0, &l);
  return status == NULL ? OG_OK : fail(call, shares, status);
}

void og_ort_shares_set(og_host_call *call, og_ort_shares *shares) {
  if (!og_host_is_shared(call)) return;
  pthread_once(&once, processors_count);
  og_call *own = &call->frame.call;
  own->host = shares;
  own->threads = processors > 1 ? processors : 1;
  if (own->threads > 1) own->parallel_for = parallel_for;
}
