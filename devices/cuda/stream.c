// SPDX-License-Identifier: Apache-2.0
// Streams and events.
//
// Invariant: CUDA is not asked about a stream that captures, since that would
// break the capture.

#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "driver.h"

enum { POLL_MOST_NS = 100000 };

// --- Waiting -----------------------------------------------------------------

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Polls up to the time; pauses grow from 1 to 100 microseconds. The last result
// of `query`.
static int poll_until(int (*query)(void *), void *handle, int64_t timeout_ns) {
  const int64_t begin_ns = now_ns();
  int64_t pause_ns = 1000;
  int result = query(handle);
  while (result == OG_CUDA_NOT_READY) {
    const int64_t left_ns = timeout_ns - (now_ns() - begin_ns);
    if (left_ns <= 0) break;
    const struct timespec pause = {
        .tv_nsec = (long)(pause_ns < left_ns ? pause_ns : left_ns)};
    nanosleep(&pause, NULL);
    if (pause_ns < POLL_MOST_NS) pause_ns *= 2;
    result = query(handle);
  }
  return result;
}

static og_status wait_end(const cuda_driver *driver, const char *symbol,
                          const char *what, int result,
                          og_device_error *error) {
  if (result == OG_CUDA_SUCCESS) return OG_OK;
  if (result == OG_CUDA_NOT_READY)
    return cuda_fail(error, OG_BUSY, "%s is not done yet; wait longer", what);
  return cuda_result(driver, symbol, result, error);
}

// --- Streams -----------------------------------------------------------------

og_status cuda_stream_create(void *state, int32_t device, void **out_stream,
                             og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_device(driver, device, &scope, error));
  const int result =
      driver->api->stream_create(out_stream, OG_CUDA_STREAM_NON_BLOCKING);
  return cuda_end(driver, &scope, "cuStreamCreate", result, error);
}

static og_status capturing_check(cuda_driver *driver, void *stream,
                                 og_device_error *error) {
  int status = 0;
  void *const real = cuda_stream_of(driver, stream);
  CUDA_TRY(driver, "cuStreamIsCapturing",
           driver->api->capture_status(real, &status));
  if (status == 0) return OG_OK;
  return cuda_fail(error, OG_INVALID,
                   "stream %p captures, so nothing runs on it; end the capture "
                   "first",
                   stream);
}

static og_status stream_wait(cuda_driver *driver, void *stream,
                             int64_t timeout_ns, og_device_error *error) {
  const og_cuda_api *api = driver->api;
  CUDA_TRY_STATUS(capturing_check(driver, stream, error));
  if (timeout_ns < 0)
    return wait_end(driver, "cuStreamSynchronize", "the stream",
                    api->stream_synchronize(stream), error);
  return wait_end(driver, "cuStreamQuery", "the stream",
                  poll_until(api->stream_query, stream, timeout_ns), error);
}

og_status cuda_stream_synchronize(void *state, void *stream, int64_t timeout_ns,
                                  og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error));
  const og_status status = stream_wait(driver, stream, timeout_ns, error);
  cuda_leave(driver, &scope);
  return status;
}

// A context that is lost, or a process that ends, took the handle with it.
static og_status handle_gone(const cuda_driver *driver, const cuda_scope *scope,
                             og_status status, const og_device_error *error) {
  if (!cuda_is_lost(scope->result) && scope->result != OG_CUDA_DEINITIALIZED)
    return status;
  driver->host->report(driver->host->user, status, error->text);
  return OG_OK;
}

// What its work failed with is reported.
static og_status stream_end(cuda_driver *driver, void *stream,
                            og_device_error *error) {
  const og_cuda_api *api = driver->api;
  CUDA_TRY_STATUS(capturing_check(driver, stream, error));
  const int failed = api->stream_synchronize(stream);
  if (failed != OG_CUDA_SUCCESS) {
    og_device_error said;
    const og_status status =
        cuda_result(driver, "cuStreamSynchronize", failed, &said);
    driver->host->report(driver->host->user, status, said.text);
  }
  const int result = api->stream_destroy(stream);
  if (result == OG_CUDA_SUCCESS || cuda_is_lost(result)) return OG_OK;
  return cuda_result(driver, "cuStreamDestroy", result, error);
}

og_status cuda_stream_destroy(void *state, void *stream,
                              og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  if (cuda_is_legacy(stream) || stream == OG_CUDA_STREAM_PER_THREAD)
    return cuda_fail(error, OG_INVALID,
                     "stream %p is a default stream of CUDA's, expected one of "
                     "stream_create",
                     stream);
  og_status status = cuda_enter_stream(driver, stream, &scope, error);
  if (status != OG_OK) return handle_gone(driver, &scope, status, error);
  status = stream_end(driver, stream, error);
  cuda_leave(driver, &scope);
  return status;
}

og_status cuda_host_function(void *state, void *stream, void (*fn)(void *user),
                             void *user, og_device_error *error) {
  CUDA_QUEUE("cuLaunchHostFunc", host_function, cuda_stream_of(driver, stream),
             fn, user);
}

// --- Events ------------------------------------------------------------------

// With times, which event_elapsed reads.
og_status cuda_event_create(void *state, int32_t device, void **out_event,
                            og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_device(driver, device, &scope, error));
  const int result = driver->api->event_create(out_event, 0);
  return cuda_end(driver, &scope, "cuEventCreate", result, error);
}

og_status cuda_event_destroy(void *state, void *event, og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  const og_status status = cuda_enter_any(driver, &scope, error);
  if (status != OG_OK) return handle_gone(driver, &scope, status, error);
  const int result = driver->api->event_destroy(event);
  return cuda_end(driver, &scope, "cuEventDestroy",
                  cuda_is_lost(result) ? OG_CUDA_SUCCESS : result, error);
}

og_status cuda_event_record(void *state, void *event, void *stream,
                            og_device_error *error) {
  CUDA_QUEUE("cuEventRecord", event_record, event,
             cuda_stream_of(driver, stream));
}

og_status cuda_event_wait(void *state, void *event, void *stream,
                          og_device_error *error) {
  CUDA_QUEUE("cuStreamWaitEvent", stream_wait, cuda_stream_of(driver, stream),
             event, 0);
}

og_status cuda_event_synchronize(void *state, void *event, int64_t timeout_ns,
                                 og_device_error *error) {
  cuda_driver *driver = state;
  const og_cuda_api *api = driver->api;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_any(driver, &scope, error));
  const bool is_endless = timeout_ns < 0;
  const int result = is_endless
                         ? api->event_synchronize(event)
                         : poll_until(api->event_query, event, timeout_ns);
  const og_status status =
      wait_end(driver, is_endless ? "cuEventSynchronize" : "cuEventQuery",
               "the event", result, error);
  cuda_leave(driver, &scope);
  return status;
}

og_status cuda_event_elapsed(void *state, void *begin, void *end,
                             int64_t *out_ns, og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  float ms = 0;
  CUDA_TRY_STATUS(cuda_enter_any(driver, &scope, error));
  const int result = driver->api->event_elapsed(&ms, begin, end);
  *out_ns = (int64_t)((double)ms * 1e6);
  return cuda_end(driver, &scope, "cuEventElapsedTime", result, error);
}
