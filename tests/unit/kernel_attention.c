// SPDX-License-Identifier: Apache-2.0
// Attention on random batches against a plain loop: ragged and paged, every
// option drawn. Buffers have exactly the size that the arguments say, so that
// AddressSanitizer sees a step outside.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/attention_plan.h"
#include "kernel/kernel.h"
#include "kernel/position.h"
#include "tests/unit/test.h"

enum { ROUNDS = 60, BATCH_MAX = 5, LEN_MAX = 90 };

static uint64_t state = 1;

static int32_t draw(int32_t limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int32_t)((state >> 33) % (uint64_t)limit);
}

static float *floats(int64_t count) {
  float *p = malloc((size_t)count * sizeof *p + 1);
  for (int64_t i = 0; i < count; ++i) p[i] = (float)draw(2000) / 1000 - 1;
  return p;
}

typedef struct batch {
  og_attention_problem problem;
  og_attention_args args;
  int32_t q_indptr[BATCH_MAX + 1], kv_indptr[BATCH_MAX + 1];
  int32_t last[BATCH_MAX], kv_len[BATCH_MAX];
  int32_t *pages;
  uint8_t *mask;
  void *plan;
  float *out;
} batch;

static void batch_draw(batch *b) {
  og_attention_problem *p = &b->problem;
  const int32_t kv_heads = 1 + draw(3), group = 1 + draw(4);
  *p = (og_attention_problem){
      .batch = 1 + draw(BATCH_MAX),
      .page_size = draw(2) * (1 + draw(9)),
      .q_indptr = b->q_indptr,
      .kv_indptr = b->kv_indptr,
      .last_page_len = b->last,
      .q_heads = kv_heads * group,
      .kv_heads = kv_heads,
      .dim_qk = 2 * (1 + draw(40)),
      .dim_vo = 1 + draw(80),
      .causal = draw(2),
      .window_left = draw(3) == 0 ? draw(40) : -1,
      .threads = 1 + draw(6),
      .fixed_split = draw(4) == 0 ? 16 + draw(40) : -draw(2),
      .heads_first = draw(2),
  };
  b->q_indptr[0] = b->kv_indptr[0] = 0;
  for (int32_t i = 0; i < p->batch; ++i) {
    b->kv_len[i] = draw(4) == 0 ? draw(3) : draw(LEN_MAX * 4);
    const int32_t units = p->page_size > 0
                              ? (b->kv_len[i] + p->page_size - 1) / p->page_size
                              : b->kv_len[i];
    b->last[i] = units > 0 && p->page_size > 0
                     ? b->kv_len[i] - (units - 1) * p->page_size
                     : 0;
    b->q_indptr[i + 1] = b->q_indptr[i] + draw(3) * draw(LEN_MAX / 2);
    b->kv_indptr[i + 1] = b->kv_indptr[i] + units;
  }
}

static void args_fill(batch *b) {
  const og_attention_problem *p = &b->problem;
  og_attention_args *a = &b->args;
  const int32_t units = b->kv_indptr[p->batch];
  const int64_t page = p->page_size > 0 ? p->page_size : 1;
  *a = (og_attention_args){
      .q_rows = b->q_indptr[p->batch],
      .kv_rows = units,
      .q_row = (int64_t)p->q_heads * p->dim_qk,
      .q_head = p->dim_qk,
      .k_token = (int64_t)p->kv_heads * p->dim_qk,
      .k_head = p->dim_qk,
      .k_page = page * p->kv_heads * p->dim_qk,
      .v_token = (int64_t)p->kv_heads * p->dim_vo,
      .v_head = p->dim_vo,
      .v_page = page * p->kv_heads * p->dim_vo,
      .out_row = (int64_t)p->q_heads * p->dim_vo,
      .out_head = p->dim_vo,
      .page_index_count = units,
      .page_size = p->page_size,
      .q_heads = p->q_heads,
      .kv_heads = p->kv_heads,
      .dim_qk = p->dim_qk,
      .dim_vo = p->dim_vo,
      .sm_scale = 0.3f,
      .soft_cap = draw(3) == 0 ? 2.0f : 0,
      .pos_mode = draw(3) == 0 ? OG_POS_ALIBI : OG_POS_NONE,
  };
  a->q = floats(a->q_rows * a->q_row);
  a->k = floats(units * a->k_page);
  a->v = floats(units * a->v_page);
  b->out = floats(a->q_rows * a->out_row);
  a->out = b->out;
  a->lse = floats(a->q_rows * p->q_heads);
  b->pages = malloc((size_t)units * 4 + 1);
  for (int32_t i = 0; i < units; ++i) b->pages[i] = units - 1 - i;
  a->page_indices = b->pages;
}

static void mask_draw(batch *b) {
  const og_plan_header *h = b->plan;
  b->args.mask_bytes = h->mask_bytes;
  b->mask = malloc((size_t)h->mask_bytes + 1);
  for (int64_t i = 0; i < h->mask_bytes; ++i) b->mask[i] = (uint8_t)draw(256);
  b->args.mask = draw(2) ? b->mask : NULL;
}

static void batch_free(batch *b) {
  free((void *)(uintptr_t)b->args.q);
  free((void *)(uintptr_t)b->args.k);
  free((void *)(uintptr_t)b->args.v);
  free(b->args.lse);
  free(b->out);
  free(b->pages);
  free(b->mask);
  free(b->plan);
}

// --- The plain loop ----------------------------------------------------------

static const float *entry_of(const batch *b, const float *base, int32_t i,
                             int32_t key, int64_t page, int64_t token) {
  const int32_t size = b->problem.page_size;
  if (size == 0) return base + (b->kv_indptr[i] + key) * token;
  return base + b->pages[b->kv_indptr[i] + key / size] * page +
         key % size * token;
}

// The logit of a key, or -inf where it is masked.
static double logit_of(const batch *b, int64_t mask_begin, int32_t i,
                       int32_t token, int32_t head, int32_t key) {
  const og_attention_problem *p = &b->problem;
  const og_attention_args *a = &b->args;
  const int32_t q_len = b->q_indptr[i + 1] - b->q_indptr[i];
  const int32_t place = token + b->kv_len[i] - q_len;
  const int64_t bit = (int64_t)token * b->kv_len[i] + key;
  if (p->causal && key > place) return -INFINITY;
  if (p->window_left >= 0 && key < (int64_t)place - p->window_left)
    return -INFINITY;
  if (a->mask != NULL && !(a->mask[mask_begin + bit / 8] >> bit % 8 & 1))
    return -INFINITY;
  const float *q = (const float *)a->q + (b->q_indptr[i] + token) * a->q_row +
                   head * a->q_head;
  const float *k = entry_of(b, a->k, i, key, a->k_page, a->k_token) +
                   head / (p->q_heads / p->kv_heads) * a->k_head;
  double sum = 0;
  for (int32_t d = 0; d < p->dim_qk; ++d) sum += (double)q[d] * k[d];
  sum *= a->sm_scale;
  if (a->pos_mode == OG_POS_ALIBI)
    sum += (double)og_alibi_slope(head, p->q_heads) * (key - place);
  if (a->soft_cap > 0) sum = a->soft_cap * tanh(sum / a->soft_cap);
  return sum;
}

static bool row_right(const batch *b, int64_t mask_begin, int32_t i,
                      int32_t token, int32_t head) {
  const og_attention_problem *p = &b->problem;
  const og_attention_args *a = &b->args;
  const int64_t row = b->q_indptr[i] + token;
  double out[OG_ATTENTION_MAX_DIM] = {0}, sum = 0;
  for (int32_t key = 0; key < b->kv_len[i]; ++key) {
    const double w = exp(logit_of(b, mask_begin, i, token, head, key));
    const float *v = entry_of(b, a->v, i, key, a->v_page, a->v_token) +
                     head / (p->q_heads / p->kv_heads) * a->v_head;
    sum += w;
    for (int32_t d = 0; d < p->dim_vo; ++d) out[d] += w * v[d];
  }
  const float *found = b->out + row * a->out_row + head * a->out_head;
  const float lse = a->lse[row * p->q_heads + head];
  if (sum == 0) {
    for (int32_t d = 0; d < p->dim_vo; ++d)
      if (found[d] != 0) return false;
    return lse == -INFINITY;
  }
  for (int32_t d = 0; d < p->dim_vo; ++d)
    if (!(fabs(found[d] - out[d] / sum) < 1e-4)) return false;
  return fabs(lse - log2(sum)) < 1e-3;
}

static bool batch_right(const batch *b) {
  int64_t mask_begin = 0;
  for (int32_t i = 0; i < b->problem.batch; ++i) {
    const int32_t q_len = b->q_indptr[i + 1] - b->q_indptr[i];
    for (int32_t token = 0; token < q_len; ++token)
      for (int32_t head = 0; head < b->problem.q_heads; ++head)
        if (!row_right(b, mask_begin, i, token, head)) return false;
    mask_begin += ((int64_t)q_len * b->kv_len[i] + 7) / 8;
  }
  return true;
}

static og_status plan_make(batch *b, int64_t *out_size) {
  char text[256];
  og_status status =
      og_attention_plan_size(&b->problem, out_size, text, sizeof text);
  if (status != OG_OK) return status;
  b->plan = malloc((size_t)*out_size);
  return og_attention_plan(&b->problem, b->plan, *out_size, text, sizeof text);
}

static void batch_run(batch *b, int64_t plan_size) {
  const og_plan_header *h = b->plan;
  const size_t bytes = (OG_ATTENTION_SHARED + 2 * OG_ATTENTION_SCRATCH +
                        (size_t)h->split_bytes + 63) /
                       64 * 64;
  void *workspace = aligned_alloc(64, bytes);
  if (workspace == NULL) return;
  memset(workspace, 0xff, bytes);  // NaN: nothing may be read unwritten
  const og_kernel_env env = {
      .workspace = workspace, .workspace_bytes = bytes, .threads = 2};
  b->args.plan = b->plan;
  b->args.plan_bytes = plan_size;
  CHECK_EQ(og_attention_run(&env, &b->args), OG_OK);
  CHECK(batch_right(b));
  free(workspace);
}

TEST(random_batches) {
  for (int round = 0; round < ROUNDS; ++round) {
    batch b = {.plan = NULL};
    int64_t size;
    state = (uint64_t)round + 1;
    batch_draw(&b);
    CHECK_EQ(plan_make(&b, &size), OG_OK);
    args_fill(&b);
    mask_draw(&b);
    batch_run(&b, size);
    // A changed plan is refused or harmless, whatever the change.
    for (int i = 0; i < 40; ++i)
      ((uint8_t *)b.plan)[draw((int32_t)size)] ^= (uint8_t)(1 + draw(255));
    char text[256];
    og_plan_view view;
    (void)og_plan_check(&b.args, &view, text, sizeof text);
    batch_free(&b);
  }
}

// Windows and splits at the ends of what an integer holds, for requests with
// more queries than keys too: what is beyond a request's keys changes nothing.
TEST(extreme_windows_and_splits) {
  static const int32_t ends[] = {INT32_MAX, INT32_MAX - 1, INT32_MIN, 0};
  for (int round = 0; round < ROUNDS; ++round) {
    batch b = {.plan = NULL};
    int64_t size;
    state = (uint64_t)round + 1;
    batch_draw(&b);
    b.problem.window_left = ends[draw(4)];
    b.problem.fixed_split = ends[draw(4)];
    CHECK_EQ(plan_make(&b, &size), OG_OK);
    args_fill(&b);
    mask_draw(&b);
    batch_run(&b, size);
    batch_free(&b);
  }
}

// One split for each key of 2^31 would take hours and memory without end.
TEST(a_plan_without_end_is_refused) {
  const int32_t kv[2] = {0, INT32_MAX};
  char text[256];
  int64_t size;
  og_attention_problem p = {.batch = 1,
                            .kv_indptr = kv,
                            .q_heads = 2,
                            .kv_heads = 2,
                            .dim_qk = 8,
                            .dim_vo = 8,
                            .window_left = -1,
                            .fixed_split = 1};
  CHECK_EQ(og_attention_plan_size(&p, &size, text, sizeof text), OG_INVALID);
  CHECK_STR(text,
            "the plan takes more than 4194304 units, or more than 2147483647 "
            "items or slots; use a larger fixed_split or a smaller batch");
  CHECK(og_attention_plan_max(&p, INT64_MAX, INT64_MAX) > 0);
  p.q_heads = p.kv_heads = INT32_MAX;
  CHECK_EQ(og_attention_plan_size(&p, &size, text, sizeof text), OG_INVALID);
  CHECK_STR(text, "2147483647 query heads, but the most is 1048576");
}

TEST(bad_problems_are_named) {
  const int32_t q[3] = {0, 4, 2}, kv[3] = {0, 1, 2};
  char text[256];
  int64_t size;
  og_attention_problem p = {.batch = 2,
                            .q_indptr = q,
                            .kv_indptr = kv,
                            .q_heads = 2,
                            .kv_heads = 2,
                            .dim_qk = 8,
                            .dim_vo = 8,
                            .window_left = -1};
  CHECK_EQ(og_attention_plan_size(&p, &size, text, sizeof text), OG_INVALID);
  CHECK_STR(text, "qo_indptr[2] is 2, less than the entry before it, 4");
  p.q_heads = 3;
  CHECK_EQ(og_attention_plan_size(&p, &size, text, sizeof text), OG_INVALID);
  CHECK_STR(text, "3 query heads are not a multiple of 2 KV heads");
}

TEST_MAIN("kernel_attention", CASE_NO_FAULTS(random_batches),
          CASE_NO_FAULTS(extreme_windows_and_splits),
          CASE_NO_FAULTS(a_plan_without_end_is_refused),
          CASE_NO_FAULTS(bad_problems_are_named))
