// SPDX-License-Identifier: Apache-2.0
// Memory of a device, kept when a tensor releases it.
//
// Invariants: a kept block was last used on its device's default stream, and so
// is whoever takes it; only a trim returns blocks to the driver. Each live
// block has a spare record, so that its release needs no memory.

#include "torch/device/memory.h"

#include <pthread.h>
#include <stdio.h>
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
  kept_block *spare;  // records without a block
  memory_stats stats;
};

static size_t rounded(size_t size_bytes) {
  return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

// With the lock. The block's record becomes the spare one.
static void *kept_take(memory_pool *pool, int32_t device, size_t size_bytes) {
  for (kept_block **link = &pool->kept; *link != NULL; link = &(*link)->next) {
    kept_block *block = *link;
    if (block->size_bytes != size_bytes || block->device != device) continue;
    *link = block->next;
    block->next = pool->spare;
    pool->spare = block;
    pool->stats.kept_bytes -= (int64_t)size_bytes;
    return block->address;
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

static og_status block_make(memory_pool *pool, int32_t device,
                            size_t size_bytes, void **out_address,
                            opgraft_error *error) {
  kept_block *record = malloc(sizeof *record);
  if (record == NULL) {
    *error = (opgraft_error){.code = OG_MEMORY};
    snprintf(error->text, sizeof error->text,
             "not enough memory for the record of a tensor's memory");
    return OG_MEMORY;
  }
  const og_status status = opgraft_driver_allocate(
      pool->driver, device, size_bytes, NULL, out_address, error);
  if (status != OG_OK) {
    free(record);
    return status;
  }
  pthread_mutex_lock(&pool->lock);
  record->next = pool->spare;
  pool->spare = record;
  ++pool->stats.driver_count;
  pthread_mutex_unlock(&pool->lock);
  return OG_OK;
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
  if (*out_address == NULL)
    status = block_make(pool, device, wanted, out_address, error);
  if (status != OG_OK) return status;
  pthread_mutex_lock(&pool->lock);
  live_add(pool, wanted);
  pthread_mutex_unlock(&pool->lock);
  return OG_OK;
}

void memory_pool_give(memory_pool *pool, int32_t device, void *address,
                      size_t size_bytes) {
  if (address == NULL) return;
  const size_t size = rounded(size_bytes);
  pthread_mutex_lock(&pool->lock);
  --pool->stats.live_count;
  pool->stats.live_bytes -= (int64_t)size;
  kept_block *block = pool->spare;
  pool->spare = block->next;
  *block = (kept_block){pool->kept, address, size, device};
  pool->kept = block;
  pool->stats.kept_bytes += (int64_t)size;
  pthread_mutex_unlock(&pool->lock);
}

// Every stream is waited for, also behind one whose work failed: the first
// failure is the one that is told.
static og_status streams_wait(memory_pool *pool, opgraft_error *error) {
  og_status status = OG_OK;
  const int32_t count = opgraft_driver_device_count(pool->driver);
  for (int32_t d = 0; d < count; ++d) {
    const og_status waited = opgraft_driver_stream_synchronize(
        pool->driver, opgraft_driver_default_stream(pool->driver, d), -1,
        status == OG_OK ? error : NULL);
    if (status == OG_OK) status = waited;
  }
  return status;
}

og_status memory_pool_trim(memory_pool *pool, opgraft_error *error) {
  pthread_mutex_lock(&pool->lock);
  kept_block *block = pool->kept;
  pool->kept = NULL;
  pool->stats.kept_bytes = 0;
  pthread_mutex_unlock(&pool->lock);
  og_status status = block != NULL ? streams_wait(pool, error) : OG_OK;
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

static og_status on_memory(void *user, opgraft_error *error) {
  return memory_pool_trim(user, error);
}

memory_pool *memory_pool_create(opgraft_driver *driver) {
  memory_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return NULL;
  pool->driver = driver;
  pthread_mutex_init(&pool->lock, NULL);
  opgraft_driver_on_memory(driver, on_memory, pool);
  return pool;
}

static void records_free(kept_block *record) {
  while (record != NULL) {
    kept_block *next = record->next;
    free(record);
    record = next;
  }
}

void memory_pool_destroy(memory_pool *pool) {
  records_free(pool->kept);
  records_free(pool->spare);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
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
