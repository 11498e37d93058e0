// SPDX-License-Identifier: Apache-2.0
// What torch reaches of a device from C++ alone, as a table of C functions:
// registry.c fills it, registry.cpp gives it to torch.
//
// registry.cpp is compiled on the machine where it runs, for the torch that is
// there, with this header and those of include/; C and C++ read it. Functions
// may be called from any thread, with or without the interpreter lock. `error`
// may be NULL where nobody reads it. A device that is -1 is the current one. A
// stream is its number (stream_table.h).

#ifndef OG_TORCH_REGISTRY_H
#define OG_TORCH_REGISTRY_H

#include <opgraft/opgraft.h>

#include "memory_stats.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct registry_table {
  uint32_t struct_size;  // of the library that filled it
  int32_t device_count;

  int32_t (*device_get)(void);
  og_status (*device_set)(int32_t device, opgraft_error *error);
  og_status (*device_synchronize)(int32_t device, opgraft_error *error);

  int64_t (*stream_current)(int32_t device);
  // Makes it current in this thread; gives the one before.
  int64_t (*stream_exchange)(int32_t device, int64_t stream);
  // Lives as long as the process.
  og_status (*stream_create)(int32_t device, int64_t *out_stream,
                             opgraft_error *error);
  // OG_BUSY where the work is not done in time.
  og_status (*stream_synchronize)(int32_t device, int64_t stream,
                                  int64_t timeout_ns, opgraft_error *error);
  // The driver's own.
  void *(*stream_native)(int32_t device, int64_t stream);

  // Makes the event where *event is NULL.
  og_status (*event_record)(void **event, int32_t device, int64_t stream,
                            opgraft_error *error);
  og_status (*event_wait)(void *event, int32_t device, int64_t stream,
                          opgraft_error *error);
  og_status (*event_synchronize)(void *event, int64_t timeout_ns,
                                 opgraft_error *error);
  // Waits for both.
  og_status (*event_elapsed)(void *begin, void *end, int64_t *out_ns,
                             opgraft_error *error);
  void (*event_destroy)(void *event);

  // For work of the current stream. `memory_give` takes *out_owner.
  og_status (*memory_take)(int32_t device, size_t size_bytes,
                           void **out_address, void **out_owner,
                           opgraft_error *error);
  void (*memory_give)(void *owner);
  // On the device, on its current stream, which both memories are then noted
  // to be used by.
  og_status (*memory_copy)(int32_t device, void *to, const void *from,
                           size_t size_bytes, opgraft_error *error);
  // The stream uses the tensor's memory that begins at the address.
  og_status (*memory_record)(const void *address, int32_t device,
                             int64_t stream, opgraft_error *error);
  // The device of the tensor's memory that has the address; -1: there is none.
  int32_t (*memory_device)(const void *address);
  memory_stats (*memory_stats_get)(int32_t device);
  void (*memory_reset_peak)(int32_t device);
  void (*memory_reset_added)(int32_t device);
  og_status (*memory_trim)(opgraft_error *error);
  og_status (*memory_info)(int32_t device, size_t *out_free_bytes,
                           size_t *out_total_bytes, opgraft_error *error);

  // Memory of the host that counts as pinned.
  og_status (*host_take)(size_t size_bytes, void **out_address,
                         opgraft_error *error);
  void (*host_give)(void *address);
  int32_t (*host_has)(const void *address);
} registry_table;

// Exported by registry.cpp's library. The table lives as long as the process.
// NULL, or what went wrong, which lives as long.
typedef const char *(*registry_enter)(const registry_table *table);
#define REGISTRY_ENTER "opgraft_registry_enter"

// Exported too: a new tensor of the table's device, as at::empty_strided makes
// it, without torch's dispatcher. It has the device, sizes and strides of
// `like`, whose data becomes its memory of size_bytes, and torch's type of this
// number. The handle (aoti_torch_delete_tensor_object) is the caller's; NULL
// where `error`, which is not NULL, says why. With the interpreter lock or
// without, once registry_enter has returned.
typedef void *(*registry_tensor)(og_tensor *like, int32_t dtype,
                                 size_t size_bytes, opgraft_error *error);
#define REGISTRY_TENSOR "opgraft_registry_tensor"

#ifdef __cplusplus
}
#endif

#endif  // OG_TORCH_REGISTRY_H
