// SPDX-License-Identifier: Apache-2.0
// A device driver: loaded, checked, and each call of it held to its contract.
//
// Invariants: `loaded` holds every driver that is open, one for each device
// type; a driver's default streams, and the object that its functions lie in,
// live until it is destroyed; `made` holds every stream that is not destroyed.

#include "device/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/float_env.h"
#include "base/memory.h"
#include "base/sized.h"
#include "device/given.h"
#include "device/table.h"
#include "module/elf.h"
#include "module/module.h"
#include "module/object.h"

typedef struct made_stream {
  struct made_stream *next;
  void *stream;
} made_stream;

struct opgraft_driver {
  struct opgraft_driver *next;
  og_device_driver table;
  void *state;
  void *object;  // dlopen's handle; NULL for a table of the process
  char *options;
  og_device_host host;
  int32_t device_count;
  uint32_t alignment[OG_DEVICES_MAX];
  void *streams[OG_DEVICES_MAX];  // the default ones
  pid_t process;  // that opened it: a child of fork has none of its threads
  pthread_mutex_t made_lock;
  made_stream *made;
  pthread_mutex_t report_lock;  // of the callbacks
  void (*report)(void *user, og_status code, const char *text);
  void *report_user;
  og_status (*give_back)(void *user, opgraft_error *error);
  void *give_back_user;
  void *choose_user;  // written before `choose`
  void *(*_Atomic choose)(void *user, int32_t device);
  atomic_llong report_count;
  atomic_llong free_count;
};

typedef const og_device_driver *(*query_fn)(uint32_t max_abi);

enum { QUICK_TYPES = 64 };

static pthread_mutex_t loaded_lock = PTHREAD_MUTEX_INITIALIZER;
static opgraft_driver *loaded;
// The same by device type, for those below QUICK_TYPES: a call reads it without
// the lock.
static opgraft_driver *_Atomic loaded_quick[QUICK_TYPES];

// --- The contract of every call ----------------------------------------------

// What the driver said, as an error that names it and its function.
static og_status call_end(const opgraft_driver *driver, const char *function,
                          og_status status, og_device_error *said,
                          opgraft_error *error) {
  const char *name = driver->table.name;
  if (status == OG_OK) return OG_OK;
  if (status < OG_OK || status > OG_INTERNAL)
    return og_error_set(error, OG_INTERNAL, NULL, function,
                        "%s: %s returned %d, expected a code of og_status, 0 "
                        "to %d",
                        name, function, (int)status, (int)OG_INTERNAL);
  said->text[sizeof said->text - 1] = '\0';
  if (said->text[0] == '\0')
    return og_error_set(error, status, NULL, function,
                        "%s: %s returned \"%s\" without a reason", name,
                        function, opgraft_status_text(status));
  return og_error_set(error, status, NULL, function, "%s: %s: %s", name,
                      function, said->text);
}

static og_status lacks(const opgraft_driver *driver, const char *function,
                       opgraft_error *error) {
  return og_error_set(error, OG_UNSUPPORTED, NULL, function,
                      "%s: the driver has no %s: %s", driver->table.name,
                      function, og_device_entry_lost(function));
}

static og_status output_missing(const opgraft_driver *driver,
                                const char *function, opgraft_error *error) {
  return og_error_set(error, OG_INTERNAL, NULL, function,
                      "%s: %s returned \"ok\" and wrote no output, expected a "
                      "value that is not NULL",
                      driver->table.name, function);
}

// The body of a function that calls the driver's of the same name.
#define DRIVER_CALL(function, ...)                                            \
  og_device_error said;                                                       \
  said.text[0] = '\0';                                                        \
  if (driver->table.function == NULL) return lacks(driver, #function, error); \
  const og_status ran =                                                       \
      driver->table.function(driver->state, __VA_ARGS__, &said);              \
  return call_end(driver, #function, ran, &said, error)

// The same where *out is a handle that the driver makes: NULL where it fails,
// whatever the driver wrote.
#define DRIVER_MAKE(function, out, ...)                                       \
  og_device_error said;                                                       \
  said.text[0] = '\0';                                                        \
  *(out) = NULL;                                                              \
  if (driver->table.function == NULL) return lacks(driver, #function, error); \
  const og_status ran =                                                       \
      driver->table.function(driver->state, __VA_ARGS__, out, &said);         \
  if (ran != OG_OK) {                                                         \
    *(out) = NULL;                                                            \
    return call_end(driver, #function, ran, &said, error);                    \
  }                                                                           \
  return *(out) != NULL ? OG_OK : output_missing(driver, #function, error)

// --- Memory ------------------------------------------------------------------

static og_status device_check(const opgraft_driver *driver, int32_t device,
                              opgraft_error *error) {
  if (device >= 0 && device < driver->device_count) return OG_OK;
  return og_error_set(error, OG_DEVICE, NULL, "device",
                      "%s: there is no device %d, expected 0 to %d",
                      driver->table.name, (int)device,
                      (int)driver->device_count - 1);
}

static og_status properties_get(opgraft_driver *driver, int32_t device,
                                og_device_properties *out,
                                opgraft_error *error) {
  DRIVER_CALL(properties, device, out);
}

og_status opgraft_driver_properties(opgraft_driver *driver, int32_t device,
                                    og_device_properties *out_properties,
                                    opgraft_error *error) {
  og_device_properties own = {.struct_size = sizeof own};
  OG_TRY(og_size_check("og_device_properties", out_properties->struct_size,
                       sizeof(uint32_t), sizeof own, error));
  OG_TRY(device_check(driver, device, error));
  OG_TRY(properties_get(driver, device, &own, error));
  own.model[sizeof own.model - 1] = '\0';
  og_fill_sized(&own, sizeof own, out_properties);
  return OG_OK;
}

static og_status memory_make(opgraft_driver *driver, int32_t device,
                             size_t size_bytes, void **out_address,
                             opgraft_error *error) {
  DRIVER_MAKE(memory_allocate, out_address, device, size_bytes);
}

// What others keep may be enough.
static og_status memory_make_again(opgraft_driver *driver, int32_t device,
                                   size_t size_bytes, void **out_address,
                                   opgraft_error *error) {
  pthread_mutex_lock(&driver->report_lock);
  og_status (*give_back)(void *, opgraft_error *) = driver->give_back;
  void *user = driver->give_back_user;
  pthread_mutex_unlock(&driver->report_lock);
  if (give_back == NULL) return OG_MEMORY;
  OG_TRY(give_back(user, error));
  return memory_make(driver, device, size_bytes, out_address, error);
}

og_status opgraft_driver_allocate(opgraft_driver *driver, int32_t device,
                                  size_t size_bytes, const char *label,
                                  void **out_address, opgraft_error *error) {
  *out_address = NULL;
  OG_TRY(device_check(driver, device, error));
  if (size_bytes == 0) return OG_OK;
  og_status status =
      memory_make(driver, device, size_bytes, out_address, error);
  if (status == OG_MEMORY)
    status = memory_make_again(driver, device, size_bytes, out_address, error);
  if (status != OG_OK) return status;
  const uintptr_t rest =
      (uintptr_t)*out_address & (driver->alignment[device] - 1u);
  if (rest != 0) {
    opgraft_driver_free(driver, device, *out_address, NULL);
    *out_address = NULL;
    return og_error_set(error, OG_INTERNAL, NULL, "memory_allocate",
                        "%s: memory_allocate gave an address %zu bytes behind "
                        "a multiple of %u, the alignment of its properties",
                        driver->table.name, (size_t)rest,
                        (unsigned)driver->alignment[device]);
  }
  if (label != NULL && driver->table.memory_label != NULL)
    driver->table.memory_label(driver->state, *out_address, label);
  return OG_OK;
}

og_status opgraft_driver_free(opgraft_driver *driver, int32_t device,
                              void *address, opgraft_error *error) {
  if (address == NULL) return OG_OK;
  OG_TRY(device_check(driver, device, error));
  atomic_fetch_add(&driver->free_count, 1);
  DRIVER_CALL(memory_free, device, address);
}

og_status opgraft_driver_set(opgraft_driver *driver, void *stream,
                             void *address, int32_t byte, size_t size_bytes,
                             opgraft_error *error) {
  if (size_bytes == 0) return OG_OK;
  DRIVER_CALL(memory_set, stream, address, byte, size_bytes);
}

static og_status copy_to_device(opgraft_driver *driver, void *stream, void *to,
                                const void *from, size_t size_bytes,
                                opgraft_error *error) {
  DRIVER_CALL(copy_to_device, stream, to, from, size_bytes);
}

static og_status copy_to_host(opgraft_driver *driver, void *stream, void *to,
                              const void *from, size_t size_bytes,
                              opgraft_error *error) {
  DRIVER_CALL(copy_to_host, stream, to, from, size_bytes);
}

static og_status copy_on_device(opgraft_driver *driver, void *stream, void *to,
                                const void *from, size_t size_bytes,
                                opgraft_error *error) {
  DRIVER_CALL(copy_on_device, stream, to, from, size_bytes);
}

og_status opgraft_driver_copy(opgraft_driver *driver, void *stream,
                              int32_t kind, void *to, const void *from,
                              size_t size_bytes, opgraft_error *error) {
  if (size_bytes == 0) return OG_OK;
  if (to == NULL || from == NULL)
    return og_error_set(error, OG_INVALID, NULL, to == NULL ? "to" : "from",
                        "%s: a copy of %zu bytes has '%s' NULL, expected an "
                        "address",
                        driver->table.name, size_bytes,
                        to == NULL ? "to" : "from");
  if (kind == OPGRAFT_COPY_TO_DEVICE)
    return copy_to_device(driver, stream, to, from, size_bytes, error);
  if (kind == OPGRAFT_COPY_TO_HOST)
    return copy_to_host(driver, stream, to, from, size_bytes, error);
  if (kind == OPGRAFT_COPY_ON_DEVICE)
    return copy_on_device(driver, stream, to, from, size_bytes, error);
  return og_error_set(error, OG_INVALID, NULL, "kind",
                      "%s: the kind of a copy is %d, expected 0 to 2",
                      driver->table.name, (int)kind);
}

void opgraft_driver_host_access(opgraft_driver *driver, const void *address,
                                size_t size_bytes, int32_t is_write) {
  if (driver->table.host_access != NULL && size_bytes > 0)
    driver->table.host_access(driver->state, address, size_bytes, is_write);
}

// --- Streams and events ------------------------------------------------------

void *opgraft_driver_default_stream(const opgraft_driver *driver,
                                    int32_t device) {
  return device >= 0 && device < driver->device_count ? driver->streams[device]
                                                      : NULL;
}

void opgraft_driver_on_stream(opgraft_driver *driver,
                              void *(*choose)(void *user, int32_t device),
                              void *user) {
  driver->choose_user = user;
  atomic_store(&driver->choose, choose);
}

void *opgraft_driver_current_stream(opgraft_driver *driver, int32_t device) {
  void *(*const choose)(void *, int32_t) = atomic_load(&driver->choose);
  void *stream = choose != NULL ? choose(driver->choose_user, device) : NULL;
  return stream != NULL ? stream
                        : opgraft_driver_default_stream(driver, device);
}

static og_status stream_make(opgraft_driver *driver, int32_t device,
                             void **out_stream, opgraft_error *error) {
  DRIVER_MAKE(stream_create, out_stream, device);
}

// With the lock of streams.
static bool is_made(const opgraft_driver *driver, const void *stream) {
  const made_stream *made = driver->made;
  while (made != NULL && made->stream != stream) made = made->next;
  return made != NULL;
}

// One that is there already would be destroyed twice.
static og_status stream_again(const opgraft_driver *driver,
                              opgraft_error *error) {
  return og_error_set(error, OG_INTERNAL, NULL, "stream_create",
                      "%s: stream_create gave a stream that is there already, "
                      "expected a new one",
                      driver->table.name);
}

og_status opgraft_driver_stream_create(opgraft_driver *driver, int32_t device,
                                       void **out_stream,
                                       opgraft_error *error) {
  *out_stream = NULL;
  OG_TRY(device_check(driver, device, error));
  made_stream *made = og_alloc(sizeof *made);
  if (made == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "%s: not enough memory for a stream",
                        driver->table.name);
  og_status status = stream_make(driver, device, out_stream, error);
  pthread_mutex_lock(&driver->made_lock);
  if (status == OG_OK && is_made(driver, *out_stream)) {
    *out_stream = NULL;
    status = stream_again(driver, error);
  }
  if (status == OG_OK) {
    *made = (made_stream){driver->made, *out_stream};
    driver->made = made;
  }
  pthread_mutex_unlock(&driver->made_lock);
  if (status != OG_OK) og_free(made);
  return status;
}

static og_status stream_end(opgraft_driver *driver, void *stream,
                            opgraft_error *error) {
  DRIVER_CALL(stream_destroy, stream);
}

// With the lock.
static void made_remove(opgraft_driver *driver, const void *stream) {
  made_stream **at = &driver->made;
  while (*at != NULL && (*at)->stream != stream) at = &(*at)->next;
  made_stream *made = *at;
  if (made == NULL) return;
  *at = made->next;
  og_free(made);
}

// The stream is waited for until it has gone.
og_status opgraft_driver_stream_destroy(opgraft_driver *driver, void *stream,
                                        opgraft_error *error) {
  pthread_mutex_lock(&driver->made_lock);
  const og_status status = stream_end(driver, stream, error);
  if (status == OG_OK) made_remove(driver, stream);
  pthread_mutex_unlock(&driver->made_lock);
  return status;
}

og_status opgraft_driver_stream_synchronize(opgraft_driver *driver,
                                            void *stream, int64_t timeout_ns,
                                            opgraft_error *error) {
  DRIVER_CALL(stream_synchronize, stream, timeout_ns);
}

og_status opgraft_driver_event_create(opgraft_driver *driver, int32_t device,
                                      void **out_event, opgraft_error *error) {
  *out_event = NULL;
  OG_TRY(device_check(driver, device, error));
  DRIVER_MAKE(event_create, out_event, device);
}

og_status opgraft_driver_event_destroy(opgraft_driver *driver, void *event,
                                       opgraft_error *error) {
  DRIVER_CALL(event_destroy, event);
}

og_status opgraft_driver_event_record(opgraft_driver *driver, void *event,
                                      void *stream, opgraft_error *error) {
  DRIVER_CALL(event_record, event, stream);
}

og_status opgraft_driver_event_wait(opgraft_driver *driver, void *event,
                                    void *stream, opgraft_error *error) {
  DRIVER_CALL(event_wait, event, stream);
}

og_status opgraft_driver_event_synchronize(opgraft_driver *driver, void *event,
                                           int64_t timeout_ns,
                                           opgraft_error *error) {
  DRIVER_CALL(event_synchronize, event, timeout_ns);
}

og_status opgraft_driver_event_elapsed(opgraft_driver *driver, void *begin,
                                       void *end, int64_t *out_ns,
                                       opgraft_error *error) {
  *out_ns = 0;
  DRIVER_CALL(event_elapsed, begin, end, out_ns);
}

og_status opgraft_driver_host_function(opgraft_driver *driver, void *stream,
                                       void (*fn)(void *user), void *user,
                                       opgraft_error *error) {
  if (driver->table.host_function == NULL) {
    OG_TRY(opgraft_driver_stream_synchronize(driver, stream, -1, error));
    fn(user);
    return OG_OK;
  }
  DRIVER_CALL(host_function, stream, fn, user);
}

// --- Kernels and captures ----------------------------------------------------

bool og_driver_has_launch(const opgraft_driver *driver) {
  return driver->table.launch != NULL;
}

int64_t og_driver_free_count(const opgraft_driver *driver) {
  return atomic_load(&driver->free_count);
}

bool og_driver_runs_c(const opgraft_driver *driver) {
  return (driver->table.flags & OG_DEVICE_RUNS_C) != 0;
}

bool og_driver_has_events(const opgraft_driver *driver) {
  return driver->table.event_create != NULL;
}

bool og_driver_has_moves(const opgraft_driver *driver) {
  return driver->table.exec_move != NULL;
}

bool og_driver_has_capture(const opgraft_driver *driver) {
  return driver->table.capture_begin != NULL;
}

// The kernel's reason is the driver's where it gave none.
static og_status give_end(const opgraft_driver *driver, og_given *g,
                          const char *function, og_status status,
                          og_device_error *said, opgraft_error *error) {
  og_float_env_set(g->env);
  if (said->text[0] == '\0') *said = g->reason;
  return call_end(driver, function, status, said, error);
}

// On this thread.
static og_status kernel_run(const opgraft_driver *driver, og_given *g,
                            opgraft_error *error) {
  const char *name = g->launch.name;
  const og_status status = g->launch.run(&g->call);
  og_float_env_set(g->env);
  if (status == OG_OK) return OG_OK;
  if (status < OG_OK || status > OG_INTERNAL)
    return og_error_set(error, OG_INTERNAL, name, NULL,
                        "%s: the kernel of %s returned %d, expected a code of "
                        "og_status, 0 to %d",
                        driver->table.name, name, (int)status,
                        (int)OG_INTERNAL);
  if (g->reason.text[0] != '\0')
    return og_error_set(error, status, name, NULL, "%s: %s", name,
                        g->reason.text);
  return og_error_set(error, status, name, NULL,
                      "%s: the kernel of %s returned \"%s\" without a reason",
                      driver->table.name, name, opgraft_status_text(status));
}

og_status opgraft_driver_launch(opgraft_driver *driver, void *stream,
                                const og_launch *launch, opgraft_error *error) {
  og_given g;
  og_device_error said;
  said.text[0] = '\0';
  og_given_make(&g, launch);
  if (driver->table.launch == NULL) return kernel_run(driver, &g, error);
  const og_status ran =
      driver->table.launch(driver->state, stream, &g.launch, &said);
  return give_end(driver, &g, "launch", ran, &said, error);
}

og_status opgraft_driver_capture_begin(opgraft_driver *driver, void *stream,
                                       opgraft_error *error) {
  DRIVER_CALL(capture_begin, stream);
}

og_status opgraft_driver_capture_end(opgraft_driver *driver, void *stream,
                                     void **out_graph, opgraft_error *error) {
  DRIVER_MAKE(capture_end, out_graph, stream);
}

og_status opgraft_driver_graph_destroy(opgraft_driver *driver, void *graph,
                                       opgraft_error *error) {
  DRIVER_CALL(graph_destroy, graph);
}

og_status opgraft_driver_graph_instantiate(opgraft_driver *driver, void *graph,
                                           void **out_exec,
                                           opgraft_error *error) {
  DRIVER_MAKE(graph_instantiate, out_exec, graph);
}

og_status opgraft_driver_exec_destroy(opgraft_driver *driver, void *exec,
                                      opgraft_error *error) {
  DRIVER_CALL(exec_destroy, exec);
}

og_status opgraft_driver_exec_update(opgraft_driver *driver, void *exec,
                                     int32_t index, const og_launch *launch,
                                     opgraft_error *error) {
  og_given g;
  og_device_error said;
  said.text[0] = '\0';
  if (driver->table.exec_update == NULL)
    return lacks(driver, "exec_update", error);
  og_given_make(&g, launch);
  const og_status ran =
      driver->table.exec_update(driver->state, exec, index, &g.launch, &said);
  return give_end(driver, &g, "exec_update", ran, &said, error);
}

og_status opgraft_driver_exec_move(opgraft_driver *driver, void *exec,
                                   const og_slot *slots, int32_t count,
                                   void *address, opgraft_error *error) {
  DRIVER_CALL(exec_move, exec, slots, count, address);
}

og_status opgraft_driver_exec_launch(opgraft_driver *driver, void *exec,
                                     void *stream, opgraft_error *error) {
  DRIVER_CALL(exec_launch, exec, stream);
}

// --- Opening and closing -----------------------------------------------------

static void driver_report(void *user, og_status code, const char *text) {
  opgraft_driver *driver = user;
  atomic_fetch_add(&driver->report_count, 1);
  pthread_mutex_lock(&driver->report_lock);
  void (*report)(void *, og_status, const char *) = driver->report;
  void *report_user = driver->report_user;
  pthread_mutex_unlock(&driver->report_lock);
  if (report != NULL) report(report_user, code, text != NULL ? text : "");
}

void og_driver_stream_wait(opgraft_driver *driver, void *stream) {
  opgraft_error error;
  const og_status status =
      opgraft_driver_stream_synchronize(driver, stream, -1, &error);
  if (status != OG_OK) driver_report(driver, status, error.text);
}

void og_driver_stream_finish(opgraft_driver *driver, void *stream) {
  if (driver->process != getpid()) return;
  pthread_mutex_lock(&driver->made_lock);
  if (is_made(driver, stream)) og_driver_stream_wait(driver, stream);
  pthread_mutex_unlock(&driver->made_lock);
}

static og_status event_between(opgraft_driver *driver, int32_t device,
                               void *stream, void *earlier,
                               opgraft_error *error) {
  void *event;
  OG_TRY(opgraft_driver_event_create(driver, device, &event, error));
  og_status status = opgraft_driver_event_record(driver, event, earlier, error);
  if (status == OG_OK)
    status = opgraft_driver_event_wait(driver, event, stream, error);
  const og_status ended = opgraft_driver_event_destroy(
      driver, event, status == OG_OK ? error : NULL);
  return status != OG_OK ? status : ended;
}

og_status og_driver_stream_follow(opgraft_driver *driver, int32_t device,
                                  void *stream, void *earlier,
                                  opgraft_error *error) {
  og_status status = OG_OK;
  if (earlier == NULL || earlier == stream) return OG_OK;
  pthread_mutex_lock(&driver->made_lock);
  const bool is_there = is_made(driver, earlier);
  if (is_there && driver->table.event_create != NULL)
    status = event_between(driver, device, stream, earlier, error);
  else if (is_there)
    og_driver_stream_wait(driver, earlier);
  pthread_mutex_unlock(&driver->made_lock);
  return status;
}

static void driver_wait(opgraft_driver *driver) {
  if (driver->process != getpid()) return;
  pthread_mutex_lock(&driver->made_lock);
  for (const made_stream *made = driver->made; made != NULL; made = made->next)
    og_driver_stream_wait(driver, made->stream);
  pthread_mutex_unlock(&driver->made_lock);
}

// Until no stream has a kernel of the module.
static void module_wait(const opgraft_module *module) {
  const opgraft_driver *waited = NULL;
  const int32_t count = opgraft_module_op_count(module);
  for (int32_t i = 0; i < count; ++i) {
    const og_decl *decl = opgraft_module_op(module, i)->decl;
    for (int32_t k = 0; k < decl->kernel_count; ++k) {
      const int32_t type = decl->kernels[k].device;
      opgraft_driver *driver =
          type != OG_CPU ? opgraft_driver_find(type) : NULL;
      if (driver == NULL || driver == waited) continue;
      driver_wait(driver);
      waited = driver;
    }
  }
}

static og_status count_read(opgraft_driver *driver, int32_t *out_count,
                            opgraft_error *error) {
  DRIVER_CALL(device_count, out_count);
}

static og_status device_begin(opgraft_driver *driver, int32_t device,
                              opgraft_error *error) {
  og_device_properties found = {.struct_size = sizeof found};
  OG_TRY(opgraft_driver_properties(driver, device, &found, error));
  const uint32_t alignment = found.alignment;
  if (alignment < 16 || (alignment & (alignment - 1)) != 0)
    return og_error_set(error, OG_INTERNAL, NULL, "properties",
                        "%s: properties says that device %d aligns memory to "
                        "%u, expected a power of two from 16 on",
                        driver->table.name, (int)device, (unsigned)alignment);
  driver->alignment[device] = alignment;
  return opgraft_driver_stream_create(driver, device, &driver->streams[device],
                                      error);
}

static og_status devices_begin(opgraft_driver *driver, opgraft_error *error) {
  int32_t count = 0;
  OG_TRY(count_read(driver, &count, error));
  if (count < 1 || count > OG_DEVICES_MAX)
    return og_error_set(error, OG_DEVICE, NULL, "device_count",
                        "%s: device_count gives %d, expected 1 to %d",
                        driver->table.name, (int)count, (int)OG_DEVICES_MAX);
  driver->device_count = count;
  for (int32_t device = 0; device < count; ++device)
    OG_TRY(device_begin(driver, device, error));
  return OG_OK;
}

static og_status driver_open(opgraft_driver *driver, opgraft_error *error) {
  og_device_error said;
  said.text[0] = '\0';
  driver->host = (og_device_host){.struct_size = sizeof driver->host,
                                  .options = driver->options,
                                  .report = driver_report,
                                  .user = driver};
  const og_status status =
      driver->table.open(&driver->host, &driver->state, &said);
  return call_end(driver, "open", status, &said, error);
}

static void driver_close(opgraft_driver *driver) {
  for (int32_t device = 0; device < driver->device_count; ++device)
    if (driver->streams[device] != NULL)
      opgraft_driver_stream_destroy(driver, driver->streams[device], NULL);
  driver->table.close(driver->state);
}

static void driver_free(opgraft_driver *driver) {
  void *object = driver->object;
  while (driver->made != NULL) made_remove(driver, driver->made->stream);
  pthread_mutex_destroy(&driver->made_lock);
  pthread_mutex_destroy(&driver->report_lock);
  og_free(driver->options);
  og_free(driver);
  if (object != NULL) og_object_close(object);
}

static og_status driver_new(const char *options, opgraft_driver **out,
                            opgraft_error *error) {
  const char *text = options != NULL ? options : "";
  const size_t length = strlen(text) + 1;
  opgraft_driver *driver = og_alloc_zeroed(1, sizeof *driver);
  char *copy = og_alloc(length);
  *out = driver;
  if (driver == NULL || copy == NULL) {
    og_free(driver);
    og_free(copy);
    *out = NULL;
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "not enough memory to load a driver");
  }
  memcpy(copy, text, length);
  driver->options = copy;
  driver->process = getpid();
  pthread_mutex_init(&driver->made_lock, NULL);
  pthread_mutex_init(&driver->report_lock, NULL);
  return OG_OK;
}

// With the lock held.
static opgraft_driver *loaded_find(int32_t device_type) {
  for (opgraft_driver *d = loaded; d != NULL; d = d->next)
    if (d->table.device_type == device_type) return d;
  return NULL;
}

static bool is_quick(int32_t device_type) {
  return device_type >= 0 && device_type < QUICK_TYPES;
}

// With the lock held.
static void quick_set(int32_t device_type, opgraft_driver *driver) {
  if (is_quick(device_type)) atomic_store(&loaded_quick[device_type], driver);
}

// With the lock held: two threads that load drivers of one type get one.
static og_status driver_begin(opgraft_driver *driver, opgraft_error *error) {
  const opgraft_driver *other = loaded_find(driver->table.device_type);
  if (other != NULL)
    return og_error_set(error, OG_BUSY, NULL, NULL,
                        "%s: the driver %s serves device type %d already; "
                        "destroy it first",
                        driver->table.name, other->table.name,
                        (int)driver->table.device_type);
  OG_TRY(driver_open(driver, error));
  const og_status status = devices_begin(driver, error);
  if (status != OG_OK) {
    driver_close(driver);
    return status;
  }
  driver->next = loaded;
  loaded = driver;
  quick_set(driver->table.device_type, driver);
  og_module_set_wait(module_wait);
  return OG_OK;
}

static og_status table_take(opgraft_driver *driver,
                            const og_device_driver *given,
                            opgraft_error *error) {
  if (given == NULL)
    return og_error_set(error, OG_VERSION, NULL, NULL,
                        "the driver has no table for version %u, the newest "
                        "that this opgraft knows; install a newer opgraft",
                        (unsigned)OG_DEVICE_ABI_VERSION);
  OG_TRY(og_device_table_read(given, &driver->table, error));
  pthread_mutex_lock(&loaded_lock);
  const og_float_env env = og_float_env_get();
  const og_status status = driver_begin(driver, error);
  og_float_env_set(env);
  pthread_mutex_unlock(&loaded_lock);
  return status;
}

og_status opgraft_driver_wrap(const og_device_driver *table,
                              const char *options, opgraft_driver **out_driver,
                              opgraft_error *error) {
  *out_driver = NULL;
  opgraft_driver *driver;
  OG_TRY(driver_new(options, &driver, error));
  const og_status status = table_take(driver, table, error);
  if (status == OG_OK)
    *out_driver = driver;
  else
    driver_free(driver);
  return status;
}

static og_status object_query(const char *path, void *object,
                              const og_device_driver **out_table,
                              opgraft_error *error) {
  void *symbol = og_object_find(object, "opgraft_device");
  if (symbol == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "%s: exports no opgraft_device; end the C file with "
                        "OG_DEVICE_DRIVER(.name = ..., ...)",
                        path);
  query_fn query;
  memcpy(&query, &symbol, sizeof query);
  *out_table = query(OG_DEVICE_ABI_VERSION);
  return OG_OK;
}

static og_status object_load(opgraft_driver *driver, const char *path,
                             const unsigned char *bytes, size_t size,
                             opgraft_error *error) {
  const og_float_env env = og_float_env_get();
  const og_device_driver *table = NULL;
  og_status status = og_elf_check(path, bytes, size, error);
  if (status == OG_OK)
    status = og_object_open(path, bytes, size, &driver->object, error);
  og_float_env_set(env);
  if (status == OG_OK)
    status = object_query(path, driver->object, &table, error);
  if (status != OG_OK) return status;
  status = table_take(driver, table, error);
  if (status != OG_OK && error != NULL)
    og_error_set(error, status, NULL, error->argument, "%s: %s", path,
                 error->text);
  return status;
}

og_status opgraft_driver_load(const char *path, const char *options,
                              opgraft_driver **out_driver,
                              opgraft_error *error) {
  unsigned char *bytes = NULL;
  size_t size = 0;
  opgraft_driver *driver;
  *out_driver = NULL;
  OG_TRY(driver_new(options, &driver, error));
  og_status status = og_object_read(path, &bytes, &size, error);
  if (status == OG_OK) status = object_load(driver, path, bytes, size, error);
  og_free(bytes);
  if (status == OG_OK)
    *out_driver = driver;
  else
    driver_free(driver);
  return status;
}

void opgraft_driver_destroy(opgraft_driver *driver) {
  if (driver == NULL) return;
  pthread_mutex_lock(&loaded_lock);
  opgraft_driver **at = &loaded;
  while (*at != driver) at = &(*at)->next;
  *at = driver->next;
  quick_set(driver->table.device_type, NULL);
  pthread_mutex_unlock(&loaded_lock);
  driver_close(driver);
  driver_free(driver);
}

opgraft_driver *opgraft_driver_find(int32_t device_type) {
  if (is_quick(device_type)) return atomic_load(&loaded_quick[device_type]);
  pthread_mutex_lock(&loaded_lock);
  opgraft_driver *found = loaded_find(device_type);
  pthread_mutex_unlock(&loaded_lock);
  return found;
}

// --- What it is --------------------------------------------------------------

const char *opgraft_driver_name(const opgraft_driver *driver) {
  return driver->table.name;
}

int32_t opgraft_driver_device_type(const opgraft_driver *driver) {
  return driver->table.device_type;
}

int32_t opgraft_driver_device_count(const opgraft_driver *driver) {
  return driver->device_count;
}

int32_t opgraft_driver_lacks(const opgraft_driver *driver, int32_t index,
                             const char **out_name, const char **out_lost) {
  return og_device_table_lacks(&driver->table, index, out_name, out_lost);
}

void opgraft_driver_on_report(opgraft_driver *driver,
                              void (*report)(void *user, og_status code,
                                             const char *text),
                              void *user) {
  pthread_mutex_lock(&driver->report_lock);
  driver->report = report;
  driver->report_user = user;
  pthread_mutex_unlock(&driver->report_lock);
}

void opgraft_driver_on_memory(opgraft_driver *driver,
                              og_status (*give_back)(void *user,
                                                     opgraft_error *error),
                              void *user) {
  pthread_mutex_lock(&driver->report_lock);
  driver->give_back = give_back;
  driver->give_back_user = user;
  pthread_mutex_unlock(&driver->report_lock);
}

int64_t opgraft_driver_report_count(const opgraft_driver *driver) {
  return atomic_load(&driver->report_count);
}
