// SPDX-License-Identifier: Apache-2.0
// attention_plan: cuts a batch of requests into balanced units of work, as a
// plain block of bytes that the attention operators run.
// Source: FlashInfer's plan (Ye et al., 2025); longest work first (Graham,
// 1969).

#include <opgraft/op.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"

// Attributes that the operators share, in schema order.
enum {
  QO_HEADS,
  KV_HEADS,
  DIM_QK,
  DIM_VO,
  PAGE_SIZE,
  CAUSAL,
  WINDOW,
  FIXED_SPLIT,
  HEADS_FIRST,
  THREADS,
  SIZE,
};

static int32_t clamp32(int64_t i) {
  return i > INT32_MAX ? INT32_MAX : i < INT32_MIN ? INT32_MIN : (int32_t)i;
}

static og_attention_problem problem_read(const og_attr *attr) {
  return (og_attention_problem){
      .page_size = clamp32(attr[PAGE_SIZE].i),
      .q_heads = clamp32(attr[QO_HEADS].i),
      .kv_heads = clamp32(attr[KV_HEADS].i),
      .dim_qk = clamp32(attr[DIM_QK].i),
      .dim_vo = clamp32(attr[DIM_VO].i),
      .causal = attr[CAUSAL].i != 0,
      .window_left = clamp32(attr[WINDOW].i),
      .threads = clamp32(attr[THREADS].i),
      .fixed_split = clamp32(attr[FIXED_SPLIT].i),
      .heads_first = attr[HEADS_FIRST].i != 0,
  };
}

static og_attention_problem problem_of(const og_call *call,
                                       const og_attr *attr) {
  og_attention_problem p = problem_read(attr);
  if (p.threads <= 0) p.threads = call->threads;
  // A split that balances depends on the thread count.
  if ((call->flags & OG_CALL_DETERMINISTIC) && p.fixed_split == 0)
    p.fixed_split = -1;
  return p;
}

static og_attention_problem batch_of(const og_call *call) {
  og_attention_problem p = problem_of(call, call->attr);
  p.batch = clamp32(call->in[0]->shape[0] - 1);
  p.kv_indptr = og_i32(call->in[0]);
  p.q_indptr = call->in[1] != NULL ? og_i32(call->in[1]) : NULL;
  p.last_page_len = call->in[2] != NULL ? og_i32(call->in[2]) : NULL;
  return p;
}

static og_status plan_size(const og_call *call) {
  char text[256];
  const og_attention_problem p = batch_of(call);
  const og_status status =
      og_attention_plan_size(&p, og_i64_mut(call->out[0]), text, sizeof text);
  return status == OG_OK ? OG_OK : og_fail(call, status, text);
}

static og_status plan(const og_call *call) {
  char text[256];
  const og_attention_problem p = batch_of(call);
  const og_status status = og_attention_plan(
      &p, og_u8_mut(call->out[0]), call->out[0]->shape[0], text, sizeof text);
  return status == OG_OK ? OG_OK : og_fail(call, status, text);
}

static og_status plan_max(const og_call *call) {
  og_attention_problem p = problem_of(call, call->attr + 3);
  p.batch = clamp32(call->attr[0].i);
  *og_i64_mut(call->out[0]) =
      og_attention_plan_max(&p, call->attr[1].i, call->attr[2].i);
  return OG_OK;
}

// What a caller may want to know of a plan.
static og_status plan_info(const og_call *call) {
  char text[256];
  og_plan_view view;
  const og_plan_header *h = og_data(call->in[0]);
  og_attention_args args = {
      .plan = h,
      .plan_bytes = call->in[0]->shape[0],
      .q_rows = INT64_MAX,
      .kv_rows = INT64_MAX,
      .page_index_count = INT64_MAX,
  };
  if (args.plan_bytes >= (int64_t)sizeof *h) {
    args.q_heads = h->q_heads;
    args.kv_heads = h->kv_heads;
    args.dim_qk = h->dim_qk;
    args.dim_vo = h->dim_vo;
    args.page_size = h->page_size;
  }
  const og_status status = og_plan_check(&args, &view, text, sizeof text);
  if (status != OG_OK) return og_fail(call, status, text);
  int64_t *out = og_i64_mut(call->out[0]);
  out[0] = h->size_bytes;
  out[1] = h->split_bytes;
  out[2] = h->unit_count;
  out[3] = h->item_count;
  out[4] = h->merge_count;
  out[5] = h->q_rows;
  out[6] = h->kv_rows;
  out[7] = (int64_t)(h->imbalance * 1e6f);
  return OG_OK;
}

// --- Samples, for check and bench

enum { SAMPLE_QUERIES = 8, SAMPLE_KEYS = 40, SAMPLE_THREADS = 16 };

static void indptr_write(const og_tensor *t, uint64_t seed, int32_t most) {
  int32_t *x = og_data(t);
  for (int64_t i = 0; i < og_numel(t); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x[i] = i == 0 ? 0 : x[i - 1] + (int32_t)((seed >> 33) % (uint64_t)most);
  }
}

// A batch whose plan fits: `size` is the plan_max of any such batch.
static og_status plan_sample(const og_sample_call *call) {
  enum { B1 };
  og_attention_problem p = problem_read(call->attr);
  if (call->step == OG_SAMPLE_SIZES) {
    const int64_t page = p.page_size > 0 ? p.page_size : 1;
    const int64_t keys = SAMPLE_KEYS * page;
    p.batch = clamp32(call->dim[B1] - 1);
    // 0 asks for the caller's threads, so the plan may depend on their number.
    if (p.threads <= 0) p.threads = SAMPLE_THREADS;
    call->attr[THREADS].i = p.threads;
    call->attr[SIZE].i =
        og_attention_plan_max(&p, (int64_t)p.batch * SAMPLE_QUERIES, keys);
    return call->attr[SIZE].i > 0 ? OG_OK : OG_INVALID;
  }
  indptr_write(call->in[0], call->seed, SAMPLE_KEYS);
  if (call->in[1] != NULL)
    indptr_write(call->in[1], call->seed + 1, SAMPLE_QUERIES);
  if (call->in[2] == NULL) return OG_OK;
  int32_t *last = og_data(call->in[2]);
  for (int64_t i = 0; i < og_numel(call->in[2]); ++i)
    last[i] = p.page_size > 0 ? 1 + (int32_t)(i % p.page_size) : 0;
  return OG_OK;
}

// The bytes of a plan.
static og_status info_sample(const og_sample_call *call) {
  char text[128];
  int64_t size;
  const int32_t length = 1 + (int32_t)(call->seed % 700);
  const int32_t indptr[] = {0, length, length, 2 * length};
  const og_attention_problem p = {
      .batch = 3,
      .q_indptr = indptr,
      .kv_indptr = indptr,
      .q_heads = 4,
      .kv_heads = 2,
      .dim_qk = 64,
      .dim_vo = 32,
      .causal = (int32_t)(call->seed >> 32 & 1),
      .window_left = -1,
      .threads = 4,
  };
  if (call->step == OG_SAMPLE_VALUES)
    return og_attention_plan(&p, og_data(call->in[0]), call->in[0]->shape[0],
                             text, sizeof text);
  const og_status status = og_attention_plan_size(&p, &size, text, sizeof text);
  call->dim[0] = size;
  return status;
}

static const og_kernel size_kernels[] = {{.device = OG_CPU, .run = plan_size}};
static const og_kernel plan_kernels[] = {{.device = OG_CPU, .run = plan}};
static const og_kernel max_kernels[] = {{.device = OG_CPU, .run = plan_max}};
static const og_kernel info_kernels[] = {{.device = OG_CPU, .run = plan_info}};

#define BATCH "Tensor kv_indptr, Tensor? qo_indptr, Tensor? last_page_len, "
#define PROBLEM                                                            \
  "int num_qo_heads, int num_kv_heads, int head_dim_qk, int head_dim_vo, " \
  "int page_size=0, bool causal=False, int window_left=-1, "               \
  "int fixed_split=0, bool heads_first=False, int threads=0"
#define BATCH_SHAPE "kv_indptr[B1], qo_indptr?[B1], last_page_len?[B1 - 1]"
#define SIZES_WHERE                                              \
  "num_kv_heads > 0, num_qo_heads > 0, "                         \
  "num_qo_heads % max(num_kv_heads, 1) == 0, head_dim_qk >= 2, " \
  "head_dim_qk <= 256, head_dim_vo >= 1, head_dim_vo <= 256"
#define BATCH_WHERE                            \
  "B1 > 0, page_size >= 0, page_size == 0 or " \
  "given(last_page_len), " SIZES_WHERE
#define BATCH_TYPES "kv_indptr: i32, qo_indptr: i32, last_page_len: i32"

static const og_op ops[] = {
    {
        .schema = "attention_plan_size(" BATCH PROBLEM ") -> Tensor",
        .shape = BATCH_SHAPE " -> []",
        .expect = "unused: last_page_len",
        .where = BATCH_WHERE,
        .dtype = BATCH_TYPES " -> i64",
        .backward = "none",
        .doc = "The bytes that attention_plan takes for this batch, exactly.",
        .kernels = OG_KERNELS(size_kernels),
    },
    {
        .schema = "attention_plan(" BATCH PROBLEM ", *, int size) -> Tensor",
        .shape = BATCH_SHAPE " -> [size]",
        .where = BATCH_WHERE ", size >= 0",
        .dtype = BATCH_TYPES " -> u8",
        .backward = "none",
        .doc =
            "A plan for a batch of requests, in `size` bytes (from "
            "attention_plan_size or attention_plan_max). Without qo_indptr "
            "each request has one query. With page_size, kv_indptr counts "
            "pages and last_page_len says how full the last one is. "
            "fixed_split > 0 splits the keys of a request every so many, -1 "
            "never, 0 as balance asks; the first two make results that do not "
            "depend on the thread count or on the rest of the batch. "
            "heads_first says that all tokens of a KV head lie together (HND).",
        .kernels = OG_KERNELS(plan_kernels),
        .sample = plan_sample,
    },
    {
        .schema = "attention_plan_max(int batch, int tokens, int max_len, "  //
        PROBLEM ") -> Tensor",
        .shape = "-> []",
        .where =
            "batch >= 0, tokens >= 0, max_len >= 0, threads > 0, " SIZES_WHERE,
        .dtype = "-> i64",
        .doc = "Bytes that suffice for the plan of any batch of at most so "
               "many requests, query tokens in all, and keys of one request.",
        .kernels = OG_KERNELS(max_kernels),
    },
    {
        .schema = "attention_plan_info(Tensor plan) -> Tensor",
        .shape = "plan[P] -> [8]",
        .dtype = "plan: u8 -> i64",
        .backward = "none",
        .doc = "Of a plan: bytes used, split_bytes, units, items, merges, "
               "query rows, keys or page entries, and a million times its "
               "imbalance (longest thread over the mean).",
        .kernels = OG_KERNELS(info_kernels),
        .sample = info_sample,
    },
};
OG_MODULE(attention_plan, ops)
