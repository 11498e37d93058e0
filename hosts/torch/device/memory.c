// SPDX-License-Identifier: Apache-2.0
// Memory of a device, kept when a tensor releases it.
//
// Invariant: a kept block was last used on its device's default stream, and so
// is whoever takes it; only a trim returns blocks to the driver.

#include "torch/device/memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { GRAIN_BYTES = 512 };

typedef struct kept_block {
  struct kept_block *next;
  void *address;
  size_t size_bytes;  // rounded
  int32_t device;
} kept_block;

struct memory_pool {
  opgraft_driver *driver;
  pthread_mutex_t lock;
  kept_block *kept;
  memory_stats stats;
};

memory_pool *memory_pool_create(opgraft_driver *driver) {
  memory_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  pool->driver = driver;
  pthread_mutex_init(&pool->lock, NULL);
  return pool;
}

static size_t rounded(size_t size_bytes) {
  return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

// With the lock.
static void *kept_take(memory_pool *pool, int32_t device, size_t size_bytes) {
  for (kept_block **link = &pool->kept; *link != NULL; link = &(*link)->next) {
    kept_block *block = *link;
    if (block->size_bytes != size_bytes || block->device != device) continue;
    void *address = block->address;
    *link = block->next;
    free(block);
    pool->stats.kept_bytes -= (int64_t)size_bytes;
    return address;
  }
  return NULL;
}

static void live_add(memory_pool *pool, size_t size_bytes) {
  memory_stats *stats = &pool->stats;
  ++stats->live_count;
  stats->live_bytes += (int64_t)size_bytes;
  if (stats->live_bytes > stats->peak_bytes)
    stats->peak_bytes = stats->live_bytes;
}

og_status memory_pool_take(memory_pool *pool, int32_t device, size_t size_bytes,
                           void **out_address, opgraft_error *error) {
  og_status status = OG_OK;
  *out_address = NULL;
  if (size_bytes == 0) return OG_OK;
  const size_t wanted = rounded(size_bytes);
  pthread_mutex_lock(&pool->lock);
  *out_address = kept_take(pool, device, wanted);
  pthread_mutex_unlock(&pool->lock);
  if (*out_address == NULL) {
    status = opgraft_driver_allocate(pool->driver, device, wanted, NULL,
                                     out_address, error);
    // What other sizes keep may be enough.
    if (status == OG_MEMORY && memory_pool_trim(pool, NULL) == OG_OK)
      status = opgraft_driver_allocate(pool->driver, device, wanted, NULL,
                                       out_address, error);
    if (status != OG_OK) return status;
    pthread_mutex_lock(&pool->lock);
    ++pool->stats.driver_count;
    pthread_mutex_unlock(&pool->lock);
  }
  pthread_mutex_lock(&pool->lock);
  live_add(pool, wanted);
  pthread_mutex_unlock(&pool->lock);
  return OG_OK;
}

// A block without room for its record goes back to the driver at once.
static void block_return(memory_pool *pool, int32_t device, void *address) {
  void *stream = opgraft_driver_default_stream(pool->driver, device);
  opgraft_driver_stream_synchronize(pool->driver, stream, -1, NULL);
  opgraft_driver_free(pool->driver, device, address, NULL);
}

void memory_pool_give(memory_pool *pool, int32_t device, void *address,
                      size_t size_bytes) {
  if (address == NULL) return;
  const size_t size = rounded(size_bytes);
  kept_block *block = malloc(sizeof *block);
  pthread_mutex_lock(&pool->lock);
  --pool->stats.live_count;
  pool->stats.live_bytes -= (int64_t)size;
  if (block != NULL) {
    *block = (kept_block){pool->kept, address, size, device};
    pool->kept = block;
    pool->stats.kept_bytes += (int64_t)size;
  }
  pthread_mutex_unlock(&pool->lock);
  if (block == NULL) block_return(pool, device, address);
}

og_status memory_pool_trim(memory_pool *pool, opgraft_error *error) {
  og_status status = OG_OK;
  pthread_mutex_lock(&pool->lock);
  kept_block *block = pool->kept;
  pool->kept = NULL;
  pool->stats.kept_bytes = 0;
  pthread_mutex_unlock(&pool->lock);
  const int32_t count = opgraft_driver_device_count(pool->driver);
  for (int32_t d = 0; block != NULL && d < count && status == OG_OK; ++d)
    status = opgraft_driver_stream_synchronize(
        pool->driver, opgraft_driver_default_stream(pool->driver, d), -1,
        error);
  while (block != NULL) {
    kept_block *next = block->next;
    const og_status freed =
        opgraft_driver_free(pool->driver, block->device, block->address,
                            status == OG_OK ? error : NULL);
    if (status == OG_OK) status = freed;
    free(block);
    block = next;
  }
  return status;
}

memory_stats memory_pool_stats(memory_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  const memory_stats stats = pool->stats;
  pthread_mutex_unlock(&pool->lock);
  return stats;
}

void memory_pool_reset_peak(memory_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stats.peak_bytes = pool->stats.live_bytes;
  pthread_mutex_unlock(&pool->lock);
}
