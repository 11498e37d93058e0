// SPDX-License-Identifier: Apache-2.0
// Sets of elements as bits: a dim of n elements and step s adds its shifts by
// s to the set, which takes log2(n) passes.

#include "plan/layout.h"

#include <string.h>

#include "base/memory.h"
#include "base/text.h"

// One bit an element: 256 MB of bits.
enum { BITS_MAX_LOG2 = 31 };

bool og_layout_extent(const og_tensor *tensor, int64_t offset, int64_t *out_low,
                      int64_t *out_high) {
  const int64_t item = (int64_t)og_dtype_bytes(tensor->dtype);
  const int64_t most = OG_LAYOUT_ELEMENTS_MAX / (item > 0 ? item : 1);
  int64_t low = offset, high = offset, elements = 1;
  bool is_empty = false;
  *out_low = *out_high = 0;
  if (offset > most || offset < -most) return false;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const int64_t size = tensor->shape[d], stride = tensor->strides[d];
    int64_t reach;
    // Strides of dims with one element move nothing, but kernels scale them.
    if (size < 0 || stride > most || stride < -most) return false;
    is_empty |= size == 0;
    if (size <= 1) continue;
    if (!og_i64_mul(elements, size, &elements) || elements > most ||
        !og_i64_mul(size - 1, stride, &reach) || reach > most || reach < -most)
      return false;
    *(reach < 0 ? &low : &high) += reach;
  }
  if (low < -most || high >= most) return false;
  if (is_empty) return true;
  *out_low = low;
  *out_high = high + 1;
  return true;
}

static int64_t magnitude(int64_t stride) {
  return stride < 0 ? -stride : stride;
}

// Each stride is longer than all that the smaller ones reach. Not so does not
// mean an overlap: [2, 3] with the strides {2, 3}.
static bool is_nested(const og_tensor *tensor) {
  int64_t strides[OPGRAFT_RANK_MAX], reaches[OPGRAFT_RANK_MAX], below = 0;
  int32_t count = 0;
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    if (tensor->shape[d] <= 1) continue;
    const int64_t stride = magnitude(tensor->strides[d]);
    int32_t at = count++;
    for (; at > 0 && strides[at - 1] > stride; --at) {
      strides[at] = strides[at - 1];
      reaches[at] = reaches[at - 1];
    }
    strides[at] = stride;
    reaches[at] = (tensor->shape[d] - 1) * stride;
  }
  for (int32_t i = 0; i < count; below += reaches[i++])
    if (strides[i] <= below) return false;
  return true;
}

// --- Sets --------------------------------------------------------------------

typedef struct bits {
  uint64_t *words;
  int64_t count;  // of words
} bits;

static og_status bits_init(bits *set, int64_t elements, opgraft_error *error) {
  *set = (bits){.count = elements / 64 + 1};
  if (elements <= (int64_t)1 << BITS_MAX_LOG2)
    set->words = og_alloc_zeroed((size_t)set->count, sizeof *set->words);
  if (set->words != NULL) return OG_OK;
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "a layout over %lld elements is too large to check",
                      (long long)elements);
}

// set |= set << distance, from the end, so that no bit moves twice.
static void bits_shift_in(bits *set, int64_t distance) {
  const int64_t words = distance / 64;
  const int rest = (int)(distance % 64);
  for (int64_t i = set->count - 1; i >= words; --i) {
    uint64_t moved = set->words[i - words] << rest;
    if (rest > 0 && i > words)
      moved |= set->words[i - words - 1] >> (64 - rest);
    set->words[i] |= moved;
  }
}

// Sets the elements of a tensor that is not empty; `first` is the bit of its
// lowest one.
static void bits_fill(bits *set, const og_tensor *tensor, int64_t first) {
  set->words[first / 64] |= (uint64_t)1 << (first % 64);
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    const int64_t stride = magnitude(tensor->strides[d]);
    const int64_t size = tensor->shape[d];
    int64_t done = 1;
    if (stride == 0) continue;
    for (; done * 2 <= size; done *= 2) bits_shift_in(set, done * stride);
    if (done < size) bits_shift_in(set, (size - done) * stride);
  }
}

static int64_t bits_count(const bits *set) {
  int64_t count = 0;
  for (int64_t i = 0; i < set->count; ++i)
    for (uint64_t word = set->words[i]; word != 0; word &= word - 1) ++count;
  return count;
}

og_status og_layout_overlaps(const og_tensor *tensor, bool *out_overlaps,
                             opgraft_error *error) {
  int64_t low, high;
  bits set;
  const int64_t elements = og_numel(tensor);
  *out_overlaps = false;
  if (elements == 0 || is_nested(tensor)) return OG_OK;
  *out_overlaps = true;
  if (!og_layout_extent(tensor, 0, &low, &high) || high - low < elements)
    return OG_OK;
  OG_TRY(bits_init(&set, high - low, error));
  bits_fill(&set, tensor, 0);
  *out_overlaps = bits_count(&set) != elements;
  og_free(set.words);
  return OG_OK;
}

og_status og_layout_covers(const og_tensor *whole, int64_t whole_offset,
                           const og_tensor *part, int64_t part_offset,
                           bool *out_covers, opgraft_error *error) {
  int64_t low, high, part_low, part_high;
  bits set, touched;
  *out_covers = og_numel(part) == 0;
  if (*out_covers || !og_layout_extent(whole, whole_offset, &low, &high) ||
      !og_layout_extent(part, part_offset, &part_low, &part_high) ||
      part_low < low || part_high > high)
    return OG_OK;
  // Without gaps the extent says all.
  *out_covers = high - low == og_numel(whole) && is_nested(whole);
  if (*out_covers) return OG_OK;
  OG_TRY(bits_init(&set, high - low, error));
  const og_status status = bits_init(&touched, high - low, error);
  if (status == OG_OK) {
    bits_fill(&set, whole, 0);
    bits_fill(&touched, part, part_low - low);
    *out_covers = true;
    for (int64_t i = 0; i < set.count; ++i)
      *out_covers &= (touched.words[i] & ~set.words[i]) == 0;
    og_free(touched.words);
  }
  og_free(set.words);
  return status;
}
