// SPDX-License-Identifier: Apache-2.0
// Reference sorting along a dim: stable, NaN above every number. top-k is the
// first k of it.

#include <string.h>

#include "exec/step/operands.h"

typedef struct entry {
  double real;
  int64_t whole;
  int64_t index;
} entry;

typedef struct sort {
  og_operands io;
  og_lines lines;  // operand, values, indices
  bool is_real, descending;
  int64_t kept;
  entry *entries;  // one line, and as much to merge into
} sort;

// Whether a stands before b in rising order.
static bool is_below(const sort *s, const entry *a, const entry *b) {
  if (!s->is_real) return a->whole < b->whole;
  if (a->real != a->real) return false;
  return b->real != b->real || a->real < b->real;
}

static bool is_first(const sort *s, const entry *a, const entry *b) {
  return s->descending ? !is_below(s, a, b) : !is_below(s, b, a);
}

// Merge sort from the bottom; the result is in `entries`.
static void line_sort(const sort *s, int64_t n) {
  entry *from = s->entries, *to = s->entries + n;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = begin + run < n ? begin + run : n;
      const int64_t end = begin + 2 * run < n ? begin + 2 * run : n;
      int64_t i = begin, j = middle;
      for (int64_t k = begin; k < end; ++k) {
        const bool left =
            i < middle && (j == end || is_first(s, &from[i], &from[j]));
        to[k] = left ? from[i++] : from[j++];
      }
    }
    entry *swap = from;
    from = to;
    to = swap;
  }
  if (from != s->entries) memcpy(s->entries, from, (size_t)n * sizeof *from);
}

static og_status run_sort(void *state, const og_run *run) {
  const sort *s = state;
  const og_tensor *in = s->io.in[0];
  const int64_t n = s->lines.length[0];
  (void)run;
  for (int64_t line = 0; line < s->lines.count; ++line) {
    int64_t offset[OG_NEST_OPERANDS];
    og_nest_point(&s->lines.nest, line, offset);
    for (int64_t i = 0; i < n; ++i) {
      const char *at = og_bytes(in) + offset[0] + i * s->lines.stride_bytes[0];
      s->entries[i] = (entry){.index = i};
      if (s->is_real)
        s->entries[i].real = og_element_double(in->dtype, at);
      else
        s->entries[i].whole = og_element_int(in->dtype, at);
    }
    line_sort(s, n);
    for (int64_t i = 0; i < s->kept; ++i) {
      char *value =
          og_bytes(s->io.out[0]) + offset[1] + i * s->lines.stride_bytes[1];
      if (s->is_real)
        og_element_set_double(in->dtype, value, s->entries[i].real);
      else
        og_element_set_int(in->dtype, value, s->entries[i].whole);
      og_element_set_int(
          s->io.out[1]->dtype,
          og_bytes(s->io.out[1]) + offset[2] + i * s->lines.stride_bytes[2],
          s->entries[i].index);
    }
  }
  return OG_OK;
}

static og_status sort_prepare(og_prep *prep, int64_t default_descending) {
  const og_tensor *tensors[3] = {prep->in[0], prep->out[0], prep->out[1]};
  int64_t descending;
  int32_t dim;
  sort *s = og_state_begin(prep, sizeof *s, run_sort);
  if (s == NULL) return OG_MEMORY;
  if (!tensors[0] || !tensors[1] || !tensors[2] ||
      !og_dtype_equal(tensors[0]->dtype, tensors[1]->dtype) ||
      og_dtype_class(tensors[0]->dtype) == OG_CLASS_NONE)
    return og_prep_wrong(prep,
                         "it gives values of its operand's type, and "
                         "indices");
  OG_TRY(og_need_int(prep, tensors[2]));
  OG_TRY(og_prep_dim(prep, 0, tensors[0]->ndim, &dim));
  OG_TRY(og_prep_int(prep, 1, default_descending, &descending));
  s->descending = descending != 0;
  s->is_real = og_is_float(tensors[0]);
  if (!og_lines_init(&s->lines, dim, tensors, 3) ||
      s->lines.length[1] != s->lines.length[2] ||
      s->lines.length[1] > s->lines.length[0])
    return og_prep_misfit(prep);
  s->kept = s->lines.length[1];
  og_prep_work(prep, og_numel(tensors[0]), 64);  // log2 of any length
  size_t bytes;
  if (!og_size_mul((size_t)s->lines.length[0], 2 * sizeof(entry), &bytes))
    return og_prep_memory(prep);
  s->entries = og_prep_scratch(prep, bytes);
  return s->entries != NULL ? OG_OK : og_prep_memory(prep);
}

og_status og_prepare_sort(og_prep *prep) { return sort_prepare(prep, 0); }
og_status og_prepare_topk(og_prep *prep) { return sort_prepare(prep, 1); }
