// SPDX-License-Identifier: Apache-2.0
// Contexts of threads, and results of CUDA as errors.
//
// Invariants: every function of the driver leaves the thread's context as it
// found it. A device's primary context is retained once, at its first use, and
// is the one that CUDA's runtime and PyTorch use.

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

// --- Errors ------------------------------------------------------------------

og_status cuda_fail(og_device_error *error, og_status code, const char *format,
                    ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return code;
}

// What was lost stays lost in this process.
#define LOST                                                                \
  "the GPU's context is lost: end this process; CUDA_LAUNCH_BLOCKING=1 or " \
  "compute-sanitizer finds the kernel"
#define CAPTURE "end the capture, and capture without this call"

static const struct advice {
  int result;
  og_status status;
  bool is_lost;
  const char *text;  // what to do
} advice_rows[] = {
    {OG_CUDA_INVALID_VALUE, OG_INVALID, false,
     "an address, a size or a handle is not of this GPU; check what was given"},
    {OG_CUDA_OUT_OF_MEMORY, OG_MEMORY, false,
     "free memory of the GPU, or use smaller tensors"},
    {OG_CUDA_DEINITIALIZED, OG_DEVICE, false,
     "the process is ending; call nothing of CUDA from its exit handlers"},
    {OG_CUDA_NO_DEVICE, OG_DEVICE, false,
     "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {OG_CUDA_INVALID_DEVICE, OG_DEVICE, false,
     "check the device's number and CUDA_VISIBLE_DEVICES"},
    {OG_CUDA_INVALID_CONTEXT, OG_INVALID, false,
     "give a stream or an event whose context is there"},
    {OG_CUDA_ECC_UNCORRECTABLE, OG_DEVICE, true,
     "the GPU's memory is faulty; see nvidia-smi -q, and reset the GPU"},
    {OG_CUDA_INVALID_HANDLE, OG_INVALID, false,
     "give a stream, an event or a graph that is not destroyed"},
    {OG_CUDA_NOT_READY, OG_BUSY, false, "wait for it"},
    {OG_CUDA_ILLEGAL_ADDRESS, OG_DEVICE, true, LOST},
    {OG_CUDA_LAUNCH_OUT_OF_RESOURCES, OG_KERNEL, false,
     "launch smaller blocks, or a kernel with fewer registers"},
    {OG_CUDA_LAUNCH_TIMEOUT, OG_DEVICE, true, LOST},
    {OG_CUDA_CONTEXT_IS_DESTROYED, OG_DEVICE, true, LOST},
    {OG_CUDA_ASSERT, OG_DEVICE, true, LOST},
    {OG_CUDA_LAUNCH_FAILED, OG_DEVICE, true, LOST},
    {OG_CUDA_NOT_PERMITTED, OG_INVALID, false,
     "call it outside of a capture and of a host function"},
    {OG_CUDA_NOT_SUPPORTED, OG_UNSUPPORTED, false,
     "install a newer driver of CUDA, or use a newer GPU"},
    {OG_CUDA_CAPTURE_UNSUPPORTED, OG_INVALID, false, CAPTURE},
    {OG_CUDA_CAPTURE_INVALIDATED, OG_INVALID, false,
     "a call before broke the capture; end it, and capture again"},
    {OG_CUDA_CAPTURE_UNMATCHED, OG_INVALID, false,
     "end a capture on the stream that began it"},
    {OG_CUDA_CAPTURE_UNJOINED, OG_INVALID, false,
     "record an event behind each stream's work and let the capture's stream "
     "wait for it"},
    {OG_CUDA_CAPTURE_ISOLATION, OG_INVALID, false,
     "wait for events recorded outside before the capture begins"},
    {OG_CUDA_CAPTURE_IMPLICIT, OG_INVALID, false,
     "use no legacy default stream while another stream captures"},
    {OG_CUDA_CAPTURED_EVENT, OG_INVALID, false,
     "the event was recorded in a capture, so nothing runs that it stands for; "
     "record it outside"},
    {OG_CUDA_CAPTURE_WRONG_THREAD, OG_INVALID, false,
     "end a capture on the thread that began it"},
};

static const struct advice *advice_find(int result) {
  static const struct advice lost = {
      .status = OG_DEVICE, .is_lost = true, .text = LOST};
  static const struct advice other = {.status = OG_DEVICE,
                                      .text =
                                          "see CUDA's documentation of "
                                          "this result"};
  for (size_t i = 0; i < sizeof advice_rows / sizeof *advice_rows; ++i)
    if (advice_rows[i].result == result) return &advice_rows[i];
  return result >= OG_CUDA_HARDWARE_STACK_ERROR &&
                 result < OG_CUDA_LAUNCH_FAILED
             ? &lost
             : &other;
}

bool cuda_is_lost(int result) { return advice_find(result)->is_lost; }

og_status cuda_result(const cuda_driver *driver, const char *symbol, int result,
                      og_device_error *error) {
  char said[256];
  const struct advice *advice = advice_find(result);
  og_cuda_api_explain(driver->api, symbol, result, said, sizeof said);
  return cuda_fail(error, advice->status, "%s; %s", said, advice->text);
}

// --- Devices -----------------------------------------------------------------

// Freed memory stays in the pool, of which nobody else of the process takes.
static og_status pool_make(cuda_driver *driver, cuda_device *device,
                           og_device_error *error) {
  const og_cuda_api *api = driver->api;
  int has_pools = 0;
  CUDA_TRY(
      driver, "cuDeviceGetAttribute",
      api->device_attribute(&has_pools, OG_CUDA_HAS_POOLS, device->ordinal));
  if (has_pools == 0) return OG_OK;
  const og_cuda_pool_props props = {
      .allocation_type = OG_CUDA_ALLOCATION_PINNED,
      .location_type = OG_CUDA_LOCATION_DEVICE,
      .location_id = device->ordinal};
  if (device->allocating_stream == NULL)
    CUDA_TRY(driver, "cuStreamCreate",
             api->stream_create(&device->allocating_stream,
                                OG_CUDA_STREAM_NON_BLOCKING));
  if (device->pool == NULL)
    CUDA_TRY(driver, "cuMemPoolCreate",
             api->pool_create(&device->pool, &props));
  CUDA_TRY(
      driver, "cuMemPoolSetAttribute",
      api->pool_set(device->pool, OG_CUDA_POOL_THRESHOLD, &driver->keep_bytes));
  return OG_OK;
}

static void pool_close(const cuda_driver *driver, cuda_device *device) {
  if (device->pool != NULL) driver->api->pool_destroy(device->pool);
  if (device->allocating_stream != NULL)
    driver->api->stream_destroy(device->allocating_stream);
  device->pool = device->allocating_stream = NULL;
}

// With the lock. A device whose making fails is as it was.
static og_status device_open(cuda_driver *driver, cuda_device *device,
                             og_device_error *error) {
  const og_cuda_api *api = driver->api;
  void *context = NULL, *before = NULL;
  CUDA_TRY(driver, "cuDevicePrimaryCtxRetain",
           api->context_retain(&context, device->ordinal));
  int result = api->context_current(&before);
  const char *symbol = "cuCtxGetCurrent";
  if (result == OG_CUDA_SUCCESS) {
    result = api->context_set(context);
    symbol = "cuCtxSetCurrent";
  }
  og_status status = OG_OK;
  if (result != OG_CUDA_SUCCESS) {
    status = cuda_result(driver, symbol, result, error);
  } else {
    status = pool_make(driver, device, error);
    if (status != OG_OK) pool_close(driver, device);
    api->context_set(before);
  }
  if (status != OG_OK)
    api->context_release(device->ordinal);
  else
    atomic_store(&device->context, context);
  return status;
}

static og_status context_of(cuda_driver *driver, int32_t device,
                            void **out_context, og_device_error *error) {
  *out_context = NULL;
  if (device < 0 || device >= driver->device_count)
    return cuda_fail(error, OG_DEVICE,
                     "device %d is not there, expected one from 0 to %d; check "
                     "CUDA_VISIBLE_DEVICES",
                     (int)device, (int)driver->device_count - 1);
  cuda_device *d = &driver->devices[device];
  *out_context = atomic_load(&d->context);
  if (*out_context != NULL) return OG_OK;
  pthread_mutex_lock(&driver->lock);
  og_status status = OG_OK;
  const int mode = cuda_relax(driver);
  if (atomic_load(&d->context) == NULL) status = device_open(driver, d, error);
  cuda_relax_end(driver, mode);
  *out_context = atomic_load(&d->context);
  pthread_mutex_unlock(&driver->lock);
  return status;
}

// What the device still does is waited for; nobody hears of it any more.
static void device_close(const cuda_driver *driver, cuda_device *device) {
  const og_cuda_api *api = driver->api;
  void *before = NULL, *context = atomic_load(&device->context);
  if (context == NULL) return;
  if (api->context_current(&before) != OG_CUDA_SUCCESS) before = NULL;
  if (api->context_set(context) == OG_CUDA_SUCCESS) {
    const int result = api->context_synchronize();
    if (result != OG_CUDA_SUCCESS && result != OG_CUDA_DEINITIALIZED) {
      og_device_error error;
      const og_status status =
          cuda_result(driver, "cuCtxSynchronize", result, &error);
      driver->host->report(driver->host->user, status, error.text);
    }
    pool_close(driver, device);
  }
  api->context_set(before);  // whoever made it current retains it
  api->context_release(device->ordinal);
}

void cuda_devices_close(cuda_driver *driver) {
  for (int32_t d = 0; d < driver->device_count; ++d)
    device_close(driver, &driver->devices[d]);
}

// --- Scopes ------------------------------------------------------------------

static og_status scope_call(const cuda_driver *driver, cuda_scope *scope,
                            const char *symbol, int result,
                            og_device_error *error) {
  scope->result = result;
  return result == OG_CUDA_SUCCESS ? OG_OK
                                   : cuda_result(driver, symbol, result, error);
}

// Of a scope that knows the context before.
static og_status context_enter(const cuda_driver *driver, void *context,
                               cuda_scope *scope, og_device_error *error) {
  scope->is_changed = scope->before != context;
  if (!scope->is_changed) return OG_OK;
  CUDA_TRY_STATUS(scope_call(driver, scope, "cuCtxSetCurrent",
                             driver->api->context_set(context), error));
  return OG_OK;
}

og_status cuda_enter_device(cuda_driver *driver, int32_t device,
                            cuda_scope *out_scope, og_device_error *error) {
  void *context;
  *out_scope = (cuda_scope){0};
  CUDA_TRY_STATUS(context_of(driver, device, &context, error));
  return cuda_enter_context(driver, context, out_scope, error);
}

og_status cuda_enter_context(const cuda_driver *driver, void *context,
                             cuda_scope *out_scope, og_device_error *error) {
  *out_scope = (cuda_scope){0};
  CUDA_TRY_STATUS(scope_call(driver, out_scope, "cuCtxGetCurrent",
                             driver->api->context_current(&out_scope->before),
                             error));
  return context_enter(driver, context, out_scope, error);
}

// Where there is one GPU, its primary context is right without asking.
og_status cuda_enter_stream(cuda_driver *driver, void *stream,
                            cuda_scope *out_scope, og_device_error *error) {
  void *context = NULL;
  *out_scope = (cuda_scope){0};
  CUDA_TRY_STATUS(scope_call(driver, out_scope, "cuCtxGetCurrent",
                             driver->api->context_current(&out_scope->before),
                             error));
  void *const before = out_scope->before;
  const bool is_default =
      cuda_is_legacy(stream) || stream == OG_CUDA_STREAM_PER_THREAD;
  if (before != NULL &&
      (is_default || (driver->device_count == 1 &&
                      before == atomic_load(&driver->devices[0].context))))
    return OG_OK;
  if (is_default)
    CUDA_TRY_STATUS(context_of(driver, 0, &context, error));
  else
    CUDA_TRY_STATUS(scope_call(driver, out_scope, "cuStreamGetCtx",
                               driver->api->stream_context(stream, &context),
                               error));
  return context_enter(driver, context, out_scope, error);
}

void cuda_leave(const cuda_driver *driver, const cuda_scope *scope) {
  if (scope->is_changed) driver->api->context_set(scope->before);
}

og_status cuda_end(const cuda_driver *driver, const cuda_scope *scope,
                   const char *symbol, int result, og_device_error *error) {
  cuda_leave(driver, scope);
  return result == OG_CUDA_SUCCESS ? OG_OK
                                   : cuda_result(driver, symbol, result, error);
}

int cuda_relax(const cuda_driver *driver) {
  int mode = OG_CUDA_CAPTURE_RELAXED;
  driver->api->capture_mode(&mode);
  return mode;
}

void cuda_relax_end(const cuda_driver *driver, int mode) {
  driver->api->capture_mode(&mode);
}
