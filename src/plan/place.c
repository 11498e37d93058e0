// SPDX-License-Identifier: Apache-2.0
// Offsets of buffers with known lifetimes.
//
// Invariant: in `placed`, buffers stand by rising offset.

#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

static int by_size(const void *x, const void *y) {
  const og_buffer *a = *(og_buffer *const *)x, *b = *(og_buffer *const *)y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a->first > b->first) - (a->first < b->first);
}

static int by_time(const void *x, const void *y) {
  const og_buffer *a = *(og_buffer *const *)x, *b = *(og_buffer *const *)y;
  if (a->first != b->first) return a->first > b->first ? 1 : -1;
  return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static int by_area(const void *x, const void *y) {
  const og_buffer *a = *(og_buffer *const *)x, *b = *(og_buffer *const *)y;
  const double p = (double)a->bytes * (a->last - a->first + 1);
  const double q = (double)b->bytes * (b->last - b->first + 1);
  if (p != q) return p < q ? 1 : -1;
  return (a->first > b->first) - (a->first < b->first);
}

typedef struct span {
  int32_t first, last;
} span;

// One attempt after the other works in the same memory.
typedef struct placer {
  og_buffer *buffers;
  int32_t count;
  og_buffer **order;
  const og_buffer **placed;
  span *spans;  // when those are alive
  const og_buffer **met;
  int64_t *best;  // offsets of the attempt that needs least
  int64_t top;    // what that one needs
} placer;

// Those of the first `count` that are alive together with the buffer. All pairs
// come by here, so there is no branch, and little memory to look at.
static int32_t met_find(const placer *p, int32_t count,
                        const og_buffer *buffer) {
  int32_t met = 0;
  for (int32_t i = 0; buffer->section == 0 && i < count; ++i) {
    p->met[met] = p->placed[i];
    met += (p->spans[i].first <= buffer->last) &
           (p->spans[i].last >= buffer->first);
  }
  for (int32_t i = 0; buffer->section > 0 && i < count; ++i) {
    p->met[met] = p->placed[i];
    met += og_buffers_meet(p->placed[i], buffer);
  }
  return met;
}

// Puts one buffer into the smallest gap that holds it among the first `count`
// that are placed; returns its end.
static int64_t place_one(const placer *p, int32_t count, og_buffer *buffer) {
  int64_t best = -1, best_gap = INT64_MAX, end = 0;
  const int32_t met_count = met_find(p, count, buffer);
  for (int32_t i = 0; i < met_count; ++i) {
    const og_buffer *other = p->met[i];
    const int64_t gap = other->offset - end;
    if (gap >= buffer->bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    if (other->offset + other->bytes > end) end = other->offset + other->bytes;
  }
  buffer->offset = best >= 0 ? best : end;
  return buffer->offset + buffer->bytes;
}

static void keep_sorted(const placer *p, int32_t count,
                        const og_buffer *buffer) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (p->placed[middle]->offset <= buffer->offset)
      low = middle + 1;
    else
      high = middle;
  }
  const size_t behind = (size_t)(count - low);
  memmove(p->placed + low + 1, p->placed + low, behind * sizeof *p->placed);
  memmove(p->spans + low + 1, p->spans + low, behind * sizeof *p->spans);
  p->placed[low] = buffer;
  p->spans[low] = (span){buffer->first, buffer->last};
}

// In the order that stands: what it needs. Its offsets are kept where that is
// less than before.
static int64_t place_all(placer *p) {
  int64_t top = 0;
  for (int32_t i = 0; i < p->count; ++i) {
    const int64_t end = place_one(p, i, p->order[i]);
    keep_sorted(p, i, p->order[i]);
    if (end > top) top = end;
  }
  if (top < p->top) {
    p->top = top;
    for (int32_t i = 0; i < p->count; ++i) p->best[i] = p->buffers[i].offset;
  }
  return top;
}

static void change_add(int64_t *change, const og_buffer *buffer) {
  change[buffer->first] += buffer->bytes;
  change[buffer->last + 1] -= buffer->bytes;
}

// What is alive while a section runs: what is so all the time, and the most of
// each lane's own.
static int64_t section_most(const og_section *section, const int64_t *live,
                            const int64_t *own) {
  int64_t sum = live[section->first] - own[section->first];
  for (int32_t l = 0, t = section->first; l < section->lane_count; ++l) {
    int64_t most = 0;
    for (; t < section->end[l]; ++t)
      if (own[t] > most) most = own[t];
    sum += most;
  }
  return sum;
}

// The most that is alive at once. `live` has 2 * (steps + 2) places.
static int64_t lower_bound(const og_buffer *buffers, int32_t count,
                           int32_t steps, const og_lanes *lanes,
                           int64_t *live) {
  int64_t *own = live + steps + 2, most = 0;
  for (int32_t i = 0; i < count; ++i) {
    change_add(live, &buffers[i]);
    if (buffers[i].section > 0) change_add(own, &buffers[i]);
  }
  for (int32_t t = 0; t <= steps; ++t) {
    if (t > 0) live[t] += live[t - 1];
    if (t > 0) own[t] += own[t - 1];
    if (live[t] > most) most = live[t];
  }
  for (int32_t s = 0; lanes != NULL && s < lanes->section_count; ++s) {
    const int64_t bytes = section_most(&lanes->sections[s], live, own);
    if (bytes > most) most = bytes;
  }
  return most;
}

static void order_by(placer *p, int (*compare)(const void *, const void *)) {
  for (int32_t i = 0; i < p->count; ++i) p->order[i] = &p->buffers[i];
  qsort(p->order, (size_t)p->count, sizeof *p->order, compare);
}

// Puts the buffer that reaches highest before all others and tries again: what
// an order had left for last finds no gap. As long as a plan may take.
// From one order it leads where it does not from another.
static void improve(placer *p, int (*compare)(const void *, const void *),
                    int64_t bound) {
  enum { WORK_MAX = (1 << 19) / 3, TRIES_MAX = 64 };
  const int64_t work = (int64_t)p->count * p->count;
  order_by(p, compare);
  for (int64_t t = 0; t < TRIES_MAX && t * work < WORK_MAX && p->top > bound;
       ++t) {
    const int64_t end = place_all(p);
    int32_t highest = 0;
    while (p->order[highest]->offset + p->order[highest]->bytes < end)
      ++highest;
    og_buffer *moved = p->order[highest];
    memmove(p->order + 1, p->order, (size_t)highest * sizeof *p->order);
    p->order[0] = moved;
  }
}

og_status og_buffers_place(og_buffer *buffers, int32_t count, int32_t steps,
                           const og_lanes *lanes, size_t *out_bytes,
                           size_t *out_lower_bound, opgraft_error *error) {
  static int (*const orders[])(const void *, const void *) = {by_size, by_area,
                                                              by_time};
  *out_bytes = *out_lower_bound = 0;
  if (count == 0) return OG_OK;
  const size_t n = (size_t)count;
  placer p = {.buffers = buffers, .count = count, .top = INT64_MAX};
  p.order = og_alloc_zeroed(n, sizeof *p.order);
  p.placed = og_alloc_zeroed(2 * n, sizeof *p.placed);
  p.spans = og_alloc_zeroed(n, sizeof *p.spans);
  p.best = og_alloc_zeroed(n + 2 * ((size_t)steps + 2), sizeof *p.best);
  og_status status = OG_OK;
  if (p.order == NULL || p.placed == NULL || p.spans == NULL ||
      p.best == NULL) {
    status = og_graph_no_memory(error);
  } else {
    const int64_t bound = lower_bound(buffers, count, steps, lanes, p.best + n);
    p.met = p.placed + n;
    const size_t order_count = sizeof orders / sizeof *orders;
    for (size_t i = 0; i < order_count && p.top > bound; ++i) {
      order_by(&p, orders[i]);
      place_all(&p);
    }
    for (size_t i = 0; i < order_count && p.top > bound; ++i)
      improve(&p, orders[i], bound);
    for (int32_t i = 0; i < count; ++i) buffers[i].offset = p.best[i];
    *out_bytes = (size_t)p.top;
    *out_lower_bound = (size_t)bound;
  }
  og_free(p.order);
  og_free(p.placed);
  og_free(p.spans);
  og_free(p.best);
  return status;
}
