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

// A cache of 8 bits: OG_I8, or of u8 what the attribute float8 says, OG_E4M3 or
// OG_E5M2.
og_status og_narrow_read(const og_call *call, const og_tensor *cache,
                         const og_attr *float8, int32_t *out_narrow);
// Behind og_attention_args_read: such a cache's type, and its scales, one for
// as many heads as there are of them.
og_status og_attention_narrow_read(
    const og_call *call, const og_tensor *k_scale, const og_tensor *v_scale,
    const og_tensor *cache, const og_attr *float8, og_attention_args *args);

#endif  // OG_OPS_ATTENTION_ARGS_H
