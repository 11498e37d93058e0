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

// Puts one buffer into the smallest gap that holds it; returns its end.
static int64_t place_one(og_buffer *const *placed, int32_t count,
                         og_buffer *buffer) {
  int64_t best = -1, best_gap = INT64_MAX, end = 0;
  for (int32_t i = 0; i < count; ++i) {
    const og_buffer *other = placed[i];
    if (!og_buffers_meet(other, buffer)) continue;
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

static void keep_sorted(og_buffer **placed, int32_t count, og_buffer *buffer) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (placed[middle]->offset <= buffer->offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(placed + low + 1, placed + low,
          (size_t)(count - low) * sizeof *placed);
  placed[low] = buffer;
}

static int64_t place_all(og_buffer **order, og_buffer **placed, int32_t count) {
  int64_t top = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t end = place_one(placed, i, order[i]);
    keep_sorted(placed, i, order[i]);
    if (end > top) top = end;
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

// One order: its offsets are kept in `best` where they need less.
static void try_order(og_buffer *buffers, og_buffer **order, og_buffer **placed,
                      int64_t *best, int32_t count,
                      int (*compare)(const void *, const void *),
                      int64_t *top) {
  for (int32_t i = 0; i < count; ++i) order[i] = &buffers[i];
  qsort(order, (size_t)count, sizeof *order, compare);
  const int64_t end = place_all(order, placed, count);
  if (end >= *top) return;
  *top = end;
  for (int32_t i = 0; i < count; ++i) best[i] = buffers[i].offset;
}

// Puts the buffer that reaches highest before all others and tries again: what
// an order had left for last finds no gap. As long as a plan may take.
static void improve(og_buffer *buffers, og_buffer **order, og_buffer **placed,
                    int64_t *best, int32_t count, int64_t bound, int64_t *top) {
  enum { WORK_MAX = 1 << 18, TRIES_MAX = 64 };
  const int64_t work = (int64_t)count * count;
  for (int32_t i = 0; i < count; ++i) order[i] = &buffers[i];
  qsort(order, (size_t)count, sizeof *order, by_size);
  for (int64_t t = 0; t < TRIES_MAX && t * work<WORK_MAX && * top> bound; ++t) {
    const int64_t end = place_all(order, placed, count);
    if (end < *top) {
      *top = end;
      for (int32_t i = 0; i < count; ++i) best[i] = buffers[i].offset;
    }
    int32_t highest = 0;
    while (order[highest]->offset + order[highest]->bytes < end) ++highest;
    og_buffer *moved = order[highest];
    memmove(order + 1, order, (size_t)highest * sizeof *order);
    order[0] = moved;
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
  og_buffer **pointers = og_alloc_zeroed(2 * n, sizeof *pointers);
  int64_t *best = og_alloc_zeroed(n + 2 * ((size_t)steps + 2), sizeof *best);
  og_status status = OG_OK;
  if (pointers == NULL || best == NULL) {
    status = og_graph_no_memory(error);
  } else {
    const int64_t bound = lower_bound(buffers, count, steps, lanes, best + n);
    int64_t top = INT64_MAX;
    for (size_t i = 0; i < sizeof orders / sizeof *orders && top > bound; ++i)
      try_order(buffers, pointers, pointers + n, best, count, orders[i], &top);
    improve(buffers, pointers, pointers + n, best, count, bound, &top);
    for (int32_t i = 0; i < count; ++i) buffers[i].offset = best[i];
    *out_bytes = (size_t)top;
    *out_lower_bound = (size_t)bound;
  }
  og_free(pointers);
  og_free(best);
  return status;
}
