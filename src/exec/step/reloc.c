// SPDX-License-Identifier: Apache-2.0
// Pointers that follow the memory of values from call to call.

#include "exec/step/reloc.h"

#include <string.h>

#include "base/memory.h"
#include "exec/step/device.h"

og_status og_relocs_make(og_instance *instance, const og_plan *plan) {
  og_arena *memory = &instance->memory;
  const size_t inputs = (size_t)plan->graph->input_count + 1;
  const size_t storages = (size_t)plan->storage_count + 1;
  instance->tensors = og_arena_array(
      memory, (size_t)plan->graph->value_count + 1, sizeof *instance->tensors);
  instance->inputs = og_arena_array(memory, inputs, sizeof *instance->inputs);
  instance->storages =
      og_arena_array(memory, storages, sizeof *instance->storages);
  instance->donated =
      og_arena_array(memory, storages, sizeof *instance->donated);
  instance->arenas = og_arena_array(memory, (size_t)plan->arena_count + 1,
                                    sizeof *instance->arenas);
  return instance->tensors && instance->inputs && instance->storages &&
                 instance->donated && instance->arenas
             ? OG_OK
             : OG_MEMORY;
}

static og_status list_add(og_instance *instance, og_reloc_list *list,
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
  ++list->moves;
}

og_status og_reloc_add(og_instance *instance, const og_plan *plan,
                       opgraft_value id, void **where) {
  const og_place *place = &plan->places[id];
  const og_value *source;
  switch (place->kind) {
    case OG_PLACE_ARENA:
      return list_add(instance, &instance->arenas[place->index], where,
                      place->offset_bytes);
    case OG_PLACE_INPUT:
      return list_add(instance, &instance->inputs[place->index], where,
                      place->offset_bytes);
    case OG_PLACE_STORAGE:
      return list_add(instance, &instance->storages[place->index], where,
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

void og_storage_set(og_instance *instance, int32_t index, void *data) {
  const og_plan *plan = instance->entry->plan;
  const opgraft_storage *storage = &plan->storages[index];
  if (storage->size_bytes >= OG_HUGE_LEAST &&
      og_is_cpu(plan->outputs[storage->output].tensor.device))
    og_huge_ask(data, storage->size_bytes);
  if (instance->storages[index].bound != data)
    og_relocs_set(&instance->storages[index], data);
}

void og_storages_bind(og_instance *instance, void *const *storage_data) {
  const int32_t count = instance->entry->plan->storage_count;
  for (int32_t i = 0; i < count; ++i) {
    opgraft_donated *given = &instance->donated[i];
    given->owner = NULL;
    if (given->is_late) continue;
    if (storage_data[i] == NULL && given->tensor != NULL) {
      ((og_tensor *)(uintptr_t)given->tensor)->data = NULL;
      instance->storages[i].bound = NULL;
    } else {
      og_storage_set(instance, i, storage_data[i]);
    }
  }
}
