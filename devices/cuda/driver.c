// SPDX-License-Identifier: Apache-2.0
// cuda: NVIDIA GPUs as devices, through CUDA's driver library. Option:
// keep_mb=N (256), the freed memory that each GPU keeps for the next
// allocation.

#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP_MB = 256, KEEP_MB_MAX = 1 << 20, ALIGNMENT = 256 };

static og_status option_read(const char *text, uint64_t *out_keep_bytes,
                             og_device_error *error) {
  static const char name[] = "keep_mb=";
  *out_keep_bytes = (uint64_t)KEEP_MB << 20;
  if (*text == '\0') return OG_OK;
  char *end = NULL;
  const char *digits = text + sizeof name - 1;
  if (strncmp(text, name, sizeof name - 1) == 0 && *digits >= '0' &&
      *digits <= '9') {
    const unsigned long long value = strtoull(digits, &end, 10);
    if (*end == '\0' && value <= KEEP_MB_MAX) {
      *out_keep_bytes = (uint64_t)value << 20;
      return OG_OK;
    }
  }
  return cuda_fail(error, OG_INVALID,
                   "the option is '%.100s', expected keep_mb=N from 0 to %d",
                   text, KEEP_MB_MAX);
}

static og_status devices_find(cuda_driver *driver, og_device_error *error) {
  int count = 0;
  CUDA_TRY(driver, "cuDeviceGetCount", driver->api->device_count(&count));
  if (count == 0)
    return cuda_fail(error, OG_DEVICE,
                     "CUDA's driver library finds no GPU; check nvidia-smi and "
                     "CUDA_VISIBLE_DEVICES");
  if (count > OG_CUDA_DEVICES_MAX) count = OG_CUDA_DEVICES_MAX;
  for (int d = 0; d < count; ++d)
    CUDA_TRY(driver, "cuDeviceGet",
             driver->api->device_get(&driver->devices[d].ordinal, d));
  driver->device_count = count;
  return OG_OK;
}

static og_status cuda_open(const og_device_host *host, void **out_state,
                           og_device_error *error) {
  uint64_t keep_bytes;
  CUDA_TRY_STATUS(option_read(host->options, &keep_bytes, error));
  const og_cuda_api *api =
      og_cuda_api_open_whole(error->text, sizeof error->text);
  if (api == NULL) return OG_DEVICE;
  cuda_driver *driver = calloc(1, sizeof *driver);
  if (driver == NULL)
    return cuda_fail(error, OG_MEMORY, "no memory of the host; free some");
  driver->api = api;
  driver->host = host;
  driver->keep_bytes = keep_bytes;
  const og_status status = devices_find(driver, error);
  if (status != OG_OK) {
    free(driver);
    return status;
  }
  pthread_mutex_init(&driver->lock, NULL);
  *out_state = driver;
  return OG_OK;
}

static void cuda_close(void *state) {
  cuda_driver *driver = state;
  cuda_devices_close(driver);
  pthread_mutex_destroy(&driver->lock);
  free(driver);
}

static og_status cuda_device_count(void *state, int32_t *out_count,
                                   og_device_error *error) {
  const cuda_driver *driver = state;
  (void)error;
  *out_count = driver->device_count;
  return OG_OK;
}

// No context is made for this.
static og_status cuda_properties(void *state, int32_t device,
                                 og_device_properties *out_properties,
                                 og_device_error *error) {
  const cuda_driver *driver = state;
  const og_cuda_api *api = driver->api;
  const int ordinal = driver->devices[device].ordinal;
  int major = 0, minor = 0;
  size_t size_bytes = 0;
  char name[48] = "";
  CUDA_TRY(driver, "cuDeviceTotalMem",
           api->device_memory(&size_bytes, ordinal));
  CUDA_TRY(driver, "cuDeviceGetName",
           api->device_name(name, sizeof name, ordinal));
  CUDA_TRY(driver, "cuDeviceGetAttribute",
           api->device_attribute(&major, OG_CUDA_CAPABILITY_MAJOR, ordinal));
  CUDA_TRY(driver, "cuDeviceGetAttribute",
           api->device_attribute(&minor, OG_CUDA_CAPABILITY_MINOR, ordinal));
  out_properties->alignment = ALIGNMENT;
  out_properties->memory_bytes = size_bytes;
  name[sizeof name - 1] = '\0';
  snprintf(out_properties->model, sizeof out_properties->model, "%s, sm_%d%d",
           name, major, minor);
  return OG_OK;
}

OG_DEVICE_DRIVER(.name = "cuda", .device_type = OG_CUDA, .open = cuda_open,
                 .close = cuda_close, .device_count = cuda_device_count,
                 .properties = cuda_properties,
                 .memory_allocate = cuda_memory_allocate,
                 .memory_free = cuda_memory_free, .memory_set = cuda_memory_set,
                 .copy_to_device = cuda_copy_to_device,
                 .copy_to_host = cuda_copy_to_host,
                 .copy_on_device = cuda_copy_on_device,
                 .stream_create = cuda_stream_create,
                 .stream_destroy = cuda_stream_destroy,
                 .stream_synchronize = cuda_stream_synchronize,
                 .event_create = cuda_event_create,
                 .event_destroy = cuda_event_destroy,
                 .event_record = cuda_event_record,
                 .event_wait = cuda_event_wait,
                 .event_synchronize = cuda_event_synchronize,
                 .event_elapsed = cuda_event_elapsed,
                 .host_function = cuda_host_function, .launch = cuda_launch,
                 .capture_begin = cuda_capture_begin,
                 .capture_end = cuda_capture_end,
                 .graph_destroy = cuda_graph_destroy,
                 .graph_instantiate = cuda_graph_instantiate,
                 .exec_destroy = cuda_exec_destroy,
                 .exec_update = cuda_exec_update,
                 .exec_launch = cuda_exec_launch)
