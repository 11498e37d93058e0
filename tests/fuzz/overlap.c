// SPDX-License-Identifier: Apache-2.0
// Any bytes as two views: what src/call/overlap.c says of the memory that they
// share.
//
// Small views lie in one block, and the answer is that of the set of their
// bytes. Views of few elements lie anywhere in 2^64 bytes, at any strides: the
// answer is that of their elements' addresses, or "undecided". Views of any
// sizes must not contradict themselves.

#include "call/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz/bytes.h"
#include "unit/view_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SMALL, FEW, ANY, KINDS };
enum { RANK = 6, BYTES = 1 << 14, ELEMENTS_MAX = 1 << 10 };

__extension__ typedef __int128 wide;

typedef struct view {
  og_tensor tensor;
  int64_t shape[RANK];
  int64_t strides[RANK];
} view;

static char memory[BYTES];  // addresses only: nothing is read or written

static void require(bool holds) {
  if (!holds) abort();
}

// --- Bytes to views ----------------------------------------------------------

static int64_t stride_take(bytes *in, uint32_t kind) {
  return kind == SMALL ? (int64_t)take(in, 41) - 20 : take_int(in);
}

static int64_t size_take(bytes *in, uint32_t kind) {
  if (kind != ANY) return take(in, kind == SMALL ? 5 : 4);
  const int64_t size = take_int(in);
  return size < 0 ? -(size + 1) : size;
}

static void view_take(bytes *in, uint32_t kind, view *v) {
  const uint8_t bits = (uint8_t)(8u << take(in, 5));
  int64_t elements = 1;
  *v = (view){.tensor = {.device = {OG_CPU, 0},
                         .ndim = (int32_t)take(in, kind == FEW ? 4 : RANK + 1),
                         .dtype = {OG_CODE_UINT, bits, 1}}};
  v->tensor.shape = v->shape;
  v->tensor.strides = v->strides;
  for (int32_t d = 0; d < v->tensor.ndim; ++d) {
    v->shape[d] = size_take(in, kind);
    v->strides[d] = stride_take(in, kind);
    if (kind == SMALL && elements * v->shape[d] > ELEMENTS_MAX) v->shape[d] = 1;
    elements = kind == SMALL ? elements * v->shape[d] : 1;
  }
  v->tensor.data = kind == SMALL
                       ? memory + BYTES / 2
                       : (void *)(uintptr_t)((uint64_t)take_int(in) & ~63ull);
  v->tensor.byte_offset = take(in, 64);
}

// --- Small views -------------------------------------------------------------

static void small_check(const view *a, const view *b) {
  uint8_t in_a[BYTES] = {0}, in_b[BYTES] = {0};
  const bool repeats = view_bytes_count(&a->tensor, memory, in_a) > 1;
  view_bytes_count(&b->tensor, memory, in_b);
  og_overlap wanted = OG_OVERLAP_NONE;
  for (int32_t i = 0; i < BYTES; ++i)
    if (in_a[i] && in_b[i]) wanted = OG_OVERLAP_PART;
  if (view_is_same(&a->tensor, &b->tensor)) wanted = OG_OVERLAP_SAME;
  require(og_overlap_between(&a->tensor, &b->tensor) == wanted);
  require(og_overlap_within(&a->tensor) ==
          (repeats ? OG_OVERLAP_PART : OG_OVERLAP_NONE));
}

// --- Few elements ------------------------------------------------------------

enum { FEW_MAX = 27 };

// False where an element leaves the 2^64 bytes.
static bool addresses_list(const view *v, wide *out, int32_t *out_count) {
  const og_tensor *t = &v->tensor;
  const wide item = (wide)og_dtype_bytes(t->dtype);
  const wide top = (wide)1 << 64;
  *out_count = t->data != NULL ? (int32_t)og_numel(t) : 0;
  for (int32_t i = 0; i < *out_count; ++i) {
    wide at = (wide)(uintptr_t)og_data(t);
    int64_t index = i;
    for (int32_t d = t->ndim - 1; d >= 0; index /= t->shape[d--])
      at += (wide)(index % t->shape[d]) * t->strides[d] * item;
    if (at < 0 || at + item > top) return false;
    out[i] = at;
  }
  return true;
}

static void few_check(const view *a, const view *b) {
  wide at_a[FEW_MAX], at_b[FEW_MAX];
  int32_t count_a, count_b;
  const og_overlap found = og_overlap_between(&a->tensor, &b->tensor);
  const og_overlap within = og_overlap_within(&a->tensor);
  if (!addresses_list(a, at_a, &count_a) || !addresses_list(b, at_b, &count_b))
    return;
  const wide item_a = (wide)og_dtype_bytes(a->tensor.dtype);
  const wide item_b = (wide)og_dtype_bytes(b->tensor.dtype);
  bool meets = false, repeats = false;
  for (int32_t i = 0; i < count_a; ++i) {
    for (int32_t k = 0; k < count_b; ++k)
      meets |= at_a[i] < at_b[k] + item_b && at_b[k] < at_a[i] + item_a;
    for (int32_t k = 0; k < i; ++k)
      repeats |= at_a[i] < at_a[k] + item_a && at_a[k] < at_a[i] + item_a;
  }
  require(found == OG_OVERLAP_UNDECIDED || meets == (found != OG_OVERLAP_NONE));
  require(within == OG_OVERLAP_UNDECIDED ||
          repeats == (within != OG_OVERLAP_NONE));
}

// --- Any two -----------------------------------------------------------------

static void any_check(const view *a, const view *b) {
  og_span span;
  const og_overlap one = og_overlap_between(&a->tensor, &b->tensor);
  const og_overlap other = og_overlap_between(&b->tensor, &a->tensor);
  const og_overlap self = og_overlap_between(&a->tensor, &a->tensor);
  require(one == other || one == OG_OVERLAP_UNDECIDED ||
          other == OG_OVERLAP_UNDECIDED);
  require(self != OG_OVERLAP_PART);
  og_overlap_within(&a->tensor);
  if (og_span_get(&a->tensor, &span)) require(span.low <= span.high);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes in = {data, size};
  view a, b;
  const uint32_t kind = take(&in, KINDS);
  view_take(&in, kind, &a);
  view_take(&in, kind, &b);
  if (kind == SMALL) small_check(&a, &b);
  if (kind == FEW) few_check(&a, &b);
  any_check(&a, &b);
  return 0;
}
