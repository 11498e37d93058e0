// SPDX-License-Identifier: Apache-2.0
// The arguments that all attention operators have in common.

#include "shared/attention_args.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/attention.h"
#include "kernel/kernel.h"
#include "shared/call_env.h"

static og_status word_read(const og_call *call, const char *name,
                           const og_attr *attr, const char *const *words,
                           int32_t count, int32_t *out_index) {
  char text[192];
  for (int32_t i = 0; i < count; ++i)
    if (strcmp(attr->s, words[i]) == 0) {
      *out_index = i;
      return OG_OK;
    }
  int used =
      snprintf(text, sizeof text, "%s is \"%.40s\", expected", name, attr->s);
  for (int32_t i = 0; i < count && used < (int)sizeof text; ++i)
    used += snprintf(text + used, sizeof text - (size_t)used, "%s \"%s\"",
                     i > 0 ? " or" : "", words[i]);
  return og_fail(call, OG_INVALID, text);
}

static void tensors_read(const og_tensor *q, const og_tensor *k,
                         const og_tensor *v, og_attention_args *a) {
  const int paged = k->ndim == 4;
  a->q = og_data(q);
  a->k = og_data(k);
  a->v = og_data(v);
  a->q_rows = q->shape[0];
  a->kv_rows = k->shape[0];
  a->q_row = q->strides[0];
  a->q_head = q->strides[1];
  a->k_page = paged ? k->strides[0] : 0;
  a->v_page = paged ? v->strides[0] : 0;
  a->k_token = k->strides[paged];
  a->v_token = v->strides[paged];
  a->k_head = k->strides[paged + 1];
  a->v_head = v->strides[paged + 1];
  a->q_heads = (int32_t)q->shape[1];
  a->kv_heads = (int32_t)k->shape[paged + 1];
  a->dim_qk = (int32_t)q->shape[2];
  a->dim_vo = (int32_t)v->shape[paged + 2];
  a->out_row = (int64_t)a->q_heads * a->dim_vo;
  a->out_head = a->dim_vo;
  a->element = og_element_of(q);
}

og_status og_attention_args_read(const og_call *call, const og_tensor *q,
                                 const og_tensor *k, const og_tensor *v,
                                 const og_tensor *mask, int first_attr,
                                 og_attention_args *out_args) {
  static const char *const modes[] = {"NONE", "ROPE_LLAMA", "ALIBI"};
  static const char *const bases[] = {"2", "e"};
  const og_attr *attr = call->attr + first_attr;
  if (q->shape[1] > OG_ATTENTION_MAX_HEADS)
    return og_fail(call, OG_SHAPE, "q has more than 1048576 heads");
  tensors_read(q, k, v, out_args);
  out_args->mask = mask != NULL ? og_data(mask) : NULL;
  out_args->mask_bytes = mask != NULL ? og_numel(mask) : 0;
  out_args->sm_scale = attr[0].kind == OG_ATTR_NONE
                           ? 1 / sqrtf((float)out_args->dim_qk)
                           : (float)attr[0].f;
  out_args->soft_cap = (float)attr[1].f;
  og_status status = word_read(call, "pos_encoding_mode", &attr[2], modes, 3,
                               &out_args->pos_mode);
  if (status != OG_OK) return status;
  out_args->rope_scale = (float)attr[3].f;
  out_args->rope_theta = (float)attr[4].f;
  status =
      word_read(call, "lse_base", &attr[5], bases, 2, &out_args->natural_lse);
  if (status != OG_OK) return status;
  if (out_args->pos_mode == OG_POS_ROPE && out_args->dim_qk % 2 != 0)
    return og_fail(call, OG_SHAPE,
                   "ROPE_LLAMA turns pairs, so q's last dim must be even");
  return OG_OK;
}

int32_t og_narrow_of(const og_tensor *cache) {
  return cache->dtype.code == OG_CODE_F8E4M3   ? OG_E4M3
         : cache->dtype.code == OG_CODE_F8E5M2 ? OG_E5M2
                                               : OG_I8;
}

og_status og_attention_batch_read(const og_call *call,
                                  const og_tensor *const *in,
                                  const og_tensor *mask,
                                  og_attention_args *out_args) {
  enum { PLAN, Q, K, V, INDICES };
  *out_args = (og_attention_args){
      .plan = og_data(in[PLAN]),
      .plan_bytes = in[PLAN]->shape[0],
      .out = og_data(call->out[0]),
      .lse = og_f32_mut(call->out[1]),
  };
  if (in[K]->ndim == 4) {
    out_args->page_indices = og_i32(in[INDICES]);
    out_args->page_index_count = in[INDICES]->shape[0];
    out_args->page_size = (int32_t)in[K]->shape[1];
  }
  return og_attention_args_read(call, in[Q], in[K], in[V], mask, 0, out_args);
}

og_status og_attention_batch(const og_call *call, const og_tensor *mask) {
  og_attention_args args;
  const og_status status = og_attention_batch_read(call, call->in, mask, &args);
  if (status != OG_OK) return status;
  const og_kernel_env env = og_call_env(call);
  return og_attention_run(&env, &args);
}

og_status og_attention_batch_scaled(const og_call *call,
                                    const og_tensor *mask) {
  enum { K = 2, K_SCALE = 5, V_SCALE };
  og_attention_args args;
  const og_status status = og_attention_batch_read(call, call->in, mask, &args);
  if (status != OG_OK) return status;
  args.k_scale = og_f32(call->in[K_SCALE]);
  args.v_scale = og_f32(call->in[V_SCALE]);
  args.scale_count = (int32_t)call->in[K_SCALE]->shape[0];
  args.narrow = og_narrow_of(call->in[K]);
  const og_kernel_env env = og_call_env(call);
  return og_attention_run(&env, &args);
}
