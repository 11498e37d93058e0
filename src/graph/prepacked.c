// SPDX-License-Identifier: Apache-2.0
// Packed forms of weights in a graph file: the lines of their table.
//
// Invariant: a table is sorted, no two lines compare equal, and a line is to
// the letter what is printed of it.

#include "graph/prepacked.h"

#include <inttypes.h>
#include <string.h>

#define LINE_FORMAT                                                         \
  "# packed %s of %" PRId64 ": %" PRId64 " x %" PRId64 ", strides %" PRId64 \
  " %" PRId64 ", %" PRId64 " bytes\n"

static int by_number(int64_t a, int64_t b) { return (a > b) - (a < b); }

int og_prepacked_compare(const og_prepacked *a, const og_prepacked *b) {
  const int64_t x[] = {a->offset_bytes, a->n, a->k, a->n_stride, a->k_stride};
  const int64_t y[] = {b->offset_bytes, b->n, b->k, b->n_stride, b->k_stride};
  for (size_t i = 0; i < sizeof x / sizeof *x; ++i)
    if (x[i] != y[i]) return by_number(x[i], y[i]);
  return strcmp(a->form, b->form);
}

int64_t og_prepacked_align(int64_t offset_bytes) {
  return (offset_bytes + OG_PREPACKED_ALIGNMENT - 1) / OG_PREPACKED_ALIGNMENT *
         OG_PREPACKED_ALIGNMENT;
}

int64_t og_prepacked_bytes_of(const og_prepacked *packed, int32_t count) {
  int64_t end = 0;
  for (int32_t i = 0; i < count; ++i)
    end = og_prepacked_align(end) + packed[i].size_bytes;
  return end;
}

static void line_print(const og_prepacked *p, og_text *out) {
  og_text_addf(out, LINE_FORMAT, p->form, p->offset_bytes, p->n, p->k,
               p->n_stride, p->k_stride, p->size_bytes);
}

void og_prepacked_print(const og_prepacked *packed, int32_t count,
                        og_text *out) {
  for (int32_t i = 0; i < count; ++i) line_print(&packed[i], out);
}

// --- Reading -----------------------------------------------------------------

typedef struct scan {
  const char *at, *end;
} scan;

static bool word_take(scan *s, const char *word) {
  const size_t length = strlen(word);
  if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
    return false;
  s->at += length;
  return true;
}

static bool name_take(scan *s, char out[OG_PREPACKED_NAME]) {
  size_t length = 0;
  while (s->at + length < s->end && s->at[length] != ' ') ++length;
  if (length == 0 || length >= OG_PREPACKED_NAME) return false;
  for (size_t i = 0; i < length; ++i) {
    const char c = s->at[i];
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-')
      return false;
  }
  memcpy(out, s->at, length);
  out[length] = '\0';
  s->at += length;
  return true;
}

// A number that is not negative, as it is printed.
static bool number_take(scan *s, int64_t *out) {
  size_t length = 0;
  while (s->at + length < s->end && s->at[length] >= '0' &&
         s->at[length] <= '9')
    ++length;
  const bool is_printed = length == 1 || (length > 1 && *s->at != '0');
  if (!is_printed || !og_i64_parse(s->at, length, out)) return false;
  s->at += length;
  return true;
}

static bool line_take(scan *s, og_prepacked *out) {
  return word_take(s, "# packed ") && name_take(s, out->form) &&
         word_take(s, " of ") && number_take(s, &out->offset_bytes) &&
         word_take(s, ": ") && number_take(s, &out->n) && word_take(s, " x ") &&
         number_take(s, &out->k) && word_take(s, ", strides ") &&
         number_take(s, &out->n_stride) && word_take(s, " ") &&
         number_take(s, &out->k_stride) && word_take(s, ", ") &&
         number_take(s, &out->size_bytes) && word_take(s, " bytes\n");
}

static int32_t lines_count(const char *table, size_t table_bytes) {
  int64_t count = 0;
  for (size_t i = 0; i < table_bytes; ++i) count += table[i] == '\n';
  return count < INT32_MAX ? (int32_t)count : INT32_MAX;
}

bool og_prepacked_read(const char *table, size_t table_bytes, const char *bytes,
                       size_t size_bytes, og_arena *arena,
                       og_prepacked **out_packed, int32_t *out_count,
                       const char **out_wrong) {
  scan s = {table, table + table_bytes};
  const int32_t count = lines_count(table, table_bytes);
  og_prepacked *packed =
      og_arena_array(arena, (size_t)count + 1, sizeof *packed);
  size_t end = 0;
  *out_wrong = NULL;
  if (packed == NULL) return false;
  *out_wrong = "its table of packed weights";
  for (int32_t i = 0; i < count; ++i) {
    og_prepacked *p = &packed[i];
    if (!line_take(&s, p) ||
        (i > 0 && og_prepacked_compare(&packed[i - 1], p) >= 0))
      return false;
    end = (size_t)og_prepacked_align((int64_t)end);
    if (end > size_bytes || (uint64_t)p->size_bytes > size_bytes - end)
      return false;
    p->bytes = bytes + end;
    end += (size_t)p->size_bytes;
  }
  if (s.at != s.end || end != size_bytes) return false;
  *out_packed = packed;
  *out_count = count;
  return true;
}

const og_prepacked *og_prepacked_find(const opgraft_graph *graph,
                                      const og_prepacked *wanted) {
  int32_t begin = 0, end = graph->packed_count;
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    const og_prepacked *at = &graph->packed[middle];
    const int order = og_prepacked_compare(at, wanted);
    if (order == 0) return at->size_bytes == wanted->size_bytes ? at : NULL;
    if (order < 0)
      begin = middle + 1;
    else
      end = middle;
  }
  return NULL;
}
