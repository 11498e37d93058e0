// SPDX-License-Identifier: Apache-2.0
// The host's threads: torch's own pool, through the shim.

#include <pthread.h>

#include "graph.h"

// torch's pool is OpenMP's, which a forked child has lost: the first parallel
// region there would wait for threads that are not.
static bool is_forked;

static void child_begin(void) { is_forked = true; }

int threads_setup(void) { return pthread_atfork(NULL, NULL, child_begin); }

typedef struct share {
  og_task_fn fn;
  void *state;
} share;

static void share_run(int64_t begin, int64_t end, void *context) {
  const share *s = context;
  uint32_t worker = 0;
  shim.torch_get_thread_idx(&worker);
  s->fn(s->state, begin, end, (int32_t)worker);
}

static og_status host_parallel_for(const og_call *call, int64_t total,
                                   int64_t grain, og_task_fn fn, void *state) {
  share s = {fn, state};
  // Inside a parallel region of torch's own this runs serially, as torch does.
  if (shim.torch_parallel_for(0, total, grain > 0 ? grain : 1, share_run, &s))
    return call->fail(call, OG_INTERNAL, "torch_parallel_for failed");
  return OG_OK;
}

void threads_set(og_call *call, int64_t bytes) {
  uint32_t count = 1;
  if (bytes < 4096 || is_forked || shim.torch_get_num_threads(&count) != 0 ||
      count < 2)
    return;
  call->threads = (int32_t)count;
  call->parallel_for = host_parallel_for;
}

// For a compiled graph, whose kernels were prepared for so many workers.
static og_status graph_parallel_for(const og_call *call, int64_t total,
                                    int64_t grain, og_task_fn fn, void *state) {
  share s = {fn, state};
  uint32_t count = 1;
  if (is_forked || shim.torch_get_num_threads(&count) != 0 ||
      (int32_t)count > call->threads) {
    fn(state, 0, total, 0);
    return OG_OK;
  }
  return shim.torch_parallel_for(0, total, grain > 0 ? grain : 1, share_run,
                                 &s) == 0
             ? OG_OK
             : OG_INTERNAL;
}

void threads_host(opgraft_host *host) {
  uint32_t count = 1;
  shim.torch_get_num_threads(&count);
  host->parallel_for = graph_parallel_for;
  host->threads = (int32_t)count;
}
