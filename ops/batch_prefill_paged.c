// SPDX-License-Identifier: Apache-2.0
// batch_prefill_paged: attention of packed requests whose keys and values lie
// in pages of a cache.
// Source: FlashInfer (Ye et al., 2025), PagedAttention (Kwon et al., 2023).

#include <opgraft/op.h>

#include "kernel/kernel.h"
#include "shared/attention_args.h"
#include "shared/attention_sample.h"

static og_status batch_prefill_paged(const og_call *call) {
  return og_attention_batch(call, call->in[5]);
}

static og_status batch_prefill_paged_scaled(const og_call *call) {
  return og_attention_batch_scaled(call, call->in[7]);
}

// Plans that fit the sizes drawn, for check and bench.
static og_status sample(const og_sample_call *call) {
  return og_attention_sample_forward(call, OG_SAMPLE_PAGED | OG_SAMPLE_MASKED);
}

static og_status sample_scaled(const og_sample_call *call) {
  return og_attention_sample_forward(
      call, OG_SAMPLE_PAGED | OG_SAMPLE_SCALED | OG_SAMPLE_MASKED);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", batch_prefill_paged);

OG_KERNELS_BY_ISA(scaled_kernels, NULL, batch_prefill_paged_scaled);

static const og_op ops[] = {
    {
        .schema = "batch_prefill_paged(Tensor plan, Tensor q, Tensor k_cache, "
                  "Tensor v_cache, Tensor paged_kv_indices, "
                  "Tensor? packed_custom_mask=None, *, float? sm_scale=None, "
                  "float logits_soft_cap=0.0, str pos_encoding_mode=\"NONE\", "
                  "float rope_scale=1.0, float rope_theta=10000.0, "
                  "str lse_base=\"2\", int split_bytes=0) "
                  "-> (Tensor out, Tensor lse)",
        .shape = "plan[P], q[NQ, HQ, DQK], k_cache[PAGES, PS, HK, DQK], "
                 "v_cache[PAGES, PS, HK, DVO], paged_kv_indices[I], "
                 "packed_custom_mask?[M] -> [NQ, HQ, DVO], [NQ, HQ]",
        .where = "HK > 0, HQ % max(HK, 1) == 0, split_bytes >= 0",
        .dtype = "plan: u8, q: f32|bf16|f16, k_cache: q, v_cache: q, "
                 "paged_kv_indices: i32, packed_custom_mask: u8 -> q, f32",
        .strides = "q: last, k_cache: last, v_cache: last",
        .workspace = "4096 + threads * 851968 + split_bytes",
        .reduce = "HQ + HK unless pos_encoding_mode == \"ALIBI\"",
        .doc =
            "As batch_prefill_ragged, with keys and values in pages "
            "[page, token, head, size]; a cache of another layout comes as a "
            "view. paged_kv_indices lists the pages of all requests, in the "
            "order of the plan.",
        .kernels = OG_KERNELS(kernels),
        .sample = sample,
    },
    {
        .schema = "batch_prefill_paged_scaled(Tensor plan, Tensor q, "
                  "Tensor k_cache, Tensor v_cache, Tensor paged_kv_indices, "
                  "Tensor k_scale, Tensor v_scale, "
                  "Tensor? packed_custom_mask=None, *, float? sm_scale=None, "
                  "float logits_soft_cap=0.0, str pos_encoding_mode=\"NONE\", "
                  "float rope_scale=1.0, float rope_theta=10000.0, "
                  "str lse_base=\"2\", int split_bytes=0) "
                  "-> (Tensor out, Tensor lse)",
        .shape = "plan[P], q[NQ, HQ, DQK], k_cache[PAGES, PS, HK, DQK], "
                 "v_cache[PAGES, PS, HK, DVO], paged_kv_indices[I], "
                 "k_scale[S], v_scale[S], packed_custom_mask?[M] "
                 "-> [NQ, HQ, DVO], [NQ, HQ]",
        .where = "HK > 0, HQ % max(HK, 1) == 0, S > 0, HK % max(S, 1) == 0, "
                 "split_bytes >= 0",
        .dtype = "plan: u8, q: f32|bf16|f16, k_cache: i8|f8e4m3|f8e5m2, "
                 "v_cache: k_cache, paged_kv_indices: i32, k_scale: f32, "
                 "v_scale: f32, packed_custom_mask: u8 -> q, f32",
        .strides = "q: last, k_cache: last, v_cache: last",
        .workspace = "4096 + threads * 851968 + split_bytes",
        .doc = "batch_prefill_paged over a cache of 8 bits, as "
               "batch_decode_paged_scaled.",
        .kernels = OG_KERNELS(scaled_kernels),
        .sample = sample_scaled,
    },
};
OG_MODULE(batch_prefill_paged, ops)
