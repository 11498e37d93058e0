// SPDX-License-Identifier: Apache-2.0
// Kernels without an operator, a module or a call: what they need of the
// outside is an environment made here. Results are compared with loops in
// double.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "tests/unit/test.h"

enum { THREADS = 3 };

// What the environment's functions saw.
typedef struct host {
  int loops, shares;
  og_status refusal;  // what parallel_for returns; its shares have run
  char text[256];
} host;

static host *host_of(const og_kernel_env *env) {
  return (host *)(uintptr_t)env->host;
}

// As many shares as grain and threads allow, the last one first, so that
// neither the order nor worker 0 is relied on.
static og_status shares_run(const og_kernel_env *env, int64_t total,
                            int64_t grain, og_task_fn fn, void *state) {
  host *h = host_of(env);
  int64_t count = total / grain;
  if (count > env->threads) count = env->threads;
  if (count < 1) count = 1;
  ++h->loops;
  h->shares += (int)count;
  for (int64_t i = count - 1; i >= 0; --i)
    fn(state, total * i / count, total * (i + 1) / count,
       (int32_t)(env->threads - 1 - i));
  return h->refusal;
}

static og_status reason_keep(const og_kernel_env *env, og_status code,
                             const char *text) {
  host *h = host_of(env);
  snprintf(h->text, sizeof h->text, "%s", text);
  return code;
}

// `workspace` is NaN: nothing may be read unwritten.
static og_kernel_env env_of(host *h, void *workspace, size_t bytes) {
  memset(workspace, 0xff, bytes);
  return (og_kernel_env){.workspace = workspace,
                         .workspace_bytes = bytes,
                         .threads = THREADS,
                         .parallel_for = shares_run,
                         .fail = reason_keep,
                         .host = h};
}

static void fill(float *x, int64_t count, uint32_t seed) {
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
}

static bool is_near(double found, double wanted, double allowed) {
  return fabs(found - wanted) <= allowed * (1 + fabs(wanted));
}

// --- Attention ---------------------------------------------------------------

// A decoded request and a prefilled one; keys are split, so parts are merged.
enum { HEADS = 4, KV_HEADS = 2, DIM_QK = 24, DIM_VO = 40, Q = 21, KV = 390 };
static const int32_t q_indptr[] = {0, 1, Q}, kv_indptr[] = {0, 300, KV};
static float q[Q * HEADS * DIM_QK], k[KV * KV_HEADS * DIM_QK];
static float v[KV * KV_HEADS * DIM_VO], out[Q * HEADS * DIM_VO];
static float lse[Q * HEADS];

static const og_attention_args shapes = {
    .q = q,
    .k = k,
    .v = v,
    .out = out,
    .lse = lse,
    .q_rows = Q,
    .kv_rows = KV,
    .q_row = HEADS * DIM_QK,
    .q_head = DIM_QK,
    .k_token = KV_HEADS * DIM_QK,
    .k_head = DIM_QK,
    .v_token = KV_HEADS * DIM_VO,
    .v_head = DIM_VO,
    .out_row = HEADS * DIM_VO,
    .out_head = DIM_VO,
    .q_heads = HEADS,
    .kv_heads = KV_HEADS,
    .dim_qk = DIM_QK,
    .dim_vo = DIM_VO,
    .sm_scale = 0.3f,
};

// A row of request `r`, against the keys up to its own place.
static bool row_right(int r, int32_t row, int head) {
  const int32_t first = kv_indptr[r];
  const int32_t last = kv_indptr[r + 1] - (q_indptr[r + 1] - 1 - row);
  const int kv_head = head / (HEADS / KV_HEADS);
  double sum = 0, wanted[DIM_VO] = {0};
  for (int32_t key = first; key < last; ++key) {
    const float *query = q + (row * HEADS + head) * DIM_QK;
    const float *keys = k + (key * KV_HEADS + kv_head) * DIM_QK;
    const float *values = v + (key * KV_HEADS + kv_head) * DIM_VO;
    double dot = 0;
    for (int d = 0; d < DIM_QK; ++d) dot += (double)query[d] * (double)keys[d];
    const double w = exp((double)shapes.sm_scale * dot);
    sum += w;
    for (int d = 0; d < DIM_VO; ++d) wanted[d] += w * (double)values[d];
  }
  const float *found = out + (row * HEADS + head) * DIM_VO;
  for (int d = 0; d < DIM_VO; ++d)
    if (!is_near((double)found[d], wanted[d] / sum, 1e-5)) return false;
  return is_near((double)lse[row * HEADS + head], log2(sum), 1e-5);
}

static void *plan_make(int64_t *out_size) {
  const og_attention_problem problem = {
      .batch = 2,
      .q_indptr = q_indptr,
      .kv_indptr = kv_indptr,
      .q_heads = HEADS,
      .kv_heads = KV_HEADS,
      .dim_qk = DIM_QK,
      .dim_vo = DIM_VO,
      .causal = 1,
      .window_left = -1,
      .threads = THREADS,
      .fixed_split = 64,
  };
  char text[256];
  if (og_attention_plan_size(&problem, out_size, text, sizeof text) != OG_OK)
    return NULL;
  void *plan = malloc((size_t)*out_size);
  if (plan == NULL ||
      og_attention_plan(&problem, plan, *out_size, text, sizeof text) == OG_OK)
    return plan;
  free(plan);
  return NULL;
}

TEST(attention) {
  og_attention_args args = shapes;
  host h = {0};
  void *workspace = NULL, *plan = plan_make(&args.plan_bytes);
  REQUIRE(plan != NULL);
  const og_plan_header *header = plan;
  CHECK(header->merge_count > 0);
  const size_t bytes = OG_ATTENTION_SHARED +
                       (size_t)THREADS * OG_ATTENTION_SCRATCH +
                       (size_t)header->split_bytes;
  workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
  REQUIRE(workspace != NULL);
  og_kernel_env env = env_of(&h, workspace, bytes);
  args.plan = plan;
  fill(q, Q * HEADS * DIM_QK, 6);
  fill(k, KV * KV_HEADS * DIM_QK, 7);
  fill(v, KV * KV_HEADS * DIM_VO, 8);
  CHECK_EQ(og_attention_run(&env, &args), OG_OK);
  for (int r = 0; r < 2; ++r)
    for (int32_t row = q_indptr[r]; row < q_indptr[r + 1]; ++row)
      for (int head = 0; head < HEADS; ++head) CHECK(row_right(r, row, head));
  CHECK_EQ(h.loops, 2);  // items, then merges
  CHECK(h.shares > 2);
  // What is wrong goes to the environment that the run has.
  env.workspace_bytes -= 1;
  CHECK_EQ(og_attention_run(&env, &args), OG_INVALID);
  CHECK(strstr(h.text, "the plan splits keys and needs split_bytes=") != NULL);
  args.plan_bytes = 8;
  CHECK_EQ(og_attention_run(&env, &args), OG_INVALID);
  CHECK(strstr(h.text, "split_bytes") == NULL);
  env.fail = NULL;
  CHECK_EQ(og_attention_run(&env, &args), OG_INVALID);
  CHECK_EQ(h.loops, 2);
done:
  free(workspace);
  free(plan);
}

TEST_MAIN("kernel_env", CASE_NO_FAULTS(attention))
