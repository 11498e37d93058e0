// SPDX-License-Identifier: Apache-2.0
// The arguments that all attention operators have in common.

#ifndef OG_OPS_ATTENTION_ARGS_H
#define OG_OPS_ATTENTION_ARGS_H

#include "kernel/attention.h"

// Fills what the tensors q [NQ, HQ, DQK], k and v [NK, HK, D] (or pages
// [P, page, HK, D]), out and lse of a call say, and its attributes from
// `first_attr` on: sm_scale?, logits_soft_cap, pos_encoding_mode, rope_scale,
// rope_theta, lse_base. `mask` may be NULL.
og_status og_attention_args_read(const og_call *call, const og_tensor *q,
                                 const og_tensor *k, const og_tensor *v,
                                 const og_tensor *mask, int first_attr,
                                 og_attention_args *out_args);

// The same of an operator over a plan: its tensors are plan, q, k, v and, where
// keys and values are in pages, the page table, from `in` on; out and lse its
// results; its attributes begin with those.
og_status og_attention_batch_read(const og_call *call,
                                  const og_tensor *const *in,
                                  const og_tensor *mask,
                                  og_attention_args *out_args);
// Such an operator on the CPU.
og_status og_attention_batch(const og_call *call, const og_tensor *mask);
// Over a cache of 8 bits: k_scale and v_scale are behind the page table.
og_status og_attention_batch_scaled(const og_call *call, const og_tensor *mask);

// Of a cache of 8 bits: OG_I8, OG_E4M3 or OG_E5M2.
int32_t og_narrow_of(const og_tensor *cache);

#endif  // OG_OPS_ATTENTION_ARGS_H
