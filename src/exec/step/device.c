// SPDX-License-Identifier: Apache-2.0
// Devices that graphs run on. A new one is a row of `drivers`.

#include "exec/step/device.h"

#include <stdio.h>

#include "plan/plan.h"

// --- The CPU -----------------------------------------------------------------

static void *cpu_memory_create(og_device device, size_t size_bytes) {
  (void)device;
  return og_alloc_aligned(OG_PLAN_ALIGNMENT, size_bytes);
}

static void cpu_memory_destroy(og_device device, void *memory) {
  (void)device;
  og_free(memory);
}

static void *cpu_stream_get(og_device device, int32_t lane) {
  (void)device, (void)lane;
  return NULL;
}

// --- All ---------------------------------------------------------------------

static const og_driver drivers[] = {
    {.type = OG_CPU,
     .memory_create = cpu_memory_create,
     .memory_destroy = cpu_memory_destroy,
     .stream_get = cpu_stream_get},
};

const og_driver *og_driver_find(og_device device) {
  for (size_t i = 0; i < sizeof drivers / sizeof *drivers; ++i)
    if (drivers[i].type == device.type) return &drivers[i];
  return NULL;
}

og_status og_driver_missing(og_device device, const char *what,
                            opgraft_error *error) {
  const char *name = og_device_name(device.type);
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s is on %s:%d, expected the CPU, the only device that "
                      "graphs run on",
                      what, name != NULL ? name : "an unknown device",
                      (int)device.id);
}

og_status og_graph_drivers_check(const opgraft_graph *graph,
                                 opgraft_error *error) {
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    if (og_driver_find(value->device) != NULL) continue;
    char what[128];
    if (value->name != NULL)
      snprintf(what, sizeof what, "graph %.60s: %%%.40s", graph->name,
               value->name);
    else
      snprintf(what, sizeof what, "graph %.60s: value %d", graph->name, (int)v);
    return og_driver_missing(value->device, what, error);
  }
  return OG_OK;
}

og_device og_node_device(const opgraft_graph *graph, const og_node *node) {
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0) return graph->values[node->out[r]].device;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 && graph->values[node->in[i]].kind != OG_VALUE_LITERAL)
      return graph->values[node->in[i]].device;
  return og_cpu;
}
