// SPDX-License-Identifier: Apache-2.0
// Work of a stream: what memory it touches, whether that is there, and how it
// is done.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_sim.h"

const char *npu_kind_name(npu_kind kind) {
  static const char *const names[] = {
      "copy_to_device", "copy_to_host", "copy_on_device",
      "memory_set",     "launch",       "host_function",
      "event_record",   "event_wait",   "exec_launch"};
  return names[kind];
}

const char *npu_work_name(const npu_work *work) {
  return work->kind == NPU_LAUNCH ? work->call->launch.name
                                  : npu_kind_name(work->kind);
}

// --- Memory that it touches --------------------------------------------------

static og_status call_touches(npu_sim *sim, const npu_call *call,
                              og_status (*fn)(void *user,
                                              const npu_touch *touch),
                              void *user) {
  for (int32_t t = 0; t < call->operand_count; ++t) {
    const npu_touch touch = {
        .range = npu_range_tensor(&call->operands[t].own),
        .is_write = t < call->written_count,
        .is_device = true,
    };
    const og_status status = fn(user, &touch);
    if (status != OG_OK) return status;
  }
  const og_call *c = call->launch.call;
  if (c->workspace_bytes == 0) return OG_OK;
  const char *alias = c->workspace;
  const npu_touch touch = {
      .range = npu_range_bytes(sim->memory.user + (alias - sim->memory.alias),
                               c->workspace_bytes),
      .is_write = true,
      .is_device = true,
  };
  return fn(user, &touch);
}

og_status npu_work_touches(npu_sim *sim, const npu_work *work,
                           og_status (*fn)(void *user, const npu_touch *touch),
                           void *user) {
  if (work->kind == NPU_LAUNCH) return call_touches(sim, work->call, fn, user);
  if (work->kind > NPU_SET) return OG_OK;
  const npu_touch read = {
      .range = npu_range_bytes(work->from, work->size_bytes),
      .is_device = work->kind != NPU_COPY_TO_DEVICE,
  };
  const npu_touch written = {
      .range = npu_range_bytes(work->to, work->size_bytes),
      .is_write = true,
      .is_device = work->kind != NPU_COPY_TO_HOST,
  };
  const og_status status = work->kind != NPU_SET ? fn(user, &read) : OG_OK;
  return status == OG_OK ? fn(user, &written) : status;
}

typedef struct checker {
  npu_sim *sim;
  const char *name;  // of the work
  og_device_error *error;
} checker;

// Of `size` bytes of the device.
static og_status bytes_check(const checker *c, const void *begin, size_t size,
                             bool is_write) {
  const npu_memory *memory = &c->sim->memory;
  const char *verb = is_write ? "writes" : "reads";
  if (size == 0 || npu_memory_find(memory, begin, size) != NULL) return OG_OK;
  if (!npu_memory_has(memory, begin))
    return npu_fail(c->error, OG_INVALID,
                    "%s %s %p, which is no device memory, expected an address "
                    "of memory_allocate",
                    c->name, verb, begin);
  return npu_fail(c->error, OG_INVALID,
                  "%s %s %zu bytes at %p, expected bytes of one live "
                  "allocation: it was freed, or they reach beyond its end",
                  c->name, verb, size, begin);
}

static og_status touch_check(void *user, const npu_touch *touch) {
  const checker *c = user;
  const void *begin = (const void *)touch->range.begin;
  const size_t size = touch->range.end - touch->range.begin;
  if (touch->is_device) return bytes_check(c, begin, size, touch->is_write);
  if (size == 0 || !npu_memory_has(&c->sim->memory, begin)) return OG_OK;
  return npu_fail(c->error, OG_INVALID,
                  "%s %s %p, which is device memory, expected the host's",
                  c->name, touch->is_write ? "writes" : "reads", begin);
}

og_status npu_work_check(npu_sim *sim, const npu_work *work,
                         og_device_error *error) {
  checker c = {sim, npu_work_name(work), error};
  return npu_work_touches(sim, work, touch_check, &c);
}

static og_status tensor_check(void *user, const og_tensor *tensor,
                              bool is_written) {
  const npu_ends ends = npu_ends_tensor(tensor);
  return bytes_check(user, (const void *)ends.begin, ends.end - ends.begin,
                     is_written);
}

og_status npu_launch_check(npu_sim *sim, const og_launch *launch,
                           og_device_error *error) {
  checker c = {sim, launch->name, error};
  const og_status status = npu_launch_tensors(launch, tensor_check, &c);
  if (status != OG_OK) return status;
  return bytes_check(&c, launch->call->workspace, launch->call->workspace_bytes,
                     true);
}

// --- The detector ------------------------------------------------------------

typedef struct racer {
  npu_sim *sim;
  const npu_work *work;
  int32_t context;
  int32_t stream;
} racer;

static og_status touch_race(void *user, const npu_touch *touch) {
  const racer *r = user;
  char what[NPU_WHAT], text[512], whose[NPU_LABEL + 48];
  const void *begin = (const void *)touch->range.begin;
  const size_t size = touch->range.end - touch->range.begin;
  const npu_block *block = npu_memory_find(&r->sim->memory, begin, size);
  if (block != NULL) {
    const size_t at =
        (size_t)((uintptr_t)begin - (uintptr_t)r->sim->memory.user -
                 block->offset_bytes);
    snprintf(whose, sizeof whose, "bytes %zu to %zu of '%s'", at, at + size,
             block->label);
  } else {
    snprintf(whose, sizeof whose, "%zu bytes of the host at %p", size, begin);
  }
  snprintf(what, sizeof what, "%s (work %llu, stream %d) %s %s",
           npu_work_name(r->work), (unsigned long long)r->work->number,
           (int)r->stream, touch->is_write ? "writes" : "reads", whose);
  if (size > 0 && npu_race_access(r->sim->race, r->context, &touch->range,
                                  touch->is_write, what, text, sizeof text))
    npu_report_add(r->sim, OG_INVALID, text);
  return OG_OK;
}

void npu_work_race(npu_sim *sim, const npu_work *work, int32_t context,
                   int32_t stream) {
  racer r = {sim, work, context, stream};
  npu_work_touches(sim, work, touch_race, &r);
}

// --- Life and deed -----------------------------------------------------------

void npu_record_release(npu_record *record) {
  if (record != NULL && --record->references == 0) free(record);
}

void npu_work_retain(npu_work *work) {
  if (work->call != NULL) npu_call_retain(work->call);
  if (work->record != NULL) ++work->record->references;
}

void npu_work_release(npu_work *work) {
  npu_call_release(work->call);
  npu_record_release(work->record);
  npu_updates_release(work->updates);
  *work = (npu_work){0};
}

og_status npu_work_run(npu_sim *sim, const npu_work *work) {
  const npu_memory *memory = &sim->memory;
  switch (work->kind) {
    case NPU_COPY_TO_DEVICE:
    case NPU_COPY_TO_HOST:
    case NPU_COPY_ON_DEVICE:
      memmove(npu_memory_alias(memory, work->to),
              npu_memory_alias(memory, work->from), work->size_bytes);
      return OG_OK;
    case NPU_SET:
      memset(npu_memory_alias(memory, work->to), work->byte, work->size_bytes);
      return OG_OK;
    case NPU_LAUNCH:
      return npu_call_run(work->call);
    case NPU_HOST_FUNCTION:
      work->fn(work->user);
      return OG_OK;
    default:
      return OG_OK;
  }
}
