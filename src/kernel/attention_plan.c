// SPDX-License-Identifier: Apache-2.0
// Plans of attention: cut the batch into units, balance them, order them.
//
// Invariants: the layout is header, requests, units, items, merges, each
// 8-byte aligned; a plan depends on nothing but its problem.

#include "kernel/attention_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/attention.h"
#include "kernel/kernel.h"

enum {
  SPLIT_MIN = OG_ATTENTION_BLOCK,  // keys of a split at least
  SPLIT_ROOM = 160 * 1024,         // partial results for each thread
  DIRECT_ROOM = 256 * 1024,        // rows of a direct item
  ITEMS_PER_THREAD = 4,
  MAX_THREADS = 1024,
  UNITS_MAX = 1 << 22,
};

// --- The model of cost

// In units of one visible pair: what packing or reading a key costs, and what
// an item costs before any.
static const float key_cost = 12, item_cost = 2000;

typedef struct tiling {
  int32_t group;
  int32_t tile_rows;
  int32_t head_step_max;
} tiling;

static tiling tiling_of(const og_attention_problem *p) {
  const int32_t dim = p->dim_qk > p->dim_vo ? p->dim_qk : p->dim_vo;
  const int32_t group = p->q_heads / p->kv_heads;
  return (tiling){
      .group = group,
      .tile_rows = dim <= 64    ? 504
                   : dim <= 128 ? 350
                                : 168,
      .head_step_max = p->kv_heads,
  };
}

// A slot: one row of partial results and its logarithm, for each KV head.
static int64_t slot_bytes(int32_t kv_heads, int32_t dim_vo) {
  return (int64_t)kv_heads * ((int64_t)dim_vo + 1) * 4;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int64_t least64(int64_t a, int64_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

typedef struct span {
  int32_t q_begin, q_len, kv_begin, kv_len;
} span;

// The keys that some row of [row_begin, row_end) sees.
static void visible_keys(const og_attention_problem *p, const span *s,
                         int32_t group, int32_t row_begin, int32_t row_end,
                         int32_t *out_begin, int32_t *out_end) {
  const int32_t shift = s->kv_len - s->q_len;
  const int32_t first = row_begin / group + shift;
  const int32_t last = (row_end - 1) / group + shift;
  int32_t end = p->causal ? least(s->kv_len, last + 1) : s->kv_len;
  int32_t begin = p->window_left >= 0 && first > p->window_left
                      ? first - p->window_left
                      : 0;
  if (end <= begin) begin = end = 0;
  *out_begin = begin;
  *out_end = end;
}

static float unit_cost(const og_attention_problem *p, int32_t group,
                       int32_t rows, int32_t kv_begin, int32_t kv_end) {
  const float keys = (float)(kv_end - kv_begin);
  float pairs = keys * (float)rows;
  const float edge = (float)rows * (float)rows / (float)group / 2;
  if (p->causal && pairs > 2 * edge) pairs -= edge;
  return pairs + keys * key_cost + item_cost;
}

// --- Reading the problem

static og_status bad(char *text, size_t size, const char *name, int32_t i,
                     const char *what, int64_t found, int64_t wanted) {
  snprintf(text, size, "%s[%" PRId32 "] is %" PRId64 ", %s %" PRId64, name, i,
           found, what, wanted);
  return OG_INVALID;
}

static og_status indptr_check(const char *name, const int32_t *indptr,
                              int32_t batch, char *text, size_t size) {
  if (indptr[0] < 0)
    return bad(text, size, name, 0, "but the least is", indptr[0], 0);
  for (int32_t i = 0; i < batch; ++i)
    if (indptr[i + 1] < indptr[i])
      return bad(text, size, name, i + 1, "less than the entry before it,",
                 indptr[i + 1], indptr[i]);
  return OG_OK;
}

static og_status heads_check(const og_attention_problem *p, char *text,
                             size_t size) {
  if (p->kv_heads < 1 || p->q_heads < 1 || p->q_heads % p->kv_heads != 0) {
    snprintf(text, size,
             "%" PRId32 " query heads are not a multiple of %" PRId32
             " KV heads",
             p->q_heads, p->kv_heads);
    return OG_INVALID;
  }
  if (p->q_heads > OG_ATTENTION_MAX_HEADS) {
    snprintf(text, size, "%" PRId32 " query heads, but the most is %d",
             p->q_heads, OG_ATTENTION_MAX_HEADS);
    return OG_INVALID;
  }
  if (p->dim_qk < 2 || p->dim_vo < 1 || p->dim_qk > OG_ATTENTION_MAX_DIM ||
      p->dim_vo > OG_ATTENTION_MAX_DIM) {
    snprintf(text, size,
             "head sizes are %" PRId32 " and %" PRId32
             " here, expected 2 to %d and 1 to %d",
             p->dim_qk, p->dim_vo, OG_ATTENTION_MAX_DIM, OG_ATTENTION_MAX_DIM);
    return OG_INVALID;
  }
  return OG_OK;
}

static og_status problem_check(const og_attention_problem *p, char *text,
                               size_t size) {
  if (heads_check(p, text, size) != OG_OK) return OG_INVALID;
  if (p->q_indptr != NULL) {
    const og_status status =
        indptr_check("qo_indptr", p->q_indptr, p->batch, text, size);
    if (status != OG_OK) return status;
    const int32_t limit = INT32_MAX / (p->q_heads / p->kv_heads);
    if (p->q_indptr[p->batch] > limit)
      return bad(text, size, "qo_indptr", p->batch, "but the most is",
                 p->q_indptr[p->batch], limit);
  }
  const og_status status =
      indptr_check(p->page_size > 0 ? "paged_kv_indptr" : "kv_indptr",
                   p->kv_indptr, p->batch, text, size);
  if (status != OG_OK) return status;
  for (int32_t i = 0; p->page_size > 0 && i < p->batch; ++i) {
    const int64_t pages = p->kv_indptr[i + 1] - p->kv_indptr[i];
    const int32_t last = p->last_page_len[i];
    if (pages > 0 && (last < 1 || last > p->page_size))
      return bad(text, size, "paged_kv_last_page_len", i,
                 "expected 1 to the page size,", last, p->page_size);
    if (pages * p->page_size > INT32_MAX)
      return bad(text, size, "paged_kv_indptr", i + 1,
                 "too many keys for one request, the most is",
                 pages * p->page_size, INT32_MAX);
  }
  return OG_OK;
}

static span span_of(const og_attention_problem *p, int32_t i) {
  span s = {.q_begin = i, .q_len = 1};
  if (p->q_indptr != NULL) {
    s.q_begin = p->q_indptr[i];
    s.q_len = p->q_indptr[i + 1] - s.q_begin;
  }
  s.kv_begin = p->kv_indptr[i];
  s.kv_len = p->kv_indptr[i + 1] - s.kv_begin;
  if (p->page_size > 0 && s.kv_len > 0)
    s.kv_len = (s.kv_len - 1) * p->page_size + p->last_page_len[i];
  return s;
}

// --- Cutting

// Where units go; with units NULL they are only counted.
typedef struct cutter {
  const og_attention_problem *problem;
  tiling tiling;
  int32_t split_keys;  // 0: no splits
  int64_t slot_limit;
  og_plan_unit *units;
  og_plan_merge *merges;
  int32_t unit_count, merge_count;
  int64_t item_count, slot_count;
  float longest;  // an item's cost above which a unit is split; 0: none
  double total, expected;  // cost so far, and of the whole batch; 0: not known
} cutter;

static int32_t thread_count(const og_attention_problem *p) {
  return most(1, least(p->threads, MAX_THREADS));
}

static int32_t head_step_of(const cutter *c, int32_t rows) {
  const og_attention_problem *p = c->problem;
  if (rows > OG_ATTENTION_DIRECT_ROWS || p->heads_first) return 1;
  const int32_t bytes =
      4 * rows * (p->dim_qk + p->dim_vo + 32);  // q and o of a head
  return most(1, least(c->tiling.head_step_max, DIRECT_ROOM / bytes));
}

// Heads of an item of many rows. One worker takes neighbours, whose lines of
// keys, queries and logarithms lie in the same pages, and knows what it reads
// next; fewer at a time as work runs out (guided self-scheduling:
// Polychronopoulos and Kuck, 1987).
static int32_t heads_together(const cutter *c, float cost) {
  const double share =
      (c->expected - c->total) / (thread_count(c->problem) * ITEMS_PER_THREAD);
  int32_t heads = c->problem->kv_heads;
  while (heads > 1 && (double)cost * heads > share) heads = (heads + 1) / 2;
  return heads;
}

static void unit_add(cutter *c, int32_t request, int32_t row_begin,
                     int32_t rows, int32_t kv_begin, int32_t kv_end,
                     int32_t slot) {
  const og_attention_problem *p = c->problem;
  const float head_cost = unit_cost(p, c->tiling.group, rows, kv_begin, kv_end);
  const int32_t step = rows > OG_ATTENTION_DIRECT_ROWS
                           ? heads_together(c, head_cost)
                           : head_step_of(c, rows);
  const float cost = head_cost * (float)step;
  if (c->units != NULL)
    c->units[c->unit_count] = (og_plan_unit){
        .request = request,
        .row_begin = row_begin,
        .row_count = rows,
        .kv_begin = kv_begin,
        .kv_end = kv_end,
        .slot = slot,
        .head_step = step,
        .cost = cost,
    };
  ++c->unit_count;
  c->item_count += (p->kv_heads + step - 1) / step;
  c->total += (double)head_cost * p->kv_heads;
}

// How many keys a part of [kv_begin, kv_end) has; 0: do not split.
static int32_t split_of(const cutter *c, int32_t rows, int32_t kv_begin,
                        int32_t kv_end) {
  const og_attention_problem *p = c->problem;
  const int32_t keys = kv_end - kv_begin;
  if (p->fixed_split > 0) return keys > p->fixed_split ? p->fixed_split : 0;
  if (p->fixed_split < 0 || c->longest <= 0) return 0;
  const float cost = unit_cost(p, c->tiling.group, rows, kv_begin, kv_end) *
                     (float)head_step_of(c, rows);
  if (cost <= c->longest || keys < 2 * SPLIT_MIN) return 0;
  // The quotient may be more than an integer holds.
  const int32_t most_parts = keys / SPLIT_MIN;
  const float wanted = cost / c->longest;
  const int32_t parts =
      wanted < (float)most_parts ? (int32_t)wanted + 1 : most_parts;
  const int64_t part = ((int64_t)keys + parts - 1) / parts;
  const int64_t whole = (part + SPLIT_MIN - 1) / SPLIT_MIN * SPLIT_MIN;
  const int64_t slots = (keys + whole - 1) / whole * rows;
  return c->slot_count + slots > c->slot_limit ? 0 : (int32_t)whole;
}

static void rows_cut(cutter *c, int32_t request, const span *s,
                     int32_t row_begin, int32_t rows) {
  int32_t begin, end;
  visible_keys(c->problem, s, c->tiling.group, row_begin, row_begin + rows,
               &begin, &end);
  const int32_t part = split_of(c, rows, begin, end);
  if (part == 0) {
    unit_add(c, request, row_begin, rows, begin, end, -1);
    return;
  }
  // Parts end at multiples of their size, whatever the window's begin.
  const int32_t slot = (int32_t)c->slot_count;
  int32_t parts = 0;
  for (int32_t at = begin; at < end && c->unit_count <= UNITS_MAX; ++parts) {
    const int64_t whole = ((int64_t)at / part + 1) * part;
    const int32_t next = whole < end ? (int32_t)whole : end;
    unit_add(c, request, row_begin, rows, at, next, (int32_t)c->slot_count);
    c->slot_count += rows;
    at = next;
  }
  if (c->merges != NULL)
    c->merges[c->merge_count] = (og_plan_merge){
        .request = request,
        .row_begin = row_begin,
        .row_count = rows,
        .slot = slot,
        .split_count = parts,
    };
  ++c->merge_count;
}

// Ends early where the plan is too large, which limits_check then says.
static void batch_cut(cutter *c) {
  c->unit_count = c->merge_count = 0;
  c->item_count = c->slot_count = 0;
  c->total = 0;
  for (int32_t i = 0; i < c->problem->batch; ++i) {
    const span s = span_of(c->problem, i);
    const int64_t rows = (int64_t)s.q_len * c->tiling.group;
    const int64_t tiles =
        (rows + c->tiling.tile_rows - 1) / c->tiling.tile_rows;
    for (int64_t t = 0; t < tiles && c->unit_count <= UNITS_MAX; ++t) {
      const int32_t a = (int32_t)(rows * t / tiles);
      const int32_t b = (int32_t)(rows * (t + 1) / tiles);
      rows_cut(c, i, &s, a, b - a);
    }
  }
}

static og_status limits_check(const cutter *c, char *text, size_t size) {
  if (c->unit_count <= UNITS_MAX && c->item_count <= INT32_MAX &&
      c->slot_count <= INT32_MAX)
    return OG_OK;
  snprintf(text, size,
           "the plan takes more than %d units, or more than %d items or slots; "
           "use a larger fixed_split or a smaller batch",
           UNITS_MAX, INT32_MAX);
  return OG_INVALID;
}

// Cuts once to learn the total, then with the sizes that balance asks for.
// Neither smaller tiles nor fewer heads in an item change any result.
static void cutter_init(cutter *c, const og_attention_problem *p) {
  *c = (cutter){.problem = p, .tiling = tiling_of(p)};
  const int32_t threads = thread_count(p);
  const int64_t wanted = (int64_t)threads * ITEMS_PER_THREAD;
  batch_cut(c);
  while (c->item_count < wanted && c->tiling.tile_rows > 56) {
    c->tiling.tile_rows = (c->tiling.tile_rows / 2 + 13) / 14 * 14;
    batch_cut(c);
  }
  if (p->fixed_split == 0) {
    c->slot_limit = threads > 1 ? threads * (int64_t)SPLIT_ROOM /
                                      slot_bytes(p->kv_heads, p->dim_vo)
                                : 0;
    c->longest = (float)(c->total / (double)wanted);
    batch_cut(c);
  }
  c->expected = c->total;
  batch_cut(c);
  while (c->item_count < 2 * threads && c->tiling.head_step_max > 1) {
    c->tiling.head_step_max = (c->tiling.head_step_max + 1) / 2;
    batch_cut(c);
  }
}

static og_status problem_cut(const og_attention_problem *p, cutter *c,
                             char *text, size_t size) {
  const og_status status = problem_check(p, text, size);
  if (status != OG_OK) return status;
  cutter_init(c, p);
  return limits_check(c, text, size);
}

// --- Layout

static int64_t layout_bytes(int64_t batch, int64_t units, int64_t items,
                            int64_t merges) {
  const int64_t bytes = (int64_t)sizeof(og_plan_header) +
                        batch * (int64_t)sizeof(og_plan_request) +
                        units * (int64_t)sizeof(og_plan_unit) +
                        items * (int64_t)sizeof(og_plan_item) +
                        merges * (int64_t)sizeof(og_plan_merge);
  return (bytes + 7) / 8 * 8;
}

og_status og_attention_plan_size(const og_attention_problem *problem,
                                 int64_t *out_size, char *text,
                                 size_t text_size) {
  *out_size = 0;
  cutter c;
  const og_status status = problem_cut(problem, &c, text, text_size);
  if (status != OG_OK) return status;
  *out_size =
      layout_bytes(problem->batch, c.unit_count, c.item_count, c.merge_count);
  return OG_OK;
}

int64_t og_attention_plan_max(const og_attention_problem *problem,
                              int64_t max_tokens, int64_t max_len) {
  char text[160];
  if (heads_check(problem, text, sizeof text) != OG_OK) return 0;
  const int64_t threads = thread_count(problem);
  const int64_t group = problem->q_heads / problem->kv_heads;
  // problem_check allows no more tokens and keys, limits_check no more units.
  const int64_t tokens = least64(max_tokens, INT32_MAX / group);
  const int64_t len = least64(max_len, INT32_MAX);
  // The smallest tile that cutter_init comes to; every request may add one.
  const int64_t tiles =
      least64(problem->batch + tokens * group / 28 + 1, UNITS_MAX);
  int64_t parts = 1;
  if (problem->fixed_split > 0) parts += len / problem->fixed_split + 1;
  int64_t units = least64(tiles * parts, UNITS_MAX);
  int64_t merges = problem->fixed_split > 0 ? tiles : 0;
  if (problem->fixed_split == 0) {
    // No more slots than their room, and a part has at least one.
    const int64_t slots = threads * (int64_t)SPLIT_ROOM /
                          slot_bytes(problem->kv_heads, problem->dim_vo);
    units += slots;
    merges = slots;
  }
  return layout_bytes(problem->batch, units, units * problem->kv_heads, merges);
}

// --- Order and balance

static int unit_before(const og_plan_unit *a, const og_plan_unit *b) {
  if (a->cost != b->cost) return a->cost > b->cost;
  if (a->request != b->request) return a->request < b->request;
  if (a->row_begin != b->row_begin) return a->row_begin < b->row_begin;
  return a->kv_begin < b->kv_begin;
}

// Heap sort: in place, and the order of equals does not matter because none
// are. The root is the unit that comes last.
static void unit_sift(og_plan_unit *units, int32_t root, int32_t count) {
  const og_plan_unit moved = units[root];
  for (;;) {
    int32_t child = 2 * root + 1;
    if (child >= count) break;
    if (child + 1 < count && unit_before(&units[child], &units[child + 1]))
      ++child;
    if (!unit_before(&moved, &units[child])) break;
    units[root] = units[child];
    root = child;
  }
  units[root] = moved;
}

static void units_sort(og_plan_unit *units, int32_t count) {
  for (int32_t i = count / 2 - 1; i >= 0; --i) unit_sift(units, i, count);
  for (int32_t last = count - 1; last > 0; --last) {
    const og_plan_unit first = units[0];
    units[0] = units[last];
    units[last] = first;
    unit_sift(units, 0, last);
  }
}

// What the longest thread has over the mean when each takes the next item as
// it gets free.
static float imbalance_of(const og_plan_unit *units, const og_plan_item *items,
                          int32_t count, int32_t threads) {
  float load[MAX_THREADS] = {0};  // a heap, the least at the root
  double total = 0;
  for (int32_t i = 0; i < count; ++i) {
    const float added = load[0] + units[items[i].unit].cost;
    int32_t root = 0;
    total += units[items[i].unit].cost;
    for (;;) {
      int32_t child = 2 * root + 1;
      if (child >= threads) break;
      if (child + 1 < threads && load[child + 1] < load[child]) ++child;
      if (load[child] >= added) break;
      load[root] = load[child];
      root = child;
    }
    load[root] = added;
  }
  float top = 0;
  for (int32_t i = 0; i < threads; ++i)
    if (load[i] > top) top = load[i];
  return total > 0 ? (float)(top / (total / threads)) : 1;
}

static void header_fill(const cutter *c, og_plan_header *header) {
  const og_attention_problem *p = c->problem;
  *header = (og_plan_header){
      .magic = OG_PLAN_MAGIC,
      .version = OG_PLAN_VERSION,
      .size_bytes =
          layout_bytes(p->batch, c->unit_count, c->item_count, c->merge_count),
      .batch = p->batch,
      .page_size = p->page_size,
      .q_heads = p->q_heads,
      .kv_heads = p->kv_heads,
      .dim_qk = p->dim_qk,
      .dim_vo = p->dim_vo,
      .causal = p->causal,
      .window_left = p->window_left,
      .unit_count = c->unit_count,
      .item_count = (int32_t)c->item_count,
      .merge_count = c->merge_count,
      .slot_count = (int32_t)c->slot_count,
      .q_rows = p->q_indptr != NULL ? p->q_indptr[p->batch] : p->batch,
      .kv_rows = p->kv_indptr[p->batch],
      .split_bytes = c->slot_count * slot_bytes(p->kv_heads, p->dim_vo),
      .threads = thread_count(p),
  };
}

static void requests_fill(const og_attention_problem *p,
                          og_plan_request *requests, og_plan_header *header) {
  int64_t mask = 0;
  for (int32_t i = 0; i < p->batch; ++i) {
    const span s = span_of(p, i);
    requests[i] = (og_plan_request){
        .q_begin = s.q_begin,
        .q_len = s.q_len,
        .kv_begin = s.kv_begin,
        .kv_len = s.kv_len,
        .mask_begin = mask,
    };
    mask += ((int64_t)s.q_len * s.kv_len + 7) / 8;
  }
  header->mask_bytes = mask;
}

og_status og_attention_plan(const og_attention_problem *problem, void *plan,
                            int64_t size, char *text, size_t text_size) {
  cutter c;
  const og_status status = problem_cut(problem, &c, text, text_size);
  if (status != OG_OK) return status;
  const int64_t bytes =
      layout_bytes(problem->batch, c.unit_count, c.item_count, c.merge_count);
  if (bytes > size) {
    snprintf(text, text_size,
             "the plan takes %" PRId64 " bytes, but there are %" PRId64
             "; ask plan_size or plan_max for the size",
             bytes, size);
    return OG_INVALID;
  }
  memset(plan, 0, (size_t)size);
  og_plan_header *header = plan;
  og_plan_request *requests = (og_plan_request *)(void *)(header + 1);
  c.units = (og_plan_unit *)(void *)(requests + problem->batch);
  og_plan_item *items = (og_plan_item *)(void *)(c.units + c.unit_count);
  c.merges = (og_plan_merge *)(void *)(items + c.item_count);
  batch_cut(&c);
  header_fill(&c, header);
  requests_fill(problem, requests, header);
  units_sort(c.units, c.unit_count);
  int32_t used = 0;
  for (int32_t u = 0; u < c.unit_count; ++u)
    for (int32_t h = 0; h < problem->kv_heads; h += c.units[u].head_step)
      items[used++] = (og_plan_item){.unit = u, .head = h};
  header->imbalance = imbalance_of(c.units, items, used, header->threads);
  return OG_OK;
}

// --- Reading a plan

static og_status plan_bad(char *text, size_t size, const char *what) {
  snprintf(text, size, "plan: %s; make it anew with the operator's plan", what);
  return OG_INVALID;
}

static int requests_fit(const og_attention_args *a, const og_plan_view *v) {
  const og_plan_header *h = v->header;
  for (int32_t i = 0; i < h->batch; ++i) {
    const og_plan_request *r = &v->requests[i];
    if (r->q_begin < 0 || r->q_len < 0 || r->kv_begin < 0 || r->kv_len < 0 ||
        r->mask_begin < 0 || r->q_len > h->q_rows - r->q_begin)
      return 0;
    const int64_t keys =
        h->page_size > 0
            ? ((int64_t)r->kv_len + h->page_size - 1) / h->page_size
            : r->kv_len;
    if (keys > (int64_t)h->kv_rows - r->kv_begin) return 0;
    const int64_t bits = (int64_t)r->q_len * r->kv_len;
    if (a->mask != NULL && (bits + 7) / 8 > h->mask_bytes - r->mask_begin)
      return 0;
  }
  return 1;
}

static int units_fit(const og_plan_view *v, int32_t group) {
  const og_plan_header *h = v->header;
  const int32_t limit = tiling_of(&(og_attention_problem){
                                      .q_heads = h->q_heads,
                                      .kv_heads = h->kv_heads,
                                      .dim_qk = h->dim_qk,
                                      .dim_vo = h->dim_vo,
                                  })
                            .tile_rows;
  for (int32_t i = 0; i < h->unit_count; ++i) {
    const og_plan_unit *u = &v->units[i];
    if (u->request < 0 || u->request >= h->batch || u->row_begin < 0 ||
        u->row_count < 1 || u->row_count > limit || u->kv_begin < 0 ||
        u->head_step < 1 || u->head_step > h->kv_heads)
      return 0;
    const og_plan_request *r = &v->requests[u->request];
    if (u->row_count > (int64_t)r->q_len * group - u->row_begin ||
        u->kv_end < u->kv_begin || u->kv_end > r->kv_len)
      return 0;
    if (u->slot < -1 ||
        (u->slot >= 0 && u->row_count > h->slot_count - u->slot))
      return 0;
    // Heads of few rows are in scratch together.
    const int64_t room =
        4 * (int64_t)u->row_count * (h->dim_qk + h->dim_vo + 32);
    if (u->head_step > 1 &&
        r->q_len * (int64_t)group <= OG_ATTENTION_DIRECT_ROWS &&
        u->head_step * room > DIRECT_ROOM)
      return 0;
  }
  for (int32_t i = 0; i < h->item_count; ++i)
    if (v->items[i].unit < 0 || v->items[i].unit >= h->unit_count ||
        v->items[i].head < 0 || v->items[i].head >= h->kv_heads)
      return 0;
  for (int32_t i = 0; i < h->merge_count; ++i) {
    const og_plan_merge *m = &v->merges[i];
    if (m->request < 0 || m->request >= h->batch || m->row_begin < 0 ||
        m->row_count < 1 || m->slot < 0 || m->split_count < 1 ||
        (int64_t)m->row_count * m->split_count > h->slot_count - m->slot ||
        m->row_count >
            (int64_t)v->requests[m->request].q_len * group - m->row_begin)
      return 0;
  }
  return 1;
}

static og_status tensors_fit(const og_attention_args *a,
                             const og_plan_header *h, char *text, size_t size) {
  if (h->q_heads != a->q_heads || h->kv_heads != a->kv_heads ||
      h->dim_qk != a->dim_qk || h->dim_vo != a->dim_vo) {
    snprintf(text, size,
             "plan: made for %d query and %d KV heads of sizes %d and %d, but "
             "q, k and v have %d, %d, %d and %d",
             (int)h->q_heads, (int)h->kv_heads, (int)h->dim_qk, (int)h->dim_vo,
             (int)a->q_heads, (int)a->kv_heads, (int)a->dim_qk, (int)a->dim_vo);
    return OG_INVALID;
  }
  if (h->page_size != a->page_size) {
    snprintf(text, size,
             "plan: made for pages of %d keys, but the cache has pages of %d "
             "(0: no pages)",
             (int)h->page_size, (int)a->page_size);
    return OG_INVALID;
  }
  if (h->q_rows > a->q_rows)
    return bad(text, size, "qo_indptr", h->batch, "but q has rows:", h->q_rows,
               a->q_rows);
  if (h->page_size == 0 && h->kv_rows > a->kv_rows)
    return bad(text, size, "kv_indptr", h->batch,
               "but k and v have rows:", h->kv_rows, a->kv_rows);
  if (h->page_size > 0 && h->kv_rows > a->page_index_count)
    return bad(text, size, "paged_kv_indptr", h->batch,
               "but paged_kv_indices has entries:", h->kv_rows,
               a->page_index_count);
  if (a->mask != NULL && h->mask_bytes > a->mask_bytes) {
    snprintf(text, size,
             "packed_custom_mask has %" PRId64 " bytes, expected %" PRId64,
             a->mask_bytes, h->mask_bytes);
    return OG_INVALID;
  }
  return OG_OK;
}

og_status og_plan_check(const og_attention_args *args, og_plan_view *out_view,
                        char *text, size_t text_size) {
  const og_plan_header *h = args->plan;
  if (args->plan_bytes < (int64_t)sizeof *h || h->magic != OG_PLAN_MAGIC ||
      h->version != OG_PLAN_VERSION)
    return plan_bad(text, text_size, "these bytes are not a plan");
  if ((uintptr_t)args->plan % 8 != 0)
    return plan_bad(text, text_size, "it is not aligned to 8 bytes");
  if (h->batch < 0 || h->unit_count < 0 || h->item_count < 0 ||
      h->merge_count < 0 || h->slot_count < 0 || h->kv_heads < 1 ||
      h->q_rows < 0 || h->kv_rows < 0 || h->mask_bytes < 0 ||
      h->kv_heads > OG_ATTENTION_MAX_HEADS || h->dim_qk < 2 || h->dim_vo < 1 ||
      h->dim_qk > OG_ATTENTION_MAX_DIM || h->dim_vo > OG_ATTENTION_MAX_DIM ||
      !(h->imbalance >= 0 && h->imbalance <= 2 * MAX_THREADS) ||
      h->size_bytes > args->plan_bytes || h->page_size < 0 ||
      layout_bytes(h->batch, h->unit_count, h->item_count, h->merge_count) !=
          h->size_bytes)
    return plan_bad(text, text_size, "it is cut short or was changed");
  const og_status status = tensors_fit(args, h, text, text_size);
  if (status != OG_OK) return status;
  out_view->header = h;
  out_view->requests = (const og_plan_request *)(const void *)(h + 1);
  out_view->units =
      (const og_plan_unit *)(const void *)(out_view->requests + h->batch);
  out_view->items =
      (const og_plan_item *)(const void *)(out_view->units + h->unit_count);
  out_view->merges =
      (const og_plan_merge *)(const void *)(out_view->items + h->item_count);
  if (h->split_bytes != h->slot_count * slot_bytes(h->kv_heads, h->dim_vo) ||
      !requests_fit(args, out_view) ||
      !units_fit(out_view, h->q_heads / h->kv_heads))
    return plan_bad(text, text_size, "it was changed after it was made");
  return OG_OK;
}
