// SPDX-License-Identifier: Apache-2.0
// Which memory tensors share, beside the set of their bytes.

#include "call/overlap.h"

#include "unit/test.h"
#include "unit/view_bytes.h"

enum { RANK = 4, BYTES = 8192, CASES = 40000 };

typedef struct view {
  og_tensor tensor;
  int64_t shape[RANK];
  int64_t strides[RANK];
} view;

// Addresses only: nothing is read or written.
static char memory[BYTES];

static uint64_t state = 1;
static int64_t draw(int64_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((state >> 33) % (uint64_t)below);
}

static void view_init(view *v, int32_t rank, int64_t item) {
  v->tensor = (og_tensor){.device = {OG_CPU, 0},
                          .ndim = rank,
                          .dtype = {OG_CODE_UINT, (uint8_t)(8 * item), 1},
                          .data = memory + BYTES / 2,
                          .shape = v->shape,
                          .strides = v->strides};
}

// Any sizes and strides, at any byte.
static void view_scatter(view *v) {
  static const int64_t items[] = {1, 2, 4, 8, 16};
  const int64_t item = items[draw(5)];
  view_init(v, (int32_t)draw(RANK + 1), item);
  for (int32_t d = 0; d < v->tensor.ndim; ++d) {
    v->shape[d] = draw(24) == 0 ? 0 : 1 + draw(4);
    v->strides[d] = (draw(41) - 20) / (draw(3) == 0 ? 8 : 1);
  }
  v->tensor.byte_offset = (uint64_t)draw(64);
}

// What slices, steps, transposes and expands make of one storage.
static void view_slice(view *v, const int64_t *sizes, int32_t rank) {
  view_init(v, rank, 4);
  int64_t dense = 1, offset = 0;
  for (int32_t d = rank - 1; d >= 0; --d) {
    const int64_t step = 1 + draw(2);
    const int64_t begin = draw(sizes[d]);
    const int64_t end = begin + draw(sizes[d] - begin) + 1;
    v->shape[d] = (end - begin + step - 1) / step;
    v->strides[d] = dense * step;
    offset += begin * dense;
    dense *= sizes[d];
    if (v->shape[d] == 1 && draw(6) == 0) {
      v->shape[d] = 1 + draw(3);
      v->strides[d] = 0;
    }
  }
  for (int32_t d = rank - 1; d > 0; --d) {
    const int32_t with = (int32_t)draw(d + 1);
    const int64_t size = v->shape[d], stride = v->strides[d];
    v->shape[d] = v->shape[with];
    v->strides[d] = v->strides[with];
    v->shape[with] = size;
    v->strides[with] = stride;
  }
  v->tensor.byte_offset = (uint64_t)offset * 4;
}

static int32_t seen[4];  // answers

static bool pair_agrees(const view *a, const view *b) {
  uint8_t in_a[BYTES] = {0}, in_b[BYTES] = {0};
  const int32_t most_a = view_bytes_count(&a->tensor, memory, in_a);
  view_bytes_count(&b->tensor, memory, in_b);
  og_overlap wanted = OG_OVERLAP_NONE;
  int64_t low = BYTES, high = 0;
  for (int64_t i = 0; i < BYTES; ++i) {
    if (in_a[i] && in_b[i]) wanted = OG_OVERLAP_PART;
    if (in_a[i] && i < low) low = i;
    if (in_a[i]) high = i + 1;
  }
  if (view_is_same(&a->tensor, &b->tensor)) wanted = OG_OVERLAP_SAME;
  ++seen[wanted];
  og_span span;
  bool agrees = CHECK_EQ(og_overlap_between(&a->tensor, &b->tensor), wanted) &&
                CHECK_EQ(og_overlap_between(&b->tensor, &a->tensor), wanted) &&
                CHECK_EQ(og_overlap_within(&a->tensor),
                         most_a > 1 ? OG_OVERLAP_PART : OG_OVERLAP_NONE) &&
                CHECK(og_span_get(&a->tensor, &span));
  if (most_a > 0)
    agrees = agrees &&
             CHECK_EQ((int64_t)(span.low - (uint64_t)(uintptr_t)memory), low) &&
             CHECK_EQ((int64_t)(span.high - (uint64_t)(uintptr_t)memory), high);
  else
    agrees = agrees && CHECK(span.low == span.high);
  return agrees;
}

TEST(any_strides_beside_sets_of_bytes) {
  memset(seen, 0, sizeof seen);
  for (int32_t i = 0; i < CASES; ++i) {
    view a, b;
    view_scatter(&a);
    view_scatter(&b);
    if (!pair_agrees(&a, &b)) return;
  }
  CHECK(seen[OG_OVERLAP_NONE] > CASES / 5);
  CHECK(seen[OG_OVERLAP_PART] > CASES / 5);
}

TEST(slices_beside_sets_of_bytes) {
  memset(seen, 0, sizeof seen);
  for (int32_t i = 0; i < CASES; ++i) {
    int64_t sizes[RANK];
    const int32_t rank = 1 + (int32_t)draw(RANK);
    for (int32_t d = 0; d < rank; ++d) sizes[d] = 1 + draw(4);
    view a, b;
    view_slice(&a, sizes, rank);
    view_slice(&b, sizes, rank);
    if (!pair_agrees(&a, &b)) return;
  }
  for (int32_t k = OG_OVERLAP_NONE; k <= OG_OVERLAP_PART; ++k)
    CHECK(seen[k] > CASES / 20);
}

TEST(rows_without_strides) {
  view a, b;
  view_init(&a, 2, 4);
  view_init(&b, 2, 4);
  a.shape[0] = b.shape[0] = 3;
  a.shape[1] = b.shape[1] = 5;
  a.tensor.strides = NULL;
  b.strides[0] = 5;
  b.strides[1] = 1;
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_SAME);
  CHECK_EQ(og_overlap_within(&a.tensor), OG_OVERLAP_NONE);
  b.tensor.byte_offset = 59;
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_PART);
  b.tensor.byte_offset = 60;
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_NONE);
  b.tensor.data = NULL;
  b.tensor.byte_offset = 0;
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_NONE);
}

// A paged cache's keys and values, as large as they come: ranges cross, no byte
// is shared.
TEST(halves_of_a_large_cache) {
  view k, v;
  view_init(&k, 4, 2);
  const int64_t pages = INT64_C(1) << 24, half = 16 * 8 * 128;
  const int64_t shape[RANK] = {pages, 16, 8, 128};
  const int64_t strides[RANK] = {2 * half, 8 * 128, 128, 1};
  memcpy(k.shape, shape, sizeof shape);
  memcpy(k.strides, strides, sizeof strides);
  v = k;
  v.tensor.shape = v.shape;
  v.tensor.strides = v.strides;
  v.tensor.byte_offset = (uint64_t)half * 2;
  CHECK_EQ(og_overlap_between(&k.tensor, &v.tensor), OG_OVERLAP_NONE);
  v.tensor.byte_offset -= 2;
  CHECK_EQ(og_overlap_between(&k.tensor, &v.tensor), OG_OVERLAP_PART);
  CHECK_EQ(og_overlap_within(&k.tensor), OG_OVERLAP_NONE);
}

// What is not decided within the work that is allowed, or has no address, is
// never said to be apart.
TEST(what_is_too_much_is_undecided) {
  view a, b;
  view_init(&a, 4, 8);
  const int64_t sizes[RANK] = {40000, 40000, 40000, 40000};
  const int64_t odd[RANK] = {INT64_C(2) * 100003, INT64_C(2) * 100019,
                             INT64_C(2) * 100043, INT64_C(2) * 100049};
  memcpy(a.shape, sizes, sizeof sizes);
  memcpy(a.strides, odd, sizeof odd);
  b = a;
  b.tensor.shape = b.shape;
  b.tensor.strides = b.strides;
  b.tensor.byte_offset = 8 * 3;  // no sum of even strides is odd
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_NONE);
  b.strides[3] = INT64_MAX / 16;
  CHECK_EQ(og_overlap_between(&a.tensor, &b.tensor), OG_OVERLAP_UNDECIDED);
  og_span span;
  CHECK(!og_span_get(&b.tensor, &span));
}

TEST_MAIN("call_overlap", CASE_NO_FAULTS(any_strides_beside_sets_of_bytes),
          CASE_NO_FAULTS(slices_beside_sets_of_bytes),
          CASE(rows_without_strides), CASE(halves_of_a_large_cache),
          CASE(what_is_too_much_is_undecided))
