// SPDX-License-Identifier: Apache-2.0
// The process's arenas: each call leases one of a device, so graphs that do not
// run at once share memory.
//
// Invariants: an arena is in the list as long as it exists; only its lessee or,
// when idle, a thread that holds the mutex touches it. A device's is free
// again while its stream still uses it: another stream waits for that one.
// When a plan is gone, idle arenas go until those of its device are no larger
// together than what the plans that are left want.

#include "exec/replay/lease.h"

#include "device/driver.h"
#include "exec/step/device.h"

struct og_lease {
  og_lease *next;
  og_device device;
  void *stream;  // of the device, that used it last
  void *memory;
  size_t size_bytes;
  bool is_taken;
};

// What all plans together want of a device.
typedef struct demand demand;

struct demand {
  demand *next;
  og_device device;
  int64_t bytes;  // above 0
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static og_lease *leases;
static demand *demands;

// The idle arena of the device that fits best: `wanted`, else the smallest that
// is large enough, else the largest, which then grows.
static og_lease *lease_choose(og_device device, size_t size_bytes,
                              const og_lease *wanted) {
  og_lease *best = NULL;
  for (og_lease *at = leases; at != NULL; at = at->next) {
    if (at->is_taken || !og_device_equal(at->device, device)) continue;
    if (at == wanted && at->size_bytes >= size_bytes) return at;
    const bool fits = at->size_bytes >= size_bytes;
    if (best == NULL)
      best = at;
    else if (best->size_bytes < size_bytes)
      best = at->size_bytes > best->size_bytes ? at : best;
    else if (fits && at->size_bytes < best->size_bytes)
      best = at;
  }
  return best;
}

static og_lease *lease_add(og_device device) {
  og_lease *lease = og_alloc_zeroed(1, sizeof *lease);
  if (lease == NULL) return NULL;
  lease->device = device;
  lease->next = leases;
  leases = lease;
  return lease;
}

static void memory_destroy(og_lease *lease) {
  opgraft_driver *driver = og_driver_of(lease->device);
  if (driver != NULL) og_driver_stream_finish(driver, lease->stream);
  og_device_free(lease->device, lease->memory);
  lease->memory = NULL;
  lease->size_bytes = 0;
}

static void lease_remove(og_lease *lease) {
  og_lease **at = &leases;
  while (*at != lease) at = &(*at)->next;
  *at = lease->next;
  memory_destroy(lease);
  og_free(lease);
}

// With the mutex.
static og_status lease_find(og_device device, size_t size_bytes, void *stream,
                            const og_lease *wanted, og_lease **out_lease,
                            opgraft_error *error) {
  opgraft_driver *driver = og_driver_of(device);
  og_lease *lease = lease_choose(device, size_bytes, wanted);
  if (lease == NULL) lease = lease_add(device);
  if (lease == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "not enough memory for an arena of %zu bytes",
                        size_bytes);
  if (lease->size_bytes < size_bytes) {
    memory_destroy(lease);
    const og_status status = og_device_allocate(device, size_bytes, "an arena",
                                                &lease->memory, error);
    if (status != OG_OK) {
      lease_remove(lease);
      return status;
    }
    lease->size_bytes = size_bytes;
  } else if (driver != NULL) {
    OG_TRY(og_driver_stream_follow(driver, device.id, stream, lease->stream,
                                   error));
  }
  lease->stream = stream;
  lease->is_taken = true;
  *out_lease = lease;
  return OG_OK;
}

og_status og_lease_take(og_device device, size_t size_bytes, void *stream,
                        og_lease *wanted, og_lease **out_lease,
                        void **out_memory, opgraft_error *error) {
  *out_lease = NULL;
  *out_memory = NULL;
  if (size_bytes == 0) return OG_OK;
  pthread_mutex_lock(&mutex);
  const og_status status =
      lease_find(device, size_bytes, stream, wanted, out_lease, error);
  if (status == OG_OK) *out_memory = (*out_lease)->memory;
  pthread_mutex_unlock(&mutex);
  return status;
}

void og_lease_give(og_lease *lease) {
  if (lease == NULL) return;
  pthread_mutex_lock(&mutex);
  lease->is_taken = false;
  pthread_mutex_unlock(&mutex);
}

static demand **demand_of(og_device device) {
  demand **at = &demands;
  while (*at != NULL && !og_device_equal((*at)->device, device))
    at = &(*at)->next;
  return at;
}

static int64_t held_bytes(og_device device) {
  int64_t bytes = 0;
  for (const og_lease *at = leases; at != NULL; at = at->next)
    if (og_device_equal(at->device, device)) bytes += (int64_t)at->size_bytes;
  return bytes;
}

// Frees the first idle arena of the device; false where there is none.
static bool free_idle(og_device device) {
  og_lease *at = leases;
  while (at != NULL && (at->is_taken || !og_device_equal(at->device, device)))
    at = at->next;
  if (at != NULL) lease_remove(at);
  return at != NULL;
}

og_status og_lease_want(og_device device, size_t size_bytes,
                        opgraft_error *error) {
  if (size_bytes == 0) return OG_OK;
  pthread_mutex_lock(&mutex);
  demand **at = demand_of(device);
  if (*at == NULL && (*at = og_alloc_zeroed(1, sizeof **at)) != NULL)
    (*at)->device = device;
  const bool is_there = *at != NULL;
  if (is_there) (*at)->bytes += (int64_t)size_bytes;
  pthread_mutex_unlock(&mutex);
  return is_there ? OG_OK : og_graph_no_memory(error);
}

void og_lease_unwant(og_device device, size_t size_bytes) {
  if (size_bytes == 0) return;
  pthread_mutex_lock(&mutex);
  demand **at = demand_of(device), *own = *at;
  own->bytes -= (int64_t)size_bytes;
  while (held_bytes(device) > own->bytes && free_idle(device)) continue;
  if (own->bytes == 0) {
    *at = own->next;
    og_free(own);
  }
  pthread_mutex_unlock(&mutex);
}

int64_t og_lease_shared_bytes(void) {
  int64_t shared = 0;
  pthread_mutex_lock(&mutex);
  for (const demand *at = demands; at != NULL; at = at->next) {
    const int64_t held = held_bytes(at->device);
    shared += at->bytes > held ? at->bytes - held : 0;
  }
  pthread_mutex_unlock(&mutex);
  return shared;
}
