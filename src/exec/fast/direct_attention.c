// SPDX-License-Identifier: Apache-2.0
// attention of one query a head over the plans of src/kernel: each batch is a
// request of one token.
//
// Invariant: the plan splits keys at the same places for any number of threads,
// so results do not depend on it.

#include "exec/fast/direct_attention.h"

#include "call/call.h"
#include "exec/step/heads.h"
#include "kernel/attention_plan.h"
#include "kernel/kernel.h"

enum { SPLIT_KEYS = 1024 };

typedef struct direct {
  og_heads of;
  og_attention_args args;
  void *workspace;
  size_t workspace_bytes;
} direct;

static og_status env_parallel(const og_kernel_env *env, int64_t total,
                              int64_t grain, og_task_fn fn, void *state) {
  return og_run_parallel(env->host, total, grain, fn, state);
}

static og_status env_fail(const og_kernel_env *env, og_status code,
                          const char *text) {
  return og_run_fail(env->host, code, "%s", text);
}

static og_status run_direct(void *state, const og_run *run) {
  direct *s = state;
  const og_tensor *lse = s->of.io.out[1];
  const og_kernel_env env = {.workspace = s->workspace,
                             .workspace_bytes = s->workspace_bytes,
                             .threads = run->executable->threads,
                             .parallel_for = env_parallel,
                             .fail = env_fail,
                             .host = run};
  s->args.q = og_bytes(s->of.q);
  s->args.k = og_bytes(s->of.k);
  s->args.v = og_bytes(s->of.v);
  s->args.out = og_bytes(s->of.io.out[0]);
  s->args.lse = lse != NULL ? (float *)(void *)og_bytes(lse) : NULL;
  return og_attention_run(&env, &s->args);
}

// --- Preparing ---------------------------------------------------------------

bool og_attention_is_decode(const og_prep *prep) {
  const og_tensor *q = prep->in[0];
  return prep->in[3] == NULL && q->ndim == 4 && q->shape[2] == 1;
}

// Whether all batches' rows are one list of tokens.
static bool is_list(const og_tensor *t) {
  return t->shape[0] == 1 || t->strides[0] == t->shape[2] * t->strides[2];
}

static bool is_taken(const og_heads *of) {
  const og_tensor *out = of->io.out[0], *lse = of->io.out[1];
  const og_tensor *all[] = {of->q, of->k, of->v, out};
  const bool is_bf16 = out->dtype.code == OG_CODE_BFLOAT;
  if (!is_bf16 && !og_dtype_is_f32(out->dtype)) return false;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!og_dtype_equal(all[i]->dtype, out->dtype) || all[i]->strides[3] != 1)
      return false;
  if (lse != NULL &&
      (!og_dtype_is_f32(lse->dtype) || !og_tensor_is_contiguous(lse)))
    return false;
  return og_numel(out) > 0 && of->keys > 0 && of->width > 0 && !of->causal &&
         of->key_repeat <= OG_ATTENTION_DIRECT_ROWS && is_list(of->k) &&
         is_list(of->v) && of->q->shape[0] * of->keys <= INT32_MAX;
}

// OG_UNSUPPORTED where the kernel has no plan of such sizes.
static og_status plan_make(og_prep *prep, direct *s) {
  const og_heads *of = &s->of;
  const int32_t batch = (int32_t)of->q->shape[0];
  char text[256];
  int64_t bytes;
  int32_t *ends = og_prep_alloc(prep, ((size_t)batch + 1) * sizeof *ends);
  if (ends == NULL) return og_prep_memory(prep);
  for (int32_t b = 0; b <= batch; ++b) ends[b] = b * (int32_t)of->keys;
  const og_attention_problem problem = {
      .batch = batch,
      .kv_indptr = ends,
      .q_heads = s->args.q_heads,
      .kv_heads = s->args.kv_heads,
      .dim_qk = s->args.dim_qk,
      .dim_vo = s->args.dim_vo,
      .window_left = -1,
      .threads = prep->executable->threads,
      .fixed_split = SPLIT_KEYS,
      .heads_first = s->args.k_head > s->args.k_token};
  if (og_attention_plan_size(&problem, &bytes, text, sizeof text) != OG_OK)
    return OG_UNSUPPORTED;
  og_plan_header *plan = og_prep_alloc(prep, (size_t)bytes);
  if (plan == NULL) return og_prep_memory(prep);
  if (og_attention_plan(&problem, plan, bytes, text, sizeof text) != OG_OK)
    return OG_UNSUPPORTED;
  s->args.plan = plan;
  s->args.plan_bytes = bytes;
  s->workspace_bytes =
      OG_ATTENTION_SHARED +
      (size_t)prep->executable->threads * OG_ATTENTION_SCRATCH +
      (size_t)plan->split_bytes;
  return OG_OK;
}

static og_attention_args args_of(const og_heads *of) {
  const og_tensor *q = of->q, *k = of->k, *v = of->v, *out = of->io.out[0];
  return (og_attention_args){.q_rows = q->shape[0],
                             .kv_rows = k->shape[0] * of->keys,
                             .q_row = q->strides[0],
                             .q_head = q->strides[1],
                             .k_token = k->strides[2],
                             .k_head = k->strides[1],
                             .v_token = v->strides[2],
                             .v_head = v->strides[1],
                             .out_row = out->strides[0],
                             .out_head = out->strides[1],
                             .q_heads = (int32_t)of->heads,
                             .kv_heads = (int32_t)(of->heads / of->key_repeat),
                             .dim_qk = (int32_t)of->width,
                             .dim_vo = (int32_t)of->value_width,
                             .sm_scale = (float)of->scale,
                             .natural_lse = 1,
                             .element = og_element_of(out)};
}

og_status og_prepare_direct_attention(og_prep *prep) {
  if (!og_attention_is_decode(prep)) return OG_UNSUPPORTED;
  direct *s = og_state_begin(prep, sizeof *s, run_direct);
  if (s == NULL) return OG_MEMORY;
  OG_TRY(og_heads_read(prep, &s->of, 0, NULL));
  OG_TRY(og_heads_need_results(prep, &s->of, prep->out[0], prep->out[1]));
  if (s->of.heads > OG_ATTENTION_MAX_HEADS || !is_taken(&s->of))
    return OG_UNSUPPORTED;
  if (s->of.width > OG_ATTENTION_MAX_DIM ||
      s->of.value_width > OG_ATTENTION_MAX_DIM)
    return OG_UNSUPPORTED;
  s->args = args_of(&s->of);
  OG_TRY(plan_make(prep, s));
  char *memory = og_prep_scratch(prep, s->workspace_bytes + 64);
  if (memory == NULL) return OG_UNSUPPORTED;  // the other one needs less
  s->workspace = memory + (64 - (uintptr_t)memory % 64) % 64;
  return OG_OK;
}
