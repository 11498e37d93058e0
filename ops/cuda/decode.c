// SPDX-License-Identifier: Apache-2.0
// Launches of decode_f32.cu, decode_bf16.cu and decode_f16.cu.

#include "cuda/decode.h"

#include <string.h>

#include "cuda/decode_args.h"
#include "cuda/launch.h"
#include "kernel/kernel.h"

OG_CUDA_CODE(decode_f32);
OG_CUDA_CODE(decode_bf16);
OG_CUDA_CODE(decode_f16);

// Attributes, in schema order.
enum { SM_SCALE, SOFT_CAP, POS_MODE, ROPE_SCALE, ROPE_THETA, LSE, SPLIT };
enum { ELEMENTS = 8, BLOCKS_OF_ONE = 8 };

static const float log2e = 1.44269504089f;

int32_t og_decode_cuda_supports(const og_call *call) {
  enum { PLAN, Q, K, V };
  const og_tensor *q = call->in[Q], *v = call->in[V];
  return strcmp(call->attr[POS_MODE].s, "NONE") == 0 &&
         q->shape[2] <= OG_ATTENTION_MAX_DIM &&
         v->shape[v->ndim - 1] <= OG_ATTENTION_MAX_DIM;
}

static int32_t lanes_of(int32_t dim) {
  int32_t lanes = 1;
  while (lanes * ELEMENTS < dim) lanes *= 2;
  return lanes;
}

static int is_aligned(const og_attention_args *a) {
  const int64_t bytes = (int64_t)og_element_bytes(a->element);
  const int64_t strides[] = {a->q_row,  a->q_head, a->k_page,  a->k_token,
                             a->k_head, a->v_page, a->v_token, a->v_head};
  int is_true =
      og_cuda_at_16(a->q) && og_cuda_at_16(a->k) && og_cuda_at_16(a->v);
  for (size_t i = 0; i < sizeof strides / sizeof *strides; ++i)
    is_true = is_true && strides[i] * bytes % 16 == 0;
  return is_true;
}

static void tensors_set(const og_attention_args *a, decode_args *out) {
  *out = (decode_args){
      .plan = a->plan,
      .plan_bytes = a->plan_bytes,
      .q = a->q,
      .k = a->k,
      .v = a->v,
      .out = a->out,
      .lse = a->lse,
      .indices = a->page_indices,
      .index_count = a->page_index_count,
      .q_rows = a->q_rows,
      .kv_rows = a->kv_rows,
      .q_row = a->q_row,
      .q_head = a->q_head,
      .k_page = a->k_page,
      .k_token = a->k_token,
      .k_head = a->k_head,
      .v_page = a->v_page,
      .v_token = a->v_token,
      .v_head = a->v_head,
      .q_heads = a->q_heads,
      .kv_heads = a->kv_heads,
      .dim_qk = a->dim_qk,
      .dim_vo = a->dim_vo,
      .page_size = a->page_size,
      .lanes = lanes_of(a->dim_qk > a->dim_vo ? a->dim_qk : a->dim_vo),
      .is_aligned = is_aligned(a),
      .is_natural = a->natural_lse,
      .q_scale =
          a->soft_cap > 0 ? a->sm_scale / a->soft_cap : a->sm_scale * log2e,
      .soft_cap = a->soft_cap > 0 ? a->soft_cap * log2e : 0,
  };
}

static const og_cuda_code *code_of(int element) {
  return element == OG_F32    ? &og_cuda_code_decode_f32
         : element == OG_BF16 ? &og_cuda_code_decode_bf16
                              : &og_cuda_code_decode_f16;
}

// How many units the plan has is not known here; more than fit in it, never.
static og_status blocks_get(const og_call *call, int64_t entry_bytes,
                            int32_t heads, int64_t plan_bytes,
                            int64_t *out_blocks) {
  int32_t count = 0;
  const og_status status = og_cuda_multiprocessors(call, call->out[0], &count);
  const int64_t left = plan_bytes - (int64_t)sizeof(og_plan_header);
  const int64_t units = left > entry_bytes ? left / entry_bytes : 1;
  *out_blocks = og_min64(units * heads, (int64_t)count * BLOCKS_OF_ONE);
  return status;
}

// Tensor cores where query heads share a KV head and 16-byte loads of 16-bit
// elements are whole, else CUDA cores.
static const char *kernel_of(const og_attention_args *args,
                             const decode_args *a) {
  static const char *const names[][3] = {
      {"decode_1_f32", "decode_1_bf16", "decode_1_f16"},
      {"decode_4_f32", "decode_4_bf16", "decode_4_f16"},
      {"decode_8_f32", "decode_8_bf16", "decode_8_f16"},
  };
  static const char *const of_64[][2] = {
      {"decode_mma_8_64_bf16", "decode_mma_8_64_f16"},
      {"decode_mma_16_64_bf16", "decode_mma_16_64_f16"},
  };
  static const char *const of_128[][2] = {
      {"decode_mma_8_128_bf16", "decode_mma_8_128_f16"},
      {"decode_mma_16_128_bf16", "decode_mma_16_128_f16"},
  };
  const int32_t group = a->q_heads / a->kv_heads, width = a->dim_qk;
  if (group == 1 || args->element == OG_F32 || !a->is_aligned ||
      width != a->dim_vo || (width != 64 && width != 128))
    return names[group > 4 ? 2 : group > 1][args->element];
  return (width == 64 ? of_64 : of_128)[group > 8][args->element == OG_F16];
}

og_status og_decode_cuda(const og_call *call, const og_attention_args *args) {
  static const char *const merges[] = {"decode_merge_f32", "decode_merge_bf16",
                                       "decode_merge_f16"};
  const int64_t split = call->attr[SPLIT].i;
  const og_cuda_code *code = code_of(args->element);
  decode_args a;
  int64_t blocks = 0;
  tensors_set(args, &a);
  a.partial = call->workspace;
  a.partial_bytes = og_min64(split, (int64_t)call->workspace_bytes);
  og_status status =
      blocks_get(call, sizeof(og_plan_unit), a.kv_heads, a.plan_bytes, &blocks);
  if (status != OG_OK) return status;
  status =
      og_cuda_run(call, code, kernel_of(args, &a), blocks, DECODE_THREADS, &a);
  if (status != OG_OK || split == 0) return status;
  status =
      blocks_get(call, sizeof(og_plan_merge), a.q_heads, a.plan_bytes, &blocks);
  if (status != OG_OK) return status;
  return og_cuda_run(call, code, merges[args->element], blocks, DECODE_THREADS,
                     &a);
}
