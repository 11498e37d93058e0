// SPDX-License-Identifier: Apache-2.0
// Plans for sampled calls: requests that fit the sizes drawn.

#ifndef OG_KERNEL_ATTENTION_SAMPLE_H
#define OG_KERNEL_ATTENTION_SAMPLE_H

#include "kernel/attention.h"

// An attention operator's `sample`: draws requests that hold every query row,
// and makes their plan.
og_status og_attention_sample_draw(const og_sample_call *call,
                                   const og_attention_sample *in);

#endif  // OG_KERNEL_ATTENTION_SAMPLE_H
