// SPDX-License-Identifier: Apache-2.0
// The race detector: vector clocks, and the accesses that later ones may still
// conflict with.
//
// Invariants: clock[c].at[c] counts what context c was given; another context's
// clock has it where c's work up to there comes before. An access is kept until
// every later one is ordered with it, or another kept one conflicts with
// whatever it conflicts with.

#include "npu_race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct access_record {
  npu_range range;
  uint64_t epoch;  // clock[context].at[context] when it was given
  int32_t context;
  bool is_write;
  char what[NPU_WHAT];
} access_record;

struct npu_race {
  npu_clock clock[NPU_CONTEXTS];
  bool is_used[NPU_CONTEXTS];
  access_record *records;
  size_t count, capacity;
};

// --- Ranges ------------------------------------------------------------------

npu_range npu_range_bytes(const void *address, size_t size_bytes) {
  const uintptr_t begin = (uintptr_t)address;
  return (npu_range){
      .begin = begin, .end = begin + size_bytes, .element_bytes = size_bytes};
}

npu_ends npu_ends_tensor(const og_tensor *tensor) {
  const int64_t element = (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  const uintptr_t first = (uintptr_t)tensor->data + tensor->byte_offset;
  npu_ends ends = {first, first + (uintptr_t)element};
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (tensor->shape[d] == 0) return (npu_ends){first, first};
    const int64_t reach = (tensor->shape[d] - 1) * tensor->strides[d] * element;
    if (reach < 0)
      ends.begin += (uintptr_t)reach;
    else
      ends.end += (uintptr_t)reach;
  }
  return ends;
}

// Adds an outer dim. Runs that touch are one; without room for the dim the
// range is all that lies between its ends.
static void range_add(npu_range *range, int64_t size, int64_t step_bytes) {
  if (step_bytes < 0) {
    step_bytes = -step_bytes;
    range->begin -= (uintptr_t)((size - 1) * step_bytes);
    range->end -= (uintptr_t)((size - 1) * step_bytes);
  }
  const bool is_run =
      range->rank == 0 && step_bytes == (int64_t)range->element_bytes;
  range->end += (uintptr_t)((size - 1) * step_bytes);
  if (is_run || range->rank == NPU_RANK) {
    range->element_bytes = range->end - range->begin;
    range->rank = 0;
    return;
  }
  range->size[range->rank] = size;
  range->step_bytes[range->rank++] = step_bytes;
}

npu_range npu_range_tensor(const og_tensor *tensor) {
  const int64_t element = (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  const char *first = (const char *)tensor->data + tensor->byte_offset;
  npu_range range = npu_range_bytes(first, (size_t)element);
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] == 0) return npu_range_bytes(first, 0);
  for (int32_t d = tensor->ndim - 1; d >= 0; --d)
    if (tensor->shape[d] > 1 && tensor->strides[d] != 0)
      range_add(&range, tensor->shape[d], tensor->strides[d] * element);
  return range;
}

// The bytes that the innermost `rank` dims span.
static uintptr_t range_span(const npu_range *range, int32_t rank) {
  int64_t span = (int64_t)range->element_bytes;
  for (int32_t d = 0; d < rank; ++d)
    span += (range->size[d] - 1) * range->step_bytes[d];
  return (uintptr_t)span;
}

// Whether the innermost `rank` dims of the range, from `at` on, touch bytes of
// [begin, end) that belong to `other`; NULL: all do.
static bool part_meets(const npu_range *range, int32_t rank, uintptr_t at,
                       uintptr_t begin, uintptr_t end, const npu_range *other) {
  if (at >= end || at + range_span(range, rank) <= begin) return false;
  if (rank == 0)
    return other == NULL || part_meets(other, other->rank, other->begin, at,
                                       at + range->element_bytes, NULL);
  const int32_t d = rank - 1;
  for (int64_t i = 0; i < range->size[d]; ++i) {
    const uintptr_t next = at + (uintptr_t)(i * range->step_bytes[d]);
    if (next >= end) break;
    if (part_meets(range, d, next, begin, end, other)) return true;
  }
  return false;
}

bool npu_range_meets(const npu_range *a, const npu_range *b) {
  if (a->begin == a->end || b->begin == b->end) return false;
  return part_meets(a, a->rank, a->begin, b->begin, b->end, b);
}

// Whether a later access that meets `b` also meets `a`.
static bool range_covers(const npu_range *a, const npu_range *b) {
  return a->rank == 0 && a->begin <= b->begin && b->end <= a->end;
}

// --- Clocks ------------------------------------------------------------------

npu_race *npu_race_create(void) {
  npu_race *race = calloc(1, sizeof *race);
  if (race == NULL) return NULL;
  race->is_used[NPU_HOST] = true;
  for (int32_t c = 0; c < NPU_CONTEXTS; ++c) race->clock[c].at[c] = 1;
  return race;
}

void npu_race_destroy(npu_race *race) {
  if (race == NULL) return;
  free(race->records);
  free(race);
}

void npu_race_order(npu_race *race, int32_t context, const npu_clock *clock) {
  uint64_t *own = race->clock[context].at;
  for (int32_t c = 0; c < NPU_CONTEXTS; ++c)
    if (clock->at[c] > own[c]) own[c] = clock->at[c];
}

const npu_clock *npu_race_clock(const npu_race *race, int32_t context) {
  return &race->clock[context];
}

void npu_race_tick(npu_race *race, int32_t context) {
  ++race->clock[context].at[context];
}

void npu_race_give(npu_race *race, int32_t context) {
  npu_race_tick(race, context);
  npu_race_order(race, context, &race->clock[NPU_HOST]);
  ++race->clock[NPU_HOST].at[NPU_HOST];
}

int32_t npu_race_begin(npu_race *race) {
  for (int32_t c = NPU_HOST + 1; c < NPU_CONTEXTS; ++c) {
    if (race->is_used[c]) continue;
    race->is_used[c] = true;
    npu_race_give(race, c);
    return c;
  }
  return -1;
}

void npu_race_end(npu_race *race, int32_t context) {
  npu_race_order(race, NPU_HOST, &race->clock[context]);
  race->is_used[context] = false;
}

// --- Accesses ----------------------------------------------------------------

static bool is_before(const npu_race *race, const access_record *record,
                      int32_t context) {
  return record->epoch <= race->clock[context].at[record->context];
}

static void record_drop(npu_race *race, size_t index) {
  race->records[index] = race->records[--race->count];
}

void npu_race_forget(npu_race *race, const npu_range *range) {
  for (size_t i = race->count; i-- > 0;) {
    const access_record *record = &race->records[i];
    if (range == NULL ? is_before(race, record, NPU_HOST)
                      : npu_range_meets(&record->range, range))
      record_drop(race, i);
  }
}

static bool record_add(npu_race *race, const access_record *record) {
  if (race->count == race->capacity) {
    const size_t capacity = race->capacity * 2 + 64;
    access_record *grown =
        realloc(race->records, capacity * sizeof *race->records);
    if (grown == NULL) return false;
    race->records = grown;
    race->capacity = capacity;
  }
  race->records[race->count++] = *record;
  return true;
}

static void conflict_tell(const access_record *first,
                          const access_record *second, char *text,
                          size_t size) {
  const char *wish =
      second->context == NPU_HOST
          ? "wait for the first before the second"
          : "record an event behind the first and let the second's stream wait";
  snprintf(text, size, "race: %s, and %s, are not ordered; %s", first->what,
           second->what, wish);
}

bool npu_race_access(npu_race *race, int32_t context, const npu_range *range,
                     bool is_write, const char *what, char *text, size_t size) {
  access_record now = {.range = *range,
                       .epoch = race->clock[context].at[context],
                       .context = context,
                       .is_write = is_write};
  bool is_race = false;
  snprintf(now.what, sizeof now.what, "%s", what);
  for (size_t i = race->count; i-- > 0;) {
    const access_record *old = &race->records[i];
    if (!npu_range_meets(&old->range, range)) continue;
    const bool is_ordered = is_before(race, old, context);
    if (!is_ordered && (old->is_write || is_write) && !is_race) {
      conflict_tell(old, &now, text, size);
      is_race = true;
    }
    if (is_ordered && (is_write || !old->is_write) &&
        range_covers(range, &old->range))
      record_drop(race, i);
  }
  if (!record_add(race, &now) && !is_race) {
    snprintf(text, size,
             "the race detector has no memory: accesses from here on are not "
             "looked at");
    return true;
  }
  return is_race;
}
