// SPDX-License-Identifier: Apache-2.0
// Plans for sampled calls: requests that fit the sizes drawn.

#ifndef OG_OPS_ATTENTION_SAMPLE_H
#define OG_OPS_ATTENTION_SAMPLE_H

#include <opgraft/op.h>

// Where an attention operator has what a plan must fit; -1: it has none.
typedef struct og_attention_sample {
  int32_t plan;  // tensor argument
  // Dims by their place in the shape rule. kv_rows are tokens, or entries of
  // the page table.
  int32_t plan_bytes, q_rows, q_heads, dim_qk, kv_rows, kv_heads, dim_vo;
  int32_t mask_bytes, pages, page_size;
  int32_t first_attr, split_bytes;  // sm_scale's place, and split_bytes'
  int32_t is_decode;                // one query row for each request
  int32_t scales;                   // dim of a cache's scales; 0: it has none
} og_attention_sample;

// An attention operator's `sample`: draws requests that hold every query row,
// and makes their plan.
og_status og_attention_sample_draw(const og_sample_call *call,
                                   const og_attention_sample *in);

// Of a forward operator: its dims are P, rows, HQ, DQK, then NK, HK, DVO or
// PAGES, PS, HK, DVO, I, then those of scales and of a mask, where it has them.
enum {
  OG_SAMPLE_DECODE = 1,  // one query row for each request
  OG_SAMPLE_PAGED = 2,
  OG_SAMPLE_SCALED = 4,
  OG_SAMPLE_MASKED = 8,
};
og_status og_attention_sample_forward(const og_sample_call *call, int form);

#endif  // OG_OPS_ATTENTION_SAMPLE_H
