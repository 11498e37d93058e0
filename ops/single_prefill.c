// SPDX-License-Identifier: Apache-2.0
// single_prefill: attention of one request, planned in its own workspace.
// Source: FlashInfer (Ye et al., 2025), FlashAttention (Dao et al., 2022).

#include <opgraft/op.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "shared/attention_args.h"
#include "shared/call_env.h"

// Tensor arguments.
enum { Q, K, V, MASK };
// Attributes; from SM_SCALE on they are those of all attention operators.
enum { CAUSAL, WINDOW, SM_SCALE };

static og_status single_prefill(const og_call *call) {
  const og_tensor *q = call->in[Q], *k = call->in[K];
  char text[256];
  if (q->shape[0] > INT32_MAX || k->shape[0] > INT32_MAX)
    return og_fail(call, OG_SHAPE,
                   "q or k has more than 2^31 - 1 tokens, expected fewer");
  const int32_t q_indptr[2] = {0, (int32_t)q->shape[0]};
  const int32_t kv_indptr[2] = {0, (int32_t)k->shape[0]};
  const int64_t window = call->attr[WINDOW].i;
  const og_attention_problem problem = {
      .batch = 1,
      .q_indptr = q_indptr,
      .kv_indptr = kv_indptr,
      .q_heads = (int32_t)q->shape[1],
      .kv_heads = (int32_t)k->shape[1],
      .dim_qk = (int32_t)q->shape[2],
      .dim_vo = (int32_t)call->in[V]->shape[2],
      .causal = call->attr[CAUSAL].i != 0,
      .window_left = window < 0 || window > INT32_MAX ? -1 : (int32_t)window,
      .threads = call->threads,
      .fixed_split = -1,
  };
  // The plan stands at the end of the workspace.
  const int64_t room = (int64_t)call->workspace_bytes - OG_ATTENTION_SHARED -
                       (int64_t)call->threads * OG_ATTENTION_SCRATCH;
  og_attention_args args = {
      .plan = (char *)call->workspace + call->workspace_bytes - room,
      .plan_bytes = room,
      .out = og_data(call->out[0]),
      .lse = og_f32_mut(call->out[1]),
  };
  og_status status = og_attention_plan(&problem, (void *)(uintptr_t)args.plan,
                                       room, text, sizeof text);
  if (status != OG_OK) return og_fail(call, status, text);
  status = og_attention_args_read(call, q, k, call->in[V], call->in[MASK],
                                  SM_SCALE, &args);
  if (status != OG_OK) return status;
  const og_kernel_env env = og_call_env(call);
  return og_attention_run(&env, &args);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", single_prefill);

static const og_op ops[] = {
    {
        .schema = "single_prefill(Tensor q, Tensor k, Tensor v, "
                  "Tensor? packed_custom_mask=None, *, bool causal=False, "
                  "int window_left=-1, float? sm_scale=None, "
                  "float logits_soft_cap=0.0, "
                  "str pos_encoding_mode=\"NONE\", float rope_scale=1.0, "
                  "float rope_theta=10000.0, str lse_base=\"2\") "
                  "-> (Tensor out, Tensor lse)",
        .shape = "q[NQ, HQ, DQK], k[NK, HK, DQK], v[NK, HK, DVO], "
                 "packed_custom_mask?[M] -> [NQ, HQ, DVO], [NQ, HQ]",
        .where = "HK > 0, HQ % max(HK, 1) == 0, HQ > 0, DQK >= 2, DVO >= 1, "
                 "DQK <= 256, DVO <= 256",
        .dtype = "q: f32|bf16|f16, k: q, v: q, packed_custom_mask: u8 "
                 "-> q, f32",
        .strides = "q: last, k: last, v: last",
        // The plan: a unit and an item for each KV head in every 14 rows.
        .workspace = "4096 + threads * 851968 + 512 + "
                     "(NQ * (HQ // max(HK, 1)) // 14 + 2) * (64 + 8 * HK)",
        .flags = OG_DETERMINISTIC,
        .reduce = "HQ + HK unless pos_encoding_mode == \"ALIBI\"; DVO: same",
        .doc = "Attention of one request, without a plan of the caller's. "
               "Causal means aligned at the last query and the last key.",
        .kernels = OG_KERNELS(kernels),
    },
};
OG_MODULE(single_prefill, ops)
