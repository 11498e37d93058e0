// SPDX-License-Identifier: Apache-2.0
// The plans of an executable: made, replaced, freed.

#include "exec/replay/entry.h"

#include "exec/replay/instance.h"
#include "exec/replay/lease.h"

static void unwant_arenas(const og_plan *plan, int32_t count) {
  for (int32_t a = 0; a < count; ++a)
    if (!plan->arenas[a].is_kept)
      og_lease_unwant(plan->arenas[a].device, plan->arenas[a].size_bytes);
}

static og_status want_arenas(const og_plan *plan, opgraft_error *error) {
  for (int32_t a = 0; a < plan->arena_count; ++a) {
    if (plan->arenas[a].is_kept) continue;
    const og_status status = og_lease_want(plan->arenas[a].device,
                                           plan->arenas[a].size_bytes, error);
    if (status == OG_OK) continue;
    unwant_arenas(plan, a);
    return status;
  }
  return OG_OK;
}

og_status og_entry_create(opgraft_executable *executable,
                          const int64_t *symbols,
                          const og_lane_request *request,
                          og_plan_entry **out_entry, opgraft_error *error) {
  og_plan_entry *entry = og_alloc_zeroed(1, sizeof *entry);
  if (entry == NULL) return og_graph_no_memory(error);
  entry->executable = executable;
  og_status status =
      og_plan_create(executable->graph, symbols, executable->host.flags,
                     request, &entry->plan, error);
  if (status == OG_OK) {
    status = want_arenas(entry->plan, error);
    if (status != OG_OK) og_plan_destroy(entry->plan);
  }
  if (status == OG_OK)
    *out_entry = entry;
  else
    og_free(entry);
  return status;
}

void og_entry_destroy(og_plan_entry *entry) {
  while (entry->idle != NULL) {
    og_instance *instance = entry->idle;
    entry->idle = instance->next;
    og_instance_destroy(instance);
  }
  unwant_arenas(entry->plan, entry->plan->arena_count);
  og_free(entry->trial);
  og_free(entry->chosen);
  og_free(entry->node_ns);
  og_plan_destroy(entry->plan);
  og_free(entry);
}

void og_entry_stats(opgraft_executable *executable, const og_plan *plan) {
  opgraft_stats *stats = &executable->stats;
  stats->arena_bytes = (int64_t)og_plan_arena_bytes(plan);
  stats->lower_bound_bytes = 0;
  for (int32_t a = 0; a < plan->arena_count; ++a)
    stats->lower_bound_bytes += (int64_t)plan->arenas[a].lower_bound_bytes;
  stats->clone_bytes = plan->clone_bytes;
  stats->sections = plan->lanes.section_count;
  stats->lanes = 1;
  for (int32_t k = 0; k < plan->lanes.section_count; ++k)
    if (plan->lanes.sections[k].lane_count > stats->lanes)
      stats->lanes = plan->lanes.sections[k].lane_count;
}

void og_entry_replace(og_plan_entry *entry, og_plan_entry *made) {
  opgraft_executable *executable = entry->executable;
  og_plan_entry **at = &executable->plans;
  while (*at != entry) at = &(*at)->next;
  made->next = entry->next;
  *at = made;
  entry->is_evicted = true;
  og_entry_stats(executable, made->plan);
  ++executable->stats.replans_lanes;
  if (entry->users == 0) og_entry_destroy(entry);
}
