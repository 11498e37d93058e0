// SPDX-License-Identifier: Apache-2.0
// Runs a plan of attention: each item's tiles, then the merges.
//
// Invariants: workers take items in plan order from one counter, so the
// longest come first whatever the host's shares are. An item writes rows that
// no other item writes. A row's result depends on its request and on how the
// plan split its keys, not on the thread that computed it.

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kernel/attention_plan.h"
#include "kernel/attention_run.h"
#include "kernel/position.h"

static void items_run(void *state, int64_t begin, int64_t end, int32_t worker) {
  og_runner *r = state;
  (void)begin;
  (void)end;
  const int32_t count = r->view.header->item_count;
  for (;;) {
    const int32_t i =
        atomic_fetch_add_explicit(&r->next_item, 1, memory_order_relaxed);
    if (i >= count) return;
    const og_plan_item *item = &r->view.items[i];
    const og_plan_unit *unit = &r->view.units[item->unit];
    const og_plan_request *request = &r->view.requests[unit->request];
    const int64_t rows = (int64_t)request->q_len * r->group;
    if (rows <= OG_ATTENTION_DIRECT_ROWS)
      og_direct_item(r, unit, item->head, worker);
    else
      og_packed_item(r, unit, item->head, worker);
  }
}

static void merge_row(const og_runner *r, const og_plan_merge *m, int64_t i,
                      int32_t head) {
  const og_attention_args *a = r->args;
  float out[OG_ATTENTION_MAX_DIM] = {0};
  float top = -INFINITY, sum = 0;
  for (int32_t part = 0; part < m->split_count; ++part) {
    const int64_t slot =
        (m->slot + (int64_t)part * m->row_count + i) * a->kv_heads + head;
    if (r->partial_lse[slot] > top) top = r->partial_lse[slot];
  }
  for (int32_t part = 0; part < m->split_count && top > -INFINITY; ++part) {
    const int64_t slot =
        (m->slot + (int64_t)part * m->row_count + i) * a->kv_heads + head;
    const float weight = exp2f(r->partial_lse[slot] - top);
    sum += weight;
    r->rows->accumulate(r->partial_out + slot * a->dim_vo, weight, out,
                        a->dim_vo);
  }
  og_row_store(r, &r->view.requests[m->request], m->row_begin + i, head, out,
               top > -INFINITY ? 1 / sum : 0,
               top > -INFINITY ? top + log2f(sum) : top);
}

static void merges_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const og_runner *r = state;
  (void)worker;
  for (int64_t j = begin; j < end; ++j) {
    const og_plan_merge *m = &r->view.merges[j];
    for (int64_t i = 0; i < m->row_count; ++i)
      for (int32_t h = 0; h < r->args->kv_heads; ++h) merge_row(r, m, i, h);
  }
}

static og_status pages_check(const og_runner *r, char *text, size_t size) {
  const og_attention_args *a = r->args;
  const og_plan_header *h = r->view.header;
  for (int32_t b = 0; h->page_size > 0 && b < h->batch; ++b) {
    const og_plan_request *q = &r->view.requests[b];
    const int64_t pages =
        ((int64_t)q->kv_len + h->page_size - 1) / h->page_size;
    for (int64_t i = q->kv_begin; i < q->kv_begin + pages; ++i) {
      if (a->page_indices[i] >= 0 && a->page_indices[i] < a->kv_rows) continue;
      snprintf(text, size,
               "paged_kv_indices[%" PRId64 "] is %" PRId32
               ", but the cache has %" PRId64 " pages",
               i, a->page_indices[i], a->kv_rows);
      return OG_INVALID;
    }
  }
  return OG_OK;
}

og_status og_attention_run(const og_kernel_env *env,
                           const og_attention_args *args) {
  char text[256];
  // Turned queries and keys have more than bf16's bits, and so few rows need
  // not lose them. Keys of 8 bits lose none, but turned they are f32.
  const int is_rope = args->pos_mode == OG_POS_ROPE;
  og_runner r = {
      .args = args,
      .tiles = og_attention(is_rope && args->narrow ? OG_F32 : args->element),
      .direct = og_attention(is_rope ? OG_F32 : args->element),
      .rows = og_rows(),
  };
  og_status status = og_plan_check(args, &r.view, text, sizeof text);
  if (status == OG_OK) status = pages_check(&r, text, sizeof text);
  if (status != OG_OK) return og_env_fail(env, status, text);
  const og_plan_header *h = r.view.header;
  const size_t fixed =
      OG_ATTENTION_SHARED + (size_t)env->threads * OG_ATTENTION_SCRATCH;
  if (env->workspace_bytes < fixed + (size_t)h->split_bytes) {
    snprintf(text, sizeof text,
             "the plan splits keys and needs split_bytes=%" PRId64
             ", which plan_info gives",
             h->split_bytes);
    return og_env_fail(env, OG_INVALID, text);
  }
  float *turns = env->workspace;
  if (args->pos_mode == OG_POS_ROPE)
    og_rope_turns(args->dim_qk, args->rope_theta, args->rope_scale, turns,
                  turns + OG_ATTENTION_MAX_DIM);
  r.turns_high = turns;
  r.turns_low = turns + OG_ATTENTION_MAX_DIM;
  r.scratch = (char *)env->workspace + OG_ATTENTION_SHARED;
  r.partial_out = (float *)(void *)((char *)env->workspace + fixed);
  r.partial_lse =
      r.partial_out + (int64_t)h->slot_count * h->kv_heads * h->dim_vo;
  r.group = h->q_heads / h->kv_heads;
  atomic_init(&r.next_item, 0);
  int64_t workers = env->threads < h->item_count ? env->threads : h->item_count;
  status = og_env_parallel(env, workers, 1, items_run, &r);
  if (status != OG_OK || h->merge_count == 0) return status;
  return og_env_parallel(env, h->merge_count, 1, merges_run, &r);
}

// --- Choice ------------------------------------------------------------------

const og_attention_kernels *og_attention(int element) {
#define OG_ISA(name, level, machine, test) \
  machine([OG_ISA_##level] = &og_attention_##name, )
  static const og_attention_kernels *const tables[] = {
#include "base/isa.def"
  };
#undef OG_ISA
  return tables[og_contraction_isa(element)];
}
