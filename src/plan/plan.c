// SPDX-License-Identifier: Apache-2.0
// Makes plans: sizes, sharing, places.

#include "plan/plan.h"

#include <string.h>

#include "plan/layout.h"
#include "plan/live.h"

// What is known of a root while a plan is made.
typedef struct root_info {
  int64_t low;       // the first byte that its values touch
  int64_t high;      // behind the last one
  int64_t own_high;  // behind the last byte of the root itself
  int32_t merged;    // the root whose memory it takes over, or itself
  int32_t buffer;    // in the list of buffers, or -1
  int32_t arena;     // in which the buffer lies
  int32_t storage;   // output storage, or -1
  bool is_kept;      // a steady result that others read
  bool is_reversed;  // a view of the host's has a negative stride
} root_info;

typedef struct planner {
  og_plan *plan;
  const opgraft_graph *graph;
  root_info *roots;  // by value
  og_buffer *buffers;
  int32_t buffer_count;
  og_live live;
  const og_lane_request *request;
  bool shares;
  int64_t worth_bytes;  // what a result's operand must have to lie in it
  opgraft_error *error;
} planner;

// --- Sizes -------------------------------------------------------------------

static og_status value_wrong(const planner *p, opgraft_value id,
                             const char *what) {
  const og_value *value = &p->graph->values[id];
  const og_node *node = value->node >= 0 ? &p->graph->nodes[value->node] : NULL;
  const char *op = node == NULL ? "input" : og_node_name(node);
  return og_error_set(p->error, OG_SHAPE, op, NULL,
                      "graph %s: value %d of %s%s %s", p->graph->name, (int)id,
                      op, og_node_source(node, &(og_source){{0}}), what);
}

// The bytes that a value touches, from its storage's start.
static og_status value_extent(const planner *p, opgraft_value id,
                              int64_t *out_low, int64_t *out_high) {
  const og_tensor *tensor = &p->plan->tensors[id];
  const int64_t item = (int64_t)og_dtype_bytes(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; ++d)
    if (tensor->shape[d] < 0) return value_wrong(p, id, "has a negative size");
  if (!og_layout_extent(tensor, p->plan->sizes[p->graph->values[id].offset],
                        out_low, out_high))
    return value_wrong(p, id, "is larger than memory can be");
  *out_low *= item;
  *out_high *= item;
  return OG_OK;
}

static og_status tensors_make(planner *p) {
  const opgraft_graph *graph = p->graph;
  og_plan *plan = p->plan;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    og_tensor *tensor = &plan->tensors[v];
    *tensor = (og_tensor){
        .device = value->device, .ndim = value->ndim, .dtype = value->dtype};
    tensor->shape = og_arena_array(&plan->memory, 2 * (size_t)value->ndim + 1,
                                   sizeof(int64_t));
    if (tensor->shape == NULL) return og_graph_no_memory(p->error);
    tensor->strides = tensor->shape + value->ndim;
    for (int32_t d = 0; d < value->ndim; ++d) {
      tensor->shape[d] = plan->sizes[value->shape[d]];
      tensor->strides[d] = plan->sizes[value->strides[d]];
    }
  }
  return OG_OK;
}

// --- Extents -----------------------------------------------------------------

static bool is_gone(const planner *p, const og_value *value) {
  if (value->kind == OG_VALUE_LITERAL) return true;
  return value->kind == OG_VALUE_RESULT &&
         (value->node < 0 || p->graph->nodes[value->node].is_removed);
}

// A layout that text gave: what a node writes has one element for each index,
// and a view of it reads nothing that was not written.
static og_status layout_check(const planner *p, opgraft_value id) {
  const og_value *value = &p->graph->values[id];
  const og_value *root = &p->graph->values[value->root];
  const og_tensor *tensors = p->plan->tensors;
  const int64_t *sizes = p->plan->sizes;
  bool overlaps = false, covers = true;
  if (value->kind == OG_VALUE_RESULT &&
      !og_op_is(&p->graph->nodes[value->node], OG_OP_VIEW))
    OG_TRY(og_layout_overlaps(&tensors[id], &overlaps, p->error));
  if (overlaps)
    return value_wrong(p, id,
                       "has several elements at one place; write to a result "
                       "whose elements do not overlap");
  if (value->root != id && root->kind == OG_VALUE_RESULT)
    OG_TRY(og_layout_covers(&tensors[value->root], sizes[root->offset],
                            &tensors[id], sizes[value->offset], &covers,
                            p->error));
  return covers ? OG_OK
                : value_wrong(p, id, "reads elements that no node wrote");
}

// Whether the graph knows where its value's storage ends: an input's may be
// larger than the input.
static bool is_bounded(const planner *p, const og_value *value) {
  return p->graph->is_text ||
         p->graph->values[value->root].kind == OG_VALUE_RESULT;
}

static og_status extents_join(planner *p) {
  const opgraft_graph *graph = p->graph;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    if (is_gone(p, value)) continue;
    int64_t low = 0, high = 0;
    OG_TRY(value_extent(p, v, &low, &high));
    root_info *root = &p->roots[value->root];
    if (low < 0 && is_bounded(p, value))
      return value_wrong(p, v, "begins before its storage");
    if (v == value->root) root->own_high = high;
    for (int32_t d = 0; value->is_host_view && d < value->ndim; ++d)
      root->is_reversed |= p->plan->tensors[v].strides[d] < 0;
    if (root->is_reversed && is_bounded(p, value))
      return value_wrong(p, v, "has a negative stride");
    if (low < root->low) root->low = low;
    if (high > root->high) root->high = high;
  }
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    const root_info *root = &p->roots[value->root];
    if (is_gone(p, value)) continue;
    if (root->high > root->own_high && is_bounded(p, value)) {
      int64_t low = 0, high = 0;
      OG_TRY(value_extent(p, v, &low, &high));
      if (high > root->own_high)
        return value_wrong(p, v, "ends behind its storage");
    }
    if (graph->is_text) OG_TRY(layout_check(p, v));
  }
  return OG_OK;
}

// Views of an input may reach beyond it, as far as its storage does.
static void reaches_find(planner *p) {
  const opgraft_graph *graph = p->graph;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    const opgraft_value v = graph->inputs[i].value;
    if (v < 0) continue;
    const root_info *root = &p->roots[v];
    if (root->low < 0 || root->high > root->own_high || root->is_reversed)
      p->plan->reaches[p->plan->reach_count++] =
          (opgraft_reach){.input = i,
                          .is_reversed = root->is_reversed,
                          .low = root->low,
                          .high = root->high};
  }
}

// --- Sharing -----------------------------------------------------------------

static const og_join *join_of(const planner *p, const og_node *node) {
  return &p->plan->joins[node - p->graph->nodes];
}

// Whether the contraction that may run in one step with the node reads a root:
// it may read any element until the last one is written.
static bool is_read_beside(const planner *p, const og_node *node,
                           opgraft_value root) {
  const og_node *other = &p->graph->nodes[join_of(p, node)->contraction];
  for (int32_t i = 0; i < other->in_count; ++i)
    if (other->in[i] >= 0 && p->graph->values[other->in[i]].root == root)
      return true;
  return false;
}

// A result may take the memory of an operand that nobody needs any more, if the
// node reads each element where it writes it.
static bool can_take_over(const planner *p, const og_node *node, int32_t step,
                          opgraft_value operand) {
  const og_value *values = p->graph->values;
  const opgraft_value result = node->out[0], from = values[operand].root;
  const root_info *root = &p->roots[from];
  const og_tensor *a = &p->plan->tensors[operand];
  const og_tensor *y = &p->plan->tensors[result];
  if (values[from].kind != OG_VALUE_RESULT || root->storage >= 0 ||
      root->is_kept || p->roots[result].is_kept ||
      !og_live_ends(&p->live, from, step) || values[result].root != result ||
      !og_device_equal(values[from].device, values[result].device))
    return false;
  if (og_dtype_bytes(a->dtype) != og_dtype_bytes(y->dtype) ||
      a->ndim != y->ndim || values[operand].offset != OG_SIZE_ZERO ||
      p->roots[result].high > root->high)
    return false;
  for (int32_t d = 0; d < y->ndim; ++d)
    if (a->shape[d] != y->shape[d] ||
        (y->shape[d] > 1 && a->strides[d] != y->strides[d]))
      return false;
  // Another view of that memory would be read after it is overwritten.
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] != operand && values[node->in[i]].root == from)
      return false;
  // A row program overwrites what has its result's type.
  return !join_of(p, node)->is_joined ||
         (og_dtype_equal(a->dtype, y->dtype) && !is_read_beside(p, node, from));
}

// An operand that a result of the host's would take over lies in that memory
// from the start. Each call binds such memory anew, so it must be worth that.
static bool can_borrow(const planner *p, const root_info *from,
                       opgraft_value to, int32_t step) {
  return from->high >= p->worth_bytes && from->high <= p->roots[to].high &&
         p->live.roots[to].first == step;
}

// That a row program is elementwise was found out where it was joined.
static bool is_elementwise(const planner *p, const og_node *node) {
  return og_op_is(node, OG_OP_POINTWISE) || join_of(p, node)->is_joined;
}

static void roots_merge(planner *p) {
  const og_lanes *lanes = &p->plan->lanes;
  for (int32_t s = 0; s < lanes->count; ++s) {
    const og_node *node = &p->graph->nodes[lanes->order[s]];
    if (!is_elementwise(p, node)) continue;
    const int32_t begin = s - join_of(p, node)->is_joined;
    for (int32_t i = 0; i < node->in_count; ++i) {
      if (!can_take_over(p, node, s, node->in[i])) continue;
      const int32_t from = p->roots[p->graph->values[node->in[i]].root].merged;
      root_info *to = &p->roots[node->out[0]];
      if (to->storage >= 0) {
        if (!can_borrow(p, &p->roots[from], node->out[0], begin)) continue;
        p->roots[from].storage = to->storage;
        p->plan->lent[to->storage] = true;
        break;
      }
      if (to->high > p->roots[from].high) continue;
      to->merged = from;
      og_live_extend(&p->live, from, node->out[0]);
      // What merges into the result later looks at its own last use.
      break;
    }
  }
}

// --- Outputs -----------------------------------------------------------------

static int32_t storage_of(planner *p, opgraft_value root, int32_t output) {
  root_info *info = &p->roots[root];
  if (info->storage < 0) {
    info->storage = p->plan->storage_count++;
    p->plan->storages[info->storage] =
        (opgraft_storage){.size_bytes = (size_t)info->high, .output = output};
  }
  return info->storage;
}

static void output_make(planner *p, int32_t index) {
  const og_output *from = &p->graph->outputs[index];
  opgraft_output *to = &p->plan->outputs[index];
  memset(to, 0, sizeof *to);
  if (from->size >= 0) {
    to->kind = OPGRAFT_OUTPUT_SIZE;
    to->size = p->plan->sizes[from->size];
    return;
  }
  if (from->value < 0) return;
  const og_value *value = &p->graph->values[from->value];
  const og_value *root = &p->graph->values[value->root];
  to->tensor = p->plan->tensors[from->value];
  const int64_t offset =
      p->plan->sizes[value->offset] * (int64_t)og_dtype_bytes(value->dtype);
  to->tensor.byte_offset = (uint64_t)offset;
  if (root->kind == OG_VALUE_INPUT) {
    to->kind = OPGRAFT_OUTPUT_INPUT;
    to->index = root->result;
  } else if (root->kind != OG_VALUE_RESULT) {
    to->kind = OPGRAFT_OUTPUT_CONSTANT;
    to->tensor.data = root->kind == OG_VALUE_LITERAL
                          ? (void *)(uintptr_t)&root->number
                          : (void *)(uintptr_t)root->data;
  } else {
    to->kind = OPGRAFT_OUTPUT_STORAGE;
    to->index = storage_of(p, value->root, index);
    const int64_t dense =
        og_numel(&to->tensor) * (int64_t)og_dtype_bytes(value->dtype);
    opgraft_storage *storage = &p->plan->storages[to->index];
    const bool is_whole = dense == (int64_t)storage->size_bytes && offset == 0;
    if (storage->output == index || (is_whole && !storage->whole)) {
      storage->output = index;
      storage->whole = is_whole;
    }
  }
}

// --- Places ------------------------------------------------------------------

static og_buffer buffer_make(const planner *p, opgraft_value root) {
  const int64_t mask = OG_PLAN_ALIGNMENT - 1;
  og_buffer buffer = {.bytes = (p->roots[root].high + mask) & ~mask};
  og_live_range(&p->live, root, &buffer.first, &buffer.last, &buffer.section,
                &buffer.lane);
  return buffer;
}

// A root that lies in an arena and has no buffer there yet.
static bool is_unplaced(const planner *p, opgraft_value v) {
  const root_info *root = &p->roots[v];
  return p->graph->values[v].kind == OG_VALUE_RESULT &&
         p->live.roots[v].is_live && root->storage < 0 && root->merged == v &&
         root->buffer < 0;
}

static og_plan_arena *arena_add(planner *p, og_device device) {
  og_plan *plan = p->plan;
  const size_t count = (size_t)plan->arena_count;
  og_plan_arena *arenas =
      og_arena_array(&plan->memory, count + 1, sizeof *arenas);
  if (arenas == NULL) return NULL;
  if (count > 0) memcpy(arenas, plan->arenas, count * sizeof *arenas);
  plan->arenas = arenas;
  ++plan->arena_count;
  arenas[count] = (og_plan_arena){.device = device};
  return &arenas[count];
}

// Memory of its own for every buffer: what sharing is compared with.
static void buffers_unshare(og_buffer *buffers, int32_t count) {
  int64_t end = 0;
  for (int32_t b = 0; b < count; ++b) {
    buffers[b].offset = end;
    end += buffers[b].bytes;
  }
}

// The arena of a device, and in it all that lies there; `first` is the first
// root that does.
static og_status arena_make(planner *p, opgraft_value first) {
  const og_value *values = p->graph->values;
  og_plan_arena *arena = arena_add(p, values[first].device);
  if (arena == NULL) return og_graph_no_memory(p->error);
  arena->is_kept = p->roots[first].is_kept;
  og_buffer *buffers = &p->buffers[p->buffer_count];
  int32_t count = 0;
  for (opgraft_value v = first; v < p->graph->value_count; ++v) {
    if (!is_unplaced(p, v) ||
        !og_device_equal(values[v].device, arena->device) ||
        p->roots[v].is_kept != arena->is_kept)
      continue;
    p->roots[v].arena = p->plan->arena_count - 1;
    p->roots[v].buffer = p->buffer_count++;
    buffers[count] = buffer_make(p, v);
    arena->unshared_bytes += (size_t)buffers[count++].bytes;
  }
  OG_TRY(og_buffers_place(buffers, count, p->plan->lanes.count, &p->plan->lanes,
                          &arena->size_bytes, &arena->lower_bound_bytes,
                          p->error));
  if (p->shares && !arena->is_kept) return OG_OK;
  buffers_unshare(buffers, count);
  arena->size_bytes = arena->unshared_bytes;
  return OG_OK;
}

static void places_fill(planner *p) {
  og_plan *plan = p->plan;
  for (int32_t v = 0; v < p->graph->value_count; ++v) {
    const og_value *value = &p->graph->values[v];
    const og_value *root = &p->graph->values[value->root];
    const opgraft_value lies_in = p->roots[value->root].merged;
    const root_info *info = &p->roots[lies_in];
    og_place *place = &plan->places[v];
    // The layout of what passes removed was not looked at.
    if (value->kind == OG_VALUE_RESULT && is_gone(p, value)) continue;
    place->offset_bytes =
        plan->sizes[value->offset] * (int64_t)og_dtype_bytes(value->dtype);
    if (root->kind == OG_VALUE_INPUT) {
      place->kind = OG_PLACE_INPUT;
      place->index = root->result;
    } else if (root->kind != OG_VALUE_RESULT) {
      place->kind = OG_PLACE_CONSTANT;
      place->index = value->root;
    } else if (info->storage >= 0) {
      place->kind = OG_PLACE_STORAGE;
      place->index = info->storage;
    } else if (p->live.roots[lies_in].is_live) {
      place->kind = OG_PLACE_ARENA;
      place->index = info->arena;
      place->offset_bytes += p->buffers[info->buffer].offset;
    }
  }
}

// Who looks at the plan later sees when each part of an arena is in use.
static og_status buffers_keep(planner *p) {
  og_plan *plan = p->plan;
  plan->buffers = og_arena_array(&plan->memory, (size_t)p->buffer_count + 1,
                                 sizeof *plan->buffers);
  if (plan->buffers == NULL) return og_graph_no_memory(p->error);
  plan->buffer_count = p->buffer_count;
  for (int32_t v = 0; v < p->graph->value_count; ++v) {
    const root_info *root = &p->roots[v];
    if (root->buffer >= 0)
      plan->buffers[root->buffer] =
          (og_plan_buffer){v, root->arena, p->buffers[root->buffer]};
  }
  return OG_OK;
}

enum { KEPT_BYTES = 64 << 20 };  // of steady results, at most

// Steady results that other nodes read stay, unless all are too large.
static void kept_find(planner *p) {
  const opgraft_graph *graph = p->graph;
  const og_lanes *lanes = &p->plan->lanes;
  int64_t bytes = 0;
  for (int32_t s = 0; s < lanes->count; ++s) {
    const og_node *node = &graph->nodes[lanes->order[s]];
    for (int32_t i = 0; !node->is_steady && i < node->in_count; ++i) {
      if (node->in[i] < 0) continue;
      const opgraft_value root = graph->values[node->in[i]].root;
      const int32_t maker = graph->values[root].node;
      if (graph->values[root].kind != OG_VALUE_RESULT || maker < 0 ||
          !graph->nodes[maker].is_steady || p->roots[root].is_kept)
        continue;
      p->roots[root].is_kept = true;
      bytes += p->roots[root].high;
    }
  }
  p->plan->keeps = bytes > 0 && bytes <= KEPT_BYTES;
  for (int32_t v = 0; !p->plan->keeps && v < graph->value_count; ++v)
    p->roots[v].is_kept = false;
}

static void clones_count(planner *p) {
  for (int32_t n = 0; n < p->graph->node_count; ++n) {
    const og_node *node = &p->graph->nodes[n];
    if (node->is_removed || node->update == NULL) continue;
    for (int32_t r = 0; r < node->out_count; ++r) {
      const opgraft_value id = node->out[r];
      if (id < 0 || node->update[r] == 0 ||
          og_result_is_part(p->graph, node, r))
        continue;
      const opgraft_value from = node->in[node->update[r] - 1];
      if (p->graph->values[id].root != p->graph->values[from].root)
        p->plan->clone_bytes +=
            og_numel(&p->plan->tensors[id]) *
            (int64_t)og_dtype_bytes(p->plan->tensors[id].dtype);
    }
  }
}

static og_status plan_make(planner *p) {
  og_plan *plan = p->plan;
  OG_TRY(tensors_make(p));
  for (int32_t v = 0; v < p->graph->value_count; ++v) {
    p->roots[v].merged = v;
    p->roots[v].storage = -1;
    p->roots[v].buffer = -1;
  }
  OG_TRY(extents_join(p));
  reaches_find(p);
  OG_TRY(og_lanes_find(p->graph, p->request, &plan->memory, &plan->lanes,
                       p->error));
  OG_TRY(og_joins_find(p->graph, &plan->lanes, &plan->memory, &plan->joins,
                       p->error));
  OG_TRY(og_live_init(&p->live, p->graph, &plan->lanes, plan->joins, p->error));
  for (int32_t i = 0; i < p->graph->output_count; ++i) output_make(p, i);
  kept_find(p);
  if (p->shares) roots_merge(p);
  for (int32_t v = 0; v < p->graph->value_count; ++v)
    if (is_unplaced(p, v)) OG_TRY(arena_make(p, v));
  places_fill(p);
  clones_count(p);
  return buffers_keep(p);
}

static og_status plan_alloc(og_plan *plan, opgraft_error *error) {
  const opgraft_graph *graph = plan->graph;
  const size_t values = (size_t)graph->value_count + 1;
  const size_t outputs = (size_t)graph->output_count + 1;
  og_arena *memory = &plan->memory;
  plan->symbols = og_arena_array(memory, (size_t)graph->sizes.symbol_count + 1,
                                 sizeof *plan->symbols);
  plan->sizes =
      og_arena_array(memory, (size_t)graph->sizes.count, sizeof *plan->sizes);
  plan->tensors = og_arena_array(memory, values, sizeof *plan->tensors);
  plan->places = og_arena_array(memory, values, sizeof *plan->places);
  plan->outputs = og_arena_array(memory, outputs, sizeof *plan->outputs);
  plan->storages = og_arena_array(memory, outputs, sizeof *plan->storages);
  plan->reaches = og_arena_array(memory, (size_t)graph->input_count + 1,
                                 sizeof *plan->reaches);
  plan->lent = og_arena_array(memory, outputs, sizeof *plan->lent);
  const bool has_all = plan->symbols && plan->sizes && plan->tensors &&
                       plan->places && plan->outputs && plan->storages &&
                       plan->reaches && plan->lent;
  return has_all ? OG_OK : og_graph_no_memory(error);
}

static og_status plan_fill(og_plan *plan, const int64_t *symbols,
                           uint32_t flags, const og_lane_request *request,
                           opgraft_error *error) {
  const opgraft_graph *graph = plan->graph;
  OG_TRY(plan_alloc(plan, error));
  for (int32_t s = 0; s < graph->sizes.symbol_count; ++s)
    plan->symbols[s] = symbols[s];
  OG_TRY(og_sizes_eval(&graph->sizes, plan->symbols, plan->sizes, error));
  const size_t values = (size_t)graph->value_count + 1;
  planner p = {.plan = plan,
               .graph = graph,
               .request = request,
               .shares = (flags & OPGRAFT_HOST_UNSHARED) == 0,
               .worth_bytes = og_large_bytes(flags),
               .error = error};
  p.roots = og_alloc_zeroed(values, sizeof *p.roots);
  p.buffers = og_alloc_zeroed(values, sizeof *p.buffers);
  og_status status = OG_OK;
  if (p.roots == NULL || p.buffers == NULL)
    status = og_graph_no_memory(error);
  else
    status = plan_make(&p);
  og_free(p.roots);
  og_free(p.buffers);
  og_live_reset(&p.live);
  return status;
}

og_status og_plan_create(const opgraft_graph *graph, const int64_t *symbols,
                         uint32_t flags, const og_lane_request *lanes,
                         og_plan **out_plan, opgraft_error *error) {
  *out_plan = NULL;
  og_plan *plan = og_alloc_zeroed(1, sizeof *plan);
  if (plan == NULL) return og_graph_no_memory(error);
  plan->graph = graph;
  const og_status status = plan_fill(plan, symbols, flags, lanes, error);
  if (status != OG_OK)
    og_plan_destroy(plan);
  else
    *out_plan = plan;
  return status;
}

void og_plan_destroy(og_plan *plan) {
  if (plan == NULL) return;
  og_arena_destroy(&plan->memory);
  og_free(plan);
}

// --- Overlaps ----------------------------------------------------------------

// The bytes of its place that a value touches, from its first to its last.
static bool place_extent(const og_plan *plan, opgraft_value id,
                         int64_t *out_low, int64_t *out_high) {
  const og_tensor *tensor = &plan->tensors[id];
  const og_place *place = &plan->places[id];
  const int64_t item = (int64_t)og_dtype_bytes(tensor->dtype);
  if (place->kind == OG_PLACE_NONE ||
      !og_layout_extent(tensor, 0, out_low, out_high))
    return false;
  *out_low = *out_low * item + place->offset_bytes;
  *out_high = *out_high * item + place->offset_bytes;
  return *out_low < *out_high;
}

bool og_plan_overlaps(const og_plan *plan, opgraft_value a, opgraft_value b) {
  int64_t low_a, high_a, low_b, high_b;
  return plan->places[a].kind == plan->places[b].kind &&
         plan->places[a].index == plan->places[b].index &&
         place_extent(plan, a, &low_a, &high_a) &&
         place_extent(plan, b, &low_b, &high_b) && low_a < high_b &&
         low_b < high_a;
}
