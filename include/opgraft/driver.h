// SPDX-License-Identifier: Apache-2.0
// For embedders: a device driver (opgraft/device.h), loaded and checked.
//
// Each function below calls the driver's of the same name and holds it to its
// contract: an unknown status, an output that was not written, a function
// that is missing give an error that names driver and function. Functions may
// be called from any thread.

#ifndef OPGRAFT_DRIVER_H
#define OPGRAFT_DRIVER_H

#include <opgraft/device.h>
#include <opgraft/opgraft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opgraft_driver opgraft_driver;

// Loads a shared object that ends with OG_DEVICE_DRIVER, checks its table,
// opens it, and makes the default stream of each device. `options` (NULL: "")
// are the driver's own. One driver of each device type may be loaded at a time:
// OG_BUSY for a second one.
OPGRAFT_API og_status opgraft_driver_load(const char *path, const char *options,
                                          opgraft_driver **out_driver,
                                          opgraft_error *error);
// The same for a table that is linked into the process and outlives it.
OPGRAFT_API og_status opgraft_driver_wrap(const og_device_driver *table,
                                          const char *options,
                                          opgraft_driver **out_driver,
                                          opgraft_error *error);
// Closes it. Nobody uses it any more, and nobody releases a module with kernels
// for it meanwhile; NULL is allowed.
OPGRAFT_API void opgraft_driver_destroy(opgraft_driver *driver);
// The one loaded for a device type (OG_EXT_DEV, ...), else NULL. Borrowed.
OPGRAFT_API opgraft_driver *opgraft_driver_find(int32_t device_type);

OPGRAFT_API const char *opgraft_driver_name(const opgraft_driver *driver);
OPGRAFT_API int32_t opgraft_driver_device_type(const opgraft_driver *driver);
OPGRAFT_API int32_t opgraft_driver_device_count(const opgraft_driver *driver);
// The optional function number `index` that the table lacks, and what is lost
// without it; false where there are no more.
OPGRAFT_API int32_t opgraft_driver_lacks(const opgraft_driver *driver,
                                         int32_t index, const char **out_name,
                                         const char **out_lost);
// Takes what the driver reports from now on, and what work failed with that a
// module's release waited for; NULL counts only. `report` makes and destroys no
// stream.
OPGRAFT_API void opgraft_driver_on_report(
    opgraft_driver *driver,
    void (*report)(void *user, og_status code, const char *text), void *user);
// `give_back` is called when the driver has no room for an allocation: it frees
// what its owner only keeps, and the allocation is tried once more. Its failure
// is the allocation's. NULL: nobody keeps anything.
OPGRAFT_API void opgraft_driver_on_memory(
    opgraft_driver *driver,
    og_status (*give_back)(void *user, opgraft_error *error), void *user);
OPGRAFT_API int64_t opgraft_driver_report_count(const opgraft_driver *driver);

OPGRAFT_API og_status opgraft_driver_properties(
    opgraft_driver *driver, int32_t device,
    og_device_properties *out_properties, opgraft_error *error);
// size_bytes may be 0: the address is NULL. `label` may be NULL.
OPGRAFT_API og_status opgraft_driver_allocate(opgraft_driver *driver,
                                              int32_t device, size_t size_bytes,
                                              const char *label,
                                              void **out_address,
                                              opgraft_error *error);
// NULL is allowed.
OPGRAFT_API og_status opgraft_driver_free(opgraft_driver *driver,
                                          int32_t device, void *address,
                                          opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_set(opgraft_driver *driver, void *stream,
                                         void *address, int32_t byte,
                                         size_t size_bytes,
                                         opgraft_error *error);

enum {
  OPGRAFT_COPY_TO_DEVICE = 0,
  OPGRAFT_COPY_TO_HOST = 1,
  OPGRAFT_COPY_ON_DEVICE = 2,
};

// size_bytes may be 0.
OPGRAFT_API og_status opgraft_driver_copy(opgraft_driver *driver, void *stream,
                                          int32_t kind, void *to,
                                          const void *from, size_t size_bytes,
                                          opgraft_error *error);

// --- Streams and events ------------------------------------------------------

// The stream that work without one of its own uses; lives as long as the
// driver. NULL for a device that is not there.
OPGRAFT_API void *opgraft_driver_default_stream(const opgraft_driver *driver,
                                                int32_t device);
// `choose` names the stream of work that names none; it is called on the thread
// that gives the work. Where it returns NULL, and where `choose` is NULL, that
// is the default stream. Given once, and `user` lives as long as the driver.
OPGRAFT_API void opgraft_driver_on_stream(opgraft_driver *driver,
                                          void *(*choose)(void *user,
                                                          int32_t device),
                                          void *user);
// The stream that work of this thread uses if it names none.
OPGRAFT_API void *opgraft_driver_current_stream(opgraft_driver *driver,
                                                int32_t device);
OPGRAFT_API og_status opgraft_driver_stream_create(opgraft_driver *driver,
                                                   int32_t device,
                                                   void **out_stream,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_stream_destroy(opgraft_driver *driver,
                                                    void *stream,
                                                    opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_stream_synchronize(opgraft_driver *driver,
                                                        void *stream,
                                                        int64_t timeout_ns,
                                                        opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_create(opgraft_driver *driver,
                                                  int32_t device,
                                                  void **out_event,
                                                  opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_destroy(opgraft_driver *driver,
                                                   void *event,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_record(opgraft_driver *driver,
                                                  void *event, void *stream,
                                                  opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_wait(opgraft_driver *driver,
                                                void *event, void *stream,
                                                opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_synchronize(opgraft_driver *driver,
                                                       void *event,
                                                       int64_t timeout_ns,
                                                       opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_event_elapsed(opgraft_driver *driver,
                                                   void *begin, void *end,
                                                   int64_t *out_ns,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_host_function(opgraft_driver *driver,
                                                   void *stream,
                                                   void (*fn)(void *user),
                                                   void *user,
                                                   opgraft_error *error);

// --- Kernels and captures ----------------------------------------------------

// Through the driver's `launch`, else on this thread.
OPGRAFT_API og_status opgraft_driver_launch(opgraft_driver *driver,
                                            void *stream,
                                            const og_launch *launch,
                                            opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_capture_begin(opgraft_driver *driver,
                                                   void *stream,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_capture_end(opgraft_driver *driver,
                                                 void *stream, void **out_graph,
                                                 opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_graph_destroy(opgraft_driver *driver,
                                                   void *graph,
                                                   opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_graph_instantiate(opgraft_driver *driver,
                                                       void *graph,
                                                       void **out_exec,
                                                       opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_exec_destroy(opgraft_driver *driver,
                                                  void *exec,
                                                  opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_exec_update(opgraft_driver *driver,
                                                 void *exec, int32_t index,
                                                 const og_launch *launch,
                                                 opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_exec_launch(opgraft_driver *driver,
                                                 void *exec, void *stream,
                                                 opgraft_error *error);
OPGRAFT_API og_status opgraft_driver_exec_move(opgraft_driver *driver,
                                               void *exec, const og_slot *slots,
                                               int32_t count, void *address,
                                               opgraft_error *error);
// Nothing where the driver does not care.
OPGRAFT_API void opgraft_driver_host_access(opgraft_driver *driver,
                                            const void *address,
                                            size_t size_bytes,
                                            int32_t is_write);

#ifdef __cplusplus
}
#endif

#endif  // OPGRAFT_DRIVER_H
