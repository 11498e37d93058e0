// SPDX-License-Identifier: Apache-2.0
// Plans for sampled calls: requests that fit the sizes drawn.

#include "shared/attention_sample.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attention.h"
#include "kernel/attention_plan.h"

typedef struct random {
  uint64_t state;
} random;

// In [0, n); n > 0. Source: Knuth, "The Art of Computer Programming", 3.3.4
// (the multiplier is MMIX's).
static int64_t random_below(random *r, int64_t n) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((r->state >> 33) % (uint64_t)n);
}

// A batch and what its plan takes.
typedef struct drawn {
  og_attention_problem problem;
  int32_t *indptr;  // what problem's pointers point into
  char *plan;
  int64_t plan_bytes;
} drawn;

static int before(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return x < y ? -1 : x > y;
}

// Cuts [0, total) into `count` parts, some of them empty.
static void cut(random *r, int64_t total, int32_t count, int32_t *indptr) {
  for (int32_t i = 1; i < count; ++i)
    indptr[i] = (int32_t)random_below(r, total + 1);
  indptr[0] = 0;
  indptr[count] = (int32_t)total;
  if (count > 1) qsort(indptr + 1, (size_t)count - 1, sizeof *indptr, before);
}

// The requests: a decoded batch has one query row for each.
static og_status draw_requests(random *r, int64_t q_rows, int64_t kv_rows,
                               bool is_decode, drawn *out) {
  og_attention_problem *p = &out->problem;
  p->batch = is_decode              ? (int32_t)q_rows
             : q_rows + kv_rows > 0 ? 1 + (int32_t)random_below(r, 3)
                                    : (int32_t)random_below(r, 2);
  const size_t stride = (size_t)p->batch + 1;
  out->indptr = calloc(3 * stride, sizeof *out->indptr);
  if (out->indptr == NULL) return OG_MEMORY;
  int32_t *const kv = out->indptr, *const q = kv + stride, *last = q + stride;
  if (p->batch > 0) {
    cut(r, kv_rows, p->batch, kv);
    cut(r, q_rows, p->batch, q);
  }
  p->kv_indptr = kv;
  p->q_indptr = is_decode ? NULL : q;
  p->last_page_len = p->page_size > 0 ? last : NULL;
  for (int32_t i = 0; p->page_size > 0 && i < p->batch; ++i)
    last[i] = 1 + (int32_t)random_below(r, p->page_size);
  return OG_OK;
}

static og_status draw(const og_sample_call *call, const og_attention_sample *in,
                      drawn *out) {
  static const int32_t splits[] = {0, 0, -1, 3, 16};
  random r = {call->seed};
  char text[128];
  og_attention_problem *p = &out->problem;
  *p = (og_attention_problem){
      .page_size = in->page_size >= 0 ? (int32_t)call->dim[in->page_size] : 0,
      .q_heads = (int32_t)call->dim[in->q_heads],
      .kv_heads = (int32_t)call->dim[in->kv_heads],
      .dim_qk = (int32_t)call->dim[in->dim_qk],
      .dim_vo = (int32_t)call->dim[in->dim_vo],
      .causal = (int32_t)random_below(&r, 2),
      .window_left =
          random_below(&r, 3) > 0 ? -1 : (int32_t)random_below(&r, 9),
      .threads = 1 + 3 * (int32_t)random_below(&r, 2),
      .fixed_split = splits[random_below(&r, 5)],
  };
  og_status status = draw_requests(&r, call->dim[in->q_rows],
                                   call->dim[in->kv_rows], in->is_decode, out);
  if (status != OG_OK) return status;
  status = og_attention_plan_size(p, &out->plan_bytes, text, sizeof text);
  if (status != OG_OK) return status;
  out->plan = calloc(1, (size_t)out->plan_bytes);
  if (out->plan == NULL) return OG_MEMORY;
  return og_attention_plan(p, out->plan, out->plan_bytes, text, sizeof text);
}

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

// Sizes that every kernel takes, and arguments as callers give them.
static void set_sizes(const og_sample_call *call,
                      const og_attention_sample *in) {
  static const char *const modes[] = {"NONE", "ROPE_LLAMA", "ALIBI"};
  static const char *const bases[] = {"2", "e"};
  random r = {call->seed + 1};
  int64_t *dim = call->dim;
  og_attr *attr = call->attr + in->first_attr;
  const int64_t mode = clamp(random_below(&r, 5) - 1, 0, 2);
  const char *base = bases[random_below(&r, 2)];
  dim[in->kv_heads] = clamp(dim[in->kv_heads], 1, 8);
  dim[in->q_heads] =
      dim[in->kv_heads] * clamp(dim[in->q_heads] / dim[in->kv_heads], 1, 4);
  dim[in->dim_qk] = clamp(dim[in->dim_qk], 2, OG_ATTENTION_MAX_DIM);
  dim[in->dim_vo] = clamp(dim[in->dim_vo], 1, OG_ATTENTION_MAX_DIM);
  if (mode == OG_POS_ROPE) dim[in->dim_qk] += dim[in->dim_qk] % 2;
  if (in->scales > 0)
    dim[in->scales] = random_below(&r, 2) ? dim[in->kv_heads] : 1;
  if (in->page_size >= 0) {
    dim[in->page_size] = clamp(dim[in->page_size], 1, 64);
    if (dim[in->pages] == 0) dim[in->kv_rows] = 0;
  }
  attr[1].f = random_below(&r, 2) ? 0 : 5;
  attr[2].s = modes[mode];
  attr[2].count = (int64_t)strlen(modes[mode]);
  attr[3].f = random_below(&r, 2) ? 1 : 8;
  attr[5].s = base;
  attr[5].count = (int64_t)strlen(base);
}

og_status og_attention_sample_draw(const og_sample_call *call,
                                   const og_attention_sample *in) {
  drawn d = {.indptr = NULL};
  if (call->step == OG_SAMPLE_SIZES) set_sizes(call, in);
  const og_status status = draw(call, in, &d);
  if (status == OG_OK && call->step == OG_SAMPLE_SIZES) {
    og_plan_header header;
    memcpy(&header, d.plan, sizeof header);
    call->dim[in->plan_bytes] = d.plan_bytes;
    if (in->mask_bytes >= 0) call->dim[in->mask_bytes] = header.mask_bytes;
    if (in->split_bytes >= 0)
      call->attr[in->split_bytes].i = header.split_bytes;
  } else if (status == OG_OK) {
    memcpy(og_data(call->in[in->plan]), d.plan, (size_t)d.plan_bytes);
  }
  free(d.plan);
  free(d.indptr);
  return status;
}

og_status og_attention_sample_forward(const og_sample_call *call, int form) {
  const int32_t paged = (form & OG_SAMPLE_PAGED) != 0;
  const int32_t last = paged ? 8 : 6;  // I or DVO
  const int32_t scaled = (form & OG_SAMPLE_SCALED) != 0;
  const og_attention_sample in = {
      .plan_bytes = 0,
      .q_rows = 1,
      .q_heads = 2,
      .dim_qk = 3,
      .kv_rows = paged ? last : 4,
      .pages = paged ? 4 : -1,
      .page_size = paged ? 5 : -1,
      .kv_heads = 5 + paged,
      .dim_vo = 6 + paged,
      .scales = scaled ? last + 1 : 0,
      .mask_bytes = (form & OG_SAMPLE_MASKED) != 0 ? last + 1 + scaled : -1,
      .is_decode = form & OG_SAMPLE_DECODE,
      .split_bytes = 6,
  };
  return og_attention_sample_draw(call, &in);
}
