// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's parts: contexts and errors (context.c), memory (memory.c),
// streams and events (stream.c), captures (capture.c), and the table
// (driver.c).
//
// A stream is a CUstream, an event a CUevent, an address a CUdeviceptr: those
// of other libraries of the process, PyTorch's above all, may be given as well.
// NULL is the legacy default stream.

#ifndef OG_CUDA_DRIVER_H
#define OG_CUDA_DRIVER_H

#include <opgraft/device.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"

enum { OG_CUDA_DEVICES_MAX = 64 };

typedef struct cuda_capture cuda_capture;

// One GPU. What stands behind `lock` is made at its first use.
typedef struct cuda_device {
  int ordinal;              // CUdevice
  void *_Atomic context;    // its primary one, retained; NULL until used
  void *allocating_stream;  // no work is ever on it; NULL without a pool
  void *pool;
} cuda_device;

typedef struct cuda_driver {
  const og_cuda_api *api;
  const og_device_host *host;
  pthread_mutex_t lock;
  cuda_device devices[OG_CUDA_DEVICES_MAX];
  int32_t device_count;
  uint64_t keep_bytes;   // of freed memory that a pool keeps
  atomic_int capturing;  // length of `captures`
  cuda_capture *captures;
} cuda_driver;

// --- Errors ------------------------------------------------------------------

og_status cuda_fail(og_device_error *error, og_status code, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));
// The status of a CUresult that is not 0, and its sentence: the function, the
// result's name and meaning, and what to do.
og_status cuda_result(const cuda_driver *driver, const char *symbol, int result,
                      og_device_error *error);
// After these the context is of no more use: every later call fails alike.
bool cuda_is_lost(int result);

// Calls an entry of the api; returns from the function where it fails.
#define CUDA_TRY(driver, symbol, call)                            \
  do {                                                            \
    const int cuda_try_ = (call);                                 \
    if (cuda_try_ != OG_CUDA_SUCCESS)                             \
      return cuda_result((driver), (symbol), cuda_try_, (error)); \
  } while (0)

#define CUDA_TRY_STATUS(call)                       \
  do {                                              \
    const og_status cuda_status_ = (call);          \
    if (cuda_status_ != OG_OK) return cuda_status_; \
  } while (0)

// --- Contexts ----------------------------------------------------------------

// The thread's context as it was before a call: leave puts it back.
typedef struct cuda_scope {
  void *before;
  bool is_changed;
  int result;  // of the call of CUDA that kept it from being entered
} cuda_scope;

// Makes the device's primary context the thread's.
og_status cuda_enter_device(cuda_driver *driver, int32_t device,
                            cuda_scope *out_scope, og_device_error *error);
// Makes the stream's context the thread's. A default stream (NULL, per-thread)
// is of the context that the thread has; device 0's where it has none.
og_status cuda_enter_stream(cuda_driver *driver, void *stream,
                            cuda_scope *out_scope, og_device_error *error);
og_status cuda_enter_context(const cuda_driver *driver, void *context,
                             cuda_scope *out_scope, og_device_error *error);
// For calls that need any context: the thread's, else device 0's.
static inline og_status cuda_enter_any(cuda_driver *driver,
                                       cuda_scope *out_scope,
                                       og_device_error *error) {
  return cuda_enter_stream(driver, NULL, out_scope, error);
}
void cuda_leave(const cuda_driver *driver, const cuda_scope *scope);
// Leaves; the status of what was called inside.
og_status cuda_end(const cuda_driver *driver, const cuda_scope *scope,
                   const char *symbol, int result, og_device_error *error);
// The body of a function that gives a stream work by an entry of the api.
#define CUDA_QUEUE(symbol, entry, ...)                               \
  cuda_driver *driver = state;                                       \
  cuda_scope scope;                                                  \
  CUDA_TRY_STATUS(cuda_enter_stream(driver, stream, &scope, error)); \
  const int result = driver->api->entry(__VA_ARGS__);                \
  return cuda_end(driver, &scope, symbol, result, error)
// PyTorch's captures forbid other threads calls that may wait or allocate. What
// runs between these two is not part of them. The mode before, for the second.
int cuda_relax(const cuda_driver *driver);
void cuda_relax_end(const cuda_driver *driver, int mode);
// Releases what was retained and made.
void cuda_devices_close(cuda_driver *driver);

// --- Entries of the table, as device.h says ----------------------------------

og_status cuda_memory_allocate(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error);
og_status cuda_memory_free(void *state, int32_t device, void *address,
                           og_device_error *error);
og_status cuda_memory_set(void *state, void *stream, void *address,
                          int32_t byte, size_t size_bytes,
                          og_device_error *error);
og_status cuda_copy_to_device(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error);
og_status cuda_copy_to_host(void *state, void *stream, void *to,
                            const void *from, size_t size_bytes,
                            og_device_error *error);
og_status cuda_copy_on_device(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error);

og_status cuda_stream_create(void *state, int32_t device, void **out_stream,
                             og_device_error *error);
og_status cuda_stream_destroy(void *state, void *stream,
                              og_device_error *error);
og_status cuda_stream_synchronize(void *state, void *stream, int64_t timeout_ns,
                                  og_device_error *error);
og_status cuda_event_create(void *state, int32_t device, void **out_event,
                            og_device_error *error);
og_status cuda_event_destroy(void *state, void *event, og_device_error *error);
og_status cuda_event_record(void *state, void *event, void *stream,
                            og_device_error *error);
og_status cuda_event_wait(void *state, void *event, void *stream,
                          og_device_error *error);
og_status cuda_event_synchronize(void *state, void *event, int64_t timeout_ns,
                                 og_device_error *error);
og_status cuda_event_elapsed(void *state, void *begin, void *end,
                             int64_t *out_ns, og_device_error *error);
og_status cuda_host_function(void *state, void *stream, void (*fn)(void *user),
                             void *user, og_device_error *error);

og_status cuda_launch(void *state, void *stream, const og_launch *launch,
                      og_device_error *error);
og_status cuda_capture_begin(void *state, void *stream, og_device_error *error);
og_status cuda_capture_end(void *state, void *stream, void **out_graph,
                           og_device_error *error);
og_status cuda_graph_destroy(void *state, void *graph, og_device_error *error);
og_status cuda_graph_instantiate(void *state, void *graph, void **out_exec,
                                 og_device_error *error);
og_status cuda_exec_destroy(void *state, void *exec, og_device_error *error);
og_status cuda_exec_update(void *state, void *exec, int32_t index,
                           const og_launch *launch, og_device_error *error);
og_status cuda_exec_launch(void *state, void *exec, void *stream,
                           og_device_error *error);

// --- Captures ----------------------------------------------------------------

// The stream that work for `stream` is given to: CUDA cannot capture the legacy
// default stream, so one that captures is stood for by a stream of ours, for
// the thread that began the capture.
void *cuda_stream_of(cuda_driver *driver, void *stream);
static inline bool cuda_is_legacy(const void *stream) {
  return stream == NULL || stream == OG_CUDA_STREAM_LEGACY;
}

#endif  // OG_CUDA_DRIVER_H
