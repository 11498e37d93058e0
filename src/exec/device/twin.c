// SPDX-License-Identifier: Apache-2.0
// Kernels of the engine on a device that runs C functions.
//
// Invariant: the twin's plan has every memory as a storage, so its lists of
// pointers are by base; a kernel's pointers into one memory stand together in
// such a list, and are set with the twin's lock held.

#include "exec/device/twin.h"

#include "base/float_env.h"
#include "exec/step/looped.h"
#include "exec/step/reloc.h"

// A kernel's pointers into one memory.
typedef struct span {
  int32_t base;
  int32_t begin, end;
} span;

struct og_twin_kernel {
  og_twin *twin;
  const og_node *node;
  og_step step;
  span *spans;
  int32_t span_count;
};

struct og_twin {
  opgraft_executable executable;  // what kernels ask for: one thread, no host
  og_plan plan;
  og_plan_entry entry;
  og_instance instance;
  pthread_mutex_t lock;
};

// --- Places ------------------------------------------------------------------

int32_t og_base_of(const og_plan *plan, const og_place *place) {
  switch (place->kind) {
    case OG_PLACE_INPUT:
      return place->index;
    case OG_PLACE_STORAGE:
      return plan->graph->input_count + place->index;
    case OG_PLACE_ARENA:
      return plan->graph->input_count + plan->storage_count + place->index;
    default:
      return -1;
  }
}

int32_t og_base_count(const og_plan *plan) {
  return plan->graph->input_count + plan->storage_count + plan->arena_count;
}

og_reloc_list *og_base_list(const og_instance *instance, int32_t base) {
  const og_plan *plan = instance->entry->plan;
  if (base < plan->graph->input_count) return &instance->inputs[base];
  base -= plan->graph->input_count;
  if (base < plan->storage_count) return &instance->storages[base];
  return &instance->arenas[base - plan->storage_count];
}

// --- Making ------------------------------------------------------------------

static og_status plan_make(og_plan *own, const og_plan *plan,
                           og_arena *memory) {
  const size_t values = (size_t)plan->graph->value_count + 1;
  const size_t nodes = (size_t)plan->graph->node_count + 1;
  *own = *plan;
  own->places = og_arena_array(memory, values, sizeof *own->places);
  own->joins = og_arena_array(memory, nodes, sizeof *own->joins);
  if (own->places == NULL || own->joins == NULL) return OG_MEMORY;
  for (int32_t v = 0; v < plan->graph->value_count; ++v) {
    const int32_t base = og_base_of(plan, &plan->places[v]);
    own->places[v] = plan->places[v];
    if (base < 0) continue;
    own->places[v].kind = OG_PLACE_STORAGE;
    own->places[v].index = base;
  }
  own->storage_count = og_base_count(plan);
  own->arena_count = 0;
  own->lanes.section_count = 0;
  return OG_OK;
}

static void executable_make(opgraft_executable *own,
                            const opgraft_executable *executable) {
  *own = *executable;
  own->threads = 1;
  own->team = NULL;
  own->tuning = NULL;
  own->host.prepare = NULL;
  own->host.parallel_for = NULL;
}

// Constants of the graph are read where they are.
static og_status tensors_make(og_instance *own, const og_plan *plan) {
  for (int32_t v = 0; v < plan->graph->value_count; ++v) {
    own->tensors[v] = plan->tensors[v];
    own->tensors[v].device = og_cpu;
    if (plan->places[v].kind == OG_PLACE_CONSTANT)
      OG_TRY(og_reloc_add(own, plan, v, &own->tensors[v].data));
  }
  return OG_OK;
}

og_twin *og_twin_make(og_instance *instance, const og_plan *plan) {
  og_arena *memory = &instance->memory;
  og_twin *twin = og_arena_array(memory, 1, sizeof *twin);
  if (twin == NULL || plan_make(&twin->plan, plan, memory) != OG_OK)
    return NULL;
  og_instance *own = &twin->instance;
  executable_make(&twin->executable, instance->entry->executable);
  twin->entry =
      (og_plan_entry){.executable = &twin->executable, .plan = &twin->plan};
  own->entry = &twin->entry;
  own->is_twin = true;
  own->steps = og_arena_array(memory, 1, sizeof *own->steps);
  own->step_infos = og_arena_array(memory, 1, sizeof *own->step_infos);
  if (own->steps == NULL || own->step_infos == NULL ||
      og_relocs_make(own, &twin->plan) != OG_OK ||
      tensors_make(own, &twin->plan) != OG_OK) {
    og_arena_destroy(&own->memory);
    return NULL;
  }
  pthread_mutex_init(&twin->lock, NULL);
  return twin;
}

void og_twin_seal(og_twin *twin) { og_loops_seal(&twin->instance); }

void og_twin_release(og_twin *twin) {
  og_loops_release(&twin->instance);
  og_arena_destroy(&twin->instance.memory);
  pthread_mutex_destroy(&twin->lock);
}

// --- Preparing ---------------------------------------------------------------

// In which of the twin's lists an operand's pointers are; -1: in none.
static int32_t base_at(const og_twin_kernel *kernel, int32_t i) {
  const opgraft_value id = og_node_value(kernel->node, i);
  const og_place *place = id >= 0 ? &kernel->twin->plan.places[id] : NULL;
  return place != NULL && place->kind == OG_PLACE_STORAGE ? place->index : -1;
}

static void spans_begin(og_twin_kernel *kernel) {
  const og_node *node = kernel->node;
  for (int32_t i = 0; i < node->in_count + node->out_count; ++i) {
    const int32_t base = base_at(kernel, i);
    bool is_new = base >= 0;
    for (int32_t s = 0; s < kernel->span_count; ++s)
      is_new &= kernel->spans[s].base != base;
    if (!is_new) continue;
    const int32_t begin = kernel->twin->instance.storages[base].count;
    kernel->spans[kernel->span_count++] = (span){base, begin, begin};
  }
}

static void spans_end(og_twin_kernel *kernel) {
  for (int32_t s = 0; s < kernel->span_count; ++s) {
    span *at = &kernel->spans[s];
    at->end = kernel->twin->instance.storages[at->base].count;
  }
}

og_status og_twin_prepare(og_twin *twin, og_prep *prep,
                          og_node_prepare_fn prepare,
                          const og_twin_kernel **out_kernel) {
  og_instance *own = &twin->instance;
  const og_node *node = prep->node;
  const size_t operands = (size_t)(node->in_count + node->out_count) + 1;
  og_prep inner = {.executable = &twin->executable,
                   .plan = &twin->plan,
                   .instance = own,
                   .node = node,
                   .error = prep->error};
  og_twin_kernel *kernel = og_prep_alloc(prep, sizeof *kernel);
  og_tensor **scratch = og_prep_alloc(prep, operands * sizeof *scratch);
  span *spans = og_prep_alloc(prep, operands * sizeof *spans);
  *out_kernel = NULL;
  if (kernel == NULL || scratch == NULL || spans == NULL)
    return og_prep_memory(prep);
  *kernel = (og_twin_kernel){.twin = twin, .node = node, .spans = spans};
  own->step_count = 0;
  own->chosen = prep->instance->chosen;
  spans_begin(kernel);
  const og_status status = prepare(&inner, scratch);
  spans_end(kernel);
  own->chosen = NULL;
  prep->work = inner.work;
  if (status != OG_OK || own->step_count == 0) return status;
  kernel->step = own->steps[0];
  *out_kernel = kernel;
  return OG_OK;
}

// --- Running -----------------------------------------------------------------

static void spans_set(const og_twin_kernel *kernel, int32_t base, char *at) {
  const og_reloc *relocs = kernel->twin->instance.storages[base].relocs;
  for (int32_t s = 0; s < kernel->span_count; ++s) {
    const span *of = &kernel->spans[s];
    for (int32_t r = of->begin; of->base == base && r < of->end; ++r)
      *relocs[r].where = at + relocs[r].offset_bytes;
  }
}

// Where the driver says that the call's tensors lie.
static void kernel_bind(const og_twin_kernel *kernel, const og_call *call) {
  const og_node *node = kernel->node;
  og_tensor *tensors = kernel->twin->instance.tensors;
  for (int32_t i = 0; i < node->in_count + node->out_count; ++i) {
    const og_tensor *given =
        i < node->in_count ? call->in[i] : call->out[i - node->in_count];
    if (given == NULL) continue;
    const opgraft_value id = og_node_value(node, i);
    const og_place *place = &kernel->twin->plan.places[id];
    tensors[id].data = given->data;
    if (place->kind == OG_PLACE_STORAGE)
      spans_set(kernel, place->index,
                (char *)given->data - place->offset_bytes);
  }
}

og_status og_twin_run(const og_call *call) {
  const og_twin_kernel *kernel = call->derived;
  og_twin *twin = kernel->twin;
  opgraft_error error = {.code = OG_OK};
  const og_run run = {.executable = &twin->executable, .error = &error};
  pthread_mutex_lock(&twin->lock);
  kernel_bind(kernel, call);
  const og_float_env env = og_float_env_get();
  const og_status status = kernel->step.run(kernel->step.state, &run);
  og_float_env_set(env);
  pthread_mutex_unlock(&twin->lock);
  if (status == OG_OK) return OG_OK;
  return og_fail(
      call, status,
      error.code != OG_OK ? error.text : opgraft_status_text(status));
}
