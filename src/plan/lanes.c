// SPDX-License-Identifier: Apache-2.0
// Finds the sections of a graph.
//
// A window of nodes falls into components: what touches a storage that
// another node of the window writes belongs to that node's. Components are
// independent, so the window takes as long as its largest component, or as its
// share of a thread. Dynamic programming over windows picks those that save
// most; the components of each are then dealt to lanes, longest first.
//
// Invariant: `writer` and `reader` of a storage count only where its `stamp`
// is the window's number.

#include "plan/lanes.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 512, WINDOW_LEAST = 16, WORK_MAX = 1 << 19 };

typedef struct finder {
  const opgraft_graph *graph;
  const og_lane_request *request;
  const int32_t *steps;  // nodes
  int32_t count;
  // By root.
  int32_t *stamp, *writer, *reader;
  // By operand of a step: the one that read its storage before, or -1.
  int32_t *operand_begin, *operand_step, *reader_before;
  // By step.
  int32_t *up;    // of its component
  int64_t *load;  // of the component, at its head
  int64_t *best;  // the least time of the first steps
  int32_t *from;  // where the window begins that ends behind the step
  // The window.
  int32_t number;
  int32_t pinned;  // its last pinned step, or -1
  int64_t total, largest;
} finder;

// --- Components --------------------------------------------------------------

static int32_t head_of(finder *f, int32_t step) {
  while (f->up[step] != step) {
    f->up[step] = f->up[f->up[step]];
    step = f->up[step];
  }
  return step;
}

static void join(finder *f, int32_t a, int32_t b) {
  a = head_of(f, a);
  b = head_of(f, b);
  if (a == b) return;
  const int32_t low = a < b ? a : b, high = a < b ? b : a;
  f->up[high] = low;
  f->load[low] += f->load[high];
  if (f->load[low] > f->largest) f->largest = f->load[low];
}

static void root_enter(finder *f, opgraft_value root) {
  if (f->stamp[root] == f->number) return;
  f->stamp[root] = f->number;
  f->writer[root] = f->reader[root] = -1;
}

static void root_read(finder *f, opgraft_value root, int32_t step,
                      int32_t operand) {
  root_enter(f, root);
  if (f->writer[root] >= 0) join(f, f->writer[root], step);
  f->reader_before[operand] = f->reader[root];
  f->reader[root] = operand;
}

static void root_write(finder *f, opgraft_value root, int32_t step) {
  root_enter(f, root);
  if (f->writer[root] >= 0) join(f, f->writer[root], step);
  for (int32_t o = f->reader[root]; o >= 0; o = f->reader_before[o])
    join(f, f->operand_step[o], step);
  f->reader[root] = -1;
  f->writer[root] = step;
}

static bool is_ordered(const og_node *node) {
  return ((node->flags | og_ops[node->op].flags) &
          (OG_OP_RANDOM | OG_OP_EFFECT)) != 0;
}

static void step_add(finder *f, int32_t step) {
  const og_node *node = &f->graph->nodes[f->steps[step]];
  const og_value *values = f->graph->values;
  const int64_t cost = f->request->cost_ns[f->steps[step]];
  f->up[step] = step;
  f->load[step] = cost;
  f->total += cost;
  if (cost > f->largest) f->largest = cost;
  // What is ordered may write operands that it does not name.
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const opgraft_value root = values[node->in[i]].root;
    if (is_ordered(node))
      root_write(f, root, step);
    else
      root_read(f, root, step, f->operand_begin[step] + i);
  }
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0) root_write(f, values[node->out[r]].root, step);
  if (!is_ordered(node) &&
      (f->request->flags[f->steps[step]] & OG_STEP_PINNED) == 0)
    return;
  if (f->pinned >= 0) join(f, f->pinned, step);
  f->pinned = step;
}

static void window_begin(finder *f) {
  ++f->number;
  f->pinned = -1;
  f->total = f->largest = 0;
}

// --- Which windows -----------------------------------------------------------

static void windows_try(finder *f, int32_t first, int32_t most) {
  const int64_t lanes = f->request->lanes;
  window_begin(f);
  for (int32_t s = first; s < f->count && s - first < most; ++s) {
    if (f->request->flags[f->steps[s]] & OG_STEP_ALONE) break;
    step_add(f, s);
    const int64_t share = (f->total + lanes - 1) / lanes;
    const int64_t time = f->largest > share ? f->largest : share;
    const int64_t end = f->best[first] + f->request->fork_ns + time;
    if (f->largest == f->total || end >= f->best[s + 1]) continue;
    f->best[s + 1] = end;
    f->from[s + 1] = first;
  }
}

static void windows_choose(finder *f) {
  int32_t most = WORK_MAX / (f->count + 1);
  if (most > WINDOW_MAX) most = WINDOW_MAX;
  if (most < WINDOW_LEAST) most = WINDOW_LEAST;
  for (int32_t s = 1; s <= f->count; ++s) f->best[s] = INT64_MAX;
  for (int32_t s = 0; s < f->count; ++s) {
    const int64_t alone = f->best[s] + f->request->cost_ns[f->steps[s]];
    if (alone <= f->best[s + 1]) {
      f->best[s + 1] = alone;
      f->from[s + 1] = s;
    }
    windows_try(f, s, most);
  }
}

// --- Lanes of a window -------------------------------------------------------

typedef struct component {
  int32_t head, lane;
  int64_t load;
} component;

static int by_load(const void *x, const void *y) {
  const component *a = x, *b = y;
  if (a->load != b->load) return a->load < b->load ? 1 : -1;
  return a->head - b->head;
}

static int by_head(const void *x, const void *y) {
  const component *a = x, *b = y;
  return a->head - b->head;
}

// Longest first to the lane that has least; what is pinned to lane 0. Returns
// the longest lane.
static int64_t components_deal(finder *f, component *list, int32_t count,
                               int32_t lanes) {
  int64_t load[OG_LANES_MAX] = {0};
  int64_t longest = 0;
  const int32_t pinned = f->pinned >= 0 ? head_of(f, f->pinned) : -1;
  for (int32_t i = 0; i < count; ++i)
    if (list[i].head == pinned) load[0] = list[i].load;
  for (int32_t i = 0; i < count; ++i) {
    int32_t to = 0;
    for (int32_t l = 1; list[i].head != pinned && l < lanes; ++l)
      if (load[l] < load[to]) to = l;
    list[i].lane = to;
    if (list[i].head != pinned) load[to] += list[i].load;
  }
  for (int32_t l = 0; l < lanes; ++l)
    if (load[l] > longest) longest = load[l];
  return longest;
}

static int32_t lane_of(finder *f, const component *list, int32_t count,
                       int32_t step) {
  const component key = {.head = head_of(f, step)};
  const component *found =
      bsearch(&key, list, (size_t)count, sizeof *list, by_head);
  return found->lane;
}

// The steps [first, end) as a section behind what stands in the order.
static void section_make(finder *f, int32_t first, int32_t end, component *list,
                         og_lanes *out) {
  const int32_t most = f->request->lanes;
  int32_t count = 0;
  window_begin(f);
  for (int32_t s = first; s < end; ++s) step_add(f, s);
  for (int32_t s = first; s < end; ++s)
    if (head_of(f, s) == s)
      list[count++] = (component){.head = s, .load = f->load[s]};
  const int32_t lanes = count < most ? count : most;
  qsort(list, (size_t)count, sizeof *list, by_load);
  const int64_t time = components_deal(f, list, count, lanes);
  const int64_t saved = f->total - time - f->request->fork_ns;
  qsort(list, (size_t)count, sizeof *list, by_head);
  og_section *section = &out->sections[out->section_count];
  *section = (og_section){.first = out->count};
  for (int32_t l = 0; l < lanes; ++l) {
    const int32_t begin = out->count;
    for (int32_t s = first; s < end; ++s)
      if (saved <= 0 ? l == 0 : lane_of(f, list, count, s) == l)
        out->order[out->count++] = f->steps[s];
    if (out->count > begin || l == 0)
      section->end[section->lane_count++] = out->count;
  }
  if (saved <= 0) return;
  out->saved_ns += saved;
  ++out->section_count;
}

// The chosen windows are found from the end, and used from the start.
static void order_make(finder *f, component *list, og_lanes *out) {
  int64_t *next = f->best;
  for (int32_t s = f->count; s > 0; s = f->from[s]) next[f->from[s]] = s;
  for (int32_t s = 0; s < f->count;) {
    const int32_t end = (int32_t)next[s];
    if (end - s == 1)
      out->order[out->count++] = f->steps[s];
    else
      section_make(f, s, end, list, out);
    s = end;
  }
}

// --- All of it ---------------------------------------------------------------

static int32_t operands_count(const opgraft_graph *graph, const int32_t *steps,
                              int32_t count) {
  int32_t operands = 0;
  for (int32_t s = 0; s < count; ++s)
    operands += graph->nodes[steps[s]].in_count;
  return operands;
}

static void finder_fill(finder *f, int32_t *memory, int32_t operands) {
  int32_t **const parts[] = {&f->stamp,        &f->writer,        &f->reader,
                             &f->operand_step, &f->reader_before, &f->up,
                             &f->from,         &f->operand_begin};
  const int32_t values = f->graph->value_count;
  const int32_t sizes[] = {values,   values,       values,       operands,
                           operands, f->count + 1, f->count + 1, f->count + 1};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    *parts[i] = memory;
    memory += sizes[i];
  }
  for (int32_t s = 0, o = 0; s < f->count; ++s) {
    f->operand_begin[s] = o;
    for (int32_t i = 0; i < f->graph->nodes[f->steps[s]].in_count; ++i)
      f->operand_step[o++] = s;
  }
}

static og_status sections_find(const opgraft_graph *graph,
                               const og_lane_request *request,
                               const int32_t *steps, int32_t count,
                               og_lanes *out, opgraft_error *error) {
  finder f = {
      .graph = graph, .request = request, .steps = steps, .count = count};
  const int32_t operands = operands_count(graph, steps, count);
  const size_t n = (size_t)count + 1;
  int32_t *memory = og_alloc_zeroed(
      3 * (size_t)graph->value_count + 2 * (size_t)operands + 3 * n,
      sizeof *memory);
  f.load = og_alloc_zeroed(2 * n, sizeof *f.load);
  component *list = og_alloc_zeroed(n, sizeof *list);
  og_status status = OG_OK;
  if (memory == NULL || f.load == NULL || list == NULL) {
    status = og_graph_no_memory(error);
  } else {
    f.best = f.load + n;
    finder_fill(&f, memory, operands);
    windows_choose(&f);
    order_make(&f, list, out);
  }
  og_free(memory);
  og_free(f.load);
  og_free(list);
  return status;
}

// Sections are found in memory for the most there can be.
static og_status sections_keep(const opgraft_graph *graph,
                               const og_lane_request *request,
                               const int32_t *steps, int32_t count,
                               og_arena *memory, og_lanes *out,
                               opgraft_error *error) {
  og_section *most =
      og_alloc_zeroed((size_t)count / 2 + 1, sizeof *out->sections);
  if (most == NULL) return og_graph_no_memory(error);
  out->sections = most;
  og_status status = sections_find(graph, request, steps, count, out, error);
  out->sections = og_arena_array(memory, (size_t)out->section_count + 1,
                                 sizeof *out->sections);
  if (status == OG_OK && out->sections == NULL)
    status = og_graph_no_memory(error);
  if (status == OG_OK)
    memcpy(out->sections, most, (size_t)out->section_count * sizeof *most);
  og_free(most);
  return status;
}

og_status og_lanes_find(const opgraft_graph *graph,
                        const og_lane_request *request, og_arena *memory,
                        og_lanes *out_lanes, opgraft_error *error) {
  *out_lanes = (og_lanes){0};
  int32_t *order =
      og_arena_array(memory, (size_t)graph->node_count + 1, sizeof *order);
  if (order == NULL) return og_graph_no_memory(error);
  int32_t count = 0;
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (og_node_runs(&graph->nodes[n])) order[count++] = n;
  out_lanes->order = order;
  out_lanes->count = count;
  if (request == NULL || request->lanes < 2 || count < 2) return OG_OK;
  out_lanes->order = og_arena_array(memory, (size_t)count + 1, sizeof *order);
  if (out_lanes->order == NULL) return og_graph_no_memory(error);
  out_lanes->count = 0;
  return sections_keep(graph, request, order, count, memory, out_lanes, error);
}
