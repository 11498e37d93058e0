// SPDX-License-Identifier: Apache-2.0
// A driver in the test's own process: memory of the host, work that is done at
// once. Tests copy its table and break the copy.

#ifndef OG_TEST_DEVICE_FAKE_H
#define OG_TEST_DEVICE_FAKE_H

#include <opgraft/driver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the driver was handed.
static uint32_t seen_og_device_host, seen_og_device_properties, seen_og_launch;
static int fake_open_count, fake_live_count;

static og_status fake_open(const og_device_host *host, void **out_state,
                           og_device_error *error) {
  (void)error;
  seen_og_device_host = host->struct_size;
  ++fake_open_count;
  *out_state = &fake_open_count;
  return OG_OK;
}

static void fake_close(void *state) {
  (void)state;
  --fake_open_count;
}

static og_status fake_device_count(void *state, int32_t *out_count,
                                   og_device_error *error) {
  (void)state, (void)error;
  *out_count = 2;
  return OG_OK;
}

static og_status fake_properties(void *state, int32_t device,
                                 og_device_properties *out_properties,
                                 og_device_error *error) {
  (void)state, (void)device, (void)error;
  seen_og_device_properties = out_properties->struct_size;
  out_properties->alignment = 64;
  return OG_OK;
}

static og_status fake_allocate(void *state, int32_t device, size_t size_bytes,
                               void **out_address, og_device_error *error) {
  (void)state, (void)device, (void)error;
  *out_address = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  fake_live_count += *out_address != NULL;
  return *out_address != NULL ? OG_OK : OG_MEMORY;
}

static og_status fake_free(void *state, int32_t device, void *address,
                           og_device_error *error) {
  (void)state, (void)device, (void)error;
  free(address);
  --fake_live_count;
  return OG_OK;
}

static og_status fake_set(void *state, void *stream, void *address,
                          int32_t byte, size_t size_bytes,
                          og_device_error *error) {
  (void)state, (void)stream, (void)error;
  memset(address, byte, size_bytes);
  return OG_OK;
}

static og_status fake_copy(void *state, void *stream, void *to,
                           const void *from, size_t size_bytes,
                           og_device_error *error) {
  (void)state, (void)stream, (void)error;
  memcpy(to, from, size_bytes);
  return OG_OK;
}

static og_status fake_stream_create(void *state, int32_t device,
                                    void **out_stream, og_device_error *error) {
  (void)state, (void)device, (void)error;
  *out_stream = malloc(1);
  return OG_OK;
}

static og_status fake_stream_destroy(void *state, void *stream,
                                     og_device_error *error) {
  (void)state, (void)error;
  free(stream);
  return OG_OK;
}

static og_status fake_stream_synchronize(void *state, void *stream,
                                         int64_t timeout_ns,
                                         og_device_error *error) {
  (void)state, (void)stream, (void)timeout_ns, (void)error;
  return OG_OK;
}

static og_status fake_launch(void *state, void *stream, const og_launch *launch,
                             og_device_error *error) {
  (void)state, (void)stream, (void)error;
  seen_og_launch = launch->struct_size;
  return launch->run(launch->call);
}

static const og_device_driver fake_driver = {
    .struct_size = sizeof fake_driver,
    .abi_version = OG_DEVICE_ABI_VERSION,
    .name = "fake",
    .device_type = OG_EXT_DEV,
    .open = fake_open,
    .close = fake_close,
    .device_count = fake_device_count,
    .properties = fake_properties,
    .memory_allocate = fake_allocate,
    .memory_free = fake_free,
    .memory_set = fake_set,
    .copy_to_device = fake_copy,
    .copy_to_host = fake_copy,
    .copy_on_device = fake_copy,
    .stream_create = fake_stream_create,
    .stream_destroy = fake_stream_destroy,
    .stream_synchronize = fake_stream_synchronize,
    .launch = fake_launch,
};

#endif  // OG_TEST_DEVICE_FAKE_H
