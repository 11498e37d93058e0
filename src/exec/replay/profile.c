// SPDX-License-Identifier: Apache-2.0
// The steps of a call, and the time of each.

#include <opgraft/graph_file.h>
#include <string.h>

#include "base/sized.h"
#include "exec/replay/sections.h"
#include "exec/replay/steady.h"
#include "exec/step/reloc.h"
#include "exec/step/teams.h"

int32_t opgraft_call_step_count(const opgraft_call *call) {
  const og_instance *instance = call->instance;
  return instance->step_count;
}

static int64_t tensor_bytes(const og_instance *instance, opgraft_value id) {
  if (id < 0 ||
      instance->entry->plan->graph->values[id].kind == OG_VALUE_LITERAL)
    return 0;
  const og_tensor *tensor = &instance->tensors[id];
  return og_numel(tensor) * (int64_t)og_dtype_bytes(tensor->dtype);
}

og_status opgraft_call_step(const opgraft_call *call, int32_t index,
                            opgraft_step *out_step, opgraft_error *error) {
  const og_instance *instance = call->instance;
  const opgraft_graph *graph = instance->entry->plan->graph;
  OG_TRY(og_size_check("opgraft_step", out_step->struct_size, sizeof(uint32_t),
                       sizeof *out_step, error));
  if (index < 0 || index >= instance->step_count)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s has %d step%s here; there is no step %d",
                        graph->name, (int)instance->step_count,
                        og_plural(instance->step_count), (int)index);
  const og_step_info *info = &instance->step_infos[index];
  const og_node *node = &graph->nodes[info->node];
  opgraft_step step = {.line = node->line,
                       .file = node->file,
                       .name = og_node_name(node),
                       .device = info->device};
  for (int32_t i = 0; i < node->in_count; ++i)
    step.bytes += tensor_bytes(instance, node->in[i]);
  for (int32_t r = 0; r < node->out_count; ++r)
    step.bytes += tensor_bytes(instance, node->out[r]);
  if (node->out_count > 0 && node->out[0] >= 0)
    step.result = graph->values[node->out[0]].name;
  og_fill_sized(&step, sizeof step, out_step);
  return OG_OK;
}

// Where the plan's times are kept; NULL: without memory.
static int64_t *node_times(og_plan_entry *entry) {
  const size_t count = (size_t)entry->plan->graph->node_count + 1;
  pthread_mutex_lock(&entry->executable->mutex);
  if (entry->node_ns == NULL)
    entry->node_ns = og_alloc_zeroed(count, sizeof *entry->node_ns);
  pthread_mutex_unlock(&entry->executable->mutex);
  return entry->node_ns;
}

og_status opgraft_call_profile(opgraft_call *call, void *const *storage_data,
                               int64_t *step_ns, opgraft_error *error) {
  og_instance *instance = call->instance;
  og_team *team = NULL;
  const og_run run = {.executable = instance->entry->executable,
                      .error = error,
                      .leaves_steady = og_steady_is_kept(instance),
                      .team = instance->has_team ? &team : NULL};
  og_storages_bind(instance, storage_data);
  if (error != NULL) error->code = OG_OK;
  const size_t count = (size_t)instance->step_count + 1;
  int64_t *times = og_alloc_zeroed(count, sizeof *times);
  int64_t *node_ns = node_times(instance->entry);
  if (times == NULL || node_ns == NULL) {
    og_free(times);
    return og_graph_no_memory(error);
  }
  const og_status status = og_steps_run_timed(instance, &run, times);
  for (int32_t i = 0; status == OG_OK && i < instance->step_count; ++i) {
    if (step_ns != NULL) step_ns[i] += times[i];
    __atomic_fetch_add(&node_ns[instance->step_infos[i].node], times[i],
                       __ATOMIC_RELAXED);
  }
  og_free(times);
  og_teams_give(team);
  if (status == OG_OK)
    __atomic_fetch_add(&run.executable->stats.replays, 1, __ATOMIC_RELAXED);
  return status;
}
