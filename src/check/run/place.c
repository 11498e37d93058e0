// SPDX-License-Identifier: Apache-2.0
// A tensor in guarded memory: an argument or result of a run.

#include "check/run/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { GAP = 0xc7, OFFSET_ITEMS = 3 };

// --- Layouts -----------------------------------------------------------------

// Dims in any order in memory, with gaps unless they are to be packed.
static void loose_strides(og_placed *p, og_stride_rule rule, bool is_packed,
                          og_random *r) {
  const int32_t rank = p->tensor.ndim;
  int32_t axis[OG_SAMPLE_RANK];
  for (int32_t d = 0; d < rank; ++d) axis[d] = d;
  for (int32_t d = rank - 1; d > 0 && rule == OG_STRIDES_ANY; --d) {
    const int32_t j = (int32_t)og_random_below(r, d + 1);
    const int32_t held = axis[d];
    axis[d] = axis[j];
    axis[j] = held;
  }
  int64_t step =
      rule == OG_STRIDES_ANY && !is_packed ? og_random_between(r, 1, 2) : 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    p->strides[axis[d]] = step;
    step = step * (p->shape[axis[d]] > 0 ? p->shape[axis[d]] : 1) +
           (is_packed ? 0 : og_random_between(r, 0, 3));
  }
}

void og_placed_lay(og_placed *p, const og_mode *mode, og_stride_rule rule,
                   int32_t expanded, og_random *r) {
  og_row_major(p->shape, p->tensor.ndim, p->strides);
  if (mode->layout == OG_LAYOUT_STRIDED && rule != OG_STRIDES_CONTIGUOUS)
    loose_strides(p, rule, mode->is_packed, r);
  if (mode->layout == OG_LAYOUT_EXPANDED && expanded >= 0)
    p->strides[expanded] = 0;
  for (int32_t d = 0; mode->layout == OG_LAYOUT_LOOSE && d < p->tensor.ndim;
       ++d)
    if (p->shape[d] == 1 && (rule != OG_STRIDES_LAST || d + 1 < p->tensor.ndim))
      p->strides[d] = 1000003;
}

// --- Memory ------------------------------------------------------------------

static int64_t span_of(const og_placed *p) {
  int64_t last = 0;
  for (int32_t d = 0; d < p->tensor.ndim; ++d) {
    if (p->shape[d] == 0) return 0;
    last += (p->shape[d] - 1) * p->strides[d];
  }
  return last + 1;
}

bool og_placed_put(og_placed *p, const og_mode *mode) {
  const size_t item = og_dtype_bytes(p->tensor.dtype);
  const size_t bytes = (size_t)span_of(p) * item;
  p->buffer =
      og_guard_create(bytes, item, mode->is_left, p->role, p->index, p->entry);
  if (p->buffer == NULL) return false;
  // With an offset, `data` itself lies on the unreadable page.
  p->tensor.byte_offset = mode->has_offset ? OFFSET_ITEMS * item : 0;
  p->tensor.data = p->buffer->data - p->tensor.byte_offset;
  memset(p->buffer->data, GAP, bytes);
  return true;
}

bool og_placed_keep(og_placed *p) {
  if (p->buffer->bytes == 0) return true;
  p->before = malloc(p->buffer->bytes);
  if (p->before == NULL) return false;
  memcpy(p->before, p->buffer->data, p->buffer->bytes);
  return true;
}

// --- Elements ----------------------------------------------------------------

// Calls `visit` with the byte offset of each element, in row-major order.
typedef void (*visit_fn)(void *state, int64_t element, size_t offset);

static void visit_elements(const og_placed *p, visit_fn visit, void *state) {
  int64_t at[OG_SAMPLE_RANK] = {0};
  const size_t item = og_dtype_bytes(p->tensor.dtype);
  const int64_t count = og_numel(&p->tensor);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int32_t d = 0; d < p->tensor.ndim; ++d)
      offset += at[d] * p->strides[d];
    visit(state, i, (size_t)offset * item);
    for (int32_t d = p->tensor.ndim - 1; d >= 0; --d) {
      if (++at[d] < p->shape[d]) break;
      at[d] = 0;
    }
  }
}

typedef struct transfer {
  char *memory;
  char *to;          // dense elements
  const char *from;  // the same
  size_t item;
  uint16_t poison;
} transfer;

static void store_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  memcpy(t->memory + offset, t->from + (size_t)element * t->item, t->item);
}
static void load_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  memcpy(t->to + (size_t)element * t->item, t->memory + offset, t->item);
}
static void fill_element(void *state, int64_t element, size_t offset) {
  const transfer *t = state;
  (void)element;
  og_poison(t->memory + offset, t->item, t->poison);
}

void og_placed_store(const og_placed *p, const char *dense) {
  transfer t = {.memory = p->buffer->data,
                .from = dense,
                .item = og_dtype_bytes(p->tensor.dtype)};
  visit_elements(p, store_element, &t);
}

void og_placed_load(const og_placed *p, char *dense) {
  transfer t = {.memory = p->buffer->data,
                .to = dense,
                .item = og_dtype_bytes(p->tensor.dtype)};
  visit_elements(p, load_element, &t);
}

void og_placed_fill(const og_placed *p, char *memory, uint16_t poison) {
  transfer t = {.memory = memory,
                .item = og_dtype_bytes(p->tensor.dtype),
                .poison = poison};
  visit_elements(p, fill_element, &t);
}

// --- Afterwards --------------------------------------------------------------

void og_placed_give(og_placed *p, const og_tensor *given) {
  p->given = *given;
  const size_t bytes = (size_t)given->ndim * sizeof(int64_t);
  memcpy(p->given_sizes, given->shape, bytes);
  memcpy(p->given_sizes + OG_SAMPLE_RANK, given->strides, bytes);
}

bool og_placed_is_given(const og_placed *p, const og_tensor *now) {
  const size_t bytes = (size_t)p->given.ndim * sizeof(int64_t);
  return memcmp(now, &p->given, sizeof *now) == 0 &&
         memcmp(now->shape, p->given_sizes, bytes) == 0 &&
         memcmp(now->strides, p->given_sizes + OG_SAMPLE_RANK, bytes) == 0;
}

int64_t og_placed_stray(const og_placed *p) {
  const size_t bytes = p->buffer->bytes;
  char *now = p->before != NULL ? malloc(bytes) : NULL;
  if (now == NULL) return -1;
  memcpy(now, p->buffer->data, bytes);
  if (p->role != OG_ROLE_INPUT) {  // its elements may change
    og_placed_fill(p, p->before, 0);
    og_placed_fill(p, now, 0);
  }
  size_t at = 0;
  while (at < bytes && now[at] == p->before[at]) ++at;
  free(now);
  return at < bytes ? (int64_t)at : -1;
}
