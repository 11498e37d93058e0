// SPDX-License-Identifier: Apache-2.0
// Makes instances: the flat table of steps and the lists of pointers that
// move between calls.

#include <string.h>

#include "exec/exec.h"

#define OG_OP(id, in_min, in_max, outs, flags, attrs, kernel) \
  [OG_IR_##id] = og_prepare_##kernel,
#define OG_PW(id, arity, flags, rule, on_float, on_int) \
  [OG_IR_##id] = og_prepare_pointwise,
static const og_prepare_fn kernels[OG_IR_COUNT] = {
#include "graph/ops.def"
};
#undef OG_OP
#undef OG_PW

og_status og_prepare_none(og_prep *prep) {
  return og_prep_wrong(prep, "a view has no kernel");
}

og_status og_prepare_host_only(og_prep *prep) {
  return og_prep_wrong(prep,
                       "it draws from the host's random numbers; run it "
                       "where the host is");
}

// --- What prepare functions ask for ------------------------------------------

void *og_prep_alloc(og_prep *prep, size_t size_bytes) {
  const int64_t most = prep->executable->host.max_bytes;
  og_instance *instance = prep->instance;
  if (most > 0) {
    if (size_bytes > (uint64_t)(most - instance->held_bytes)) return NULL;
    instance->held_bytes += (int64_t)size_bytes;
  }
  return og_arena_alloc(&instance->memory, size_bytes);
}

void *og_prep_scratch(og_prep *prep, size_t size_bytes) {
  og_scratch *scratch = &prep->instance->scratch[prep->lane];
  if (scratch->memory == NULL || scratch->bytes < size_bytes) {
    scratch->memory = og_prep_alloc(prep, size_bytes);
    scratch->bytes = size_bytes;
  }
  return scratch->memory;
}

og_status og_prep_wrong(og_prep *prep, const char *what) {
  const og_node *node = prep->node;
  return og_error_set(prep->error, OG_SHAPE, og_node_name(node), NULL,
                      "%s%s: %s", og_node_name(node),
                      og_node_source(node, &(og_source){{0}}), what);
}

og_status og_prep_memory(og_prep *prep) {
  const int64_t most = prep->executable->host.max_bytes;
  const char *name = og_node_name(prep->node);
  if (most == 0)
    return og_error_set(prep->error, OG_MEMORY, name, NULL,
                        "not enough memory to prepare %s", name);
  return og_error_set(prep->error, OG_MEMORY, name, NULL,
                      "%s%s: there is not enough memory, or it needs "
                      "more than the limit of %lld bytes",
                      name, og_node_source(prep->node, &(og_source){{0}}),
                      (long long)most);
}

static int64_t saturated_add(int64_t a, int64_t b) {
  return og_i64_add(a, b, &a) ? a : INT64_MAX;
}

void og_prep_work(og_prep *prep, int64_t count, int64_t times) {
  int64_t work;
  if (!og_i64_mul(count, times, &work)) work = INT64_MAX;
  prep->work = saturated_add(prep->work, work);
}

// An empty dim may stand beside ones that a kernel walks.
static int64_t places(const og_tensor *tensor) {
  int64_t count = 1;
  for (int32_t d = 0; tensor != NULL && d < tensor->ndim; ++d)
    if (tensor->shape[d] > 1) count *= tensor->shape[d];
  return tensor != NULL ? count : 0;
}

static og_status work_check(og_prep *prep) {
  og_instance *instance = prep->instance;
  const og_node *node = prep->node;
  const int64_t most = prep->executable->host.max_work;
  if (most == 0) return OG_OK;
  for (int32_t i = 0; i < node->in_count; ++i)
    og_prep_work(prep, places(prep->in[i]), 1);
  for (int32_t r = 0; r < node->out_count; ++r)
    og_prep_work(prep, places(prep->out[r]), 1);
  instance->work = saturated_add(instance->work, prep->work);
  if (instance->work <= most) return OG_OK;
  return og_error_set(prep->error, OG_UNSUPPORTED, og_node_name(node), NULL,
                      "graph %s: %s%s brings it to %lld operations, the "
                      "limit is %lld",
                      prep->plan->graph->name, og_node_name(node),
                      og_node_source(node, &(og_source){{0}}),
                      (long long)instance->work, (long long)most);
}

// What a call needs before any kernel asks for memory: its arena and outputs,
// each of which somebody may write out whole.
static og_status bytes_check(og_instance *instance, const og_plan *plan,
                             opgraft_error *error) {
  const int64_t most = instance->entry->executable->host.max_bytes;
  int64_t bytes = (int64_t)plan->arena_bytes;
  if (most == 0) return OG_OK;
  for (int32_t i = 0; i < plan->storage_count; ++i)
    bytes = saturated_add(bytes, (int64_t)plan->storages[i].size_bytes);
  for (int32_t i = 0; i < plan->graph->output_count; ++i)
    if (plan->outputs[i].kind == OPGRAFT_OUTPUT_STORAGE ||
        plan->outputs[i].kind == OPGRAFT_OUTPUT_INPUT ||
        plan->outputs[i].kind == OPGRAFT_OUTPUT_CONSTANT)
      bytes = saturated_add(
          bytes, places(&plan->outputs[i].tensor) *
                     (int64_t)og_dtype_bytes(plan->outputs[i].tensor.dtype));
  instance->held_bytes = bytes;
  if (bytes <= most) return OG_OK;
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "graph %s: a call needs %lld bytes, the limit is %lld",
                      plan->graph->name, (long long)bytes, (long long)most);
}

static og_status reloc_add(og_instance *instance, og_reloc_list *list,
                           void **where, int64_t offset_bytes) {
  if (list->count == list->capacity) {
    const int32_t capacity = list->capacity ? list->capacity * 2 : 4;
    og_reloc *relocs =
        og_arena_array(&instance->memory, (size_t)capacity, sizeof *relocs);
    if (relocs == NULL) return OG_MEMORY;
    if (list->count > 0)
      memcpy(relocs, list->relocs, (size_t)list->count * sizeof *relocs);
    list->relocs = relocs;
    list->capacity = capacity;
  }
  list->relocs[list->count++] = (og_reloc){where, offset_bytes};
  return OG_OK;
}

void og_relocs_set(og_reloc_list *list, void *base) {
  for (int32_t i = 0; i < list->count; ++i)
    *list->relocs[i].where = (char *)base + list->relocs[i].offset_bytes;
  list->bound = base;
}

static og_status pointer_add(og_instance *instance, const og_plan *plan,
                             opgraft_value id, void **where) {
  const og_place *place = &plan->places[id];
  const og_value *source;
  switch (place->kind) {
    case OG_PLACE_ARENA:
      return reloc_add(instance, &instance->arena, where, place->offset_bytes);
    case OG_PLACE_INPUT:
      return reloc_add(instance, &instance->inputs[place->index], where,
                       place->offset_bytes);
    case OG_PLACE_STORAGE:
      return reloc_add(instance, &instance->storages[place->index], where,
                       place->offset_bytes);
    case OG_PLACE_CONSTANT:
      source = &plan->graph->values[place->index];
      *where = (char *)(uintptr_t)(source->kind == OG_VALUE_LITERAL
                                       ? (const void *)&source->number
                                       : source->data) +
               place->offset_bytes;
      return OG_OK;
    default:
      return OG_OK;
  }
}

og_status og_prep_pointer(og_prep *prep, void **where,
                          const og_tensor *tensor) {
  const opgraft_value id = (opgraft_value)(tensor - prep->instance->tensors);
  if (pointer_add(prep->instance, prep->plan, id, where) == OG_OK) return OG_OK;
  return og_prep_memory(prep);
}

// --- Attributes --------------------------------------------------------------

static opgraft_arg resolved(const og_prep *prep, const opgraft_arg *attr) {
  opgraft_arg arg = *attr;
  if (arg.kind == OPGRAFT_ARG_SIZE)
    og_size_resolve(&prep->executable->graph->sizes, prep->plan->sizes, &arg);
  return arg;
}

static og_status attr_int(og_prep *prep, const opgraft_arg *attr,
                          int64_t *out) {
  const opgraft_arg arg = resolved(prep, attr);
  if (arg.kind != OPGRAFT_ARG_INT && arg.kind != OPGRAFT_ARG_BOOL)
    return og_prep_wrong(prep, "an attribute is not an integer");
  *out = arg.i;
  return OG_OK;
}

og_status og_prep_int(og_prep *prep, int32_t index, int64_t otherwise,
                      int64_t *out) {
  const opgraft_arg *attr = og_node_attr(prep->node, index);
  *out = otherwise;
  return attr->kind == OPGRAFT_ARG_NONE ? OG_OK : attr_int(prep, attr, out);
}

bool og_prep_is_float(const og_prep *prep, int32_t index) {
  return resolved(prep, og_node_attr(prep->node, index)).kind ==
         OPGRAFT_ARG_FLOAT;
}

og_status og_prep_float(og_prep *prep, int32_t index, double otherwise,
                        double *out) {
  const opgraft_arg attr = resolved(prep, og_node_attr(prep->node, index));
  int64_t number = 0;
  *out = otherwise;
  if (attr.kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (attr.kind == OPGRAFT_ARG_FLOAT) {
    *out = attr.f;
    return OG_OK;
  }
  OG_TRY(attr_int(prep, &attr, &number));
  *out = (double)number;
  return OG_OK;
}

og_status og_prep_ints(og_prep *prep, int32_t index, int64_t *out,
                       int32_t capacity, int32_t *out_count) {
  const opgraft_arg *attr = og_node_attr(prep->node, index);
  *out_count = 0;
  if (attr->kind == OPGRAFT_ARG_NONE) return OG_OK;
  if (attr->kind != OPGRAFT_ARG_LIST) {
    *out_count = 1;
    return attr_int(prep, attr, out);
  }
  if (attr->count > capacity)
    return og_prep_wrong(prep, "a list of integers is too long");
  for (; *out_count < attr->count; ++*out_count)
    OG_TRY(attr_int(prep, &attr->list[*out_count], &out[*out_count]));
  return OG_OK;
}

og_status og_prep_dim(og_prep *prep, int32_t index, int32_t rank,
                      int32_t *out_dim) {
  int64_t dim;
  OG_TRY(og_prep_int(prep, index, -1, &dim));
  if (dim < 0) dim += rank;
  if (rank == 0 && (dim == 0 || dim == -1)) dim = 0;
  if (dim < 0 || (dim >= rank && rank > 0))
    return og_prep_wrong(prep, "a dim is out of range");
  *out_dim = (int32_t)dim;
  return OG_OK;
}

bool og_same_shape(const og_tensor *a, const og_tensor *b) {
  bool same = a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->shape[d] == b->shape[d];
  return same;
}

bool og_is_float(const og_tensor *tensor) {
  const og_class of = og_dtype_class(tensor->dtype);
  return of == OG_CLASS_F32 || of == OG_CLASS_F64;
}

bool og_is_int(const og_tensor *tensor) {
  return og_dtype_class(tensor->dtype) == OG_CLASS_I64;
}

// --- Steps -------------------------------------------------------------------

// Our kernels are simple; with this many elements a host's are worth the way
// to them. Arithmetic is a plain loop, which needs more of them; functions like
// exp are calls of libm, which need fewer.
enum { LARGE_ARITHMETIC = 65536, LARGE = 1024, LARGE_FUNCTION = 512 };

static int64_t most_elements(const og_prep *prep) {
  int64_t most = 0;
  for (int32_t i = 0; i < prep->node->in_count; ++i)
    if (prep->in[i] != NULL && og_numel(prep->in[i]) > most)
      most = og_numel(prep->in[i]);
  for (int32_t i = 0; i < prep->node->out_count; ++i)
    if (prep->out[i] != NULL && og_numel(prep->out[i]) > most)
      most = og_numel(prep->out[i]);
  return most;
}

static bool is_for_host(const og_prep *prep) {
  if (og_op_is(prep->node, OG_OP_HOST)) return true;
  const int64_t large = og_op_is(prep->node, OG_OP_PLAIN) ? LARGE_ARITHMETIC
                        : og_op_is(prep->node, OG_OP_POINTWISE) ? LARGE_FUNCTION
                                                                : LARGE;
  return most_elements(prep) >= large;
}

// The host is asked first where it may be faster, unless our kernel has a form
// of its own there, and last where the kernel refuses the node's shapes or
// types: a model that the host can run, runs.
static og_status step_prepare(og_prep *prep) {
  bool is_taken = false;
  const bool has_words =
      prep->node->foreign != NULL && !og_op_is(prep->node, OG_OP_FOREIGN);
  const bool asks_host = has_words && is_for_host(prep);
  og_status status = OG_UNSUPPORTED;
  prep->is_quick = asks_host && og_op_is(prep->node, OG_OP_OWN);
  if (prep->is_quick) status = kernels[prep->node->op](prep);
  prep->is_quick = false;
  if (asks_host && status == OG_UNSUPPORTED)
    OG_TRY(og_prepare_hosted(prep, true, &is_taken));
  if (is_taken)
    status = OG_OK;
  else if (status == OG_UNSUPPORTED)
    status = kernels[prep->node->op](prep);
  if (status == OG_SHAPE && has_words) {
    opgraft_error kept;
    if (prep->error != NULL) kept = *prep->error;
    OG_TRY(og_prepare_hosted(prep, false, &is_taken));
    if (is_taken) status = OG_OK;
    if (!is_taken && prep->error != NULL) *prep->error = kept;
  }
  prep->instance->host_nodes += is_taken;
  return status;
}

og_status og_node_prepare(og_prep *prep, og_tensor **scratch) {
  og_instance *instance = prep->instance;
  const og_node *node = prep->node;
  for (int32_t i = 0; i < node->in_count; ++i)
    scratch[i] = node->in[i] >= 0 ? &instance->tensors[node->in[i]] : NULL;
  og_tensor **out = scratch + node->in_count;
  for (int32_t r = 0; r < node->out_count; ++r)
    out[r] = node->out[r] >= 0 ? &instance->tensors[node->out[r]] : NULL;
  prep->in = scratch;
  prep->out = out;
  prep->step = (og_step){0};
  prep->is_pinned = false;
  prep->work = 0;
  OG_TRY(step_prepare(prep));
  OG_TRY(work_check(prep));
  if (prep->step.run == NULL) return OG_OK;  // nothing to do, as for no data
  instance->steps[instance->step_count] = prep->step;
  instance->step_pinned[instance->step_count] = prep->is_pinned;
  instance->step_nodes[instance->step_count++] =
      (int32_t)(node - prep->plan->graph->nodes);
  return OG_OK;
}

// The plan's sections, in steps; `step_at` says where each node's began. None
// where a step outside of lane 0 has to run on the thread that calls.
static void sections_make(og_instance *instance, const og_plan *plan,
                          const int32_t *step_at) {
  bool is_right = true;
  for (int32_t k = 0; k < plan->lanes.section_count; ++k) {
    const og_section *from = &plan->lanes.sections[k];
    og_section *to = &instance->sections[k];
    *to = (og_section){.first = step_at[from->first],
                       .lane_count = from->lane_count};
    for (int32_t l = 0; l < from->lane_count; ++l)
      to->end[l] = step_at[from->end[l]];
    for (int32_t i = to->end[0]; i < og_section_end(to); ++i)
      is_right &= !instance->step_pinned[i];
  }
  instance->section_count = is_right ? plan->lanes.section_count : 0;
}

// In which lane a position of the order runs; `section` is the first that may
// hold it, and goes on with the positions.
static int32_t lane_at(const og_lanes *lanes, int32_t *section,
                       int32_t position) {
  while (*section < lanes->section_count &&
         og_section_end(&lanes->sections[*section]) <= position)
    ++*section;
  if (*section == lanes->section_count) return 0;
  const og_section *at = &lanes->sections[*section];
  int32_t lane = 0;
  while (position >= at->first && position >= at->end[lane]) ++lane;
  return lane;
}

static void hold_add(og_instance *instance, og_hold *hold) {
  const int32_t at = instance->step_count++;
  instance->steps[at] = (og_step){og_hold_run, hold};
  instance->step_pinned[at] = true;
  instance->step_nodes[at] = instance->entry->plan->lanes.order[hold->after];
}

static og_status steps_make(og_instance *instance, const og_plan *plan,
                            int32_t *step_at, opgraft_error *error) {
  const opgraft_graph *graph = plan->graph;
  og_prep prep = {.executable = instance->entry->executable,
                  .plan = plan,
                  .instance = instance,
                  .error = error};
  int32_t section = 0, hold = 0;
  for (int32_t s = 0; s < plan->lanes.count; ++s) {
    prep.lane = lane_at(&plan->lanes, &section, s);
    prep.node = &graph->nodes[plan->lanes.order[s]];
    step_at[s] = instance->step_count;
    // Kernels keep these arrays, so each node has its own.
    og_tensor **scratch =
        og_arena_array(&instance->memory,
                       (size_t)(prep.node->in_count + prep.node->out_count) + 1,
                       sizeof *scratch);
    if (scratch == NULL) return og_prep_memory(&prep);
    OG_TRY(og_node_prepare(&prep, scratch));
    if (hold < instance->hold_count && instance->holds[hold].after == s)
      hold_add(instance, &instance->holds[hold++]);
  }
  step_at[plan->lanes.count] = instance->step_count;
  sections_make(instance, plan, step_at);
  og_holds_settle(instance);
  return OG_OK;
}

static og_status tensors_make(og_instance *instance, const og_plan *plan) {
  for (int32_t v = 0; v < plan->graph->value_count; ++v) {
    instance->tensors[v] = plan->tensors[v];
    if (pointer_add(instance, plan, v, &instance->tensors[v].data) != OG_OK)
      return OG_MEMORY;
  }
  return OG_OK;
}

static og_status instance_fill(og_instance *instance, opgraft_error *error) {
  const og_plan *plan = instance->entry->plan;
  const opgraft_graph *graph = plan->graph;
  og_arena *memory = &instance->memory;
  OG_TRY(bytes_check(instance, plan, error));
  instance->given = og_arena_array(memory, (size_t)plan->storage_count + 1,
                                   sizeof *instance->given);
  if (og_holds_make(instance, plan) != OG_OK) return og_graph_no_memory(error);
  const size_t nodes =
      (size_t)graph->node_count + (size_t)instance->hold_count + 1;
  instance->tensors = og_arena_array(memory, (size_t)graph->value_count + 1,
                                     sizeof *instance->tensors);
  instance->steps = og_arena_array(memory, nodes, sizeof *instance->steps);
  instance->step_nodes =
      og_arena_array(memory, nodes, sizeof *instance->step_nodes);
  instance->step_pinned =
      og_arena_array(memory, nodes, sizeof *instance->step_pinned);
  instance->sections =
      og_arena_array(memory, (size_t)plan->lanes.section_count + 1,
                     sizeof *instance->sections);
  int32_t *step_at = og_arena_array(memory, nodes, sizeof *step_at);
  instance->inputs = og_arena_array(memory, (size_t)graph->input_count + 1,
                                    sizeof *instance->inputs);
  instance->storages = og_arena_array(memory, (size_t)plan->storage_count + 1,
                                      sizeof *instance->storages);
  if (!instance->tensors || !instance->steps || !instance->step_nodes ||
      !instance->step_pinned || !instance->sections || !step_at ||
      !instance->inputs || !instance->storages || !instance->given)
    return og_graph_no_memory(error);
  if (tensors_make(instance, plan) != OG_OK) return og_graph_no_memory(error);
  OG_TRY(og_apart_make(instance, error));
  return steps_make(instance, plan, step_at, error);
}

og_status og_instance_create(og_plan_entry *entry, og_instance **out_instance,
                             opgraft_error *error) {
  *out_instance = NULL;
  og_instance *instance = og_alloc_zeroed(1, sizeof *instance);
  if (instance == NULL) return og_graph_no_memory(error);
  instance->entry = entry;
  const og_status status = instance_fill(instance, error);
  if (status != OG_OK)
    og_instance_destroy(instance);
  else
    *out_instance = instance;
  return status;
}

void og_instance_destroy(og_instance *instance) {
  og_hosted_release(instance);
  og_framed_release(instance);
  og_arena_destroy(&instance->memory);
  og_free(instance);
}
