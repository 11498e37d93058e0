// SPDX-License-Identifier: Apache-2.0
// The smallest driver: memory of the host, work done at once, no events, no
// launch. Its option says what is wrong with it: "crash" and "hang" in open,
// "spin" there without end, "report" of a launch's copy, "lost" from the third
// copy to the host on, "busy" where it should wait.

#include <opgraft/device.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct driver {
  const og_device_host *host;
  int copies;
} driver;

static int is(const driver *d, const char *option) {
  return strcmp(d->host->options, option) == 0;
}

static og_status fail(og_device_error *error, const char *text) {
  strcpy(error->text, text);
  return OG_DEVICE;
}

static og_status driver_open(const og_device_host *host, void **out_state,
                             og_device_error *error) {
  driver *d = calloc(1, sizeof *d);
  if (d == NULL) return fail(error, "no memory");
  d->host = host;
  if (is(d, "crash")) abort();
  while (is(d, "hang")) usleep(100000);
  for (volatile int i = 0; is(d, "spin");) ++i;
  *out_state = d;
  return OG_OK;
}
static void driver_close(void *state) { free(state); }
static og_status device_count(void *state, int32_t *out_count,
                              og_device_error *error) {
  (void)state, (void)error;
  *out_count = 1;
  return OG_OK;
}
static og_status properties(void *state, int32_t device,
                            og_device_properties *out, og_device_error *error) {
  (void)state, (void)device, (void)error;
  out->alignment = 64;
  out->memory_bytes = 1 << 30;
  return OG_OK;
}
static og_status memory_allocate(void *state, int32_t device, size_t size_bytes,
                                 void **out_address, og_device_error *error) {
  (void)state, (void)device, (void)error;
  *out_address = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
  return *out_address != NULL ? OG_OK : OG_MEMORY;
}
static og_status memory_free(void *state, int32_t device, void *address,
                             og_device_error *error) {
  (void)state, (void)device, (void)error;
  free(address);
  return OG_OK;
}
static og_status memory_set(void *state, void *stream, void *address,
                            int32_t byte, size_t size_bytes,
                            og_device_error *error) {
  const driver *d = state;
  (void)stream;
  if (is(d, "lost") && d->copies > 2) return fail(error, "the link is down");
  memset(address, byte, size_bytes);
  return OG_OK;
}
static og_status copy(void *state, void *stream, void *to, const void *from,
                      size_t size_bytes, og_device_error *error) {
  (void)state, (void)stream, (void)error;
  memcpy(to, from, size_bytes);
  return OG_OK;
}
static og_status copy_to_host(void *state, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              og_device_error *error) {
  driver *d = state;
  ++d->copies;
  if (is(d, "lost") && d->copies > 2) return fail(error, "the link is down");
  if (is(d, "report"))
    d->host->report(d->host->user, OG_INVALID, "race: two kernels meet");
  return copy(state, stream, to, from, size_bytes, error);
}
static og_status stream_create(void *state, int32_t device, void **out_stream,
                               og_device_error *error) {
  (void)state, (void)device, (void)error;
  *out_stream = malloc(1);
  return *out_stream != NULL ? OG_OK : OG_MEMORY;
}
static og_status stream_destroy(void *state, void *stream,
                                og_device_error *error) {
  (void)state, (void)error;
  free(stream);
  return OG_OK;
}
static og_status stream_synchronize(void *state, void *stream,
                                    int64_t timeout_ns,
                                    og_device_error *error) {
  (void)stream, (void)timeout_ns;
  if (!is(state, "busy")) return OG_OK;
  strcpy(error->text, "not done yet");
  return OG_BUSY;
}

OG_DEVICE_DRIVER(.name = "tiny", .device_type = OG_EXT_DEV, .open = driver_open,
                 .close = driver_close, .device_count = device_count,
                 .properties = properties, .memory_allocate = memory_allocate,
                 .memory_free = memory_free, .memory_set = memory_set,
                 .copy_to_device = copy, .copy_to_host = copy_to_host,
                 .copy_on_device = copy, .stream_create = stream_create,
                 .stream_destroy = stream_destroy,
                 .stream_synchronize = stream_synchronize)
