// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs, and copies.
//
// Where the GPU has memory pools, memory comes from one of ours: to free a part
// waits for nothing, as cuMemFree does, and the next allocation takes it
// without asking the system. A pool works in a stream's order; that stream has
// no other work, so memory is there for every stream once it was waited for.

#include <stdint.h>

#include "driver.h"

static uint64_t address_of(const void *pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

// --- Allocations -------------------------------------------------------------

static og_status no_room(const cuda_driver *driver, const char *symbol,
                         int result, size_t size_bytes, int32_t device,
                         og_device_error *error) {
  if (result != OG_CUDA_OUT_OF_MEMORY)
    return cuda_result(driver, symbol, result, error);
  return cuda_fail(error, OG_MEMORY,
                   "%s: CUDA_ERROR_OUT_OF_MEMORY, device %d has no room for "
                   "%zu bytes; free memory of it, or use smaller tensors",
                   symbol, (int)device, size_bytes);
}

// A pool that is full gives what it keeps to the system, and is asked again.
static int pool_take(const cuda_driver *driver, const cuda_device *device,
                     size_t size_bytes, uint64_t *out_address) {
  const og_cuda_api *api = driver->api;
  const int result = api->pool_allocate(out_address, size_bytes, device->pool,
                                        device->allocating_stream);
  if (result != OG_CUDA_OUT_OF_MEMORY ||
      api->pool_trim(device->pool, 0) != OG_CUDA_SUCCESS)
    return result;
  return api->pool_allocate(out_address, size_bytes, device->pool,
                            device->allocating_stream);
}

static og_status pool_allocate(const cuda_driver *driver, int32_t number,
                               size_t size_bytes, uint64_t *out_address,
                               og_device_error *error) {
  const og_cuda_api *api = driver->api;
  const cuda_device *device = &driver->devices[number];
  int result = pool_take(driver, device, size_bytes, out_address);
  if (result != OG_CUDA_SUCCESS)
    return no_room(driver, "cuMemAllocFromPoolAsync", result, size_bytes,
                   number, error);
  result = api->stream_synchronize(device->allocating_stream);
  if (result == OG_CUDA_SUCCESS) return OG_OK;
  api->pool_free(*out_address, device->allocating_stream);
  *out_address = 0;
  return cuda_result(driver, "cuStreamSynchronize", result, error);
}

static og_status plain_allocate(const cuda_driver *driver, int32_t number,
                                size_t size_bytes, uint64_t *out_address,
                                og_device_error *error) {
  const int result = driver->api->memory_allocate(out_address, size_bytes);
  return result == OG_CUDA_SUCCESS
             ? OG_OK
             : no_room(driver, "cuMemAlloc", result, size_bytes, number, error);
}

og_status cuda_memory_allocate(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error) {
  cuda_driver *driver = state;
  cuda_scope scope;
  uint64_t address = 0;
  CUDA_TRY_STATUS(cuda_enter_device(driver, device, &scope, error));
  const int mode = cuda_relax(driver);
  const og_status status =
      driver->devices[device].pool != NULL
          ? pool_allocate(driver, device, size_bytes, &address, error)
          : plain_allocate(driver, device, size_bytes, &address, error);
  cuda_relax_end(driver, mode);
  cuda_leave(driver, &scope);
  if (status == OG_OK) *out_address = (void *)(uintptr_t)address;
  return status;
}

og_status cuda_memory_free(void *state, int32_t device, void *address,
                           og_device_error *error) {
  cuda_driver *driver = state;
  const og_cuda_api *api = driver->api;
  cuda_scope scope;
  CUDA_TRY_STATUS(cuda_enter_device(driver, device, &scope, error));
  const cuda_device *d = &driver->devices[device];
  const bool has_pool = d->pool != NULL;
  const int mode = cuda_relax(driver);
  const int result =
      has_pool ? api->pool_free(address_of(address), d->allocating_stream)
               : api->memory_free(address_of(address));
  cuda_relax_end(driver, mode);
  return cuda_end(driver, &scope, has_pool ? "cuMemFreeAsync" : "cuMemFree",
                  result, error);
}

// --- Work on memory ----------------------------------------------------------

og_status cuda_memory_set(void *state, void *stream, void *address,
                          int32_t byte, size_t size_bytes,
                          og_device_error *error) {
  CUDA_QUEUE("cuMemsetD8Async", memory_set, address_of(address),
             (unsigned char)byte, size_bytes, cuda_stream_of(driver, stream));
}

// CUDA reads pageable memory of the host before it returns, and has written it;
// pinned memory it reads and writes in the stream's order.
og_status cuda_copy_to_device(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error) {
  CUDA_QUEUE("cuMemcpyHtoDAsync", copy_to_device, address_of(to), from,
             size_bytes, cuda_stream_of(driver, stream));
}

og_status cuda_copy_to_host(void *state, void *stream, void *to,
                            const void *from, size_t size_bytes,
                            og_device_error *error) {
  CUDA_QUEUE("cuMemcpyDtoHAsync", copy_to_host, to, address_of(from),
             size_bytes, cuda_stream_of(driver, stream));
}

og_status cuda_copy_on_device(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error) {
  CUDA_QUEUE("cuMemcpyDtoDAsync", copy_on_device, address_of(to),
             address_of(from), size_bytes, cuda_stream_of(driver, stream));
}
