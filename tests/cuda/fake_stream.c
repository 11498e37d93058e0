// SPDX-License-Identifier: Apache-2.0
// The fake's streams and events, and the work on them.
//
// Invariant: a wait stands behind the record that it waits for, in the order in
// which work was given, so to do one stream's work never waits for itself.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/fake.h"

enum { TICK_ONE_IN = 3 };

typedef struct fake_event {
  fake_object object;
  fake_mark *mark;   // NULL: never recorded
  uint64_t capture;  // in which it was recorded last; 0: none
  fake_front front;
} fake_event;

static fake_stream legacy = {.is_blocking = true};
static fake_stream per_thread;

fake_stream *fake_stream_find(void *handle, const char *symbol) {
  fake_stream *stream = handle;
  const bool is_own = handle != NULL && handle != OG_CUDA_STREAM_LEGACY &&
                      handle != OG_CUDA_STREAM_PER_THREAD;
  if (!is_own) {
    if (!fake_has_context(symbol)) return NULL;
    return handle == OG_CUDA_STREAM_PER_THREAD ? &per_thread : &legacy;
  }
  if (!fake_is(FAKE_STREAM, handle, symbol)) return NULL;
  return stream;
}

// --- Work --------------------------------------------------------------------

void fake_mark_release(fake_mark *mark) {
  if (mark != NULL && --mark->references == 0) free(mark);
}

bool fake_parameters_copy(const fake_kernel *kernel, void *const *from,
                          void ***out_parameters) {
  size_t count = 0, bytes = 0;
  for (const size_t *size = kernel->sizes; *size != 0; ++size, ++count)
    bytes += (*size + 15) / 16 * 16;
  void **to = malloc((count + 2) * sizeof(void *) + bytes + 16);
  if (to == NULL) return false;
  uintptr_t at = ((uintptr_t)(to + count + 1) + 15) / 16 * 16;
  for (size_t i = 0; i < count; ++i) {
    to[i] = (void *)at;
    memcpy(to[i], from[i], kernel->sizes[i]);
    at += (kernel->sizes[i] + 15) / 16 * 16;
  }
  *out_parameters = to;
  return true;
}

fake_work *fake_work_copy(const fake_work *work) {
  fake_work *copy = malloc(sizeof *copy);
  if (copy == NULL) abort();
  *copy = *work;
  copy->next = copy->works = NULL;
  if (copy->mark != NULL) ++copy->mark->references;
  if (work->parameters != NULL &&
      !fake_parameters_copy(work->kernel, work->parameters, &copy->parameters))
    abort();
  fake_work **link = &copy->works;
  for (const fake_work *w = work->works; w != NULL; w = w->next) {
    *link = fake_work_copy(w);
    link = &(*link)->next;
  }
  return copy;
}

void fake_work_free(fake_work *work) {
  while (work->works != NULL) {
    fake_work *next = work->works->next;
    fake_work_free(work->works);
    work->works = next;
  }
  fake_mark_release(work->mark);
  free(work->parameters);
  free(work);
}

static bool uses(const fake_work *work, uint64_t address, size_t size_bytes) {
  const uint64_t end = address + size_bytes;
  const bool writes = work->is_to_device && work->to < end &&
                      address < work->to + work->size_bytes;
  const bool reads = work->is_from_device && work->from < end &&
                     address < work->from + work->size_bytes;
  if (writes || reads) return true;
  for (size_t i = 0; work->parameters != NULL && work->kernel->sizes[i] != 0;
       ++i) {
    uint64_t value;
    if (work->kernel->sizes[i] != sizeof value) continue;
    memcpy(&value, work->parameters[i], sizeof value);
    if (value >= address && value < end) return true;
  }
  for (const fake_work *w = work->works; w != NULL; w = w->next)
    if (uses(w, address, size_bytes)) return true;
  return false;
}

static bool stream_uses(const fake_stream *stream, uint64_t address,
                        size_t size_bytes) {
  for (const fake_work *w = stream->first; w != NULL; w = w->next)
    if (uses(w, address, size_bytes)) return true;
  return false;
}

bool fake_is_used(uint64_t address, size_t size_bytes) {
  bool found = stream_uses(&legacy, address, size_bytes) ||
               stream_uses(&per_thread, address, size_bytes);
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL && !found;
       s = fake_next(FAKE_STREAM, s))
    found = stream_uses(s, address, size_bytes);
  return found;
}

// --- Doing it ----------------------------------------------------------------

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void lose(const char *what, uint64_t address, size_t size_bytes) {
  fake_misuse(0, "%s: the %zu bytes at %p are in no live block", what,
              size_bytes, (void *)(uintptr_t)address);
  fake_lose(OG_CUDA_ILLEGAL_ADDRESS);
}

// Numbers of 8 bytes that lie in the devices' memory are addresses.
static bool parameters_are_live(const fake_work *work) {
  for (size_t i = 0; work->kernel->sizes[i] != 0; ++i) {
    uint64_t value;
    if (work->kernel->sizes[i] != sizeof value) continue;
    memcpy(&value, work->parameters[i], sizeof value);
    if (!fake_memory_is_device(value) || fake_memory_has(value, 1)) continue;
    lose(work->kernel->name, value, 1);
    return false;
  }
  return true;
}

static void bytes_run(const fake_work *work) {
  void *to = (void *)(uintptr_t)work->to;
  if (work->is_to_device && !fake_memory_has(work->to, work->size_bytes))
    lose("a copy or set", work->to, work->size_bytes);
  else if (work->is_from_device &&
           !fake_memory_has(work->from, work->size_bytes))
    lose("a copy", work->from, work->size_bytes);
  else if (work->kind == FAKE_SET)
    memset(to, work->byte, work->size_bytes);
  else
    memmove(to, (const void *)(uintptr_t)work->from, work->size_bytes);
}

static void kernel_run(const fake_work *work) {
  if (!parameters_are_live(work)) return;
  work->kernel->run(work->grid, work->block, work->shared_bytes,
                    work->parameters);
  fake_memory_check();
}

static void stream_step(fake_stream *stream);

static void mark_wait(const fake_mark *mark) {
  while (!mark->is_done) stream_step(mark->stream);
}

void fake_work_run(fake_work *work) {  // dispatch
  if (work->kind == FAKE_RECORD) {
    work->mark->is_done = true;
    work->mark->time_ns = now_ns();
  }
  if (work->kind == FAKE_WAIT) mark_wait(work->mark);
  if (fake_lost() != 0) return;  // of all else nothing is done any more
  if (work->kind == FAKE_RUN) kernel_run(work);
  if (work->kind == FAKE_COPY || work->kind == FAKE_SET) bytes_run(work);
  if (work->kind == FAKE_HOST) {
    fake_host_begin();
    work->fn(work->user);
    fake_host_end();
  }
  for (fake_work *w = work->works; w != NULL; w = w->next) fake_work_run(w);
}

// The first of the stream; it stands there until it is done.
static void stream_step(fake_stream *stream) {
  fake_work *work = stream->first;
  fake_work_run(work);
  stream->first = work->next;
  fake_work_free(work);
}

void fake_drain(fake_stream *stream) {
  while (stream->first != NULL) stream_step(stream);
}

void fake_drain_all(void) {
  fake_drain(&legacy);
  fake_drain(&per_thread);
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL;
       s = fake_next(FAKE_STREAM, s))
    fake_drain(s);
}

void fake_tick(void) {
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL;
       s = fake_next(FAKE_STREAM, s))
    if (s->first != NULL && fake_chance(TICK_ONE_IN)) stream_step(s);
}

// --- Giving it ---------------------------------------------------------------

static void work_append(fake_stream *stream, fake_work *work) {
  fake_work **link = &stream->first;
  while (*link != NULL) link = &(*link)->next;
  *link = work;
}

static fake_mark *mark_add(fake_stream *stream) {
  fake_mark *mark = calloc(1, sizeof *mark);
  if (mark == NULL) abort();
  mark->stream = stream;
  mark->references = 1;
  const fake_work work = {.kind = FAKE_RECORD, .mark = mark};
  work_append(stream, fake_work_copy(&work));
  return mark;
}

static void wait_add(fake_stream *stream, fake_mark *mark) {
  const fake_work work = {.kind = FAKE_WAIT, .mark = mark};
  work_append(stream, fake_work_copy(&work));
}

static void order(fake_stream *later, fake_stream *earlier) {
  if (earlier->first == NULL || earlier == later) return;
  fake_mark *mark = mark_add(earlier);
  wait_add(later, mark);
  fake_mark_release(mark);
}

// The legacy stream and the blocking ones wait for each other; 906 where one of
// them captures.
static int legacy_order(fake_stream *stream, const char *symbol) {
  if (stream != &legacy) {
    if (stream->is_blocking) order(stream, &legacy);
    return 0;
  }
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL); s != NULL;
       s = fake_next(FAKE_STREAM, s)) {
    if (!s->is_blocking) continue;
    if (s->capture != NULL)
      return fake_misuse(OG_CUDA_CAPTURE_IMPLICIT,
                         "%s: on the legacy stream, while a blocking stream "
                         "captures",
                         symbol);
    order(&legacy, s);
  }
  return 0;
}

int fake_give(fake_stream *stream, fake_work *work, const char *symbol) {
  if (stream->capture != NULL) return fake_node_add(stream, work);
  const int result = legacy_order(stream, symbol);
  if (result == 0)
    work_append(stream, work);
  else
    fake_work_free(work);
  return result;
}

int fake_give_behind(fake_stream *stream, fake_work *work, fake_mark **mark,
                     const char *symbol) {
  const bool is_captured = stream->capture != NULL;
  if (!is_captured && *mark != NULL && !(*mark)->is_done)
    wait_add(stream, *mark);
  const int result = fake_give(stream, work, symbol);
  if (result != 0 || is_captured) return result;
  fake_mark_release(*mark);
  *mark = mark_add(stream);
  return 0;
}

// --- Streams -----------------------------------------------------------------

int cuStreamCreate(void **out_stream, unsigned flags) {
  FAKE_ENTER("cuStreamCreate");
  if (!fake_has_context("cuStreamCreate"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (flags > OG_CUDA_STREAM_NON_BLOCKING)
    return fake_leave(OG_CUDA_INVALID_VALUE);
  fake_stream *stream = fake_make(FAKE_STREAM, sizeof *stream);
  stream->context = fake_current();
  stream->is_blocking = flags == 0;
  *out_stream = stream;
  return fake_leave(0);
}

int cuStreamDestroy_v2(void *handle) {
  FAKE_ENTER("cuStreamDestroy_v2");
  fake_stream *stream = fake_stream_find(handle, "cuStreamDestroy");
  if (stream == NULL || stream == &legacy || stream == &per_thread)
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (stream->capture != NULL)
    return fake_leave(fake_misuse(OG_CUDA_CAPTURE_UNSUPPORTED,
                                  "cuStreamDestroy: the stream captures"));
  fake_drain(stream);
  fake_drop(stream);
  return fake_leave(0);
}

static int capturing_check(fake_stream *stream, const char *symbol) {
  if (stream->capture == NULL) return 0;
  stream->capture->is_broken = true;
  return fake_misuse(OG_CUDA_CAPTURE_UNSUPPORTED, "%s: the stream captures",
                     symbol);
}

int cuStreamSynchronize(void *handle) {
  FAKE_ENTER("cuStreamSynchronize");
  fake_stream *stream = fake_stream_find(handle, "cuStreamSynchronize");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  const int result = capturing_check(stream, "cuStreamSynchronize");
  if (result == 0) fake_drain(stream);
  return fake_leave(result);
}

// A step at each call, so that polling comes to an end.
int cuStreamQuery(void *handle) {
  FAKE_ENTER("cuStreamQuery");
  fake_stream *stream = fake_stream_find(handle, "cuStreamQuery");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  const int result = capturing_check(stream, "cuStreamQuery");
  if (result != 0 || stream->first == NULL) return fake_leave(result);
  stream_step(stream);
  return fake_leave(OG_CUDA_NOT_READY);
}

int cuStreamGetCtx(void *handle, void **out_context) {
  FAKE_ENTER("cuStreamGetCtx");
  const fake_stream *stream = fake_stream_find(handle, "cuStreamGetCtx");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  *out_context = stream->context != NULL ? stream->context : fake_current();
  return fake_leave(0);
}

int cuLaunchHostFunc(void *handle, void (*fn)(void *user), void *user) {
  FAKE_ENTER("cuLaunchHostFunc");
  fake_stream *stream = fake_stream_find(handle, "cuLaunchHostFunc");
  if (stream == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  const fake_work work = {.kind = FAKE_HOST, .fn = fn, .user = user};
  return fake_leave(
      fake_give(stream, fake_work_copy(&work), "cuLaunchHostFunc"));
}

// --- Kernels -----------------------------------------------------------------

static bool shape_is_right(const unsigned grid[3], const unsigned block[3],
                           unsigned shared_bytes) {
  const unsigned long long threads =
      (unsigned long long)block[0] * block[1] * block[2];
  return grid[0] > 0 && grid[1] > 0 && grid[1] < 65536 && grid[2] > 0 &&
         grid[2] < 65536 && threads > 0 && threads <= 1024 && block[2] <= 64 &&
         shared_bytes <= 232448;
}

// Without the sizes of its parameters it runs at once.
static int kernel_give(fake_stream *stream, fake_work *work,
                       void **parameters) {
  if (work->kernel->sizes != NULL) {
    fake_work *copy = fake_work_copy(work);
    if (!fake_parameters_copy(work->kernel, parameters, &copy->parameters))
      abort();
    return fake_give(stream, copy, "cuLaunchKernel");
  }
  if (stream->capture != NULL)
    return fake_misuse(OG_CUDA_NOT_SUPPORTED,
                       "cuLaunchKernel: a capture needs opgraft_fake_%s_sizes",
                       work->kernel->name);
  fake_drain_all();
  work->kernel->run(work->grid, work->block, work->shared_bytes, parameters);
  fake_memory_check();
  return 0;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void *handle,
                   void **parameters, void **extra) {
  FAKE_ENTER("cuLaunchKernel");
  fake_work work = {.kind = FAKE_RUN,
                    .kernel = function,
                    .grid = {grid_x, grid_y, grid_z},
                    .block = {block_x, block_y, block_z},
                    .shared_bytes = shared_bytes};
  fake_stream *stream = fake_stream_find(handle, "cuLaunchKernel");
  if (stream == NULL || !fake_is(FAKE_KERNEL, function, "cuLaunchKernel"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (!fake_has_context("cuLaunchKernel"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (stream->context != NULL && stream->context != fake_current())
    return fake_leave(fake_misuse(OG_CUDA_INVALID_HANDLE,
                                  "cuLaunchKernel: the stream is of another "
                                  "context than the thread's"));
  if (!shape_is_right(work.grid, work.block, shared_bytes) || extra != NULL)
    return fake_leave(fake_misuse(OG_CUDA_INVALID_VALUE,
                                  "cuLaunchKernel: %s: the grid, the block or "
                                  "the shared memory is out of range",
                                  work.kernel->name));
  return fake_leave(kernel_give(stream, &work, parameters));
}

// --- Events ------------------------------------------------------------------

int cuEventCreate(void **out_event, unsigned flags) {
  FAKE_ENTER("cuEventCreate");
  if (!fake_has_context("cuEventCreate"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (flags != 0) return fake_leave(OG_CUDA_INVALID_VALUE);
  *out_event = fake_make(FAKE_EVENT, sizeof(fake_event));
  return fake_leave(0);
}

int cuEventDestroy_v2(void *handle) {
  FAKE_ENTER("cuEventDestroy_v2");
  fake_event *event = handle;
  if (!fake_is(FAKE_EVENT, handle, "cuEventDestroy"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  fake_mark_release(event->mark);
  fake_front_reset(&event->front);
  fake_drop(event);
  return fake_leave(0);
}

static void event_capture(fake_event *event, const fake_stream *stream) {
  fake_mark_release(event->mark);
  event->mark = NULL;
  event->capture = stream->capture->id;
  for (size_t i = 0; i < stream->front.count; ++i)
    fake_front_add(&event->front, stream->front.nodes[i]);
}

int cuEventRecord(void *handle, void *stream_handle) {
  FAKE_ENTER("cuEventRecord");
  fake_event *event = handle;
  fake_stream *stream = fake_stream_find(stream_handle, "cuEventRecord");
  if (stream == NULL || !fake_is(FAKE_EVENT, handle, "cuEventRecord"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  fake_front_reset(&event->front);
  event->capture = 0;
  if (stream->capture != NULL) {
    event_capture(event, stream);
    return fake_leave(0);
  }
  const int result = legacy_order(stream, "cuEventRecord");
  if (result != 0) return fake_leave(result);
  fake_mark_release(event->mark);
  event->mark = mark_add(stream);
  return fake_leave(0);
}

// The stream joins the capture of the event.
static int capture_join(fake_stream *stream, const fake_event *event) {
  fake_capture *capture = stream->capture;
  for (fake_stream *s = fake_next(FAKE_STREAM, NULL);
       s != NULL && capture == NULL; s = fake_next(FAKE_STREAM, s))
    if (s->capture != NULL && s->capture->id == event->capture)
      capture = s->capture;
  if (capture == NULL || capture->id != event->capture)
    return fake_misuse(OG_CUDA_CAPTURED_EVENT,
                       "cuStreamWaitEvent: the event is of a capture that "
                       "ended, or of another one");
  stream->capture = capture;
  for (size_t i = 0; i < event->front.count; ++i)
    fake_front_add(&stream->front, event->front.nodes[i]);
  return 0;
}

int cuStreamWaitEvent(void *handle, void *event_handle, unsigned flags) {
  FAKE_ENTER("cuStreamWaitEvent");
  const fake_event *event = event_handle;
  fake_stream *stream = fake_stream_find(handle, "cuStreamWaitEvent");
  if (stream == NULL || !fake_is(FAKE_EVENT, event, "cuStreamWaitEvent"))
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (flags != 0) return fake_leave(OG_CUDA_INVALID_VALUE);
  if (event->capture != 0) return fake_leave(capture_join(stream, event));
  if (event->mark == NULL) return fake_leave(0);
  if (stream->capture != NULL) {
    stream->capture->is_broken = true;
    return fake_leave(fake_misuse(OG_CUDA_CAPTURE_ISOLATION,
                                  "cuStreamWaitEvent: the stream captures, "
                                  "the event was recorded outside"));
  }
  if (!event->mark->is_done && event->mark->stream != stream)
    wait_add(stream, event->mark);
  return fake_leave(0);
}

static int event_check(const fake_event *event, const char *symbol) {
  if (!fake_is(FAKE_EVENT, event, symbol)) return OG_CUDA_INVALID_HANDLE;
  if (event->capture == 0) return 0;
  return fake_misuse(OG_CUDA_CAPTURED_EVENT,
                     "%s: the event was recorded in a capture", symbol);
}

int cuEventSynchronize(void *event) {
  FAKE_ENTER("cuEventSynchronize");
  const int result = event_check(event, "cuEventSynchronize");
  const fake_mark *mark = result == 0 ? ((fake_event *)event)->mark : NULL;
  if (mark != NULL) mark_wait(mark);
  return fake_leave(result);
}

int cuEventQuery(void *event) {
  FAKE_ENTER("cuEventQuery");
  const int result = event_check(event, "cuEventQuery");
  const fake_mark *mark = result == 0 ? ((fake_event *)event)->mark : NULL;
  if (mark == NULL || mark->is_done) return fake_leave(result);
  stream_step(mark->stream);
  return fake_leave(OG_CUDA_NOT_READY);
}

int cuEventElapsedTime(float *out_ms, void *begin, void *end) {
  FAKE_ENTER("cuEventElapsedTime");
  int result = event_check(begin, "cuEventElapsedTime");
  if (result == 0) result = event_check(end, "cuEventElapsedTime");
  if (result != 0) return fake_leave(result);
  const fake_mark *from = ((fake_event *)begin)->mark;
  const fake_mark *to = ((fake_event *)end)->mark;
  if (from == NULL || to == NULL) return fake_leave(OG_CUDA_INVALID_HANDLE);
  if (!from->is_done || !to->is_done) return fake_leave(OG_CUDA_NOT_READY);
  *out_ms = (float)((double)(to->time_ns - from->time_ns) / 1e6);
  return fake_leave(0);
}
