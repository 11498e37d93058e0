// SPDX-License-Identifier: Apache-2.0
// The timed steps of a trace: how long one took, and whose the gaps between
// its compiled regions are.
//
// The gap after a region belongs to the break that ended the region's frame;
// where that frame has none, to the frame of the entry that was not compiled,
// and else to the break before. So a plain Python call between two regions is
// charged to what put it there.

#include "trace/gaps.h"

#include <stdlib.h>
#include <string.h>

// One sample: `group` (a root, or an entry) in one run.
typedef struct sample {
  int32_t group;
  int64_t run;
  double ns;
} sample;

typedef struct samples {
  sample *at;
  int32_t count;
  int32_t capacity;
} samples;

static bool sample_add(samples *all, int32_t group, int64_t run, double ns) {
  if (all->count == all->capacity) {
    if (all->capacity > INT32_MAX / 2) return false;
    const int32_t capacity = all->capacity > 0 ? all->capacity * 2 : 64;
    size_t bytes;
    if (!og_size_mul((size_t)capacity, sizeof(sample), &bytes)) return false;
    sample *at = og_realloc(all->at, bytes);
    if (at == NULL) return false;
    all->at = at;
    all->capacity = capacity;
  }
  all->at[all->count++] = (sample){group, run, ns};
  return true;
}

static int by_run(const void *a, const void *b) {
  const sample *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x->run < y->run ? -1 : x->run > y->run;
}

static int by_time(const void *a, const void *b) {
  const sample *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x->ns < y->ns ? -1 : x->ns > y->ns;
}

// Adds up the samples of one group and run, then sorts each group by time.
static void samples_fold(samples *all) {
  if (all->count == 0) return;
  qsort(all->at, (size_t)all->count, sizeof(sample), by_run);
  int32_t kept = 0;
  for (int32_t i = 1; i < all->count; ++i) {
    if (by_run(&all->at[kept], &all->at[i]) == 0)
      all->at[kept].ns += all->at[i].ns;
    else
      all->at[++kept] = all->at[i];
  }
  all->count = kept + 1;
  qsort(all->at, (size_t)all->count, sizeof(sample), by_time);
}

static int32_t group_end(const samples *all, int32_t begin) {
  int32_t end = begin;
  while (end < all->count && all->at[end].group == all->at[begin].group) ++end;
  return end;
}

static og_spread spread_of(const sample *at, int32_t count) {
  return (og_spread){
      .median = count % 2 != 0 ? at[count / 2].ns
                               : (at[count / 2 - 1].ns + at[count / 2].ns) / 2,
      .low = at[count / 4].ns,
      .high = at[count - 1 - count / 4].ns,
      .count = count,
  };
}

// --- The verdict -------------------------------------------------------------

// One step is a call of each entry. Each entry was timed as often as its share
// of the time allowed, so that runs of two entries do not pair up: what is
// added are their medians and quartiles.
static bool step_times(const og_trace *trace, const char *mode,
                       og_spread *out_spread) {
  samples all = {0};
  bool is_done = true;
  for (int32_t i = 0; is_done && i < og_trace_step_count(trace); ++i) {
    const og_trace_step *step = og_trace_step_at(trace, i);
    if (strcmp(step->mode, mode) == 0)
      is_done = sample_add(&all, (int32_t)(step->entry & INT32_MAX), step->run,
                           (double)step->ns);
  }
  samples_fold(&all);
  for (int32_t i = 0, end; is_done && i < all.count; i = end) {
    end = group_end(&all, i);
    const og_spread one = spread_of(all.at + i, end - i);
    out_spread->median += one.median;
    out_spread->low += one.low;
    out_spread->high += one.high;
    if (i == 0 || one.count < out_spread->count) out_spread->count = one.count;
  }
  og_free(all.at);
  return is_done;
}

// --- Gaps --------------------------------------------------------------------

// The root that an entry's time belongs to before its first region ends: that
// of a frame of the entry that has no graph.
static int32_t outer_root(const og_joined *joined, const og_places *places,
                          int64_t entry, bool *out_is_skipped) {
  const og_trace *trace = joined->trace;
  int32_t found = -1;
  *out_is_skipped = false;
  for (int32_t i = 0; i < og_trace_frame_count(trace); ++i) {
    const og_trace_frame *frame = og_trace_frame_at(trace, i);
    const int32_t root = places->root_of_frame[i];
    if (frame->entry != entry || root < 0 || frame->after != 0) continue;
    if (strcmp(frame->outcome, "compiled") != 0) {
      *out_is_skipped = true;
      return root;
    }
    if (!places->has_graph[i] && found < 0) found = root;
  }
  return found;
}

static int32_t root_after(const og_joined *joined, const og_places *places,
                          int64_t graph_id) {
  const int32_t graph = og_id_find(&places->graphs, graph_id);
  if (graph < 0) return -1;
  const int32_t frame = og_id_find(
      &places->frames, og_trace_graph_at(joined->trace, graph)->frame);
  const int32_t root = frame >= 0 ? places->root_of_frame[frame] : -1;
  if (root >= 0 && strcmp(joined->root[root].stage, "recompile") == 0)
    return -1;
  return root;
}

// One marked step, whose marks begin at *at; moves *at past them.
static bool step_gaps(const og_joined *joined, const og_places *places,
                      const og_trace_step *step, int32_t *at, samples *out) {
  const og_trace *trace = joined->trace;
  bool is_skipped;
  const int32_t outer = outer_root(joined, places, step->entry, &is_skipped);
  int32_t charged = outer;
  double cursor = 0;
  bool is_done = true;
  for (; is_done && *at < og_trace_mark_count(trace); ++*at) {
    const og_trace_mark *mark = og_trace_mark_at(trace, *at);
    if (mark->entry != step->entry || mark->run != step->run) break;
    if (charged >= 0)
      is_done =
          sample_add(out, charged, step->run, (double)mark->begin - cursor);
    cursor = (double)mark->end;
    const int32_t root = root_after(joined, places, mark->graph);
    if (root >= 0)
      charged = root;
    else if (is_skipped)
      charged = outer;
  }
  if (is_done && charged >= 0)
    is_done =
        sample_add(out, charged, step->run, (double)step->forward_ns - cursor);
  return is_done;
}

static bool spent_read(const og_joined *joined, samples *out) {
  const og_trace *trace = joined->trace;
  for (int32_t i = 0; i < og_trace_spent_count(trace); ++i) {
    const og_trace_spent *spent = og_trace_spent_at(trace, i);
    for (int32_t r = 0; r < joined->root_count; ++r) {
      const og_root *root = &joined->root[r];
      if (root->cause->line != spent->line ||
          strcmp(root->cause->file, spent->file) != 0 ||
          strcmp(root->cause->operator_, spent->what) != 0)
        continue;
      if (!sample_add(out, r, 0, (double)spent->ns)) return false;
    }
  }
  return true;
}

bool og_gaps_read(og_joined *joined, const og_places *places) {
  const og_trace *trace = joined->trace;
  samples all = {0};
  int32_t mark = 0;
  bool is_done = step_times(trace, "eager", &joined->eager_ns) &&
                 step_times(trace, "compiled", &joined->compiled_ns);
  // The marks of a step stand before it, in the order of the steps.
  for (int32_t i = 0; is_done && i < og_trace_step_count(trace); ++i) {
    const og_trace_step *step = og_trace_step_at(trace, i);
    if (strcmp(step->mode, "marked") == 0)
      is_done = step_gaps(joined, places, step, &mark, &all);
  }
  is_done = is_done && spent_read(joined, &all);
  samples_fold(&all);
  for (int32_t i = 0, end; is_done && i < all.count; i = end) {
    end = group_end(&all, i);
    joined->root[all.at[i].group].steady_ns = spread_of(all.at + i, end - i);
  }
  og_free(all.at);
  return is_done;
}
