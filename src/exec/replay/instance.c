// SPDX-License-Identifier: Apache-2.0
// Makes instances: the flat table of steps and the lists of pointers that
// move between calls.

#include "exec/replay/instance.h"

#include <stdatomic.h>
#include <string.h>

#include "exec/choose/candidates.h"
#include "exec/choose/choose.h"
#include "exec/device/onboard.h"
#include "exec/replay/apart.h"
#include "exec/replay/hold.h"
#include "exec/replay/steady.h"
#include "exec/runners/framed.h"
#include "exec/runners/hosted.h"
#include "exec/step/checked.h"
#include "exec/step/device.h"
#include "exec/step/kernels.h"
#include "exec/step/looped.h"
#include "exec/step/reloc.h"

// --- Limits ---

static int64_t saturated_add(int64_t a, int64_t b) {
  return og_i64_add(a, b, &a) ? a : INT64_MAX;
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

// What a call needs before any kernel asks for memory: its arenas and outputs,
// each of which somebody may write out whole.
static og_status bytes_check(og_instance *instance, const og_plan *plan,
                             opgraft_error *error) {
  const int64_t most = instance->entry->executable->host.max_bytes;
  int64_t bytes = (int64_t)og_plan_arena_bytes(plan);
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

// --- Steps -------------------------------------------------------------------

// A host that is slow to reach is asked last of all, where the kernels refuse
// the node's shapes or types: a model that the host can run, runs.
static og_status refused_ask(og_prep *prep, og_chosen *out) {
  opgraft_error kept;
  if (prep->error != NULL) kept = *prep->error;
  const og_status status = og_candidate_ask(prep, OG_BY_HOST, true);
  *out = (og_chosen){OG_BY_HOST, og_choice_refused(OG_BY_PLAIN)};
  if (status != OG_UNSUPPORTED) return status;
  if (prep->error != NULL) *prep->error = kept;
  return OG_SHAPE;
}

// The first candidate that takes the node. The plain one is the last, and says
// what is wrong with it.
static og_status choice_prepare(og_prep *prep, og_chosen *out) {
  og_order order;
  og_status status = OG_UNSUPPORTED;
  const char *first = NULL;  // why the preferred one does not run it
  og_choose(prep, &order);
  *out = (og_chosen){order.by[0], order.reason};
  for (int32_t i = 0; i < order.count; ++i) {
    const og_candidate by = order.by[i];
    prep->unread = -1;
    status = og_candidate_ask(prep, by, false);
    const bool refuses = status == OG_UNSUPPORTED || status == OG_SHAPE;
    if (!refuses || i + 1 == order.count) break;
    if (first == NULL) first = prep->refusal;
    *out = (og_chosen){order.by[i + 1],
                       first != NULL ? first : og_choice_refused(by)};
  }
  return status == OG_SHAPE && prep->node->is_as_recorded
             ? refused_ask(prep, out)
             : status;
}

// The node is the device's, or reads what lies there.
static bool is_onboard(const og_prep *prep) {
  const og_node *node = prep->node;
  if (prep->instance->onboard == NULL) return false;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 &&
        !og_is_cpu(prep->plan->graph->values[node->in[i]].device))
      return true;
  return !og_is_cpu(prep->device);
}

// Nodes of a device without a kernel there go to the host, which copies.
static og_status onboard_prepare(og_prep *prep) {
  bool is_taken;
  const og_status status = og_prepare_onboard(prep, og_node_prepare);
  if (status != OG_UNSUPPORTED) return status;
  OG_TRY(og_prepare_hosted(prep, true, &is_taken));
  if (is_taken) return OG_OK;
  return og_error_set(
      prep->error, OG_UNSUPPORTED, og_node_name(prep->node), NULL,
      "%s%s: the device's driver runs no kernels but those of operators that "
      "have one for it, and no host runs the node",
      og_node_name(prep->node), og_node_source(prep->node, &(og_source){{0}}));
}

static og_status step_prepare(og_prep *prep) {
  og_instance *instance = prep->instance;
  const og_node *node = prep->node;
  if (og_op_is(node, OG_OP_FOREIGN)) return og_prepare_foreign(prep);
  if (is_onboard(prep)) return onboard_prepare(prep);
  og_chosen chosen;
  OG_TRY(choice_prepare(prep, &chosen));
  instance->host_nodes += chosen.by == OG_BY_HOST;
  instance->fast_nodes +=
      chosen.by == OG_BY_FAST || chosen.by == OG_BY_PACKED ||
      chosen.by == OG_BY_WINOGRAD || chosen.by == OG_BY_EPILOGUE;
  if (instance->chosen != NULL)
    instance->chosen[node - prep->plan->graph->nodes] = chosen;
  return OG_OK;
}

// Constants of a file are checked before they are read.
static void constants_want(const og_prep *prep) {
  const og_node *node = prep->node;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (i != prep->unread && node->in[i] >= 0)
      og_checked_want(prep->plan->graph, node->in[i]);
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
  prep->unread = -1;
  prep->device =
      instance->is_twin ? og_cpu : og_node_device(prep->plan->graph, node);
  OG_TRY(step_prepare(prep));
  OG_TRY(work_check(prep));
  constants_want(prep);
  if (prep->step.run == NULL) return OG_OK;  // nothing to do, as for no data
  instance->steps[instance->step_count] = prep->step;
  instance->step_infos[instance->step_count++] =
      (og_step_info){.node = (int32_t)(node - prep->plan->graph->nodes),
                     .is_pinned = prep->is_pinned,
                     .device = prep->device,
                     .stream = prep->stream};
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
      is_right &= !instance->step_infos[i].is_pinned;
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
  instance->step_infos[at] =
      (og_step_info){.node = instance->entry->plan->lanes.order[hold->after],
                     .is_pinned = true,
                     .device = og_cpu};
}

// Once a process.
static void refused_say(const opgraft_host *host) {
  static atomic_flag is_said = ATOMIC_FLAG_INIT;
  if (host->log == NULL || atomic_flag_test_and_set(&is_said)) return;
  host->log(host->context,
            "this process may not make memory executable: fused loops are "
            "interpreted, which takes longer",
            0);
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
  OG_TRY(og_onboard_settle(instance, error));
  og_holds_settle(instance);
  if (!og_loops_seal(instance)) refused_say(&prep.executable->host);
  for (int32_t i = 0; i < graph->output_count; ++i)
    if (graph->outputs[i].value >= 0)
      og_checked_want(plan->graph, graph->outputs[i].value);
  return og_checked_all(prep.executable, error);
}

// Memory that steady results have as long as the instance.
static og_status kept_make(og_instance *instance, const og_plan *plan) {
  for (int32_t a = 0; a < plan->arena_count; ++a) {
    if (!plan->arenas[a].is_kept) continue;
    instance->kept =
        og_alloc_aligned(OG_PLAN_ALIGNMENT, plan->arenas[a].size_bytes);
    if (instance->kept == NULL) return OG_MEMORY;
    og_relocs_set(&instance->arenas[a], instance->kept);
  }
  return OG_OK;
}

static og_status tensors_make(og_instance *instance, const og_plan *plan) {
  for (int32_t v = 0; v < plan->graph->value_count; ++v) {
    instance->tensors[v] = plan->tensors[v];
    if (og_reloc_add(instance, plan, v, &instance->tensors[v].data) != OG_OK)
      return OG_MEMORY;
  }
  return OG_OK;
}

static og_status instance_fill(og_instance *instance, opgraft_error *error) {
  const og_plan *plan = instance->entry->plan;
  const opgraft_graph *graph = plan->graph;
  og_arena *memory = &instance->memory;
  OG_TRY(bytes_check(instance, plan, error));
  if (og_relocs_make(instance, plan) != OG_OK ||
      og_holds_make(instance, plan) != OG_OK)
    return og_graph_no_memory(error);
  const size_t nodes =
      (size_t)graph->node_count + (size_t)instance->hold_count + 1;
  instance->steps = og_arena_array(memory, nodes, sizeof *instance->steps);
  instance->step_infos =
      og_arena_array(memory, nodes, sizeof *instance->step_infos);
  instance->chosen = og_alloc_zeroed(nodes, sizeof *instance->chosen);
  instance->sections =
      og_arena_array(memory, (size_t)plan->lanes.section_count + 1,
                     sizeof *instance->sections);
  int32_t *step_at = og_arena_array(memory, nodes, sizeof *step_at);
  instance->leases = og_arena_array(memory, (size_t)plan->arena_count + 1,
                                    sizeof *instance->leases);
  if (!instance->steps || !instance->step_infos || !instance->chosen ||
      !instance->sections || !step_at || !instance->leases)
    return og_graph_no_memory(error);
  if (tensors_make(instance, plan) != OG_OK) return og_graph_no_memory(error);
  OG_TRY(og_apart_make(instance, error));
  OG_TRY(og_onboard_make(instance, plan, error));
  OG_TRY(steps_make(instance, plan, step_at, error));
  return kept_make(instance, plan) == OG_OK && og_steady_make(instance) == OG_OK
             ? OG_OK
             : og_graph_no_memory(error);
}

// What the host runs in lanes is prepared for its own threads.
static bool wants_team(const og_instance *instance) {
  const opgraft_host *host = &instance->entry->executable->host;
  return (host->flags & OPGRAFT_HOST_TEAM) != 0 && host->parallel_for != NULL &&
         (instance->section_count > 0 ? instance->host_steps
                                      : instance->host_loops) == 0;
}

og_status og_instance_create(og_plan_entry *entry, og_instance **out_instance,
                             opgraft_error *error) {
  *out_instance = NULL;
  og_instance *instance = og_alloc_zeroed(1, sizeof *instance);
  if (instance == NULL) return og_graph_no_memory(error);
  instance->entry = entry;
  const og_status status = instance_fill(instance, error);
  instance->has_team = wants_team(instance);
  if (status != OG_OK)
    og_instance_destroy(instance);
  else
    *out_instance = instance;
  return status;
}

void og_instance_destroy(og_instance *instance) {
  og_onboard_release(instance);
  og_hosted_release(instance);
  og_framed_release(instance);
  og_loops_release(instance);
  og_steady_release(instance);
  og_free(instance->kept);
  og_free(instance->chosen);
  og_arena_destroy(&instance->memory);
  og_free(instance);
}
