// SPDX-License-Identifier: Apache-2.0
// The host's threads: torch's own pool, through the shim, and how many of its
// own the engine may use.

#include "torch/base/threads.h"

#include <pthread.h>

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
  if (bytes < THREADS_LEAST_BYTES || is_forked ||
      shim.torch_get_num_threads(&count) != 0 || count < 2)
    return;
  call->threads = (int32_t)count;
  call->parallel_for = host_parallel_for;
}

// A share of a compiled graph may call ATen, and so oneDNN: that splits its
// work by as many threads as OpenMP gives outside of a parallel region, gets
// one inside, and waits for the others for ever. So a share's own number is
// one.
static void share_run_alone(int64_t begin, int64_t end, void *context) {
  // A thread that has not asked yet gets the user's number at its first
  // parallel loop, in place of ours.
  uint32_t asked;
  shim.torch_get_num_threads(&asked);
  const int before = shim.omp_get_max_threads();
  shim.omp_set_num_threads(1);
  share_run(begin, end, context);
  shim.omp_set_num_threads(before);
}

static bool can_run_alone(void) {
  return shim.omp_get_max_threads != NULL && shim.omp_set_num_threads != NULL;
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
  return shim.torch_parallel_for(0, total, grain > 0 ? grain : 1,
                                 can_run_alone() ? share_run_alone : share_run,
                                 &s) == 0
             ? OG_OK
             : OG_INTERNAL;
}

// A share of torch's own has one thread.
static int32_t threads_now(void *context) {
  uint32_t count = 1;
  (void)context;
  if (shim.omp_in_parallel != NULL && shim.omp_in_parallel()) return 1;
  return shim.torch_get_num_threads(&count) == 0 ? (int32_t)count : 1;
}

void threads_host(opgraft_host *host) {
  uint32_t count = 1;
  shim.torch_get_num_threads(&count);
  host->parallel_for = graph_parallel_for;
  host->threads = (int32_t)count;
  host->threads_now = threads_now;
  host->flags |= OPGRAFT_HOST_TEAM;
  if (!can_run_alone()) host->lanes = 1;
}
