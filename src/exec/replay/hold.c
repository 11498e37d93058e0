// SPDX-License-Identifier: Apache-2.0
// Memory that a call holds no longer than it must: at a few places between the
// steps the host frees inputs that no later step reads, and makes storages
// that only later ones write. What a training step saved for its backward is
// freed while the gradients are made, so both never lie there whole.
//
// Invariants: holds stand behind nodes that are in no section, in order; a
// storage that the host's step donates (hosted.c) is in no hold.

#include "exec/replay/hold.h"

#include "exec/step/device.h"
#include "exec/step/reloc.h"

enum {
  HOLDS_MAX = 8,          // each takes the host's lock once
  WORTH_BYTES = 1 << 20,  // that a whole graph frees, or it has no holds
};

// While the holds of an instance are found.
typedef struct finder {
  const og_plan *plan;
  int64_t large_bytes;   // what is smaller stays
  int64_t *input_bytes;  // 0: stays
  int32_t *input_last;   // position of the last node that reads it
  int32_t *storage_first;
} finder;

// --- Lifetimes ---------------------------------------------------------------

static void value_touch(const finder *f, opgraft_value id, int32_t position) {
  if (id < 0) return;
  const og_place *place = &f->plan->places[id];
  if (place->kind == OG_PLACE_INPUT) f->input_last[place->index] = position;
  if (place->kind == OG_PLACE_STORAGE &&
      f->storage_first[place->index] > position)
    f->storage_first[place->index] = position;
}

static void lifetimes_find(const finder *f) {
  const opgraft_graph *graph = f->plan->graph;
  const og_lanes *lanes = &f->plan->lanes;
  for (int32_t s = 0; s < f->plan->storage_count; ++s)
    f->storage_first[s] = lanes->count;
  for (int32_t at = 0; at < lanes->count; ++at) {
    const og_node *node = &graph->nodes[lanes->order[at]];
    for (int32_t i = 0; i < node->in_count; ++i)
      value_touch(f, node->in[i], at);
    for (int32_t r = 0; r < node->out_count; ++r)
      value_touch(f, node->out[r], at);
  }
}

static int64_t sizes_find(const finder *f) {
  const og_plan *plan = f->plan;
  const opgraft_graph *graph = plan->graph;
  int64_t total = 0;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    const opgraft_value id = graph->inputs[i].value;
    if (id < 0 || (graph->values[id].flags & OPGRAFT_INPUT_STATIC) != 0)
      continue;
    const og_tensor *tensor = &plan->tensors[id];
    f->input_bytes[i] =
        og_numel(tensor) * (int64_t)og_dtype_bytes(tensor->dtype);
  }
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (plan->outputs[i].kind == OPGRAFT_OUTPUT_INPUT)
      f->input_bytes[plan->outputs[i].index] = 0;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    if (f->input_bytes[i] < f->large_bytes) f->input_bytes[i] = 0;
    total += f->input_bytes[i];
  }
  return total;
}

// --- Holds -------------------------------------------------------------------

static bool is_in_section(const og_lanes *lanes, int32_t position) {
  for (int32_t k = 0; k < lanes->section_count; ++k)
    if (position >= lanes->sections[k].first &&
        position < og_section_end(&lanes->sections[k]))
      return true;
  return false;
}

// Whether the node at a position may run as one step with the next one.
static bool is_joined_behind(const og_plan *plan, int32_t position) {
  return plan->joins[plan->lanes.order[position + 1]].is_joined;
}

// A hold behind each stretch of nodes that read the last of `part` bytes.
static void holds_place(og_instance *instance, const finder *f, int64_t part) {
  const opgraft_graph *graph = f->plan->graph;
  const og_lanes *lanes = &f->plan->lanes;
  int64_t bytes = 0;
  for (int32_t at = 0; at < lanes->count - 1; ++at) {
    const og_node *node = &graph->nodes[lanes->order[at]];
    for (int32_t n = 0; n < node->in_count; ++n) {
      const og_place *place =
          node->in[n] >= 0 ? &f->plan->places[node->in[n]] : NULL;
      if (place != NULL && place->kind == OG_PLACE_INPUT &&
          f->input_last[place->index] == at)
        bytes += f->input_bytes[place->index];
    }
    if (bytes == 0 || bytes < part || is_in_section(lanes, at) ||
        is_joined_behind(f->plan, at))
      continue;
    instance->holds[instance->hold_count++].after = at;
    bytes = 0;
    if (instance->hold_count == HOLDS_MAX) return;
  }
}

static og_status hold_fill(og_instance *instance, const finder *f, int32_t h) {
  og_hold *hold = &instance->holds[h];
  const int32_t before = h > 0 ? hold[-1].after : -1;
  const int32_t next =
      h + 1 < instance->hold_count ? hold[1].after : f->plan->lanes.count - 1;
  const int32_t inputs = f->plan->graph->input_count;
  const int32_t storages = f->plan->storage_count;
  hold->inputs = og_arena_array(&instance->memory, (size_t)inputs + 1,
                                sizeof *hold->inputs);
  hold->storages = og_arena_array(&instance->memory, (size_t)storages + 1,
                                  sizeof *hold->storages);
  hold->data = og_arena_array(&instance->memory, (size_t)storages + 1,
                              sizeof *hold->data);
  if (!hold->inputs || !hold->storages || !hold->data) return OG_MEMORY;
  for (int32_t i = 0; i < inputs; ++i)
    if (f->input_bytes[i] > 0 && f->input_last[i] > before &&
        f->input_last[i] <= hold->after)
      hold->inputs[hold->input_count++] = i;
  for (int32_t s = 0; s < storages; ++s)
    if ((int64_t)f->plan->storages[s].size_bytes >= f->large_bytes &&
        f->storage_first[s] > hold->after && f->storage_first[s] <= next)
      hold->storages[hold->storage_count++] = s;
  hold->instance = instance;
  return OG_OK;
}

og_status og_holds_make(og_instance *instance, const og_plan *plan) {
  const opgraft_host *host = &instance->entry->executable->host;
  // A device has not done with an input when its step has ended.
  if (host->memory_event == NULL || !og_is_cpu(og_graph_device(plan->graph)))
    return OG_OK;
  const size_t inputs = (size_t)plan->graph->input_count + 1;
  const size_t storages = (size_t)plan->storage_count + 1;
  og_arena *memory = &instance->memory;
  finder f = {.plan = plan, .large_bytes = og_large_bytes(host->flags)};
  const int64_t worth_bytes =
      (host->flags & OG_HOST_ANY_SIZE) != 0 ? 1 : WORTH_BYTES;
  f.input_bytes = og_arena_array(memory, inputs, sizeof *f.input_bytes);
  f.input_last = og_arena_array(memory, inputs, sizeof *f.input_last);
  f.storage_first = og_arena_array(memory, storages, sizeof *f.storage_first);
  instance->holds = og_arena_array(memory, HOLDS_MAX, sizeof *instance->holds);
  if (!f.input_bytes || !f.input_last || !f.storage_first || !instance->holds)
    return OG_MEMORY;
  const int64_t total = sizes_find(&f);
  if (total < worth_bytes) return OG_OK;
  lifetimes_find(&f);
  holds_place(instance, &f, total / HOLDS_MAX);
  for (int32_t h = 0; h < instance->hold_count; ++h)
    OG_TRY(hold_fill(instance, &f, h));
  return OG_OK;
}

void og_holds_settle(og_instance *instance) {
  for (int32_t h = 0; h < instance->hold_count; ++h) {
    og_hold *hold = &instance->holds[h];
    int32_t count = 0;
    for (int32_t k = 0; k < hold->storage_count; ++k) {
      opgraft_donated *given = &instance->donated[hold->storages[k]];
      if (given->tensor != NULL) continue;
      given->is_late = true;
      hold->storages[count++] = hold->storages[k];
    }
    hold->storage_count = count;
  }
}

og_status og_hold_run(void *state, const og_run *run) {
  const og_hold *hold = state;
  og_instance *instance = hold->instance;
  OG_TRY(run->executable->host.memory_event(
      instance->host_call, hold->inputs, hold->input_count, hold->storages,
      hold->storage_count, hold->data, run->error));
  for (int32_t k = 0; k < hold->storage_count; ++k)
    og_storage_set(instance, hold->storages[k], hold->data[k]);
  return OG_OK;
}
