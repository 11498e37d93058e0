// SPDX-License-Identifier: Apache-2.0
// Runs a plan of attention: each item's tiles, then the merges.
//
// Invariants: workers take items in plan order from one counter, so the
// longest come first whatever the host's shares are. An item writes rows that
// no other item writes. A row's result depends on its request and on how the
// plan split its keys, not on the thread that computed it.

#include "kernel/attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernel/tables.h"

enum {
  BLOCK = OG_ATTENTION_BLOCK,
  DIRECT_BLOCK = 32,  // keys of a step where keys are read in place
  PAD = 32,           // rows in scratch are padded to so many floats
};

static const float log2e = 1.44269504f, ln2 = 0.693147181f;

typedef struct runner {
  const og_call *call;
  const og_attention_args *args;
  og_plan_view view;
  const og_attention_kernels *tiles;   // of many rows
  const og_attention_kernels *direct;  // of few
  const og_row_kernels *rows;
  const float *turns_high, *turns_low;  // RoPE, in the shared workspace
  char *scratch;
  float *partial_out;  // [slot, kv_heads, dim_vo]
  float *partial_lse;  // [slot, kv_heads]
  int32_t group;
  atomic_int next_item;
} runner;

// One worker's memory, carved by item_scratch.
typedef struct scratch {
  const og_attention_kernels *kernels;
  char *q;   // [rows, q_stride] of the tile's type
  float *o;  // [rows, o_stride]
  float *max, *sum;
  char *keys, *values;  // packed
  float *s;             // [tile rows, BLOCK], or [rows, DIRECT_BLOCK]
  uint16_t *p;          // the same as bf16, where tiles are
  char *rotated;        // keys after RoPE, a panel's worth
  float *cos, *sin;
  const void **key_rows, **value_rows;
  int64_t q_stride, o_stride;
} scratch;

static int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

static void *carve(char **at, int64_t bytes) {
  void *out = *at;
  *at += round_up(bytes, 64);
  return out;
}

// Zeros for keys past the end of a block.
static const float zero_row[OG_ATTENTION_MAX_DIM + 32];

// Keys that are packed at a time.
static int64_t block_keys(const og_attention_args *a) {
  return a->dim_qk > 128 || a->dim_vo > 128 ? BLOCK / 2 : BLOCK;
}

static scratch scratch_of(const runner *r, int32_t worker, int64_t rows,
                          int packed) {
  const og_attention_args *a = r->args;
  const og_attention_kernels *kernels = packed ? r->tiles : r->direct;
  const int bf16 = kernels->is_bf16;
  const int64_t width = bf16 ? 2 : 4;
  char *at = r->scratch + (int64_t)worker * OG_ATTENTION_SCRATCH;
  scratch s = {
      .kernels = kernels,
      .q_stride = round_up(a->dim_qk, PAD),
      .o_stride = round_up(a->dim_vo, PAD),
  };
  s.q = carve(&at, rows * s.q_stride * width);
  s.o = carve(&at, rows * s.o_stride * 4);
  s.max = carve(&at, rows * 4);
  s.sum = carve(&at, rows * 4);
  s.key_rows = carve(&at, BLOCK * (int64_t)sizeof(void *));
  s.value_rows = carve(&at, BLOCK * (int64_t)sizeof(void *));
  s.cos = carve(&at, a->dim_qk * 4);
  s.sin = carve(&at, a->dim_qk * 4);
  s.rotated = carve(&at, 32 * s.q_stride * 4);
  if (packed) {
    s.keys = carve(&at, block_keys(a) * (a->dim_qk + 1) * width);
    s.values = carve(&at, BLOCK * s.o_stride * width);
    s.s = carve(&at, r->tiles->tile_rows * BLOCK * 4);
    s.p = carve(&at, bf16 ? r->tiles->tile_rows * BLOCK * 2 : 0);
  } else {
    s.s = carve(&at, rows * DIRECT_BLOCK * 4);
    s.p = carve(&at, bf16 ? rows * DIRECT_BLOCK * 2 : 0);
  }
  return s;
}

// --- Where keys and values lie

// Key and value i of a request, at KV head `head`.
static void row_find(const runner *r, const og_plan_request *request,
                     int32_t head, int64_t i, const void **out_key,
                     const void **out_value) {
  const og_attention_args *a = r->args;
  const int32_t page_size = r->view.header->page_size;
  int64_t k = request->kv_begin + i, v = k;
  if (page_size > 0) {
    const int64_t page = a->page_indices[request->kv_begin + i / page_size];
    k = page * a->k_page + i % page_size * a->k_token;
    v = page * a->v_page + i % page_size * a->v_token;
  } else {
    k *= a->k_token;
    v *= a->v_token;
  }
  *out_key = og_at(a->k, k + head * a->k_head, a->element);
  *out_value = og_at(a->v, v + head * a->v_head, a->element);
}

static void rows_find(const runner *r, const og_plan_request *request,
                      int32_t head, int64_t begin, int64_t end,
                      const void **key_rows, const void **value_rows) {
  for (int64_t i = begin; i < end; ++i)
    row_find(r, request, head, i, &key_rows[i - begin], &value_rows[i - begin]);
}

static void rotate_row(const runner *r, scratch *s, const void *x, void *y,
                       int64_t position, int element) {
  const int64_t half = r->args->dim_qk / 2;
  r->rows->angles((double)position, r->turns_high, r->turns_low, half, s->cos,
                  s->sin);
  r->rows->rotate(x, y, half, s->cos, s->sin, 0, 1, element);
}

// --- Queries in, results out

static const void *query_of(const runner *r, const og_plan_request *request,
                            int64_t row, int32_t head) {
  const og_attention_args *a = r->args;
  const int64_t at = og_row_token(row, r->group);
  const int64_t token = request->q_begin + at;
  const int64_t q_head = (head - at) * r->group + row;
  return og_at(a->q, token * a->q_row + q_head * a->q_head, a->element);
}

// Asks for rows that are read later, a few at a time so that the core never
// waits for a free line buffer: hardware streams stop at pages.
static void rows_prefetch(const void *const *rows, int64_t count, size_t offset,
                          size_t bytes) {
  for (int64_t i = 0; i < count; ++i)
    for (size_t at = 0; at < bytes; at += 64)
      __builtin_prefetch((const char *)rows[i] + offset + at, 0, 2);
}

static void queries_load(const runner *r, scratch *s,
                         const og_plan_request *request, int64_t row_begin,
                         int64_t rows, int32_t head, int64_t at) {
  enum { AHEAD = 12 };
  const og_attention_args *a = r->args;
  const int bf16 = s->kernels->is_bf16;
  const int64_t width = bf16 ? 2 : 4;
  const size_t rest = (size_t)((s->q_stride - a->dim_qk) * width);
  const size_t bytes = (size_t)a->dim_qk * og_element_bytes(a->element);
  for (int64_t i = 0; i < rows; ++i) {
    const void *q = query_of(r, request, row_begin + i, head);
    if (i + AHEAD < rows) {
      const void *later = query_of(r, request, row_begin + i + AHEAD, head);
      rows_prefetch(&later, 1, 0, bytes);
    }
    char *to = s->q + (at + i) * s->q_stride * width;
    if (bf16)
      memcpy(to, q, bytes);
    else
      r->rows->to_f32(q, (float *)(void *)to, a->dim_qk, a->element);
    if (rest > 0) memset(to + a->dim_qk * width, 0, rest);
    if (a->pos_mode == OG_POS_ROPE)
      rotate_row(r, s, to, to,
                 og_row_position(request, row_begin + i, r->group),
                 bf16 ? OG_BF16 : OG_F32);
    s->max[at + i] = -INFINITY;
    s->sum[at + i] = 0;
  }
}

static void *result_of(const runner *r, const og_plan_request *request,
                       int64_t row, int32_t head) {
  const og_attention_args *a = r->args;
  const int64_t at = og_row_token(row, r->group);
  const int64_t token = request->q_begin + at;
  const int64_t q_head = (head - at) * r->group + row;
  return og_at(a->out, token * a->out_row + q_head * a->out_head, a->element);
}

// o * factor is the row's result.
static void row_store(const runner *r, const og_plan_request *request,
                      int64_t row, int32_t head, const float *o, float factor,
                      float lse) {
  const og_attention_args *a = r->args;
  const int64_t at = og_row_token(row, r->group);
  const int64_t token = request->q_begin + at;
  const int64_t q_head = (head - at) * r->group + row;
  r->tiles->store(o, a->dim_vo, factor, result_of(r, request, row, head),
                  a->element);
  a->lse[token * a->q_heads + q_head] = a->natural_lse ? lse * ln2 : lse;
}

// Rows [begin, end) of a unit, which lie in scratch from row `at` on.
static void results_store(const runner *r, scratch *s, const og_plan_unit *unit,
                          int32_t head, int64_t begin, int64_t end,
                          int64_t at) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const og_attention_args *a = r->args;
  for (int64_t i = begin; i < end; ++i) {
    float *o = s->o + (at + i) * s->o_stride;
    const float sum = s->sum[at + i];
    const int is_empty = sum == 0;
    const float lse = is_empty ? -INFINITY : s->max[at + i] + log2f(sum);
    const float factor = is_empty ? 0 : 1 / sum;
    if (is_empty) memset(o, 0, (size_t)a->dim_vo * 4);
    if (unit->slot < 0) {
      row_store(r, request, unit->row_begin + i, head, o, factor, lse);
      continue;
    }
    const int64_t slot = (unit->slot + i) * a->kv_heads + head;
    r->tiles->store(o, a->dim_vo, factor, r->partial_out + slot * a->dim_vo,
                    OG_F32);
    r->partial_lse[slot] = lse;
  }
}

// --- Logits to weights

enum { SOFTMAX_ROWS = 16 };  // at a time

// What is said of each row.
typedef struct softmax_rows {
  int32_t lo[SOFTMAX_ROWS], hi[SOFTMAX_ROWS];
  float slope[SOFTMAX_ROWS], distance[SOFTMAX_ROWS];
  int64_t bit[SOFTMAX_ROWS];
  float factor[SOFTMAX_ROWS];
} softmax_rows;

// Row i of the batch is row `row` of the request, its query head `q_head`.
static void softmax_row_fill(const runner *r, softmax_rows *rows, int64_t i,
                             const og_plan_unit *unit, int64_t row,
                             int32_t head, int64_t key_begin,
                             int64_t key_limit) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t token = og_row_token(row, r->group);
  const int64_t position = token + request->kv_len - request->q_len;
  int64_t lo, hi;
  og_keys_visible(r->view.header, request, position, &lo, &hi);
  if (lo < unit->kv_begin) lo = unit->kv_begin;
  if (hi > key_limit) hi = key_limit;
  rows->lo[i] = lo > key_begin ? (int32_t)(lo - key_begin) : 0;
  rows->hi[i] = hi > key_begin ? (int32_t)(hi - key_begin) : 0;
  rows->bit[i] = token * request->kv_len + key_begin;
  if (a->pos_mode != OG_POS_ALIBI) return;
  rows->slope[i] =
      og_alibi_slope((int32_t)((head - token) * r->group + row), a->q_heads);
  rows->distance[i] = (float)(key_begin - position);
}

// The weights of `count` rows that lie in scratch from row `at` on.
static void softmax_run(const runner *r, scratch *s, const og_plan_unit *unit,
                        softmax_rows *rows, int64_t count, int64_t at,
                        float *logits, uint16_t *p, int64_t stride, int64_t n) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const og_softmax x = {
      .s = logits,
      .p = p,
      .stride = stride,
      .rows = count,
      .n = n,
      .lo = rows->lo,
      .hi = rows->hi,
      .scale = a->sm_scale * log2e,
      .soft_cap = a->soft_cap,
      .sm_scale = a->sm_scale,
      .slope = a->pos_mode == OG_POS_ALIBI ? rows->slope : NULL,
      .distance = rows->distance,
      .bits = a->mask != NULL ? a->mask + request->mask_begin : NULL,
      .bit = rows->bit,
      .max = s->max + at,
      .sum = s->sum + at,
      .factor = rows->factor,
  };
  s->kernels->softmax(&x);
  for (int64_t i = 0; i < count; ++i)
    if (rows->factor[i] != 1)
      s->kernels->scale(s->o + (at + i) * s->o_stride, s->o_stride,
                        rows->factor[i]);
}

// --- Many rows: keys and values are packed

// Packs keys [begin, end) of a block whose column 0 is key `origin`; begin is
// at a panel.
static void block_pack(const runner *r, scratch *s,
                       const og_plan_request *request, int32_t head,
                       int64_t origin, int64_t begin, int64_t end) {
  const og_attention_args *a = r->args;
  const og_attention_kernels *tiles = r->tiles;
  const int64_t n = end - begin, padded = round_up(n, tiles->panel);
  const int64_t first = begin - origin;
  const size_t width = tiles->is_bf16 ? 2 : 4;
  const int64_t key_bytes =
      round_up(a->dim_qk, tiles->is_bf16 ? 2 : 1) * (int64_t)width;
  rows_find(r, request, head, begin, end, s->key_rows, s->value_rows);
  for (int64_t i = n; i < padded; ++i)
    s->key_rows[i] = s->value_rows[i] = zero_row;
  tiles->pack_values(s->value_rows, first, round_up(n, 2), a->dim_vo, s->values,
                     a->element);
  if (a->pos_mode != OG_POS_ROPE) {
    tiles->pack_keys(s->key_rows, padded, a->dim_qk,
                     s->keys + first * key_bytes, a->element);
    return;
  }
  const size_t stride = (size_t)a->dim_qk * og_element_bytes(a->element);
  for (int64_t i = 0; i < padded; i += tiles->panel) {
    for (int64_t j = 0; j < tiles->panel; ++j) {
      char *to = s->rotated + (size_t)j * stride;
      rotate_row(r, s, s->key_rows[i + j], to, begin + i + j, a->element);
      s->key_rows[i + j] = to;
    }
    tiles->pack_keys(s->key_rows + i, tiles->panel, a->dim_qk,
                     s->keys + (first + i) * key_bytes, a->element);
  }
}

// What a worker will read after this block: keys and values, and the first
// queries where they are of another head. Asked for while tiles are computed,
// so that packing does not wait for memory.
typedef struct upcoming {
  const og_plan_request *request;
  int32_t head;
  int64_t key_begin, key_end;
  int64_t row_begin, row_end;
  int64_t steps;  // of the tiles' loops until then
} upcoming;

static upcoming upcoming_keys(const runner *r, const og_plan_unit *unit,
                              int32_t head, int64_t begin) {
  const int64_t end = begin + block_keys(r->args);
  return (upcoming){
      .request = &r->view.requests[unit->request],
      .head = head,
      .key_begin = begin,
      .key_end = end < unit->kv_end ? end : unit->kv_end,
  };
}

static int64_t tile_count(const runner *r, const og_plan_unit *unit) {
  return (unit->row_count + r->tiles->tile_rows - 1) / r->tiles->tile_rows;
}

// Past the last row of tile k.
static int64_t tile_end(const runner *r, const og_plan_unit *unit, int64_t k) {
  return unit->row_count * (k + 1) / tile_count(r, unit);
}

// Head `head` of a unit, from its first keys on.
static upcoming upcoming_head(const runner *r, const og_plan_unit *unit,
                              int32_t head) {
  upcoming next = upcoming_keys(r, unit, head, unit->kv_begin);
  next.row_begin = unit->row_begin;
  next.row_end = unit->row_begin + tile_end(r, unit, 0);
  return next;
}

// The item that is taken next, by this worker or another on the same cache.
static upcoming upcoming_item(runner *r) {
  const int32_t i = atomic_load_explicit(&r->next_item, memory_order_relaxed);
  if (i >= r->view.header->item_count) return (upcoming){0};
  const og_plan_item *item = &r->view.items[i];
  return upcoming_head(r, &r->view.units[item->unit], item->head);
}

// Lines that a tile asks for; those that do not fit are left to a later one.
enum { LINES = 1024 };

typedef struct line_list {
  const void *at[LINES];
  int64_t count, used;
  int64_t part;  // of a tile function
} line_list;

static void lines_add(line_list *lines, const char *row, int64_t bytes) {
  const void **to = lines->at + lines->count;
  for (int64_t at = 0; at < bytes; at += 64) *to++ = row + at;
  lines->count = to - lines->at;
}

// How many of `left` things, each of so many bytes, fall to the next k of
// *steps, which it takes.
static int64_t share_take(const line_list *lines, int64_t left, int64_t bytes,
                          int64_t k, int64_t *steps) {
  const int64_t share = *steps > k ? (left * k + *steps - 1) / *steps : left;
  const int64_t room = (LINES - lines->count) / (bytes / 64 + 2);
  *steps -= k;
  return share < room ? share : room;
}

static void upcoming_lines(const runner *r, upcoming *next, int64_t k,
                           line_list *lines) {
  const og_attention_args *a = r->args;
  const int64_t width = (int64_t)og_element_bytes(a->element);
  const int64_t key_bytes = a->dim_qk * width, value_bytes = a->dim_vo * width;
  const int is_paged = r->view.header->page_size > 0;
  const int64_t share = share_take(lines, next->key_end - next->key_begin,
                                   key_bytes + value_bytes, k, &next->steps);
  const void *key = NULL, *value = NULL;
  for (int64_t i = 0; i < share; ++i, ++next->key_begin) {
    if (i == 0 || is_paged) {
      row_find(r, next->request, next->head, next->key_begin, &key, &value);
    } else {
      key = (const char *)key + a->k_token * width;
      value = (const char *)value + a->v_token * width;
    }
    lines_add(lines, key, key_bytes);
    lines_add(lines, value, value_bytes);
  }
}

// Packed rows one after the other, without a division for each.
typedef struct row_walk {
  const char *at;
  int64_t step, wrap;  // bytes to the next head's row, and to the next token's
  int64_t in_group;
  int64_t left;
} row_walk;

static row_walk row_walk_of(const runner *r, const void *at, int64_t row,
                            int64_t count, int64_t row_stride,
                            int64_t head_stride) {
  const int64_t width = (int64_t)og_element_bytes(r->args->element);
  return (row_walk){
      .at = at,
      .step = head_stride * width,
      .wrap = (row_stride - (r->group - 1) * head_stride) * width,
      .in_group = row - og_row_token(row, r->group) * r->group,
      .left = count,
  };
}

static void row_walk_lines(row_walk *walk, int64_t count, int64_t bytes,
                           int64_t group, line_list *lines) {
  for (int64_t i = 0; i < count; ++i) {
    lines_add(lines, walk->at, bytes);
    const int is_last = ++walk->in_group == group;
    walk->at += is_last ? walk->wrap : walk->step;
    if (is_last) walk->in_group = 0;
  }
  walk->left -= count;
}

// Rows [i0, i0 + rows) of a unit against a block of keys that begins at
// `origin`.
typedef struct tile_work {
  int64_t i0, rows;
  int64_t origin;
  int64_t first, last;  // columns: panels that some row sees
  int64_t end;          // past the last column that some row sees; 0: none
  int is_first;         // of these rows: there are no sums yet
  int is_last;
} tile_work;

// What a worker needs at the end of a tile: where its results go, and the
// queries of the next one.
typedef struct nearby {
  row_walk results, queries;
  int64_t steps;
} nearby;

static tile_work tile_of(const runner *r, const og_plan_unit *unit, int64_t i0,
                         int64_t rows, int64_t origin, int64_t block_end) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t panel = r->tiles->panel;
  const int64_t first_row = unit->row_begin + i0;
  int64_t lo, hi, ignored;
  og_keys_visible(r->view.header, request,
                  og_row_position(request, first_row, r->group), &lo, &ignored);
  og_keys_visible(r->view.header, request,
                  og_row_position(request, first_row + rows - 1, r->group),
                  &ignored, &hi);
  if (lo < unit->kv_begin) lo = unit->kv_begin;
  const int is_first = lo >= origin;
  if (lo < origin) lo = origin;
  if (hi > block_end) hi = block_end;
  if (hi <= lo) return (tile_work){.i0 = i0, .rows = rows};
  return (tile_work){
      .i0 = i0,
      .rows = rows,
      .origin = origin,
      .first = (lo - origin) / panel * panel,
      .last = round_up(hi - origin, panel),
      .end = hi - origin,
      .is_first = is_first,
      .is_last = block_end == unit->kv_end,
  };
}

// Steps of the tile functions' loops.
static int64_t tile_step_count(const runner *r, const tile_work *t) {
  const int64_t panel = r->tiles->panel;
  if (t->end == 0) return 0;
  return (t->last - t->first) / panel * r->args->dim_qk +
         round_up(r->args->dim_vo, panel) / panel * (t->end - t->first);
}

static void nearby_lines(const runner *r, nearby *near, int64_t k,
                         line_list *lines) {
  const og_attention_args *a = r->args;
  const int64_t width = (int64_t)og_element_bytes(a->element);
  const int64_t out_bytes = a->dim_vo * width, q_bytes = a->dim_qk * width;
  const int64_t share =
      share_take(lines, near->results.left + near->queries.left,
                 out_bytes > q_bytes ? out_bytes : q_bytes, k, &near->steps);
  const int64_t results =
      share < near->results.left ? share : near->results.left;
  row_walk_lines(&near->results, results, out_bytes, r->group, lines);
  row_walk_lines(&near->queries, share - results, q_bytes, r->group, lines);
}

// What the next `calls` tile functions, of k steps each, ask for.
static void lines_ask(const runner *r, int64_t calls, int64_t k, nearby *near,
                      upcoming *next, line_list *lines) {
  lines->count = lines->used = 0;
  nearby_lines(r, near, calls * k, lines);
  upcoming_lines(r, next, calls * k, lines);
  lines->part = (lines->count + calls - 1) / calls;
}

static og_lines lines_take(line_list *lines) {
  const int64_t left = lines->count - lines->used;
  const og_lines taken = {
      .at = lines->at + lines->used,
      .count = left < lines->part ? left : lines->part,
  };
  lines->used += taken.count;
  return taken;
}

static void tile_run(const runner *r, scratch *s, const og_plan_unit *unit,
                     int32_t head, const tile_work *t, nearby *near,
                     upcoming *next) {
  const og_attention_kernels *tiles = r->tiles;
  const int64_t panel = tiles->panel, half = panel / 2, dim = r->args->dim_qk;
  const int64_t width = tiles->is_bf16 ? 2 : 4;
  const int64_t key_bytes = round_up(dim, tiles->is_bf16 ? 2 : 1) * width;
  const int64_t i0 = t->i0, first = t->first;
  const char *q = s->q + i0 * s->q_stride * width;
  line_list lines;
  lines_ask(r, (t->last - first) / panel, dim, near, next, &lines);
  for (int64_t c = first; c < t->last; c += panel) {
    const og_lines ahead = lines_take(&lines);
    (t->end - c > half ? tiles->tile : tiles->half_tile)(
        t->rows, q, s->q_stride, s->keys + c * key_bytes, dim, s->s + c, BLOCK,
        0, &ahead);
  }
  const int64_t n = round_up(t->end - first, half);
  softmax_rows rows;
  for (int64_t i = 0; i < t->rows; ++i)
    softmax_row_fill(r, &rows, i, unit, unit->row_begin + i0 + i, head,
                     t->origin + first, t->origin + t->end);
  softmax_run(r, s, unit, &rows, t->rows, i0, s->s + first,
              tiles->is_bf16 ? s->p + first : NULL, BLOCK, n);
  const void *weights = tiles->is_bf16 ? (const void *)(s->p + first)
                                       : (const void *)(s->s + first);
  const int64_t dim_vo = r->args->dim_vo;
  lines_ask(r, round_up(dim_vo, panel) / panel, t->end - first, near, next,
            &lines);
  for (int64_t d = 0; d < dim_vo; d += panel) {
    const og_lines ahead = lines_take(&lines);
    (dim_vo - d > half ? tiles->tile : tiles->half_tile)(
        t->rows, weights, BLOCK,
        s->values + (d * BLOCK + first * panel) * width, t->end - first,
        s->o + i0 * s->o_stride + d, s->o_stride, !t->is_first, &ahead);
  }
}

// Tile k of a unit against a block.
static tile_work tile_at(const runner *r, const og_plan_unit *unit, int64_t k,
                         int64_t origin, int64_t block_end) {
  const int64_t i0 = k > 0 ? tile_end(r, unit, k - 1) : 0;
  return tile_of(r, unit, i0, tile_end(r, unit, k) - i0, origin, block_end);
}

static nearby nearby_of(const runner *r, const og_plan_unit *unit, int32_t head,
                        const tile_work *t, int64_t k, int is_first,
                        const upcoming *next) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t row = unit->row_begin + t->i0, end = row + t->rows;
  nearby near = {.steps = tile_step_count(r, t)};
  if (t->is_last && unit->slot < 0)
    near.results = row_walk_of(r, result_of(r, request, row, head), row,
                               t->rows, a->out_row, a->out_head);
  if (k + 1 < tile_count(r, unit) && is_first)
    near.queries = row_walk_of(r, query_of(r, request, end, head), end,
                               unit->row_begin + tile_end(r, unit, k + 1) - end,
                               a->q_row, a->q_head);
  else if (k + 1 == tile_count(r, unit) && next->row_begin < next->row_end)
    near.queries = row_walk_of(
        r, query_of(r, next->request, next->row_begin, next->head),
        next->row_begin, next->row_end - next->row_begin, a->q_row, a->q_head);
  return near;
}

// Keys [origin, end) of a head; `next` is what is read after it.
static void block_run(const runner *r, scratch *s, const og_plan_unit *unit,
                      int32_t head, int64_t origin, int64_t end,
                      upcoming next) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t tiles = tile_count(r, unit);
  const int is_first = origin <= unit->kv_begin, is_last = end == unit->kv_end;
  for (int64_t k = 0; k < tiles; ++k) {
    const tile_work t = tile_at(r, unit, k, origin, end);
    next.steps += tile_step_count(r, &t);
  }
  for (int64_t k = 0; k < tiles; ++k) {
    const tile_work t = tile_at(r, unit, k, origin, end);
    if (is_first)
      queries_load(r, s, request, unit->row_begin + t.i0, t.rows, head, t.i0);
    if (t.end > 0) {
      nearby near = nearby_of(r, unit, head, &t, k, is_first, &next);
      tile_run(r, s, unit, head, &t, &near, &next);
    }
    if (is_last) results_store(r, s, unit, head, t.i0, t.i0 + t.rows, 0);
  }
}

static void packed_head(runner *r, scratch *s, const og_plan_unit *unit,
                        int32_t head, int32_t head_end) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t rows = unit->row_count, panel = r->tiles->panel;
  const int64_t block = block_keys(r->args);
  int64_t origin = unit->kv_begin / block * block;
  for (; origin < unit->kv_end; origin += block) {
    int64_t begin = origin > unit->kv_begin ? origin : unit->kv_begin;
    const int64_t end =
        origin + block < unit->kv_end ? origin + block : unit->kv_end;
    begin = origin + (begin - origin) / panel * panel;
    block_pack(r, s, request, head, origin, begin, end);
    const upcoming next = end < unit->kv_end ? upcoming_keys(r, unit, head, end)
                          : head + 1 < head_end
                              ? upcoming_head(r, unit, head + 1)
                              : upcoming_item(r);
    block_run(r, s, unit, head, origin, end, next);
  }
  if (unit->kv_begin < unit->kv_end) return;
  queries_load(r, s, request, unit->row_begin, rows, head, 0);
  results_store(r, s, unit, head, 0, rows, 0);
}

static int32_t head_end_of(const runner *r, const og_plan_unit *unit,
                           int32_t head) {
  const int32_t end = head + unit->head_step;
  return end < r->args->kv_heads ? end : r->args->kv_heads;
}

static void packed_item(runner *r, const og_plan_unit *unit, int32_t head,
                        int32_t worker) {
  scratch s = scratch_of(r, worker, unit->row_count, 1);
  const int32_t head_end = head_end_of(r, unit, head);
  for (int32_t h = head; h < head_end; ++h)
    packed_head(r, &s, unit, h, head_end);
}

// --- Few rows: keys and values where they lie

// Keys of any type and RoPE come as f32 rows where that is cheaper or needed.
static const void *const *keys_ready(const runner *r, scratch *s,
                                     const void *const *keys, int32_t head,
                                     int64_t position, int64_t rows,
                                     size_t *offset, int *element,
                                     const void **ready) {
  const og_attention_args *a = r->args;
  *offset = (size_t)(head * a->k_head) * og_element_bytes(a->element);
  *element = a->element;
  const int is_rope = a->pos_mode == OG_POS_ROPE;
  const int is_ready = rows == 1 || s->kernels->is_bf16 || a->element == OG_F32;
  if (is_ready && !is_rope) return keys;
  for (int64_t j = 0; j < 4; ++j) {
    float *to = (float *)(void *)s->rotated + j * s->q_stride;
    r->rows->to_f32((const char *)keys[j] + *offset, to, a->dim_qk, a->element);
    if (is_rope) rotate_row(r, s, to, to, position + j, OG_F32);
    ready[j] = to;
  }
  *offset = 0;
  *element = OG_F32;
  return ready;
}

static void direct_logits(const runner *r, scratch *s, const og_plan_unit *unit,
                          int32_t head_begin, int32_t head_end, int64_t begin,
                          int64_t n) {
  const og_attention_args *a = r->args;
  const int64_t rows = unit->row_count;
  const size_t es = og_element_bytes(a->element);
  const int64_t q_bytes = s->q_stride * (s->kernels->is_bf16 ? 2 : 4);
  for (int64_t k = 0; k < n; k += 4)
    for (int32_t h = head_begin; h < head_end; ++h) {
      rows_prefetch(s->value_rows + k, 4, (size_t)(h * a->v_head) * es,
                    (size_t)a->dim_vo * es);
      const void *ready[4];
      size_t offset;
      int element;
      const void *const *keys = keys_ready(r, s, s->key_rows + k, h, begin + k,
                                           rows, &offset, &element, ready);
      const int64_t at = (h - head_begin) * rows;
      s->kernels->dots(s->q + at * q_bytes, s->q_stride, rows, keys, offset,
                       a->dim_qk, s->s + at * DIRECT_BLOCK + k, DIRECT_BLOCK,
                       element);
    }
}

// Adds the weighted values; meanwhile the next block's keys are fetched.
static void direct_values(const runner *r, scratch *s, const og_plan_unit *unit,
                          int32_t head_begin, int32_t head_end, int64_t n,
                          int64_t next_count) {
  enum { STEP = 8 };
  const og_attention_args *a = r->args;
  const int64_t rows = unit->row_count;
  const size_t es = og_element_bytes(a->element);
  for (int64_t k = 0; k < n; k += STEP) {
    const int64_t left = next_count - k, count = n - k < STEP ? n - k : STEP;
    for (int32_t h = head_begin; h < head_end; ++h) {
      const int64_t at = (h - head_begin) * rows * DIRECT_BLOCK + k;
      const void *weights = s->kernels->is_bf16 ? (const void *)(s->p + at)
                                                : (const void *)(s->s + at);
      rows_prefetch(s->key_rows + k, left < STEP ? left : STEP,
                    (size_t)(h * a->k_head) * es, (size_t)a->dim_qk * es);
      s->kernels->add_values(weights, DIRECT_BLOCK, rows, s->value_rows + k,
                             count, (size_t)(h * a->v_head) * es, a->dim_vo,
                             s->o + (h - head_begin) * rows * s->o_stride,
                             s->o_stride, a->element);
    }
  }
}

static void direct_softmax(const runner *r, scratch *s,
                           const og_plan_unit *unit, int32_t head_begin,
                           int32_t head_end, int64_t begin, int64_t end) {
  const int64_t rows = unit->row_count, all = (head_end - head_begin) * rows;
  int64_t i = 0, done = 0;
  int32_t head = head_begin;
  softmax_rows batch;
  for (int64_t at = 0; at < all; ++at) {
    float *logits = s->s + at * DIRECT_BLOCK;
    for (int64_t k = end - begin; k < DIRECT_BLOCK; ++k) logits[k] = 0;
    softmax_row_fill(r, &batch, at - done, unit, unit->row_begin + i, head,
                     begin, end);
    if (++i == rows) i = 0, ++head;
    if (at + 1 < all && at + 1 - done < SOFTMAX_ROWS) continue;
    softmax_run(r, s, unit, &batch, at + 1 - done, done,
                s->s + done * DIRECT_BLOCK,
                s->kernels->is_bf16 ? s->p + done * DIRECT_BLOCK : NULL,
                DIRECT_BLOCK, DIRECT_BLOCK);
    done = at + 1;
  }
}

static void direct_block(const runner *r, scratch *s, const og_plan_unit *unit,
                         int32_t head_begin, int32_t head_end, int64_t begin,
                         int64_t end) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t n = end - begin, padded = round_up(n, 4);
  rows_find(r, request, 0, begin, end, s->key_rows, s->value_rows);
  for (int64_t i = n; i < padded; ++i) {
    s->key_rows[i] = s->key_rows[n - 1];  // masked: any key of the request
    s->value_rows[i] = s->value_rows[n - 1];
  }
  direct_logits(r, s, unit, head_begin, head_end, begin, padded);
  direct_softmax(r, s, unit, head_begin, head_end, begin, end);
  const int64_t next_end =
      end + DIRECT_BLOCK < unit->kv_end ? end + DIRECT_BLOCK : unit->kv_end;
  rows_find(r, request, 0, end, next_end, s->key_rows, s->key_rows + BLOCK / 2);
  direct_values(r, s, unit, head_begin, head_end, padded, next_end - end);
}

static void direct_item(const runner *r, const og_plan_unit *unit, int32_t head,
                        int32_t worker) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t rows = unit->row_count;
  const int32_t head_end = head_end_of(r, unit, head);
  scratch s = scratch_of(r, worker, (head_end - head) * rows, 0);
  for (int32_t h = head; h < head_end; ++h)
    queries_load(r, &s, request, unit->row_begin, rows, h, (h - head) * rows);
  memset(s.o, 0, (size_t)((head_end - head) * rows * s.o_stride) * 4);
  int64_t begin = unit->kv_begin;
  while (begin < unit->kv_end) {
    const int64_t next = (begin / DIRECT_BLOCK + 1) * DIRECT_BLOCK;
    const int64_t end = next < unit->kv_end ? next : unit->kv_end;
    direct_block(r, &s, unit, head, head_end, begin, end);
    begin = end;
  }
  for (int32_t h = head; h < head_end; ++h)
    results_store(r, &s, unit, h, 0, rows, (h - head) * rows);
}

// --- The run

static void items_run(void *state, int64_t begin, int64_t end, int32_t worker) {
  runner *r = state;
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
      direct_item(r, unit, item->head, worker);
    else
      packed_item(r, unit, item->head, worker);
  }
}

static void merge_row(const runner *r, const og_plan_merge *m, int64_t i,
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
  row_store(r, &r->view.requests[m->request], m->row_begin + i, head, out,
            top > -INFINITY ? 1 / sum : 0,
            top > -INFINITY ? top + log2f(sum) : top);
}

static void merges_run(void *state, int64_t begin, int64_t end,
                       int32_t worker) {
  const runner *r = state;
  (void)worker;
  for (int64_t j = begin; j < end; ++j) {
    const og_plan_merge *m = &r->view.merges[j];
    for (int64_t i = 0; i < m->row_count; ++i)
      for (int32_t h = 0; h < r->args->kv_heads; ++h) merge_row(r, m, i, h);
  }
}

static og_status pages_check(const runner *r, char *text, size_t size) {
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

og_status og_attention_run(const og_call *call, const og_attention_args *args) {
  char text[256];
  runner r = {
      .call = call,
      .args = args,
      .tiles = og_attention(args->element),
      // Turned queries and keys have more than bf16's bits, and so few rows
      // need not lose them.
      .direct =
          og_attention(args->pos_mode == OG_POS_ROPE ? OG_F32 : args->element),
      .rows = og_rows(),
  };
  og_status status = og_plan_check(args, &r.view, text, sizeof text);
  if (status == OG_OK) status = pages_check(&r, text, sizeof text);
  if (status != OG_OK) return og_fail(call, status, text);
  const og_plan_header *h = r.view.header;
  const size_t fixed =
      OG_ATTENTION_SHARED + (size_t)call->threads * OG_ATTENTION_SCRATCH;
  if (call->workspace_bytes < fixed + (size_t)h->split_bytes) {
    snprintf(text, sizeof text,
             "the plan splits keys and needs split_bytes=%" PRId64
             ", which plan_info gives",
             h->split_bytes);
    return og_fail(call, OG_INVALID, text);
  }
  float *turns = call->workspace;
  if (args->pos_mode == OG_POS_ROPE)
    og_rope_turns(args->dim_qk, args->rope_theta, args->rope_scale, turns,
                  turns + OG_ATTENTION_MAX_DIM);
  r.turns_high = turns;
  r.turns_low = turns + OG_ATTENTION_MAX_DIM;
  r.scratch = (char *)call->workspace + OG_ATTENTION_SHARED;
  r.partial_out = (float *)(void *)((char *)call->workspace + fixed);
  r.partial_lse =
      r.partial_out + (int64_t)h->slot_count * h->kv_heads * h->dim_vo;
  r.group = h->q_heads / h->kv_heads;
  atomic_init(&r.next_item, 0);
  int64_t workers =
      call->threads < h->item_count ? call->threads : h->item_count;
  status = og_parallel_tasks(call, workers, 1, items_run, &r);
  if (status != OG_OK || h->merge_count == 0) return status;
  return og_parallel_tasks(call, h->merge_count, 1, merges_run, &r);
}

// --- Positions and choice

float og_alibi_slope(int32_t head, int32_t heads) {
  int32_t whole = 1;
  while (whole * 2 <= heads) whole *= 2;
  const float step = head < whole ? -8.0f / (float)whole : -4.0f / (float)whole;
  const int32_t power = head < whole ? head + 1 : 2 * (head - whole) + 1;
  return exp2f(step * (float)power);
}

void og_rope_turns(int32_t dim, double theta, double scale, float *out_high,
                   float *out_low) {
  for (int32_t i = 0; i < dim / 2; ++i) {
    const double turns = pow(theta, -2.0 * i / dim) / scale / 6.283185307179586;
    out_high[i] = (float)turns;
    out_low[i] = (float)(turns - (double)out_high[i]);
  }
}

const og_attention_kernels *og_attention(int element) {
#if defined(__x86_64__)
  const int isa = og_contraction_isa(element);
  if (isa >= OG_KERNEL_AVX512_BF16) return &og_attention_avx512_bf16;
  if (isa >= OG_KERNEL_AVX512) return &og_attention_avx512;
  if (isa >= OG_KERNEL_AVX2) return &og_attention_avx2;
#endif
  (void)element;
  return &og_attention_scalar;
}
