// SPDX-License-Identifier: Apache-2.0
// One plan, run by several callers at once, each with threads of its own: all
// get the same bits.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "tests/unit/test.h"

enum { CALLERS = 2, THREADS = 8, HEADS = 4, KV_HEADS = 2, DIM = 32 };

typedef struct share {
  og_task_fn fn;
  void *state;
  int64_t begin, end;
  int32_t worker;
} share;

static void *share_run(void *argument) {
  const share *s = argument;
  s->fn(s->state, s->begin, s->end, s->worker);
  return NULL;
}

// A thread for each share, so that ThreadSanitizer sees them all at once.
static og_status parallel_for(const og_kernel_env *env, int64_t total,
                              int64_t grain, og_task_fn fn, void *state) {
  share shares[THREADS];
  pthread_t threads[THREADS];
  (void)env;
  (void)grain;
  for (int32_t i = 0; i < THREADS; ++i) {
    shares[i] =
        (share){fn, state, total * i / THREADS, total * (i + 1) / THREADS, i};
    pthread_create(&threads[i], NULL, share_run, &shares[i]);
  }
  for (int32_t i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return OG_OK;
}

static const int32_t q_indptr[4] = {0, 1, 41, 44};
static const int32_t kv_indptr[4] = {0, 900, 1000, 1300};
static float q[44 * HEADS * DIM], k[1300 * KV_HEADS * DIM];
static float v[1300 * KV_HEADS * DIM];

typedef struct caller {
  const void *plan;
  int64_t plan_bytes, split_bytes;
  float out[44 * HEADS * DIM], lse[44 * HEADS];
  og_status status;
} caller;

static void *caller_run(void *argument) {
  caller *c = argument;
  const size_t bytes =
      (OG_ATTENTION_SHARED + (size_t)THREADS * OG_ATTENTION_SCRATCH +
       (size_t)c->split_bytes + 63) /
      64 * 64;
  void *workspace = aligned_alloc(64, bytes);
  const og_kernel_env env = {.workspace = workspace,
                             .workspace_bytes = bytes,
                             .threads = THREADS,
                             .parallel_for = parallel_for};
  const og_attention_args args = {
      .plan = c->plan,
      .plan_bytes = c->plan_bytes,
      .q = q,
      .k = k,
      .v = v,
      .out = c->out,
      .lse = c->lse,
      .q_rows = 44,
      .kv_rows = 1300,
      .q_row = HEADS * DIM,
      .q_head = DIM,
      .k_token = KV_HEADS * DIM,
      .k_head = DIM,
      .v_token = KV_HEADS * DIM,
      .v_head = DIM,
      .out_row = HEADS * DIM,
      .out_head = DIM,
      .q_heads = HEADS,
      .kv_heads = KV_HEADS,
      .dim_qk = DIM,
      .dim_vo = DIM,
      .sm_scale = 0.2f,
  };
  c->status = workspace != NULL ? og_attention_run(&env, &args) : OG_MEMORY;
  free(workspace);
  return NULL;
}

TEST(callers_share_a_plan) {
  static caller callers[CALLERS];
  static uint64_t plan[4096];
  char text[256];
  const og_attention_problem problem = {
      .batch = 3,
      .q_indptr = q_indptr,
      .kv_indptr = kv_indptr,
      .q_heads = HEADS,
      .kv_heads = KV_HEADS,
      .dim_qk = DIM,
      .dim_vo = DIM,
      .causal = 1,
      .window_left = -1,
      .threads = THREADS,
      .fixed_split = 256,
  };
  for (size_t i = 0; i < sizeof q / 4; ++i) q[i] = (float)(i % 17) / 9 - 1;
  for (size_t i = 0; i < sizeof k / 4; ++i) k[i] = (float)(i % 29) / 14 - 1;
  for (size_t i = 0; i < sizeof v / 4; ++i) v[i] = (float)(i % 31) / 15 - 1;
  CHECK_EQ(og_attention_plan(&problem, plan, sizeof plan, text, sizeof text),
           OG_OK);
  const og_plan_header *h = (const og_plan_header *)(const void *)plan;
  CHECK(h->merge_count > 0);
  pthread_t threads[CALLERS];
  for (int i = 0; i < CALLERS; ++i) {
    callers[i].plan = plan;
    callers[i].plan_bytes = sizeof plan;
    callers[i].split_bytes = h->split_bytes;
    pthread_create(&threads[i], NULL, caller_run, &callers[i]);
  }
  for (int i = 0; i < CALLERS; ++i) {
    pthread_join(threads[i], NULL);
    CHECK_EQ(callers[i].status, OG_OK);
    CHECK(memcmp(callers[i].out, callers[0].out, sizeof callers[0].out) == 0);
    CHECK(memcmp(callers[i].lse, callers[0].lse, sizeof callers[0].lse) == 0);
  }
}

TEST_MAIN("threads_attention", CASE_NO_FAULTS(callers_share_a_plan))
