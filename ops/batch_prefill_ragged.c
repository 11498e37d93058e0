// SPDX-License-Identifier: Apache-2.0
// batch_prefill_ragged: attention of packed requests of any lengths, keys and
// values packed alike.
// Source: FlashInfer (Ye et al., 2025), FlashAttention (Dao et al., 2022).

#include <opgraft/op.h>

#include "kernel/attention_grad.h"
#include "kernel/kernel.h"
#include "shared/attention_args.h"
#include "shared/attention_sample.h"
#include "shared/call_env.h"

static og_status batch_prefill_ragged(const og_call *call) {
  return og_attention_batch(call, call->in[4]);
}

// Its tensors are those of the forward operator, behind grad, out and lse.
static og_status batch_prefill_ragged_backward(const og_call *call) {
  enum { GRAD, OUT, LSE, FORWARD };
  const og_tensor *const *in = call->in + FORWARD;
  og_attention_args args;
  const og_status status = og_attention_batch_read(call, in, in[4], &args);
  if (status != OG_OK) return status;
  args.out = og_data(call->in[OUT]);
  args.lse = og_data(call->in[LSE]);
  const og_kernel_env env = og_call_env(call);
  return og_attention_grad(&env, &args, og_data(call->in[GRAD]),
                           og_data(call->out[0]), og_data(call->out[1]),
                           og_data(call->out[2]));
}

// Plans that fit the sizes drawn, for check and bench.
static og_status backward_sample(const og_sample_call *call) {
  enum { NQ, HQ, DVO, P, DQK, NK, HK, M };
  static const og_attention_sample in = {.plan = 3,
                                         .plan_bytes = P,
                                         .q_rows = NQ,
                                         .q_heads = HQ,
                                         .dim_qk = DQK,
                                         .kv_rows = NK,
                                         .kv_heads = HK,
                                         .dim_vo = DVO,
                                         .mask_bytes = M,
                                         .pages = -1,
                                         .page_size = -1,
                                         .split_bytes = -1};
  return og_attention_sample_draw(call, &in);
}

static og_status sample(const og_sample_call *call) {
  return og_attention_sample_forward(call, OG_SAMPLE_MASKED);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", batch_prefill_ragged);
OG_KERNELS_BY_ISA(backward_kernels, "f32|bf16|f16",
                  batch_prefill_ragged_backward);

static const og_op ops[] = {
    {
        .schema =
            "batch_prefill_ragged(Tensor plan, Tensor q, Tensor k, Tensor v, "
            "Tensor? packed_custom_mask=None, *, float? sm_scale=None, "
            "float logits_soft_cap=0.0, str pos_encoding_mode=\"NONE\", "
            "float rope_scale=1.0, float rope_theta=10000.0, "
            "str lse_base=\"2\", int split_bytes=0) "
            "-> (Tensor out, Tensor lse)",
        .shape = "plan[P], q[NQ, HQ, DQK], k[NK, HK, DQK], v[NK, HK, DVO], "
                 "packed_custom_mask?[M] -> [NQ, HQ, DVO], [NQ, HQ]",
        .where = "HK > 0, HQ % max(HK, 1) == 0, split_bytes >= 0",
        .dtype = "plan: u8, q: f32|bf16|f16, k: q, v: q, "
                 "packed_custom_mask: u8 -> q, f32",
        .backward =
            "batch_prefill_ragged_backward(grad_out, out, lse, plan, q, k, v, "
            "packed_custom_mask, sm_scale, logits_soft_cap, "
            "pos_encoding_mode, rope_scale, rope_theta, lse_base) -> q, k, v",
        .strides = "q: last, k: last, v: last",
        .workspace = "4096 + threads * 851968 + split_bytes",
        .reduce = "HQ + HK unless pos_encoding_mode == \"ALIBI\"",
        .doc =
            "Attention of packed requests: a plan says where each begins. "
            "Query heads share KV heads in groups. Causal means aligned at "
            "the last query and the last key. A row that sees no key gives 0 "
            "and -inf; rows that no request holds are not written. The mask "
            "is bit-packed, little-endian, each request begins at a byte. "
            "lse gets no gradient of its own.",
        .expect = "no_gradient: lse",
        .kernels = OG_KERNELS(kernels),
        .sample = sample,
    },
    {
        .schema = "batch_prefill_ragged_backward(Tensor grad, Tensor found, "
                  "Tensor lse, Tensor plan, Tensor q, Tensor k, Tensor v, "
                  "Tensor? packed_custom_mask, float? sm_scale, "
                  "float logits_soft_cap, str pos_encoding_mode, "
                  "float rope_scale, float rope_theta, str lse_base) "
                  "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v)",
        .shape = "grad[NQ, HQ, DVO], found[NQ, HQ, DVO], lse[NQ, HQ], plan[P], "
                 "q[NQ, HQ, DQK], k[NK, HK, DQK], v[NK, HK, DVO], "
                 "packed_custom_mask?[M] "
                 "-> [NQ, HQ, DQK], [NK, HK, DQK], [NK, HK, DVO]",
        .where = "HK > 0, HQ % max(HK, 1) == 0",
        .dtype = "grad: q, found: q, lse: f32, plan: u8, q: f32|bf16|f16, "
                 "k: q, v: q, packed_custom_mask: u8 -> q, q, q",
        .workspace = "4096 + threads * 2097152",
        .flags = OG_DETERMINISTIC,
        .reduce = "HQ + HK: sum unless pos_encoding_mode == \"ALIBI\"",
        .doc = "The gradient of batch_prefill_ragged's out for q, k and v; "
               "zero in rows that no request holds.",
        .kernels = OG_KERNELS(backward_kernels),
        .sample = backward_sample,
    },
};
OG_MODULE(batch_prefill_ragged, ops)
