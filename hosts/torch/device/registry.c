// SPDX-License-Identifier: Apache-2.0
// The table behind registry.cpp: the loaded device for torch's C++.
//
// The library that is compiled of registry.cpp stays loaded: torch keeps its
// objects.

#include "torch/device/registry.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "torch/base/module.h"
#include "torch/device/device.h"
#include "torch/device/pinned.h"
#include "torch/device/state.h"

#define TRY(call)                               \
  do {                                          \
    const og_status try_status = (call);        \
    if (try_status != OG_OK) return try_status; \
  } while (0)

static host_device *device;  // the one that torch has
static bool has_events;

static og_status fail(opgraft_error *error, og_status code, const char *format,
                      ...) {
  if (error == NULL) return code;
  va_list arguments;
  *error = (opgraft_error){.code = code};
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return code;
}

// Whether work may be given; resolves an index of -1.
static og_status ready(int32_t *index, opgraft_error *error) {
  const int32_t count = opgraft_driver_device_count(device->driver);
  const char *name = opgraft_driver_name(device->driver);
  if (host_device_is_forked())
    return fail(error, OG_UNSUPPORTED,
                "the device was loaded before this process was forked; load "
                "the device in the process that uses it");
  if (*index == -1) *index = device_current();
  if (*index < 0 || *index >= count)
    return fail(error, OG_INVALID,
                "there is no device %s:%d, expected %s:0 to %s:%d", name,
                (int)*index, name, name, (int)count - 1);
  return OG_OK;
}

// --- Devices -----------------------------------------------------------------

static og_status device_set(int32_t index, opgraft_error *error) {
  TRY(ready(&index, error));
  device_current_set(index);
  return OG_OK;
}

static og_status device_wait(int32_t index, opgraft_error *error) {
  TRY(ready(&index, error));
  return stream_table_synchronize(device->streams, index, error);
}

// --- Streams -----------------------------------------------------------------

// The stream of work that names none: this thread's current one. Who made it
// the current one holds it.
static void *stream_choose(void *user, int32_t index) {
  const int64_t number = stream_current(index);
  (void)user;
  if (number == 0 || host_device_is_forked()) return NULL;
  stream_entry *entry = stream_table_find(device->streams, number);
  if (entry == NULL) return NULL;
  void *stream = stream_entry_stream(entry);
  stream_entry_release(entry);
  return stream;
}

// A stream for the time of a call; `out_held` is released behind it.
static og_status stream_get(int32_t *index, int64_t number, void **out_stream,
                            stream_entry **out_held, opgraft_error *error) {
  *out_held = NULL;
  TRY(ready(index, error));
  *out_held = stream_table_find(device->streams, number);
  *out_stream = *out_held != NULL
                    ? stream_entry_stream(*out_held)
                    : opgraft_driver_default_stream(device->driver, *index);
  return OG_OK;
}

static og_status stream_create(int32_t index, int64_t *out_number,
                               opgraft_error *error) {
  TRY(ready(&index, error));
  if (!has_events)
    return fail(error, OG_UNSUPPORTED,
                "%s: the driver has no event_create: all work uses one stream",
                opgraft_driver_name(device->driver));
  return stream_table_share(device->streams, index, out_number, error);
}

static og_status stream_wait(int32_t index, int64_t number, int64_t timeout_ns,
                             opgraft_error *error) {
  void *stream;
  stream_entry *held;
  TRY(stream_get(&index, number, &stream, &held, error));
  const og_status status = opgraft_driver_stream_synchronize(
      device->driver, stream, timeout_ns, error);
  stream_entry_release(held);
  return status;
}

static void *stream_native(int32_t index, int64_t number) {
  void *stream;
  stream_entry *held;
  if (stream_get(&index, number, &stream, &held, NULL) != OG_OK) return NULL;
  stream_entry_release(held);
  return stream;
}

// --- Events ------------------------------------------------------------------

// Where the driver has none, the host waits at a record; autograd orders the
// devices of a model with events.
static char reached;

static og_status event_record(void **event, int32_t index, int64_t number,
                              opgraft_error *error) {
  void *stream;
  stream_entry *held;
  TRY(stream_get(&index, number, &stream, &held, error));
  og_status status = OG_OK;
  if (!has_events) {
    status =
        opgraft_driver_stream_synchronize(device->driver, stream, -1, error);
    *event = &reached;
  } else if (*event == NULL) {
    status = opgraft_driver_event_create(device->driver, index, event, error);
  }
  if (has_events && status == OG_OK)
    status = opgraft_driver_event_record(device->driver, *event, stream, error);
  stream_entry_release(held);
  return status;
}

static og_status event_wait(void *event, int32_t index, int64_t number,
                            opgraft_error *error) {
  void *stream;
  stream_entry *held;
  TRY(stream_get(&index, number, &stream, &held, error));
  const og_status status =
      !has_events
          ? OG_OK
          : opgraft_driver_event_wait(device->driver, event, stream, error);
  stream_entry_release(held);
  return status;
}

static og_status event_synchronize(void *event, int64_t timeout_ns,
                                   opgraft_error *error) {
  int32_t index = 0;
  TRY(ready(&index, error));
  if (!has_events) return OG_OK;
  return opgraft_driver_event_synchronize(device->driver, event, timeout_ns,
                                          error);
}

static og_status event_elapsed(void *begin, void *end, int64_t *out_ns,
                               opgraft_error *error) {
  if (!has_events)
    return fail(error, OG_UNSUPPORTED,
                "%s: the driver has no event_elapsed: no times are measured on "
                "the device",
                opgraft_driver_name(device->driver));
  TRY(event_synchronize(begin, -1, error));
  TRY(event_synchronize(end, -1, error));
  return opgraft_driver_event_elapsed(device->driver, begin, end, out_ns,
                                      error);
}

static void event_destroy(void *event) {
  if (has_events && !host_device_is_forked())
    opgraft_driver_event_destroy(device->driver, event, NULL);
}

// --- Memory ------------------------------------------------------------------

static og_status memory_take(int32_t index, size_t size_bytes,
                             void **out_address, void **out_owner,
                             opgraft_error *error) {
  memory_block *block;
  TRY(ready(&index, error));
  void *stream = opgraft_driver_current_stream(device->driver, index);
  TRY(memory_pool_take(device->pool, index, stream, size_bytes, &block, error));
  *out_address = memory_block_address(block);
  *out_owner = block;
  return OG_OK;
}

static void memory_give(void *owner) {
  if (!host_device_is_forked())  // the pool's lock may be held for ever
    memory_pool_give(device->pool, owner);
}

static og_status memory_copy(int32_t index, void *to, const void *from,
                             size_t size_bytes, opgraft_error *error) {
  TRY(ready(&index, error));
  void *stream = opgraft_driver_current_stream(device->driver, index);
  TRY(memory_pool_record(device->pool, to, stream, error));
  TRY(memory_pool_record(device->pool, from, stream, error));
  return opgraft_driver_copy(device->driver, stream, OPGRAFT_COPY_ON_DEVICE, to,
                             from, size_bytes, error);
}

static og_status memory_record(const void *address, int32_t index,
                               int64_t number, opgraft_error *error) {
  void *stream;
  stream_entry *held;
  TRY(stream_get(&index, number, &stream, &held, error));
  const og_status status =
      memory_pool_record(device->pool, address, stream, error);
  stream_entry_release(held);
  return status;
}

static int32_t memory_device(const void *address) {
  return memory_pool_device(device->pool, address);
}

static memory_stats stats_get(int32_t index) {
  if (ready(&index, NULL) != OG_OK) return (memory_stats){0};
  return memory_pool_stats(device->pool, index);
}

static void reset_peak(int32_t index) {
  if (ready(&index, NULL) == OG_OK) memory_pool_reset_peak(device->pool, index);
}

static void reset_added(int32_t index) {
  if (ready(&index, NULL) == OG_OK)
    memory_pool_reset_added(device->pool, index);
}

static og_status memory_trim(opgraft_error *error) {
  int32_t index = 0;
  TRY(ready(&index, error));
  return memory_pool_trim(device->pool, error);
}

static og_status memory_info(int32_t index, size_t *out_free_bytes,
                             size_t *out_total_bytes, opgraft_error *error) {
  og_device_properties found = {.struct_size = sizeof found};
  TRY(ready(&index, error));
  TRY(opgraft_driver_properties(device->driver, index, &found, error));
  const int64_t held = stats_get(index).held_bytes.current;
  *out_total_bytes = (size_t)found.memory_bytes;
  *out_free_bytes = *out_total_bytes - (size_t)held;
  return OG_OK;
}

static og_status host_take(size_t size_bytes, void **out_address,
                           opgraft_error *error) {
  *out_address = pinned_take(size_bytes);
  return *out_address != NULL || size_bytes == 0
             ? OG_OK
             : fail(error, OG_MEMORY, "not enough memory for %zu pinned bytes",
                    size_bytes);
}

static int32_t host_has(const void *address) { return pinned_has(address); }

static bool lacks_events(void) {
  const char *name, *lost;
  for (int32_t i = 0; opgraft_driver_lacks(device->driver, i, &name, &lost);
       ++i)
    if (strcmp(name, "event_create") == 0) return true;
  return false;
}

// --- For Python --------------------------------------------------------------

static const registry_table table_of_device = {
    .struct_size = sizeof(registry_table),
    .device_get = device_current,
    .device_set = device_set,
    .device_synchronize = device_wait,
    .stream_current = stream_current,
    .stream_exchange = stream_exchange,
    .stream_create = stream_create,
    .stream_synchronize = stream_wait,
    .stream_native = stream_native,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .event_destroy = event_destroy,
    .memory_take = memory_take,
    .memory_give = memory_give,
    .memory_copy = memory_copy,
    .memory_record = memory_record,
    .memory_device = memory_device,
    .memory_stats_get = stats_get,
    .memory_reset_peak = reset_peak,
    .memory_reset_added = reset_added,
    .memory_trim = memory_trim,
    .memory_info = memory_info,
    .host_take = host_take,
    .host_give = pinned_give,
    .host_has = host_has,
};

// device_register(device, path): the device's guard, hooks and allocator of
// torch are those of the library of registry.cpp. Once.
PyObject *device_register(PyObject *self, PyObject *arguments) {
  static registry_table table;
  (void)self;
  PyObject *capsule, *path;
  if (!PyArg_ParseTuple(arguments, "OO&", &capsule, PyUnicode_FSConverter,
                        &path))
    return NULL;
  host_device *own = host_device_use(capsule);
  void *library = own != NULL
                      ? dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL)
                      : NULL;
  Py_DECREF(path);
  if (own == NULL) return NULL;
  registry_enter enter = NULL;
  registry_tensor maker = NULL;
  if (library != NULL) {
    *(void **)&enter = dlsym(library, REGISTRY_ENTER);
    *(void **)&maker = dlsym(library, REGISTRY_TENSOR);
  }
  if (enter == NULL || maker == NULL)
    return PyErr_Format(PyExc_OSError, "%s", dlerror());
  device = own;
  has_events = !lacks_events();
  table = table_of_device;
  table.device_count = opgraft_driver_device_count(own->driver);
  const char *problem = enter(&table);
  if (problem != NULL) return PyErr_Format(PyExc_RuntimeError, "%s", problem);
  own->tensor_make = maker;
  opgraft_driver_on_stream(own->driver, stream_choose, own);
  Py_RETURN_NONE;
}
