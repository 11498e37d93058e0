// SPDX-License-Identifier: Apache-2.0
// Which memory tensors share: ranges, then layouts, then a search.
//
// Invariants of the search: every factor is positive, factors are distinct and
// descend, the last one is 1. Sums are below 2^61, so that nothing overflows.

#include "call/overlap.h"

#include <opgraft/opgraft.h>

enum { TERM_MAX = 2 * OPGRAFT_RANK_MAX + 2 };

static const int64_t sum_max = INT64_C(1) << 61;

// --- Layouts -----------------------------------------------------------------

// factor * i for 0 <= i <= most.
typedef struct term {
  int64_t factor, most;
} term;

// A tensor's addresses: low + the sum of its terms + a byte below `item`. Terms
// ascend; what lies end to end is one term or, at the start, one item.
typedef struct layout {
  uint64_t low;
  int64_t item;
  int64_t reach;  // sum of all terms at their most
  int32_t count;
  bool is_empty;
  bool repeats;  // a stride of 0
  term terms[OPGRAFT_RANK_MAX];
} layout;

static int64_t stride_at(const og_tensor *tensor, int32_t d, int64_t dense) {
  return tensor->strides != NULL ? tensor->strides[d] : dense;
}

static void terms_sort(layout *l) {
  for (int32_t i = 1; i < l->count; ++i) {
    const term moved = l->terms[i];
    int32_t at = i;
    for (; at > 0 && l->terms[at - 1].factor > moved.factor; --at)
      l->terms[at] = l->terms[at - 1];
    l->terms[at] = moved;
  }
}

static void terms_join(layout *l) {
  int32_t kept = 0;
  for (int32_t i = 0; i < l->count; ++i) {
    const term next = l->terms[i];
    term *last = kept > 0 ? &l->terms[kept - 1] : NULL;
    if (last == NULL && next.factor == l->item) {
      l->reach -= next.factor * next.most;
      l->item += next.factor * next.most;
    } else if (last != NULL && next.factor == last->factor * (last->most + 1)) {
      last->most = (next.most + 1) * (last->most + 1) - 1;
    } else {
      l->terms[kept++] = next;
    }
  }
  l->count = kept;
}

// False where an address overflows.
static bool layout_get(const og_tensor *tensor, layout *out) {
  const int64_t item = (int64_t)og_dtype_bytes(tensor->dtype);
  int64_t dense = 1;
  *out = (layout){.low = (uint64_t)(uintptr_t)og_data(tensor), .item = item};
  for (int32_t d = 0; d < tensor->ndim; ++d)
    out->is_empty |= tensor->shape[d] == 0;
  out->is_empty |= tensor->data == NULL;
  for (int32_t d = tensor->ndim - 1; !out->is_empty && d >= 0; --d) {
    const int64_t most = tensor->shape[d] - 1;
    int64_t step, part;
    if (__builtin_mul_overflow(stride_at(tensor, d, dense), item, &step) ||
        __builtin_mul_overflow(dense, tensor->shape[d], &dense))
      return false;
    if (most == 0) continue;
    if (step == 0) out->repeats = true;
    if (step == 0) continue;
    if (__builtin_mul_overflow(step, most, &part) || part <= -sum_max)
      return false;
    // A row that runs backwards is the same row begun at its end.
    if (step < 0) {
      if (out->low < (uint64_t)-part) return false;
      out->low += (uint64_t)part;
      step = -step;
      part = -part;
    }
    if (__builtin_add_overflow(out->reach, part, &out->reach) ||
        out->reach >= sum_max - item)
      return false;
    out->terms[out->count++] = (term){step, most};
  }
  if (out->low > UINT64_MAX - (uint64_t)(out->reach + item)) return false;
  terms_sort(out);
  terms_join(out);
  return true;
}

bool og_span_get(const og_tensor *tensor, og_span *out_span) {
  const int64_t item = (int64_t)og_dtype_bytes(tensor->dtype);
  int64_t dense = 1, below = 0, above = 0;
  const bool has_memory = tensor->data != NULL;
  *out_span = (og_span){0, 0};
  for (int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const int64_t most = tensor->shape[d] - 1;
    int64_t part;
    if (most < 0) return true;
    if (__builtin_mul_overflow(stride_at(tensor, d, dense), most, &part) ||
        __builtin_mul_overflow(dense, tensor->shape[d], &dense) ||
        __builtin_add_overflow(part < 0 ? below : above, part,
                               part < 0 ? &below : &above))
      return false;
  }
  if (!has_memory) return true;
  if (__builtin_mul_overflow(below, item, &below) ||
      __builtin_mul_overflow(above, item, &above))
    return false;
  const uint64_t first = (uint64_t)(uintptr_t)og_data(tensor);
  if (first < 0 - (uint64_t)below || first > UINT64_MAX - (uint64_t)item ||
      first + (uint64_t)item > UINT64_MAX - (uint64_t)above)
    return false;
  *out_span = (og_span){first + (uint64_t)below,
                        first + (uint64_t)above + (uint64_t)item};
  return true;
}

static bool is_same(const og_tensor *a, const og_tensor *b) {
  int64_t a_dense = 1, b_dense = 1;
  if (og_data(a) != og_data(b) || a->ndim != b->ndim ||
      og_dtype_bytes(a->dtype) != og_dtype_bytes(b->dtype))
    return false;
  for (int32_t d = a->ndim - 1; d >= 0; --d) {
    if (a->shape[d] != b->shape[d]) return false;
    if (a->shape[d] > 1 && stride_at(a, d, a_dense) != stride_at(b, d, b_dense))
      return false;
    a_dense *= a->shape[d];
    b_dense *= b->shape[d];
  }
  return true;
}

// --- The search --------------------------------------------------------------

// Whether the terms can sum up to a target.
typedef struct search {
  term terms[TERM_MAX];
  int64_t reach[TERM_MAX];    // of terms[i] and those after it
  int64_t divisor[TERM_MAX];  // of the factors from i on, but for the last
  int32_t count;
  int64_t work;  // branches that are left
} search;

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Keeps the terms in order of falling factors; equal factors become one term.
// False where the sum would overflow.
static bool term_add(search *s, int64_t factor, int64_t most) {
  int32_t at = s->count;
  while (at > 0 && s->terms[at - 1].factor < factor) --at;
  if (at > 0 && s->terms[at - 1].factor == factor)
    return !__builtin_add_overflow(s->terms[at - 1].most, most,
                                   &s->terms[at - 1].most);
  for (int32_t i = s->count; i > at; --i) s->terms[i] = s->terms[i - 1];
  s->terms[at] = (term){factor, most};
  ++s->count;
  return true;
}

// Fills reach and divisor. False where a sum would overflow.
static bool search_ready(search *s) {
  int64_t reach = 0;
  int64_t divisor = 0;
  for (int32_t i = s->count - 1; i >= 0; --i) {
    int64_t part;
    if (__builtin_mul_overflow(s->terms[i].factor, s->terms[i].most, &part) ||
        __builtin_add_overflow(reach, part, &reach) || reach >= sum_max)
      return false;
    if (i < s->count - 1)
      divisor = greatest_divisor(s->terms[i].factor, divisor);
    s->reach[i] = reach;
    s->divisor[i] = divisor;
  }
  return true;
}

// Whether terms[i] and those after it may still sum up to `target`: in range,
// and a multiple of their divisor apart from what the last term gives.
static bool may_sum(const search *s, int32_t i, int64_t target) {
  if (target < 0 || target > s->reach[i]) return false;
  if (s->divisor[i] == 0) return true;
  return target % s->divisor[i] <= s->terms[s->count - 1].most;
}

static og_overlap search_from(search *s, int32_t i, int64_t target) {
  if (!may_sum(s, i, target)) return OG_OVERLAP_NONE;
  // The last factor is 1: what is in range is a sum.
  if (i == s->count - 1) return OG_OVERLAP_PART;
  const term *t = &s->terms[i];
  const int64_t rest = s->reach[i + 1];
  const int64_t least =
      target > rest ? (target - rest + t->factor - 1) / t->factor : 0;
  const int64_t limit = target / t->factor;
  const int64_t most = limit < t->most ? limit : t->most;
  for (int64_t k = most; k >= least; --k) {
    if (--s->work < 0) return OG_OVERLAP_UNDECIDED;
    const og_overlap found = search_from(s, i + 1, target - k * t->factor);
    if (found != OG_OVERLAP_NONE) return found;
  }
  return OG_OVERLAP_NONE;
}

static og_overlap search_run(search *s, int64_t target) {
  s->work = OG_OVERLAP_WORK;
  if (!search_ready(s)) return OG_OVERLAP_UNDECIDED;
  return search_from(s, 0, target);
}

// --- Two tensors -------------------------------------------------------------

og_overlap og_overlap_between(const og_tensor *a, const og_tensor *b) {
  layout at_a, at_b;
  if (!layout_get(a, &at_a) || !layout_get(b, &at_b))
    return OG_OVERLAP_UNDECIDED;
  if (at_a.is_empty || at_b.is_empty) return OG_OVERLAP_NONE;
  const og_span in_a = {at_a.low,
                        at_a.low + (uint64_t)(at_a.reach + at_a.item)};
  const og_span in_b = {at_b.low,
                        at_b.low + (uint64_t)(at_b.reach + at_b.item)};
  if (!og_spans_cross(in_a, in_b)) return OG_OVERLAP_NONE;
  if (is_same(a, b)) return OG_OVERLAP_SAME;
  // a.low + sum(a) + byte = b.low + sum(b) + byte; an index of b counts from
  // its other end, so that every term stands on the left.
  search s = {.count = 0};
  bool fits = term_add(&s, 1, at_a.item - 1 + at_b.item - 1);
  for (int32_t i = 0; i < at_a.count; ++i)
    fits = fits && term_add(&s, at_a.terms[i].factor, at_a.terms[i].most);
  for (int32_t i = 0; i < at_b.count; ++i)
    fits = fits && term_add(&s, at_b.terms[i].factor, at_b.terms[i].most);
  if (!fits) return OG_OVERLAP_UNDECIDED;
  return search_run(
      &s, (int64_t)(at_b.low - at_a.low) + at_b.reach + at_b.item - 1);
}

int32_t opgraft_tensors_overlap(const og_tensor *a, const og_tensor *b) {
  return og_overlap_between(a, b) != OG_OVERLAP_NONE;
}

// --- One tensor --------------------------------------------------------------

// Whether two elements meet whose indices differ in dim `last` and, at most, in
// those of smaller strides: their difference sums up to less than an item.
static og_overlap differs_up_to(const layout *l, int32_t last) {
  search s = {.count = 0};
  int64_t target = l->item - 1 - l->terms[last].factor;
  bool fits = term_add(&s, 1, 2 * (l->item - 1)) &&
              term_add(&s, l->terms[last].factor, l->terms[last].most - 1);
  for (int32_t i = 0; i < last && fits; ++i) {
    fits = term_add(&s, l->terms[i].factor, 2 * l->terms[i].most);
    target += l->terms[i].factor * l->terms[i].most;
  }
  return fits ? search_run(&s, target) : OG_OVERLAP_UNDECIDED;
}

og_overlap og_overlap_within(const og_tensor *tensor) {
  layout l;
  if (!layout_get(tensor, &l)) return OG_OVERLAP_UNDECIDED;
  if (l.is_empty) return OG_OVERLAP_NONE;
  if (l.repeats) return OG_OVERLAP_PART;
  int64_t extent = l.item;
  og_overlap found = OG_OVERLAP_NONE;
  for (int32_t i = 0; i < l.count && found == OG_OVERLAP_NONE; ++i) {
    // A stride beyond all that the smaller ones reach keeps its rows apart.
    if (l.terms[i].factor < extent) found = differs_up_to(&l, i);
    extent += l.terms[i].factor * l.terms[i].most;
  }
  return found;
}
