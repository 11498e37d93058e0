// SPDX-License-Identifier: Apache-2.0
// batch_decode_ragged: attention of one query for each request.
// Source: FlashInfer (Ye et al., 2025), Flash-Decoding (Dao et al., 2023).

#include <opgraft/op.h>

#include "cuda/decode.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"
#include "shared/attention_args.h"
#include "shared/attention_sample.h"

static og_status batch_decode_ragged(const og_call *call) {
  return og_attention_batch(call, NULL);
}

static og_status batch_decode_ragged_cuda(const og_call *call) {
  og_attention_args args;
  const og_status status = og_attention_batch_read(call, call->in, NULL, &args);
  return status == OG_OK ? og_decode_cuda(call, &args) : status;
}

// A plan that fits the sizes drawn, for check and bench.
static og_status sample(const og_sample_call *call) {
  return og_attention_sample_forward(call, OG_SAMPLE_DECODE);
}

OG_KERNELS_BY_ISA(kernels, "f32|bf16|f16", batch_decode_ragged,
                  OG_CUDA_KERNEL("f32|bf16|f16", og_decode_cuda_supports,
                                 batch_decode_ragged_cuda));

static const og_op ops[] = {
    {
        .schema =
            "batch_decode_ragged(Tensor plan, Tensor q, Tensor k, Tensor v, "
            "*, float? sm_scale=None, float logits_soft_cap=0.0, "
            "str pos_encoding_mode=\"NONE\", float rope_scale=1.0, "
            "float rope_theta=10000.0, str lse_base=\"2\", "
            "int split_bytes=0) -> (Tensor out, Tensor lse)",
        .shape = "plan[P], q[B, HQ, DQK], k[NK, HK, DQK], v[NK, HK, DVO] "
                 "-> [B, HQ, DVO], [B, HQ]",
        .where = "HK > 0, HQ % max(HK, 1) == 0, split_bytes >= 0",
        .dtype = "plan: u8, q: f32|bf16|f16, k: q, v: q -> q, f32",
        .strides = "q: last, k: last, v: last",
        .workspace = "4096 + threads * 851968 + split_bytes",
        .reduce = "HQ + HK unless pos_encoding_mode == \"ALIBI\"",
        .doc = "Attention of one query for each request; a plan without "
               "qo_indptr says where each request's keys begin. Row i of q is "
               "request i's, behind all its keys.",
        .kernels = OG_KERNELS(kernels),
        .sample = sample,
    },
};
OG_MODULE(batch_decode_ragged, ops)
