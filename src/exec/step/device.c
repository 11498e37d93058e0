// SPDX-License-Identifier: Apache-2.0
// Devices that graphs run on.

#include "exec/step/device.h"

#include <stdio.h>

#include "exec/step/operands.h"
#include "plan/plan.h"

opgraft_driver *og_driver_of(og_device device) {
  opgraft_driver *driver =
      og_is_cpu(device) ? NULL : opgraft_driver_find(device.type);
  if (driver == NULL || device.id < 0 ||
      device.id >= opgraft_driver_device_count(driver))
    return NULL;
  return driver;
}

static og_status driver_missing(og_device device, const char *what,
                                opgraft_error *error) {
  const char *name = og_device_name(device.type);
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s is on %s:%d, expected the CPU or a device whose "
                      "driver is loaded",
                      what, name != NULL ? name : "an unknown device",
                      (int)device.id);
}

// --- Memory ------------------------------------------------------------------

// A driver may align to less.
static og_status driver_allocate(opgraft_driver *driver, og_device device,
                                 size_t size_bytes, const char *what,
                                 void **out_memory, opgraft_error *error) {
  OG_TRY(opgraft_driver_allocate(driver, device.id, size_bytes, what,
                                 out_memory, error));
  if ((uintptr_t)*out_memory % OG_PLAN_ALIGNMENT == 0) return OG_OK;
  opgraft_driver_free(driver, device.id, *out_memory, NULL);
  *out_memory = NULL;
  return og_error_set(error, OG_DEVICE, NULL, NULL,
                      "%s: memory_allocate gave %s an address that is not "
                      "aligned to %d bytes, as graphs expect of a device's "
                      "memory",
                      opgraft_driver_name(driver), what,
                      (int)OG_PLAN_ALIGNMENT);
}

og_status og_device_allocate(og_device device, size_t size_bytes,
                             const char *what, void **out_memory,
                             opgraft_error *error) {
  *out_memory = NULL;
  if (!og_is_cpu(device)) {
    opgraft_driver *driver = og_driver_of(device);
    if (driver == NULL) return driver_missing(device, what, error);
    return driver_allocate(driver, device, size_bytes, what, out_memory, error);
  }
  *out_memory = og_alloc_aligned(OG_PLAN_ALIGNMENT, size_bytes);
  if (*out_memory != NULL) return OG_OK;
  return og_error_set(error, OG_MEMORY, NULL, NULL,
                      "not enough memory for %s of %zu bytes", what,
                      size_bytes);
}

og_status og_device_fetch(const og_tensor *tensor, void *stream, og_tensor *out,
                          void **out_bytes, opgraft_error *error) {
  *out = *tensor;
  *out_bytes = NULL;
  if (og_is_cpu(tensor->device)) return OG_OK;
  opgraft_driver *driver = og_driver_of(tensor->device);
  if (driver == NULL) return driver_missing(tensor->device, "a tensor", error);
  const size_t size = og_span_bytes(tensor);
  void *bytes = og_alloc(size + 1);
  if (bytes == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "not enough memory for a tensor's %zu bytes", size);
  if (stream == NULL)
    stream = opgraft_driver_current_stream(driver, tensor->device.id);
  og_status status = OG_OK;
  if (size > 0)
    status = opgraft_driver_copy(
        driver, stream, OPGRAFT_COPY_TO_HOST, bytes,
        (const char *)tensor->data + tensor->byte_offset, size, error);
  if (status == OG_OK)
    status = opgraft_driver_stream_synchronize(driver, stream, -1, error);
  if (status == OG_OK) opgraft_driver_host_access(driver, bytes, size, false);
  if (status != OG_OK) {
    og_free(bytes);
    return status;
  }
  *out_bytes = bytes;
  out->device = og_cpu;
  out->data = bytes;
  out->byte_offset = 0;
  return OG_OK;
}

void og_device_free(og_device device, void *memory) {
  if (memory == NULL) return;
  if (og_is_cpu(device)) {
    og_free(memory);
    return;
  }
  opgraft_driver *driver = og_driver_of(device);
  if (driver != NULL) opgraft_driver_free(driver, device.id, memory, NULL);
}

// --- Graphs ------------------------------------------------------------------

static void value_name(const opgraft_graph *graph, int32_t v, char *out,
                       size_t size) {
  const char *name = graph->values[v].name;
  if (name != NULL)
    snprintf(out, size, "graph %.60s: %%%.40s", graph->name, name);
  else
    snprintf(out, size, "graph %.60s: value %d", graph->name, (int)v);
}

og_status og_graph_devices_check(const opgraft_graph *graph,
                                 opgraft_error *error) {
  const og_device beside = og_graph_device(graph);
  char what[128];
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_device device = graph->values[v].device;
    if (og_is_cpu(device)) continue;
    value_name(graph, v, what, sizeof what);
    if (og_driver_of(device) == NULL)
      return driver_missing(device, what, error);
    if (!og_device_equal(device, beside))
      return og_error_set(error, OG_DEVICE, NULL, NULL,
                          "%s is on %s:%d and another value on %s:%d, expected "
                          "one device beside the CPU",
                          what, og_device_name(device.type), (int)device.id,
                          og_device_name(beside.type), (int)beside.id);
  }
  return OG_OK;
}

og_device og_graph_device(const opgraft_graph *graph) {
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (!og_is_cpu(graph->values[v].device)) return graph->values[v].device;
  return og_cpu;
}

og_device og_node_device(const opgraft_graph *graph, const og_node *node) {
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0) return graph->values[node->out[r]].device;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 && graph->values[node->in[i]].kind != OG_VALUE_LITERAL)
      return graph->values[node->in[i]].device;
  return og_cpu;
}
