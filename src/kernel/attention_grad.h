// SPDX-License-Identifier: Apache-2.0
// The gradient of ragged attention. Weights are computed anew from the LSE.
// Source: the backward pass of FlashAttention (Dao et al., 2022).

#ifndef OG_KERNEL_ATTENTION_GRAD_H
#define OG_KERNEL_ATTENTION_GRAD_H

#include "kernel/attention.h"

// The gradients of q, k and v, contiguous ragged tensors; args->out and
// args->lse are the results of the run. Uses OG_ATTENTION_GRAD_SCRATCH bytes
// of workspace for each thread behind OG_ATTENTION_SHARED.
og_status og_attention_grad(const og_kernel_env *env,
                            const og_attention_args *args, const void *grad,
                            void *grad_q, void *grad_k, void *grad_v);

#endif  // OG_KERNEL_ATTENTION_GRAD_H
