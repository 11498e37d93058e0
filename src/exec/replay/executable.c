// SPDX-License-Identifier: Apache-2.0
// Executables: plans for the sizes seen, instances for the calls in flight.
//
// Invariants: the mutex guards the list of plans, their idle instances and the
// statistics; an instance that is in use belongs to its call alone; a plan
// that is evicted while in use is freed by its last call.

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "device/driver.h"
#include "exec/choose/rules.h"
#include "exec/choose/tune.h"
#include "exec/device/onboard.h"
#include "exec/fast/packs.h"
#include "exec/replay/apart.h"
#include "exec/replay/entry.h"
#include "exec/replay/instance.h"
#include "exec/replay/lane_trial.h"
#include "exec/replay/lease.h"
#include "exec/replay/sections.h"
#include "exec/replay/steady.h"
#include "exec/runners/hosted.h"
#include "exec/step/device.h"
#include "exec/step/reloc.h"
#include "exec/step/teams.h"

enum { PLAN_LIMIT = 16 };

// --- Life --------------------------------------------------------------------

// A device's lanes are streams. Nobody measures what they gain, so the host
// asks for them.
static int32_t device_lanes(const opgraft_host *host, og_device device,
                            int32_t most) {
  const opgraft_driver *driver = og_driver_of(device);
  if (driver == NULL || !og_driver_has_events(driver)) return 1;
  if (host->lanes > 0)
    return host->lanes < OG_LANES_MAX ? host->lanes : OG_LANES_MAX;
  return (host->flags & OPGRAFT_HOST_LANES_NOW) != 0 ? most : 1;
}

static og_status executable_fill(opgraft_executable *executable,
                                 const opgraft_host *host,
                                 opgraft_error *error) {
  opgraft_host *own = &executable->host;
  OG_TRY(og_host_copy(host, own, error));
  if (own->rules != NULL)
    OG_TRY(og_rules_create(own->rules, &executable->rules, error));
  own->rules = NULL;  // the caller's
  if ((executable->graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) != 0 &&
      own->prepare != NULL && own->max_bytes == 0)
    OG_TRY(og_tuning_create(own, &executable->tuning, error));
  own->tune_file = own->tune_with = NULL;  // as well
  if (own->plan_limit <= 0) own->plan_limit = PLAN_LIMIT;
  // Kernels keep scratch for each worker, so there is one at least.
  executable->threads = own->threads > 0 ? own->threads : 1;
  if (own->parallel_for == NULL) {
    OG_TRY(og_team_create(own->threads, &executable->team, error));
    executable->threads = og_team_threads(executable->team);
  }
  const int32_t most =
      executable->threads < OG_LANES_MAX ? executable->threads : OG_LANES_MAX;
  executable->lanes = own->lanes > 0 && own->lanes < most ? own->lanes : most;
  const og_device device = og_graph_device(executable->graph);
  if (!og_is_cpu(device)) executable->lanes = device_lanes(own, device, most);
  return OG_OK;
}

static void stats_from_graph(opgraft_executable *executable) {
  const opgraft_graph *graph = executable->graph;
  opgraft_stats *stats = &executable->stats;
  stats->import_ns = graph->import_ns;
  stats->passes_ns = graph->passes_ns;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    if (og_op_is(node, OG_OP_VIEW)) {
      ++stats->views;
      continue;
    }
    ++stats->nodes;
    const bool is_fallback =
        og_op_is(node, OG_OP_FOREIGN) && node->origin->module_op == NULL;
    ++*(is_fallback ? &stats->fallbacks : &stats->native);
    for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
      if (node->out[r] >= 0 && node->update[r] > 0 &&
          !og_result_is_part(graph, node, r) &&
          graph->values[node->out[r]].root !=
              graph->values[node->in[node->update[r] - 1]].root)
        ++stats->clones;
  }
}

static void unknown_say(const opgraft_executable *executable) {
  const opgraft_host *host = &executable->host;
  const opgraft_graph *graph = executable->graph;
  char text[256];
  const int32_t count = host->log != NULL ? og_packs_unknown(graph) : 0;
  if (count == 0) return;
  snprintf(text, sizeof text,
           "%.120s: %d packed weight%s of a layout that this opgraft does not "
           "know: packed anew",
           graph->blocks.path, (int)count, count > 1 ? "s are" : " is");
  host->log(host->context, text, 0);
}

og_status opgraft_executable_create(opgraft_graph *graph,
                                    const opgraft_host *host,
                                    opgraft_executable **out_executable,
                                    opgraft_error *error) {
  *out_executable = NULL;
  if (!graph->is_finished)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s is not finished; call opgraft_graph_finish",
                        graph->name);
  OG_TRY(og_graph_devices_check(graph, error));
  opgraft_executable *executable = og_alloc_zeroed(1, sizeof *executable);
  if (executable == NULL) return og_graph_no_memory(error);
  executable->graph = graph;
  const og_status status = executable_fill(executable, host, error);
  if (status != OG_OK) {
    og_rules_destroy(executable->rules);
    og_tuning_destroy(executable->tuning);
    og_free(executable);
    return status;
  }
  opgraft_graph_retain(graph);
  executable->references = 1;
  pthread_mutex_init(&executable->mutex, NULL);
  stats_from_graph(executable);
  unknown_say(executable);
  og_teams_users_add(1);
  *out_executable = executable;
  return OG_OK;
}

// A call in flight holds a reference, so this may run at the end of one.
static void executable_destroy(opgraft_executable *executable) {
  while (executable->plans != NULL) {
    og_plan_entry *entry = executable->plans;
    executable->plans = entry->next;
    og_entry_destroy(entry);
  }
  og_team_destroy(executable->team);
  og_rules_destroy(executable->rules);
  og_tuning_destroy(executable->tuning);
  og_packs_destroy(executable->packs);
  og_kept_destroy(executable->kept);
  pthread_mutex_destroy(&executable->mutex);
  opgraft_graph_release(executable->graph);
  og_free(executable);
  og_teams_users_add(-1);
}

void opgraft_executable_release(opgraft_executable *executable) {
  if (executable == NULL) return;
  pthread_mutex_lock(&executable->mutex);
  const bool is_last = --executable->references == 0;
  pthread_mutex_unlock(&executable->mutex);
  if (is_last) executable_destroy(executable);
}

// --- Plans -------------------------------------------------------------------

static bool entry_has(const og_plan_entry *entry, const int64_t *symbols) {
  const int32_t count = entry->plan->graph->sizes.symbol_count;
  return count == 0 || memcmp(entry->plan->symbols, symbols,
                              (size_t)count * sizeof *symbols) == 0;
}

// Moves a hit to the front. Under the mutex.
static og_plan_entry *entry_find(opgraft_executable *executable,
                                 const int64_t *symbols) {
  for (og_plan_entry **at = &executable->plans; *at; at = &(*at)->next) {
    og_plan_entry *entry = *at;
    if (!entry_has(entry, symbols)) continue;
    *at = entry->next;
    entry->next = executable->plans;
    executable->plans = entry;
    return entry;
  }
  return NULL;
}

// Under the mutex. The list's last plan goes; in use, it is freed later.
static void entry_evict(opgraft_executable *executable) {
  og_plan_entry **at = &executable->plans;
  while ((*at)->next != NULL) at = &(*at)->next;
  og_plan_entry *entry = *at;
  *at = NULL;
  --executable->plan_count;
  entry->is_evicted = true;
  if (entry->users == 0) og_entry_destroy(entry);
}

// On a device: whether the node's operands and results all lie there, so that
// it may be a launch.
static bool is_onboard(const opgraft_graph *graph, const og_node *node) {
  for (int32_t i = 0; i < node->in_count + node->out_count; ++i) {
    const opgraft_value id = og_node_value(node, i);
    if (id >= 0 && og_is_cpu(graph->values[id].device) &&
        graph->values[id].kind != OG_VALUE_LITERAL &&
        graph->values[id].kind != OG_VALUE_CONSTANT)
      return false;
  }
  return true;
}

static uint8_t step_flags(const opgraft_executable *executable,
                          const og_node *node) {
  const opgraft_graph *graph = executable->graph;
  if (!og_is_cpu(og_graph_device(graph)))
    return is_onboard(graph, node) ? 0 : OG_STEP_ALONE;
  return executable->host.prepare != NULL && node->is_as_recorded
             ? OG_STEP_PINNED
             : 0;
}

// Sections from the first call on, with equal costs for all nodes: what
// devices, tests and --bisect want. A host's nodes stay on the thread that
// calls.
static og_status entry_create_now(opgraft_executable *executable,
                                  const int64_t *symbols,
                                  og_plan_entry **out_entry,
                                  opgraft_error *error) {
  const opgraft_graph *graph = executable->graph;
  const size_t nodes = (size_t)graph->node_count + 1;
  int64_t *cost_ns = og_alloc_zeroed(nodes, sizeof *cost_ns);
  uint8_t *flags = og_alloc_zeroed(nodes, 1);
  og_status status = OG_MEMORY;
  if (cost_ns != NULL && flags != NULL) {
    for (int32_t n = 0; n < graph->node_count; ++n) {
      cost_ns[n] = 1000;
      flags[n] = step_flags(executable, &graph->nodes[n]);
    }
    const og_lane_request request = {
        .cost_ns = cost_ns, .flags = flags, .lanes = executable->lanes};
    status = og_entry_create(executable, symbols, &request, out_entry, error);
  } else {
    og_graph_no_memory(error);
  }
  og_free(cost_ns);
  og_free(flags);
  return status;
}

// Under the mutex, which also keeps two threads from making the same plan.
static og_status entry_get(opgraft_executable *executable,
                           const int64_t *symbols, og_plan_entry **out_entry,
                           opgraft_error *error) {
  *out_entry = entry_find(executable, symbols);
  if (*out_entry != NULL) return OG_OK;
  const int64_t begun_ns = og_now_ns();
  const bool is_now = (executable->host.flags & OPGRAFT_HOST_LANES_NOW) != 0 ||
                      !og_is_cpu(og_graph_device(executable->graph));
  const bool has_lanes = executable->lanes > 1 && is_now;
  OG_TRY(has_lanes
             ? entry_create_now(executable, symbols, out_entry, error)
             : og_entry_create(executable, symbols, NULL, out_entry, error));
  if (!has_lanes) og_lane_trial_begin(*out_entry);
  (*out_entry)->next = executable->plans;
  executable->plans = *out_entry;
  if (++executable->plan_count > executable->host.plan_limit)
    entry_evict(executable);
  og_entry_stats(executable, (*out_entry)->plan);
  executable->stats.plan_ns = og_now_ns() - begun_ns;
  ++executable->stats.replans_shape;
  return OG_OK;
}

// --- Inputs ------------------------------------------------------------------

static og_status dim_wrong(const opgraft_graph *graph, int32_t index,
                           const char *what, int32_t d, int64_t found,
                           int64_t wanted, opgraft_error *error) {
  char text[32];
  snprintf(text, sizeof text, "%s in dim %d", what, (int)d);
  return og_input_wrong(graph, index, OG_SHAPE, text, found, wanted, error);
}

static og_status tensor_check(const opgraft_graph *graph, int32_t index,
                              const og_tensor *found, const og_tensor *wanted,
                              opgraft_error *error) {
  int64_t dense = 1;
  bool is_empty = false;
  for (int32_t d = 0; d < found->ndim; ++d) {
    if (OG_UNLIKELY(found->shape[d] != wanted->shape[d]))
      return dim_wrong(graph, index, "size", d, found->shape[d],
                       wanted->shape[d], error);
    is_empty |= found->shape[d] == 0;
  }
  for (int32_t d = found->ndim - 1; !is_empty && d >= 0; --d) {
    const int64_t stride = found->strides ? found->strides[d] : dense;
    dense *= found->shape[d];
    if (found->shape[d] > 1 && OG_UNLIKELY(stride != wanted->strides[d]))
      return dim_wrong(graph, index, "stride", d, stride, wanted->strides[d],
                       error);
  }
  return OG_OK;
}

// Checks that the inputs have this plan's types and sizes.
static og_status plan_check(const og_plan *plan, const og_tensor *const *in,
                            const int64_t *ints, opgraft_error *error) {
  const opgraft_graph *graph = plan->graph;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    const og_input *input = &graph->inputs[i];
    if (input->value >= 0) {
      OG_TRY(
          tensor_check(graph, i, in[i], &plan->tensors[input->value], error));
    } else if (ints[i] != plan->sizes[input->size]) {
      return og_input_wrong(graph, i, OG_SHAPE, "value", ints[i],
                            plan->sizes[input->size], error);
    }
  }
  return OG_OK;
}

static og_status inputs_bind(og_instance *instance, const og_tensor *const *in,
                             opgraft_error *error) {
  const opgraft_graph *graph = instance->entry->plan->graph;
  int32_t moves = 0;
  for (int32_t i = 0; i < graph->input_count; ++i) {
    if (in[i] == NULL) continue;
    void *data = (char *)in[i]->data + in[i]->byte_offset;
    og_reloc_list *list = &instance->inputs[i];
    if (list->bound == data) continue;
    const opgraft_value id = graph->inputs[i].value;
    if (list->bound != NULL &&
        (graph->values[id].flags & OPGRAFT_INPUT_STATIC) != 0) {
      opgraft_executable *executable = instance->entry->executable;
      pthread_mutex_lock(&executable->mutex);
      ++executable->stats.rebinds_input;
      pthread_mutex_unlock(&executable->mutex);
    }
    og_relocs_set(list, data);
    ++moves;
  }
  if (instance->apart == NULL || (moves == 0 && instance->are_apart))
    return OG_OK;
  const og_status status = og_apart_check(instance, in, moves, error);
  instance->are_apart = status == OG_OK;
  return status;
}

// --- Calls -------------------------------------------------------------------

// Under the mutex: an idle instance, or NULL.
static og_instance *instance_pop(og_plan_entry *entry) {
  og_instance *instance = entry->idle;
  if (instance != NULL) entry->idle = instance->next;
  return instance;
}

static void entry_leave(og_plan_entry *entry, og_instance *instance) {
  opgraft_executable *executable = entry->executable;
  pthread_mutex_lock(&executable->mutex);
  if (instance != NULL) {
    instance->next = entry->idle;
    entry->idle = instance;
  }
  const bool is_free = --entry->users == 0 && entry->is_evicted;
  const bool is_last = --executable->references == 0;
  pthread_mutex_unlock(&executable->mutex);
  if (is_free) og_entry_destroy(entry);
  if (is_last) executable_destroy(executable);
}

static og_status arena_lease(og_instance *instance, int32_t index,
                             opgraft_error *error) {
  const og_plan_arena *arena = &instance->entry->plan->arenas[index];
  og_reloc_list *list = &instance->arenas[index];
  void *memory;
  if (arena->is_kept) return OG_OK;
  og_lease *before = instance->leases[index];
  void *stream = og_is_cpu(arena->device) ? NULL : og_onboard_stream(instance);
  OG_TRY(og_lease_take(arena->device, arena->size_bytes, stream, before,
                       &instance->leases[index], &memory, error));
  if (list->bound == memory) return OG_OK;
  if (list->bound != NULL) {
    opgraft_executable *executable = instance->entry->executable;
    pthread_mutex_lock(&executable->mutex);
    ++executable->stats.rebinds_arena;
    pthread_mutex_unlock(&executable->mutex);
  }
  og_relocs_set(list, memory);
  return OG_OK;
}

// Releases those of the first `count` arenas.
static void leases_give(const og_instance *instance, int32_t count) {
  for (int32_t a = 0; a < count; ++a) og_lease_give(instance->leases[a]);
}

static og_status instance_lease(og_instance *instance, opgraft_error *error) {
  const int32_t count = instance->entry->plan->arena_count;
  const void *before = og_onboard_stream(instance);
  OG_TRY(og_onboard_begin(instance, error));
  if (OG_UNLIKELY(og_onboard_stream(instance) != before))
    og_hosted_set_stream(instance, og_onboard_stream(instance));
  for (int32_t a = 0; a < count; ++a) {
    const og_status status = arena_lease(instance, a, error);
    if (OG_LIKELY(status == OG_OK)) continue;
    leases_give(instance, a);
    return status;
  }
  return OG_OK;
}

static void times_add(opgraft_executable *executable,
                      const og_instance *instance, int64_t took_ns) {
  __atomic_add_fetch(&executable->prepare_ns,
                     took_ns - instance->pack_ns - instance->tune_ns,
                     __ATOMIC_RELAXED);
  __atomic_add_fetch(&executable->tune_ns, instance->tune_ns, __ATOMIC_RELAXED);
  __atomic_add_fetch(&executable->pack_ns, instance->pack_ns, __ATOMIC_RELAXED);
}

static og_status instance_get(og_plan_entry *entry, og_instance *idle,
                              const og_tensor *const *in,
                              og_instance **out_instance,
                              opgraft_error *error) {
  *out_instance = idle;
  if (idle == NULL) {
    opgraft_executable *executable = entry->executable;
    const int64_t begun_ns = og_now_ns();
    OG_TRY(og_instance_create(entry, out_instance, error));
    times_add(executable, *out_instance, og_now_ns() - begun_ns);
    if (executable->tuning != NULL) og_tune_save(executable);
    pthread_mutex_lock(&executable->mutex);
    ++executable->stats.instances;
    executable->stats.host_nodes = (*out_instance)->host_nodes;
    executable->stats.fast_nodes = (*out_instance)->fast_nodes;
    if (entry->chosen == NULL) {  // all instances of a plan choose the same
      entry->chosen = (*out_instance)->chosen;
      (*out_instance)->chosen = NULL;
    }
    pthread_mutex_unlock(&executable->mutex);
  }
  if (in != NULL) OG_TRY(inputs_bind(*out_instance, in, error));
  return instance_lease(*out_instance, error);
}

static og_status entry_enter(opgraft_executable *executable,
                             const int64_t *symbols, og_plan_entry **out_entry,
                             og_instance **out_idle, opgraft_error *error) {
  pthread_mutex_lock(&executable->mutex);
  const og_status status = entry_get(executable, symbols, out_entry, error);
  if (status == OG_OK) {
    ++(*out_entry)->users;
    ++executable->references;
    *out_idle = instance_pop(*out_entry);
  }
  pthread_mutex_unlock(&executable->mutex);
  return status;
}

// In place where the caller is of our age: a copy costs a replay 7 ns.
static void call_fill(og_instance *instance, opgraft_call *out_call) {
  const og_plan *plan = instance->entry->plan;
  opgraft_call other;
  const bool is_ours = out_call->struct_size == sizeof other;
  opgraft_call *call = OG_LIKELY(is_ours) ? out_call : &other;
  *call = (opgraft_call){.struct_size = sizeof *call,
                         .instance = instance,
                         .storages = plan->storages,
                         .outputs = plan->outputs,
                         .donated = instance->donated,
                         .storage_count = plan->storage_count,
                         .output_count = plan->graph->output_count,
                         .host_step_count = instance->host_steps,
                         .section_count = instance->section_count,
                         .reaches = plan->reaches,
                         .reach_count = plan->reach_count};
  if (OG_UNLIKELY(!is_ours)) og_fill_sized(&other, sizeof other, out_call);
}

static og_status call_begin(opgraft_executable *executable,
                            const og_tensor *const *in, const int64_t *ints,
                            const int64_t *symbols, opgraft_call *out_call,
                            opgraft_error *error) {
  og_plan_entry *entry;
  og_instance *idle, *instance = NULL;
  OG_TRY(entry_enter(executable, symbols, &entry, &idle, error));
  og_status status =
      in != NULL ? plan_check(entry->plan, in, ints, error) : OG_OK;
  if (status == OG_OK)
    status = instance_get(entry, idle, in, &instance, error);
  else
    instance = idle;
  if (status != OG_OK) {
    entry_leave(entry, instance);
    return status;
  }
  call_fill(instance, out_call);
  return OG_OK;
}

enum {
  SYMBOLS_ON_STACK = 64,
  CALL_LEAST_BYTES = offsetof(opgraft_call, context) + sizeof(void *)
};

static og_status call_bind(opgraft_executable *executable,
                           const og_tensor *const *in, const int64_t *ints,
                           int32_t count, opgraft_call *out_call,
                           opgraft_error *error) {
  const opgraft_graph *graph = executable->graph;
  int64_t on_stack[SYMBOLS_ON_STACK];
  int64_t *symbols = on_stack;
  OG_TRY(og_inputs_check(graph, in, ints, count, error));
  if (graph->sizes.symbol_count > SYMBOLS_ON_STACK) {
    symbols =
        og_alloc_zeroed((size_t)graph->sizes.symbol_count, sizeof *symbols);
    if (symbols == NULL) return og_graph_no_memory(error);
  }
  og_status status = og_symbols_bind(graph, in, ints, symbols, error);
  if (status == OG_OK)
    status = call_begin(executable, in, ints, symbols, out_call, error);
  if (symbols != on_stack) og_free(symbols);
  return status;
}

og_status opgraft_executable_begin(opgraft_executable *executable,
                                   const og_tensor *const *in,
                                   const int64_t *ints, int32_t count,
                                   opgraft_call *out_call,
                                   opgraft_error *error) {
  static const opgraft_call none = {0};
  if (OG_UNLIKELY(out_call->struct_size != sizeof none))
    OG_TRY(og_size_check("opgraft_call", out_call->struct_size,
                         CALL_LEAST_BYTES, sizeof none, error));
  const og_status status =
      call_bind(executable, in, ints, count, out_call, error);
  if (OG_UNLIKELY(status != OG_OK)) og_fill_sized(&none, sizeof none, out_call);
  return status;
}

og_status opgraft_call_run(opgraft_call *call, void *const *storage_data,
                           opgraft_error *error) {
  og_instance *instance = call->instance;
  og_team *team = NULL;
  og_loops_time time = {.expected_ns = instance->loops_ns};
  og_run run = {.executable = instance->entry->executable,
                .error = error,
                .team = instance->has_team ? &team : NULL,
                .loops_time = &time};
  og_plan_entry *entry = instance->entry;
  instance->host_call = call->context;
  og_storages_bind(instance, storage_data);
  if (error != NULL) error->code = OG_OK;
  const bool is_tried = __atomic_load_n(&entry->is_tried, __ATOMIC_RELAXED);
  const og_status status =
      OG_UNLIKELY(is_tried) ? og_lane_trial_run(instance, &run)
      : OG_UNLIKELY(instance->onboard != NULL) ? og_onboard_run(instance, &run)
                                               : og_steady_run(instance, &run);
  if (time.begun_ns != 0) instance->loops_ns = og_now_ns() - time.begun_ns;
  og_teams_give(team);
  OG_TRY(status);
  const int64_t replays =
      __atomic_add_fetch(&run.executable->stats.replays, 1, __ATOMIC_RELAXED);
  const int64_t try_at = __atomic_load_n(&entry->try_at, __ATOMIC_RELAXED);
  if (OG_UNLIKELY(try_at != 0 && replays >= try_at)) og_lane_trial_again(entry);
  return OG_OK;
}

void opgraft_call_end(opgraft_call *call) {
  og_instance *instance = call->instance;
  if (instance == NULL) return;
  call->instance = NULL;
  leases_give(instance, instance->entry->plan->arena_count);
  entry_leave(instance->entry, instance);
}

og_status opgraft_executable_plan(opgraft_executable *executable,
                                  const char *const *symbols,
                                  const int64_t *values, int32_t count,
                                  opgraft_error *error) {
  const opgraft_graph *graph = executable->graph;
  opgraft_call call = {.struct_size = sizeof call};
  int64_t *all =
      og_alloc_zeroed((size_t)graph->sizes.symbol_count + 1, sizeof *all);
  if (all == NULL) return og_graph_no_memory(error);
  og_status status =
      og_symbols_bind_named(graph, symbols, values, count, all, error);
  if (status == OG_OK)
    status = call_begin(executable, NULL, NULL, all, &call, error);
  if (status == OG_OK) opgraft_call_end(&call);
  og_free(all);
  return status;
}
