// SPDX-License-Identifier: Apache-2.0
// Joins a trace: which root each frame and gap belongs to.
//
// Invariants: an index of -1 is "none"; frames and graphs are found by id
// through arrays that are sorted once.

#include "trace/join.h"

#include <stdlib.h>
#include <string.h>

#include "trace/gaps.h"

// --- Roots -------------------------------------------------------------------

static bool is_stage(const char *stage, const char *wanted) {
  return strcmp(stage, wanted) == 0;
}

// A frame that is skipped because of a break is the same root as the break;
// a function that recompiles is one root however its guards fail.
static const char *stage_group(const char *stage) {
  return is_stage(stage, "skip") ? "dynamo" : stage;
}

static bool is_same_root(const og_root *root, const og_trace_cause *cause) {
  if (root->cause->line != cause->line ||
      strcmp(root->cause->file, cause->file) != 0 ||
      !is_stage(stage_group(root->stage), stage_group(cause->stage)))
    return false;
  if (is_stage(cause->stage, "recompile")) return true;
  // One line of yours may call a library that breaks in many places.
  if (root->cause->at_line != cause->at_line ||
      strcmp(root->cause->at_file, cause->at_file) != 0)
    return false;
  return strcmp(root->id, cause->id) == 0 &&
         strcmp(root->cause->operator_, cause->operator_) == 0;
}

static int32_t root_find(const og_joined *joined, const og_trace_cause *cause) {
  for (int32_t i = 0; i < joined->root_count; ++i)
    if (is_same_root(&joined->root[i], cause)) return i;
  return -1;
}

// Leaving a frame eager is worse than splitting one. But where the break lies
// in a function that the skipped frame calls, that function is then compiled by
// itself, and the root does to it what happens there.
static void stage_add(og_root *root, const og_trace_cause *cause,
                      const og_trace_frame *frame) {
  const bool is_own =
      frame != NULL && strcmp(frame->name, cause->function) == 0;
  if (is_stage(cause->stage, "skip") && is_own) {
    root->is_frame_eager = true;
    root->stage = cause->stage;
  } else if (is_stage(cause->stage, "dynamo") && !root->is_frame_eager) {
    root->stage = cause->stage;
  }
}

// The array has room for every cause. `frame` is NULL where it has none.
static int32_t root_add(og_joined *joined, const og_trace_cause *cause,
                        const og_trace_frame *frame) {
  int32_t index = root_find(joined, cause);
  if (index < 0) {
    index = joined->root_count++;
    joined->root[index] = (og_root){.cause = cause,
                                    .stage = cause->stage,
                                    .id = cause->id,
                                    .guard = cause->guard};
  }
  og_root *root = &joined->root[index];
  ++root->hits;
  if (root->id[0] == '\0') root->id = cause->id;
  if (root->guard[0] == '\0') root->guard = cause->guard;
  stage_add(root, cause, frame);
  return index;
}

// --- Ids ---------------------------------------------------------------------

static int id_compare(const void *a, const void *b) {
  const og_id *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static bool ids_make(og_ids *ids, int32_t count) {
  ids->at = og_alloc_zeroed((size_t)count, sizeof *ids->at);
  ids->count = ids->at != NULL ? count : 0;
  return ids->at != NULL;
}

static bool ids_read(const og_trace *trace, og_places *places) {
  const int32_t frames = og_trace_frame_count(trace);
  const int32_t graphs = og_trace_graph_count(trace);
  if (!ids_make(&places->frames, frames) || !ids_make(&places->graphs, graphs))
    return false;
  for (int32_t i = 0; i < frames; ++i)
    places->frames.at[i] = (og_id){og_trace_frame_at(trace, i)->id, i};
  for (int32_t i = 0; i < graphs; ++i)
    places->graphs.at[i] = (og_id){og_trace_graph_at(trace, i)->id, i};
  qsort(places->frames.at, (size_t)frames, sizeof(og_id), id_compare);
  qsort(places->graphs.at, (size_t)graphs, sizeof(og_id), id_compare);
  return true;
}

// --- Causes to roots ---------------------------------------------------------

static bool splits(const og_trace_cause *cause) {
  return is_stage(cause->stage, "dynamo") || is_stage(cause->stage, "skip");
}

static void causes_read(og_joined *joined, og_places *places) {
  const og_trace *trace = joined->trace;
  for (int32_t i = 0; i < og_trace_cause_count(trace); ++i) {
    const og_trace_cause *cause = og_trace_cause_at(trace, i);
    const int32_t frame = og_id_find(&places->frames, cause->frame);
    const int32_t root = root_add(
        joined, cause, frame >= 0 ? og_trace_frame_at(trace, frame) : NULL);
    if (frame < 0) continue;
    places->explained[frame] = true;
    const bool is_again = is_stage(cause->stage, "recompile");
    if (is_again) places->recompile_of_frame[frame] = root;
    // A frame that is compiled again may break as well: its gaps are the
    // break's.
    if (splits(cause) || (is_again && places->root_of_frame[frame] < 0))
      places->root_of_frame[frame] = root;
  }
}

// --- Frames ------------------------------------------------------------------

// Dynamo's own counters have the last word: what they count as failed and no
// hook saw is unexplained.
static void counters_read(og_joined *joined, int64_t seen, int64_t failed) {
  const int32_t count = og_trace_counts_count(joined->trace);
  og_frames *frames = &joined->frames;
  if (count == 0) return;
  const og_trace_counts *counts = og_trace_counts_at(joined->trace, count - 1);
  int64_t lost, lost_ok;
  if (!og_i64_sub(counts->total, counts->ok, &lost) || counts->ok < 0 ||
      lost < 0)
    return;
  lost = lost > failed ? lost - failed : 0;
  lost_ok = counts->ok > seen - failed ? counts->ok - (seen - failed) : 0;
  frames->unexplained += lost;
  frames->compiled += lost_ok;
  frames->total += lost + lost_ok;
}

static void frames_read(og_joined *joined, const og_places *places) {
  const og_trace *trace = joined->trace;
  og_frames *frames = &joined->frames;
  int64_t failed = 0;
  for (int32_t i = 0; i < og_trace_frame_count(trace); ++i) {
    const og_trace_frame *frame = og_trace_frame_at(trace, i);
    joined->dynamo_ns += (double)frame->ns - (double)frame->backend_ns;
    if (!frame->is_counted) continue;
    ++frames->total;
    failed += strcmp(frame->outcome, "failed") == 0;
    if (strcmp(frame->outcome, "compiled") == 0)
      ++frames->compiled;
    else if (!places->explained[i] && !frame->is_between &&
             (frame->reason[0] == '\0' ||
              strcmp(frame->outcome, "failed") == 0))
      ++frames->unexplained;
  }
  counters_read(joined, frames->total, failed);
  frames->skipped = frames->total - frames->compiled;
}

// A failed guard costs the whole compile that followed, whatever else happened
// in it. A break costs the analysis that it threw away, and the frames that
// continue it; a frame that ends up not compiled was compiled for nothing.
static void cold_read(og_joined *joined, const og_places *places) {
  const og_trace *trace = joined->trace;
  for (int32_t i = 0; i < og_trace_frame_count(trace); ++i) {
    const og_trace_frame *frame = og_trace_frame_at(trace, i);
    const int32_t root = places->root_of_frame[i];
    const int32_t before = og_id_find(&places->frames, frame->after);
    const int32_t owner = before >= 0 ? places->root_of_frame[before] : -1;
    const int32_t again = places->recompile_of_frame[i];
    const bool is_wasted = strcmp(frame->outcome, "compiled") != 0;
    if (again >= 0)
      joined->root[again].cold_ns += (double)frame->ns;
    else if (owner >= 0)
      joined->root[owner].cold_ns += (double)frame->ns;
    else if (root >= 0)
      joined->root[root].cold_ns +=
          (double)(is_wasted ? frame->ns : frame->restart_ns);
  }
}

static void graphs_read(og_joined *joined, const og_places *places) {
  const og_trace *trace = joined->trace;
  joined->fx_count = og_trace_graph_count(trace);
  joined->backend_count = og_trace_lower_count(trace);
  for (int32_t i = 0; i < joined->fx_count; ++i) {
    const og_trace_graph *graph = og_trace_graph_at(trace, i);
    const int32_t frame = og_id_find(&places->frames, graph->frame);
    const int32_t root = frame >= 0 ? places->root_of_frame[frame] : -1;
    joined->backend_ns += (double)graph->ns;
    if (frame >= 0) places->has_graph[frame] = true;
    if (root < 0 || is_stage(joined->root[root].stage, "recompile")) continue;
    if (joined->root[root].boundary_bytes < (double)graph->boundary_bytes)
      joined->root[root].boundary_bytes = (double)graph->boundary_bytes;
  }
  for (int32_t i = 0; i < joined->backend_count; ++i) {
    joined->kernel_count += og_trace_lower_at(trace, i)->kernels;
    joined->extern_count += og_trace_lower_at(trace, i)->externs;
  }
  for (int32_t i = 0; i < og_trace_ops_count(trace); ++i) {
    joined->has_ops = true;
    joined->ops_inside += og_trace_ops_at(trace, i)->inside;
    joined->ops_outside += og_trace_ops_at(trace, i)->outside;
  }
}

static void hlo_read(og_joined *joined) {
  for (int32_t i = 0; i < og_trace_hlo_count(joined->trace); ++i) {
    const og_trace_hlo *line = og_trace_hlo_at(joined->trace, i);
    og_hlo *of = is_stage(line->mode, "compiled") ? &joined->compiled_hlo
                                                  : &joined->lazy_hlo;
    joined->has_hlo = true;
    of->graphs += line->graphs;
    of->fallbacks += line->fallbacks;
    joined->hlo_compiles += line->compiles;
    joined->hlo_compile_ns += (double)line->compile_ns;
  }
}

// --- Fixes -------------------------------------------------------------------

static int fix_rank(const og_trace_fix *fix) {
  static const char *const order[] = {"failed", "refuted", "proposed",
                                      "unverified", "verified"};
  for (int i = 0; i < 5; ++i)
    if (strcmp(fix->status, order[i]) == 0) return i;
  return 0;
}

static bool is_fix_of(const og_trace_fix *fix, const og_root *root) {
  const og_trace_cause *cause = root->cause;
  if (cause->line != fix->line || strcmp(cause->file, fix->file) != 0 ||
      strcmp(root->id, fix->id) != 0)
    return false;
  // One line of yours may call a library that breaks in many places.
  return fix->at_file[0] == '\0' || (cause->at_line == fix->at_line &&
                                     strcmp(cause->at_file, fix->at_file) == 0);
}

static void fixes_read(og_joined *joined) {
  for (int32_t i = 0; i < og_trace_fix_count(joined->trace); ++i) {
    const og_trace_fix *fix = og_trace_fix_at(joined->trace, i);
    for (int32_t r = 0; r < joined->root_count; ++r) {
      og_root *root = &joined->root[r];
      if (!is_fix_of(fix, root)) continue;
      if (root->fix == NULL || fix_rank(fix) > fix_rank(root->fix))
        root->fix = fix;
    }
  }
}

// --- All ---------------------------------------------------------------------

static int root_compare(const void *a, const void *b) {
  const og_root *x = a, *y = b;
  if (x->steady_ns.median != y->steady_ns.median)
    return x->steady_ns.median > y->steady_ns.median ? -1 : 1;
  if (x->cold_ns != y->cold_ns) return x->cold_ns > y->cold_ns ? -1 : 1;
  const int files = strcmp(x->cause->file, y->cause->file);
  if (files != 0) return files;
  if (x->cause->line != y->cause->line)
    return x->cause->line < y->cause->line ? -1 : 1;
  return strcmp(x->id, y->id);
}

static void totals_read(og_joined *joined) {
  const int32_t count = og_trace_counts_count(joined->trace);
  if (count == 0) return;
  const og_trace_counts *counts = og_trace_counts_at(joined->trace, count - 1);
  joined->hooks_ns = (double)counts->hooks_ns;
  joined->compile_ns = (double)counts->compile_ns;
  joined->reachable_ns = counts->reachable_ms * 1e6;
  joined->stretch = counts->stretch;
}

static bool places_make(og_places *places, const og_trace *trace) {
  const size_t frames = (size_t)og_trace_frame_count(trace);
  if (!ids_read(trace, places)) return false;
  places->explained = og_alloc_zeroed(frames, sizeof *places->explained);
  places->has_graph = og_alloc_zeroed(frames, sizeof *places->has_graph);
  places->root_of_frame =
      og_alloc_zeroed(frames, sizeof *places->root_of_frame);
  places->recompile_of_frame =
      og_alloc_zeroed(frames, sizeof *places->recompile_of_frame);
  if (places->explained == NULL || places->has_graph == NULL ||
      places->root_of_frame == NULL || places->recompile_of_frame == NULL)
    return false;
  for (size_t i = 0; i < frames; ++i)
    places->root_of_frame[i] = places->recompile_of_frame[i] = -1;
  return true;
}

static void places_reset(og_places *places) {
  og_free(places->frames.at);
  og_free(places->graphs.at);
  og_free(places->explained);
  og_free(places->has_graph);
  og_free(places->root_of_frame);
  og_free(places->recompile_of_frame);
}

og_status og_trace_join(const og_trace *trace, og_joined *out_joined,
                        opgraft_error *error) {
  og_places places = {0};
  *out_joined = (og_joined){.trace = trace};
  out_joined->root = og_alloc_zeroed((size_t)og_trace_cause_count(trace),
                                     sizeof *out_joined->root);
  bool is_done = out_joined->root != NULL && places_make(&places, trace);
  if (is_done) {
    causes_read(out_joined, &places);
    frames_read(out_joined, &places);
    cold_read(out_joined, &places);
    graphs_read(out_joined, &places);
    hlo_read(out_joined);
    totals_read(out_joined);
    is_done = og_gaps_read(out_joined, &places);
  }
  if (is_done) {
    fixes_read(out_joined);
    qsort(out_joined->root, (size_t)out_joined->root_count,
          sizeof *out_joined->root, root_compare);
  }
  places_reset(&places);
  if (is_done) return OG_OK;
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "events: out of memory while joining %d lines",
                      (int)og_trace_cause_count(trace));
}

void og_joined_reset(og_joined *joined) {
  og_free(joined->root);
  *joined = (og_joined){0};
}

double og_joined_captured(const og_joined *joined) {
  const double all = (double)joined->ops_inside + (double)joined->ops_outside;
  if (!joined->has_ops || all <= 0) return -1;
  return (double)joined->ops_inside / all;
}

og_times og_joined_times(const og_joined *joined) {
  static const double busy = 1.5;  // chosen, not measured
  const og_spread *eager = &joined->eager_ns, *now = &joined->compiled_ns;
  if (eager->count == 0 || now->count == 0) return OG_TIMES_NONE;
  if (joined->stretch > busy) return OG_TIMES_BUSY;
  return eager->low <= now->high && now->low <= eager->high
             ? OG_TIMES_SPREAD
             : OG_TIMES_DIFFERENT;
}

double og_joined_lost_ms(const og_joined *joined) {
  double sum = 0;
  for (int32_t i = 0; i < joined->root_count; ++i)
    sum += joined->root[i].steady_ns.median;
  return sum / 1e6;
}
