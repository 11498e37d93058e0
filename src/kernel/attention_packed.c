// SPDX-License-Identifier: Apache-2.0
// Items of many rows: keys and values are packed, a block at a time, and each
// is used by tiles of rows. Meanwhile the next block is prefetched.

#include <string.h>

#include "kernel/attention_run.h"

// Packs keys [begin, end) of a block whose column 0 is key `origin`; begin is
// at a panel.
static void block_pack(const og_runner *r, og_worker *s,
                       const og_plan_request *request, int32_t head,
                       int64_t origin, int64_t begin, int64_t end) {
  const og_attention_args *a = r->args;
  const og_attention_kernels *tiles = r->tiles;
  const int element = og_cache_element(a);
  const int64_t n = end - begin, padded = og_round_up(n, tiles->panel);
  const int64_t first = begin - origin;
  const size_t width = tiles->is_bf16 ? 2 : 4;
  const int64_t key_bytes =
      og_round_up(a->dim_qk, tiles->is_bf16 ? 2 : 1) * (int64_t)width;
  og_rows_find(r, request, head, begin, end, s->key_rows, s->value_rows);
  for (int64_t i = n; i < padded; ++i)
    s->key_rows[i] = s->value_rows[i] = og_zero_row;
  tiles->pack_values(s->value_rows, first, og_round_up(n, 2), a->dim_vo,
                     s->values, element);
  if (a->pos_mode != OG_POS_ROPE) {
    tiles->pack_keys(s->key_rows, padded, a->dim_qk,
                     s->keys + first * key_bytes, element);
    return;
  }
  const int turned = a->narrow ? OG_F32 : element;
  const size_t stride = (size_t)a->dim_qk * og_element_bytes(turned);
  for (int64_t i = 0; i < padded; i += tiles->panel) {
    for (int64_t j = 0; j < tiles->panel; ++j) {
      char *to = s->rotated + (size_t)j * stride;
      const void *from = s->key_rows[i + j];
      if (a->narrow)
        r->rows->to_f32(from, (float *)(void *)to, a->dim_qk, element);
      og_row_rotate(r, s, a->narrow ? to : from, to, begin + i + j, turned);
      s->key_rows[i + j] = to;
    }
    tiles->pack_keys(s->key_rows + i, tiles->panel, a->dim_qk,
                     s->keys + (first + i) * key_bytes, turned);
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

static upcoming upcoming_keys(const og_runner *r, const og_plan_unit *unit,
                              int32_t head, int64_t begin) {
  const int64_t end = begin + og_block_keys(r->args);
  return (upcoming){
      .request = &r->view.requests[unit->request],
      .head = head,
      .key_begin = begin,
      .key_end = end < unit->kv_end ? end : unit->kv_end,
  };
}

static int64_t tile_count(const og_runner *r, const og_plan_unit *unit) {
  return (unit->row_count + r->tiles->tile_rows - 1) / r->tiles->tile_rows;
}

// Past the last row of tile k.
static int64_t tile_end(const og_runner *r, const og_plan_unit *unit,
                        int64_t k) {
  return unit->row_count * (k + 1) / tile_count(r, unit);
}

// Head `head` of a unit, from its first keys on.
static upcoming upcoming_head(const og_runner *r, const og_plan_unit *unit,
                              int32_t head) {
  upcoming next = upcoming_keys(r, unit, head, unit->kv_begin);
  next.row_begin = unit->row_begin;
  next.row_end = unit->row_begin + tile_end(r, unit, 0);
  return next;
}

// The item that is taken next, by this worker or another on the same cache.
static upcoming upcoming_item(og_runner *r) {
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

static void upcoming_lines(const og_runner *r, upcoming *next, int64_t k,
                           line_list *lines) {
  const og_attention_args *a = r->args;
  const int64_t width = (int64_t)og_element_bytes(og_cache_element(a));
  const int64_t key_bytes = a->dim_qk * width, value_bytes = a->dim_vo * width;
  const int is_paged = r->view.header->page_size > 0;
  const int64_t share = share_take(lines, next->key_end - next->key_begin,
                                   key_bytes + value_bytes, k, &next->steps);
  const void *key = NULL, *value = NULL;
  for (int64_t i = 0; i < share; ++i, ++next->key_begin) {
    if (i == 0 || is_paged) {
      og_row_find(r, next->request, next->head, next->key_begin, &key, &value);
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

static row_walk row_walk_of(const og_runner *r, const void *at, int64_t row,
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

static tile_work tile_of(const og_runner *r, const og_plan_unit *unit,
                         int64_t i0, int64_t rows, int64_t origin,
                         int64_t block_end) {
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
      .last = og_round_up(hi - origin, panel),
      .end = hi - origin,
      .is_first = is_first,
      .is_last = block_end == unit->kv_end,
  };
}

// Steps of the tile functions' loops.
static int64_t tile_step_count(const og_runner *r, const tile_work *t) {
  const int64_t panel = r->tiles->panel;
  if (t->end == 0) return 0;
  return (t->last - t->first) / panel * r->args->dim_qk +
         og_round_up(r->args->dim_vo, panel) / panel * (t->end - t->first);
}

static void nearby_lines(const og_runner *r, nearby *near, int64_t k,
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
static void lines_ask(const og_runner *r, int64_t calls, int64_t k,
                      nearby *near, upcoming *next, line_list *lines) {
  lines->count = lines->used = 0;
  nearby_lines(r, near, calls * k, lines);
  upcoming_lines(r, next, calls * k, lines);
  lines->part = (lines->count + calls - 1) / calls;
}

static og_prefetch lines_take(line_list *lines) {
  const int64_t left = lines->count - lines->used;
  const og_prefetch taken = {
      .at = lines->at + lines->used,
      .count = left < lines->part ? left : lines->part,
  };
  lines->used += taken.count;
  return taken;
}

static void tile_run(const og_runner *r, og_worker *s, const og_plan_unit *unit,
                     int32_t head, const tile_work *t, nearby *near,
                     upcoming *next) {
  const og_attention_kernels *tiles = r->tiles;
  const int64_t panel = tiles->panel, half = panel / 2, dim = r->args->dim_qk;
  const int64_t width = tiles->is_bf16 ? 2 : 4;
  const int64_t key_bytes = og_round_up(dim, tiles->is_bf16 ? 2 : 1) * width;
  const int64_t i0 = t->i0, first = t->first;
  const char *q = s->q + i0 * s->q_stride * width;
  line_list lines;
  lines_ask(r, (t->last - first) / panel, dim, near, next, &lines);
  for (int64_t c = first; c < t->last; c += panel) {
    const og_prefetch ahead = lines_take(&lines);
    (t->end - c > half ? tiles->tile : tiles->half_tile)(
        t->rows, q, s->q_stride, s->keys + c * key_bytes, dim, s->s + c, BLOCK,
        0, &ahead);
  }
  const int64_t n = og_round_up(t->end - first, half);
  og_softmax_rows rows;
  for (int64_t i = 0; i < t->rows; ++i)
    og_softmax_row_fill(r, &rows, i, unit, unit->row_begin + i0 + i, head,
                        t->origin + first, t->origin + t->end);
  og_softmax_run(r, s, unit, &rows, t->rows, i0, s->s + first,
                 tiles->is_bf16 ? s->p + first : NULL, BLOCK, n);
  const void *weights = tiles->is_bf16 ? (const void *)(s->p + first)
                                       : (const void *)(s->s + first);
  const int64_t dim_vo = r->args->dim_vo;
  lines_ask(r, og_round_up(dim_vo, panel) / panel, t->end - first, near, next,
            &lines);
  for (int64_t d = 0; d < dim_vo; d += panel) {
    const og_prefetch ahead = lines_take(&lines);
    (dim_vo - d > half ? tiles->tile : tiles->half_tile)(
        t->rows, weights, BLOCK,
        s->values + (d * BLOCK + first * panel) * width, t->end - first,
        s->o + i0 * s->o_stride + d, s->o_stride, !t->is_first, &ahead);
  }
}

// Tile k of a unit against a block.
static tile_work tile_at(const og_runner *r, const og_plan_unit *unit,
                         int64_t k, int64_t origin, int64_t block_end) {
  const int64_t i0 = k > 0 ? tile_end(r, unit, k - 1) : 0;
  return tile_of(r, unit, i0, tile_end(r, unit, k) - i0, origin, block_end);
}

static nearby nearby_of(const og_runner *r, const og_plan_unit *unit,
                        int32_t head, const tile_work *t, int64_t k,
                        int is_first, const upcoming *next) {
  const og_attention_args *a = r->args;
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t row = unit->row_begin + t->i0, end = row + t->rows;
  nearby near = {.steps = tile_step_count(r, t)};
  if (t->is_last && unit->slot < 0)
    near.results = row_walk_of(r, og_result_of(r, request, row, head), row,
                               t->rows, a->out_row, a->out_head);
  if (k + 1 < tile_count(r, unit) && is_first)
    near.queries = row_walk_of(r, og_query_of(r, request, end, head), end,
                               unit->row_begin + tile_end(r, unit, k + 1) - end,
                               a->q_row, a->q_head);
  else if (k + 1 == tile_count(r, unit) && next->row_begin < next->row_end)
    near.queries = row_walk_of(
        r, og_query_of(r, next->request, next->row_begin, next->head),
        next->row_begin, next->row_end - next->row_begin, a->q_row, a->q_head);
  return near;
}

// Keys [origin, end) of a head; `next` is read after it.
static void block_run(const og_runner *r, og_worker *s,
                      const og_plan_unit *unit, int32_t head, int64_t origin,
                      int64_t end, upcoming next) {
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
      og_queries_load(r, s, request, unit->row_begin + t.i0, t.rows, head,
                      t.i0);
    if (t.end > 0) {
      nearby near = nearby_of(r, unit, head, &t, k, is_first, &next);
      tile_run(r, s, unit, head, &t, &near, &next);
    }
    if (is_last) og_results_store(r, s, unit, head, t.i0, t.i0 + t.rows, 0);
  }
}

static void packed_head(og_runner *r, og_worker *s, const og_plan_unit *unit,
                        int32_t head, int32_t head_end) {
  const og_plan_request *request = &r->view.requests[unit->request];
  const int64_t rows = unit->row_count, panel = r->tiles->panel;
  const int64_t block = og_block_keys(r->args);
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
  og_queries_load(r, s, request, unit->row_begin, rows, head, 0);
  og_results_store(r, s, unit, head, 0, rows, 0);
}

void og_packed_item(og_runner *r, const og_plan_unit *unit, int32_t head,
                    int32_t worker) {
  og_worker s = og_worker_of(r, worker, unit->row_count, 1);
  const int32_t head_end = og_heads_end(r, unit, head);
  for (int32_t h = head; h < head_end; ++h)
    packed_head(r, &s, unit, h, head_end);
}
