// SPDX-License-Identifier: Apache-2.0
// Plans of attention: cut the batch into units, balance them, order them.

#ifndef OG_KERNEL_ATTENTION_PLAN_H
#define OG_KERNEL_ATTENTION_PLAN_H

#include "kernel/attention.h"

// Bytes that the plan of this problem takes. A bad indptr is OG_INVALID and
// `text` names its entry.
og_status og_attention_plan_size(const og_attention_problem *problem,
                                 int64_t *out_size, char *text,
                                 size_t text_size);
// Bytes that suffice for every batch of at most so many requests, query tokens
// in all, and keys of one request; 0 where no plan has such heads or head
// sizes.
int64_t og_attention_plan_max(const og_attention_problem *problem,
                              int64_t max_tokens, int64_t max_len);
// Writes the plan into `plan`, which has `size` bytes; the rest is zeroed.
og_status og_attention_plan(const og_attention_problem *problem, void *plan,
                            int64_t size, char *text, size_t text_size);
og_status og_plan_check(const og_attention_args *args, og_plan_view *out_view,
                        char *text, size_t text_size);

#endif  // OG_KERNEL_ATTENTION_PLAN_H
