// SPDX-License-Identifier: Apache-2.0
// npu: an NPU simulated in plain C, for tests and as an example of a driver.
//
// Device memory that the host cannot touch, asynchronous streams with random
// delays, events, captures, a race detector, and a trace in simulated time.
// Options: seed=N and delay_us=N (before each work, at most), races=1,
// memory_mb=N (256), trace=FILE.
//
// Functions that take the lock report nothing while they hold it.

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "npu_sim.h"

enum { MEMORY_MB = 256, MEMORY_MB_MAX = 65536, DELAY_US_MAX = 1000000 };

// --- Messages ----------------------------------------------------------------

og_status npu_fail(og_device_error *error, og_status code, const char *format,
                   ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return code;
}

void npu_lock(npu_sim *sim) { pthread_mutex_lock(&sim->lock); }

void npu_unlock(npu_sim *sim) {
  npu_report *report = sim->reports;
  npu_command *given = sim->given, *behind = sim->given_behind;
  sim->reports = NULL;
  sim->given_behind = NULL;
  pthread_mutex_unlock(&sim->lock);
  // The thread looks there, so the store may take long, which nobody waits for
  // behind the lock.
  if (behind != NULL)
    atomic_store_explicit(&behind->next, given, memory_order_release);
  while (report != NULL) {
    npu_report *next = report->next;
    sim->host->report(sim->host->user, report->code, report->text);
    free(report);
    report = next;
  }
}

void npu_report_add(npu_sim *sim, og_status code, const char *text) {
  npu_report **link = &sim->reports;
  while (*link != NULL) link = &(*link)->next;
  *link = calloc(1, sizeof **link);
  if (*link == NULL) return;
  (*link)->code = code;
  snprintf((*link)->text, sizeof(*link)->text, "%s", text);
}

// --- Opening -----------------------------------------------------------------

typedef struct npu_options {
  uint64_t seed, delay_us, races, memory_mb;
  const char *trace;  // the file's name, without an end
  size_t trace_length;
} npu_options;

// "name=number" or "trace=FILE", up to a comma or the end.
static og_status option_read(const char *text, size_t length,
                             npu_options *options, og_device_error *error) {
  static const char trace[] = "trace=";
  const struct {
    const char *name;
    uint64_t *value;
    uint64_t least, most;
  } known[] = {
      {"seed=", &options->seed, 0, UINT64_MAX},
      {"delay_us=", &options->delay_us, 0, DELAY_US_MAX},
      {"races=", &options->races, 0, 1},
      {"memory_mb=", &options->memory_mb, 1, MEMORY_MB_MAX},
  };
  if (length > sizeof trace - 1 && memcmp(text, trace, sizeof trace - 1) == 0) {
    options->trace = text + sizeof trace - 1;
    options->trace_length = length - (sizeof trace - 1);
    return OG_OK;
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    const size_t head = strlen(known[i].name);
    if (length <= head || strncmp(text, known[i].name, head) != 0) continue;
    char *end;
    const unsigned long long value = strtoull(text + head, &end, 10);
    if (end != text + length || text[head] == '-' || value < known[i].least ||
        value > known[i].most)
      break;
    *known[i].value = value;
    return OG_OK;
  }
  return npu_fail(error, OG_INVALID,
                  "the option is '%.*s', expected seed=N, delay_us=N up to %d, "
                  "races=0 or 1, memory_mb=N from 1 to %d, or trace=FILE",
                  (int)length, text, DELAY_US_MAX, MEMORY_MB_MAX);
}

static og_status options_read(const char *text, npu_options *options,
                              og_device_error *error) {
  *options = (npu_options){.memory_mb = MEMORY_MB};
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    const og_status status = option_read(text, length, options, error);
    if (status != OG_OK) return status;
    text += length;
    if (*text == ',') ++text;
  }
  return OG_OK;
}

static og_status parts_open(npu_sim *sim, const npu_options *options,
                            og_device_error *error) {
  if (options->races != 0) {
    sim->race = npu_race_create();
    if (sim->race == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  }
  if (options->trace != NULL) {
    const og_status status = npu_trace_open(
        options->trace, options->trace_length, &sim->trace, error);
    if (status != OG_OK) return status;
  }
  return npu_memory_open(&sim->memory, (size_t)options->memory_mb << 20, error);
}

static og_status npu_open(const og_device_host *host, void **out_state,
                          og_device_error *error) {
  npu_options options;
  og_status status = options_read(host->options, &options, error);
  if (status != OG_OK) return status;
  npu_sim *sim = calloc(1, sizeof *sim);
  if (sim == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  *sim = (npu_sim){
      .host = host, .seed = options.seed, .delay_us = options.delay_us};
  status = parts_open(sim, &options, error);
  if (status != OG_OK) {
    npu_race_destroy(sim->race);
    npu_trace_close(sim->trace, host);
    free(sim);
    return status;
  }
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&sim->changed, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_init(&sim->lock, NULL);
  *out_state = sim;
  return OG_OK;
}

static void npu_close(void *state) {
  npu_sim *sim = state;
  og_device_error error;
  while (sim->streams != NULL) {
    sim->streams->graph = NULL;
    npu_stream_destroy(sim, sim->streams, &error);
  }
  npu_memory_close(&sim->memory);
  npu_race_destroy(sim->race);
  npu_trace_close(sim->trace, sim->host);
  pthread_cond_destroy(&sim->changed);
  pthread_mutex_destroy(&sim->lock);
  free(sim);
}

static og_status npu_device_count(void *state, int32_t *out_count,
                                  og_device_error *error) {
  (void)state, (void)error;
  *out_count = 1;
  return OG_OK;
}

static og_status npu_properties(void *state, int32_t device,
                                og_device_properties *out_properties,
                                og_device_error *error) {
  const npu_sim *sim = state;
  (void)device, (void)error;
  out_properties->alignment = NPU_ALIGNMENT;
  out_properties->memory_bytes = sim->memory.size_bytes;
  snprintf(out_properties->model, sizeof out_properties->model,
           "simulated NPU");
  return OG_OK;
}

// --- Memory ------------------------------------------------------------------

static og_status npu_allocate(void *state, int32_t device, size_t size_bytes,
                              void **out_address, og_device_error *error) {
  npu_sim *sim = state;
  (void)device;
  npu_lock(sim);
  const og_status status =
      npu_memory_allocate(&sim->memory, size_bytes, out_address, error);
  npu_unlock(sim);
  return status;
}

// The memory is the host's again, as if it wrote all of it.
static void free_race(npu_sim *sim, const npu_block *block, void *address) {
  char what[NPU_WHAT], text[512];
  const npu_range range = npu_range_bytes(address, block->size_bytes);
  snprintf(what, sizeof what, "memory_free of '%s'", block->label);
  if (npu_race_access(sim->race, NPU_HOST, &range, true, what, text,
                      sizeof text))
    npu_report_add(sim, OG_INVALID, text);
  npu_race_forget(sim->race, &range);
}

static og_status npu_free(void *state, int32_t device, void *address,
                          og_device_error *error) {
  npu_sim *sim = state;
  (void)device;
  npu_lock(sim);
  const npu_block *block = npu_memory_find(&sim->memory, address, 1);
  if (block != NULL && sim->race != NULL &&
      sim->memory.user + block->offset_bytes == (char *)address)
    free_race(sim, block, address);
  const og_status status = npu_memory_free(&sim->memory, address, error);
  npu_unlock(sim);
  return status;
}

static void npu_label(void *state, void *address, const char *label) {
  npu_sim *sim = state;
  npu_lock(sim);
  npu_block *block = npu_memory_find(&sim->memory, address, 1);
  if (block != NULL) snprintf(block->label, sizeof block->label, "%s", label);
  npu_unlock(sim);
}

static void npu_host_access(void *state, const void *address, size_t size_bytes,
                            int32_t is_write) {
  npu_sim *sim = state;
  char what[NPU_WHAT], text[512];
  const npu_range range = npu_range_bytes(address, size_bytes);
  npu_lock(sim);
  snprintf(what, sizeof what, "the host %s its %zu bytes at %p",
           is_write ? "writes" : "reads", size_bytes, address);
  if (sim->race != NULL &&
      npu_race_access(sim->race, NPU_HOST, &range, is_write != 0, what, text,
                      sizeof text))
    npu_report_add(sim, OG_INVALID, text);
  npu_unlock(sim);
}

// --- Work --------------------------------------------------------------------

static og_status work_give(npu_sim *sim, npu_stream *stream, npu_work work,
                           og_device_error *error) {
  npu_lock(sim);
  og_status status = npu_work_check(sim, &work, error);
  if (status == OG_OK) status = npu_stream_give(stream, &work, error);
  npu_unlock(sim);
  return status;
}

static og_status copy_give(npu_sim *sim, npu_stream *stream, npu_kind kind,
                           void *to, const void *from, size_t size_bytes,
                           og_device_error *error) {
  return work_give(
      sim, stream,
      (npu_work){
          .kind = kind, .to = to, .from = from, .size_bytes = size_bytes},
      error);
}

static og_status npu_to_device(void *state, void *stream, void *to,
                               const void *from, size_t size_bytes,
                               og_device_error *error) {
  return copy_give(state, stream, NPU_COPY_TO_DEVICE, to, from, size_bytes,
                   error);
}

static og_status npu_to_host(void *state, void *stream, void *to,
                             const void *from, size_t size_bytes,
                             og_device_error *error) {
  return copy_give(state, stream, NPU_COPY_TO_HOST, to, from, size_bytes,
                   error);
}

static og_status npu_on_device(void *state, void *stream, void *to,
                               const void *from, size_t size_bytes,
                               og_device_error *error) {
  return copy_give(state, stream, NPU_COPY_ON_DEVICE, to, from, size_bytes,
                   error);
}

static og_status npu_set(void *state, void *stream, void *address, int32_t byte,
                         size_t size_bytes, og_device_error *error) {
  return work_give(state, stream,
                   (npu_work){.kind = NPU_SET,
                              .to = address,
                              .byte = byte,
                              .size_bytes = size_bytes},
                   error);
}

static og_status npu_host_function(void *state, void *stream,
                                   void (*fn)(void *user), void *user,
                                   og_device_error *error) {
  return work_give(
      state, stream,
      (npu_work){.kind = NPU_HOST_FUNCTION, .fn = fn, .user = user}, error);
}

// With the lock.
static og_status launch_give(npu_sim *sim, npu_stream *stream,
                             const og_launch *launch, og_device_error *error) {
  const bool has_operands =
      sim->race != NULL || sim->trace != NULL || stream->graph != NULL;
  npu_work work = {.kind = NPU_LAUNCH,
                   .call = npu_call_create(launch, &sim->memory, has_operands,
                                           npu_queue_spare(&stream->queue))};
  if (work.call == NULL)
    return npu_fail(error, OG_MEMORY, "no memory for a launch of %s",
                    launch->name);
  const og_status status = npu_stream_give(stream, &work, error);
  npu_queue_prefetch(&stream->queue);
  return status;
}

static og_status npu_launch(void *state, void *stream, const og_launch *launch,
                            og_device_error *error) {
  npu_sim *sim = state;
  npu_lock(sim);
  og_status status = npu_launch_check(sim, launch, error);
  if (status == OG_OK) status = launch_give(sim, stream, launch, error);
  npu_unlock(sim);
  return status;
}

// --- Events ------------------------------------------------------------------

typedef struct npu_event {
  npu_record *latest;  // NULL: never recorded
} npu_event;

static og_status npu_event_create(void *state, int32_t device, void **out_event,
                                  og_device_error *error) {
  (void)state, (void)device;
  *out_event = calloc(1, sizeof(npu_event));
  return *out_event != NULL ? OG_OK : npu_fail(error, OG_MEMORY, "no memory");
}

static og_status npu_event_destroy(void *state, void *given,
                                   og_device_error *error) {
  npu_sim *sim = state;
  npu_event *event = given;
  (void)error;
  npu_lock(sim);
  npu_record_release(event->latest);
  npu_unlock(sim);
  free(event);
  return OG_OK;
}

static og_status npu_event_record(void *state, void *given, void *given_stream,
                                  og_device_error *error) {
  npu_sim *sim = state;
  npu_event *event = given;
  npu_stream *stream = given_stream;
  npu_record *record = calloc(1, sizeof *record);
  if (record == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  record->references = 2;  // the work's and the event's
  npu_work work = {.kind = NPU_RECORD, .record = record};
  npu_lock(sim);
  const og_status status = npu_stream_give(stream, &work, error);
  if (status == OG_OK) {
    if (sim->race != NULL)
      record->clock = *npu_race_clock(sim->race, stream->context);
    npu_record_release(event->latest);
    event->latest = record;
  } else {
    npu_record_release(record);
  }
  npu_unlock(sim);
  return status;
}

// With the lock.
static og_status wait_give(npu_sim *sim, npu_stream *stream, npu_record *record,
                           og_device_error *error) {
  if (record == NULL) return OG_OK;
  if (record->capture != 0) return npu_graph_wait(stream, record, error);
  if (stream->graph != NULL)
    return npu_fail(error, OG_INVALID,
                    "stream %d captures, and the event was recorded outside; "
                    "wait before the capture begins",
                    (int)stream->number);
  npu_work work = {.kind = NPU_WAIT, .record = record};
  npu_work_retain(&work);
  const og_status status = npu_stream_give(stream, &work, error);
  if (status == OG_OK && sim->race != NULL)
    npu_race_order(sim->race, stream->context, &record->clock);
  return status;
}

static og_status npu_event_wait(void *state, void *given, void *stream,
                                og_device_error *error) {
  npu_sim *sim = state;
  const npu_event *event = given;
  npu_lock(sim);
  const og_status status = wait_give(sim, stream, event->latest, error);
  npu_unlock(sim);
  return status;
}

static bool record_is_done(void *user) {
  const npu_record *record = user;
  return record->is_done;
}

// With the lock.
static og_status record_wait(npu_sim *sim, npu_record *record,
                             int64_t timeout_ns, og_device_error *error) {
  if (record->capture != 0)
    return npu_fail(error, OG_INVALID,
                    "the event was recorded in a capture, so nothing runs that "
                    "it stands for");
  if (!npu_wait(sim, timeout_ns, record_is_done, record))
    return npu_fail(error, OG_BUSY, "the event's stream has not reached it");
  if (sim->race != NULL) {
    npu_race_order(sim->race, NPU_HOST, &record->clock);
    npu_race_forget(sim->race, NULL);
  }
  if (timeout_ns != 0) npu_trace_host(sim->trace, record->simulated_ns);
  npu_stream *stream = sim->streams;
  while (stream != NULL && stream->number != record->stream)
    stream = stream->next;
  return stream != NULL ? npu_stream_failure(stream, record->work, error)
                        : OG_OK;
}

static og_status npu_event_synchronize(void *state, void *given,
                                       int64_t timeout_ns,
                                       og_device_error *error) {
  npu_sim *sim = state;
  const npu_event *event = given;
  og_status status = OG_OK;
  npu_lock(sim);
  npu_record *record = event->latest;
  if (record != NULL) {
    ++record->references;
    status = record_wait(sim, record, timeout_ns, error);
    npu_record_release(record);
  }
  npu_unlock(sim);
  return status;
}

static og_status npu_event_elapsed(void *state, void *begin, void *end,
                                   int64_t *out_ns, og_device_error *error) {
  npu_sim *sim = state;
  npu_lock(sim);
  const npu_record *first = ((const npu_event *)begin)->latest;
  const npu_record *second = ((const npu_event *)end)->latest;
  const bool is_done =
      first != NULL && second != NULL && first->is_done && second->is_done;
  if (is_done) *out_ns = second->done_ns - first->done_ns;
  npu_unlock(sim);
  return is_done ? OG_OK
                 : npu_fail(error, OG_BUSY,
                            "an event was not recorded, or is not done; wait "
                            "for both");
}

OG_DEVICE_DRIVER(
        .name = "npu", .device_type = OG_EXT_DEV, .flags = OG_DEVICE_RUNS_C,
        .open = npu_open, .close = npu_close, .device_count = npu_device_count,
        .properties = npu_properties, .memory_allocate = npu_allocate,
        .memory_free = npu_free, .memory_set = npu_set,
        .copy_to_device = npu_to_device, .copy_to_host = npu_to_host,
        .copy_on_device = npu_on_device, .stream_create = npu_stream_create,
        .stream_destroy = npu_stream_destroy,
        .stream_synchronize = npu_stream_synchronize, .memory_label = npu_label,
        .event_create = npu_event_create, .event_destroy = npu_event_destroy,
        .event_record = npu_event_record, .event_wait = npu_event_wait,
        .event_synchronize = npu_event_synchronize,
        .event_elapsed = npu_event_elapsed, .host_function = npu_host_function,
        .launch = npu_launch, .capture_begin = npu_capture_begin,
        .capture_end = npu_capture_end, .graph_destroy = npu_graph_destroy,
        .graph_instantiate = npu_graph_instantiate,
        .exec_destroy = npu_exec_destroy, .exec_update = npu_exec_update,
        .exec_launch = npu_exec_launch, .host_access = npu_host_access,
        .exec_move = npu_exec_move)
