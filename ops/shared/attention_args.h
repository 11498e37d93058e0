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

#endif  // OG_OPS_ATTENTION_ARGS_H
