// SPDX-License-Identifier: Apache-2.0
// Inputs that a graph writes share memory with no other input.
//
// The passes and the plan take each input for storage of its own. A call whose
// inputs are not is refused before anything is bound to be written.
//
// Invariant: nothing is looked at while every input is where it was when it
// was last found apart. Otherwise ranges are sorted, nearly in order from the
// call before, and only ranges that cross are decided exactly.

#include "exec/replay/apart.h"

#include <opgraft/graph_file.h>
#include <stdlib.h>

#include "call/overlap.h"

enum { FEW = 16 };  // moves that an insertion sort is quick for

typedef struct input_span {
  og_span span;
  uint64_t reach;     // the highest end of this and the spans before it
  int64_t low, high;  // from the input's first element, in bytes
  int32_t input;
  bool is_written;
  bool repeats;  // overlaps itself, or may
} input_span;

struct og_apart {
  input_span *spans;  // by address
  int32_t count;
};

// --- Making ------------------------------------------------------------------

static void span_fill(const og_plan *plan, int32_t input, bool is_written,
                      input_span *out) {
  // Any address: only the distances from it are kept.
  static const uint64_t middle = UINT64_C(1) << 62;
  og_tensor tensor = plan->tensors[plan->graph->inputs[input].value];
  tensor.data = (void *)(uintptr_t)middle;
  tensor.byte_offset = 0;
  og_span span;
  *out = (input_span){.input = input, .is_written = is_written};
  out->repeats = !og_span_get(&tensor, &span) ||
                 (is_written && og_overlap_within(&tensor) != OG_OVERLAP_NONE);
  if (span.low == span.high) return;
  out->low = (int64_t)(span.low - middle);
  out->high = (int64_t)(span.high - middle);
}

og_status og_apart_make(og_instance *instance, opgraft_error *error) {
  const og_plan *plan = instance->entry->plan;
  const opgraft_graph *graph = plan->graph;
  const size_t count = (size_t)graph->input_count + 1;
  uint8_t *written = og_arena_array(&instance->memory, count, sizeof *written);
  if (written == NULL) return og_graph_no_memory(error);
  opgraft_graph_written(graph, written);
  int32_t written_count = 0;
  for (int32_t i = 0; i < graph->input_count; ++i) written_count += written[i];
  if (written_count == 0) return OG_OK;
  og_apart *apart = og_arena_array(&instance->memory, 1, sizeof *apart);
  if (apart == NULL) return og_graph_no_memory(error);
  apart->spans = og_arena_array(&instance->memory, count, sizeof *apart->spans);
  if (apart->spans == NULL) return og_graph_no_memory(error);
  for (int32_t i = 0; i < graph->input_count; ++i)
    if (graph->inputs[i].value >= 0)
      span_fill(plan, i, written[i] != 0, &apart->spans[apart->count++]);
  instance->apart = apart;
  return OG_OK;
}

// --- Checking ----------------------------------------------------------------

static int span_compare(const void *a, const void *b) {
  const uint64_t low_a = ((const input_span *)a)->span.low;
  const uint64_t low_b = ((const input_span *)b)->span.low;
  return (low_a > low_b) - (low_a < low_b);
}

static void spans_sort(og_apart *apart, int32_t moves) {
  input_span *spans = apart->spans;
  if (moves > FEW) {
    qsort(spans, (size_t)apart->count, sizeof *spans, span_compare);
    return;
  }
  for (int32_t i = 1; i < apart->count; ++i) {
    if (spans[i - 1].span.low <= spans[i].span.low) continue;
    const input_span moved = spans[i];
    int32_t at = i;
    for (; at > 0 && spans[at - 1].span.low > moved.span.low; --at)
      spans[at] = spans[at - 1];
    spans[at] = moved;
  }
}

static const char *input_name(const opgraft_graph *graph, int32_t input) {
  const char *name = graph->inputs[input].name;
  return name != NULL ? name : "unnamed";
}

static og_status pair_check(const opgraft_graph *graph, const input_span *a,
                            const input_span *b, const og_tensor *const *in,
                            opgraft_error *error) {
  if (!a->is_written && !b->is_written) return OG_OK;
  if (!og_spans_cross(a->span, b->span)) return OG_OK;
  const og_overlap found = og_overlap_between(in[a->input], in[b->input]);
  if (found == OG_OVERLAP_NONE) return OG_OK;
  const input_span *written = a->is_written ? a : b;
  const input_span *other = a->is_written ? b : a;
  return og_error_set(
      error, OG_INVALID, NULL, input_name(graph, written->input),
      "graph %s: input %d (%s) is written and %s input %d (%s); clone() one of "
      "them before the call",
      graph->name, (int)written->input, input_name(graph, written->input),
      found == OG_OVERLAP_SAME   ? "is the same memory as"
      : found == OG_OVERLAP_PART ? "overlaps"
                                 : "may overlap (it takes too long to decide)",
      (int)other->input, input_name(graph, other->input));
}

static og_status spans_check(const opgraft_graph *graph, og_apart *apart,
                             const og_tensor *const *in, opgraft_error *error) {
  input_span *spans = apart->spans;
  uint64_t reach = 0;
  for (int32_t i = 0; i < apart->count; ++i) {
    for (int32_t k = i - 1; k >= 0 && spans[k].reach > spans[i].span.low; --k)
      OG_TRY(pair_check(graph, &spans[k], &spans[i], in, error));
    if (spans[i].span.high > reach) reach = spans[i].span.high;
    spans[i].reach = reach;
  }
  return OG_OK;
}

og_status og_apart_check(const og_instance *instance,
                         const og_tensor *const *in, int32_t moves,
                         opgraft_error *error) {
  const opgraft_graph *graph = instance->entry->plan->graph;
  og_apart *apart = instance->apart;
  for (int32_t i = 0; i < apart->count; ++i) {
    input_span *s = &apart->spans[i];
    if (s->repeats)
      return og_error_set(
          error, OG_INVALID, NULL, input_name(graph, s->input),
          "graph %s: input %d (%s) is written, and several of its elements lie "
          "at the same address; clone() it before the call",
          graph->name, (int)s->input, input_name(graph, s->input));
    const uint64_t first = (uint64_t)(uintptr_t)og_data(in[s->input]);
    s->span = (og_span){first + (uint64_t)s->low, first + (uint64_t)s->high};
  }
  spans_sort(apart, moves);
  return spans_check(graph, apart, in, error);
}
