// SPDX-License-Identifier: Apache-2.0
// Memory of a device, kept when a tensor releases it.
//
// Invariants: what was given to a kept block's stream is all that still uses
// it, and whoever takes it uses that stream; only a trim returns blocks to the
// driver. A block is in the list of live ones or in one of kept ones, under
// the lock; a trim has its blocks to itself.

#include "torch/device/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAIN_BYTES = 512, LISTS = 64, USERS_MAX = 8 };

struct memory_block {
  memory_block *next, *before;  // in its list; before: of a live one alone
  void *address;
  size_t size_bytes;  // rounded
  void *stream;
  int32_t device;
  int32_t user_count;
  void *users[USERS_MAX];  // other streams that use it
};

struct memory_pool {
  opgraft_driver *driver;
  pthread_mutex_t lock;
  pthread_mutex_t trim_lock;  // taken first: streams stay while a trim waits
  memory_block *kept[LISTS];  // by size
  memory_block *live;
  memory_stats stats[];  // of each device
};

static void count_add(memory_count *count, int64_t amount) {
  count->current += amount;
  count->added += amount;
  if (count->current > count->peak) count->peak = count->current;
}

static void count_remove(memory_count *count, int64_t amount) {
  count->current -= amount;
  count->removed += amount;
}

static size_t rounded(size_t size_bytes) {
  return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

static memory_block **kept_list(memory_pool *pool, size_t size_bytes) {
  return &pool->kept[size_bytes / GRAIN_BYTES % LISTS];
}

// With the lock.
static memory_block *kept_take(memory_pool *pool, int32_t device,
                               const void *stream, size_t size_bytes) {
  memory_block **link = kept_list(pool, size_bytes);
  for (; *link != NULL; link = &(*link)->next) {
    memory_block *block = *link;
    if (block->size_bytes != size_bytes || block->device != device ||
        block->stream != stream)
      continue;
    *link = block->next;
    return block;
  }
  return NULL;
}

// With the lock.
static void live_add(memory_pool *pool, memory_block *block) {
  memory_stats *stats = &pool->stats[block->device];
  block->before = NULL;
  block->next = pool->live;
  if (pool->live != NULL) pool->live->before = block;
  pool->live = block;
  count_add(&stats->tensors, 1);
  count_add(&stats->tensor_bytes, (int64_t)block->size_bytes);
}

// With the lock.
static void live_remove(memory_pool *pool, memory_block *block) {
  if (block->before != NULL)
    block->before->next = block->next;
  else
    pool->live = block->next;
  if (block->next != NULL) block->next->before = block->before;
  memory_stats *stats = &pool->stats[block->device];
  count_remove(&stats->tensors, 1);
  count_remove(&stats->tensor_bytes, (int64_t)block->size_bytes);
}

static memory_block *block_make(memory_pool *pool, int32_t device,
                                size_t size_bytes, opgraft_error *error) {
  memory_block *block = calloc(1, sizeof *block);
  if (block == NULL) {
    *error = (opgraft_error){.code = OG_MEMORY};
    snprintf(error->text, sizeof error->text,
             "not enough memory for the record of a tensor's memory");
    return NULL;
  }
  block->device = device;
  block->size_bytes = size_bytes;
  if (opgraft_driver_allocate(pool->driver, device, size_bytes, NULL,
                              &block->address, error) == OG_OK)
    return block;
  free(block);
  return NULL;
}

static memory_block *block_new(memory_pool *pool, int32_t device, void *stream,
                               size_t size_bytes, opgraft_error *error) {
  memory_block *block = block_make(pool, device, size_bytes, error);
  if (block == NULL) return NULL;
  block->stream = stream;
  pthread_mutex_lock(&pool->lock);
  ++pool->stats[device].driver_count;
  count_add(&pool->stats[device].held_bytes, (int64_t)size_bytes);
  live_add(pool, block);
  pthread_mutex_unlock(&pool->lock);
  return block;
}

og_status memory_pool_take(memory_pool *pool, int32_t device, void *stream,
                           size_t size_bytes, memory_block **out_block,
                           opgraft_error *error) {
  *out_block = NULL;
  if (size_bytes == 0) return OG_OK;
  const size_t needed = rounded(size_bytes);
  pthread_mutex_lock(&pool->lock);
  memory_block *block = kept_take(pool, device, stream, needed);
  if (block != NULL) live_add(pool, block);
  pthread_mutex_unlock(&pool->lock);
  if (block == NULL) block = block_new(pool, device, stream, needed, error);
  *out_block = block;
  return block != NULL ? OG_OK : error->code;
}

void *memory_block_address(const memory_block *block) {
  return block != NULL ? block->address : NULL;
}

// What the stream gets from now on comes after what `user` got before. The host
// waits where the driver has no event for it.
static void order(opgraft_driver *driver, int32_t device, void *stream,
                  void *user) {
  void *event = NULL;
  og_status status = opgraft_driver_event_create(driver, device, &event, NULL);
  if (status == OG_OK)
    status = opgraft_driver_event_record(driver, event, user, NULL);
  if (status == OG_OK)
    status = opgraft_driver_event_wait(driver, event, stream, NULL);
  if (event != NULL) opgraft_driver_event_destroy(driver, event, NULL);
  if (status != OG_OK)
    opgraft_driver_stream_synchronize(driver, user, -1, NULL);
}

void memory_pool_give(memory_pool *pool, memory_block *block) {
  if (block == NULL) return;
  pthread_mutex_lock(&pool->lock);
  live_remove(pool, block);
  // No stream ends before its users are ordered: memory_pool_forget waits.
  for (int32_t u = 0; u < block->user_count; ++u)
    order(pool->driver, block->device, block->stream, block->users[u]);
  block->user_count = 0;
  memory_block **list = kept_list(pool, block->size_bytes);
  block->next = *list;
  *list = block;
  pthread_mutex_unlock(&pool->lock);
}

static bool has_user(const memory_block *block, const void *stream) {
  for (int32_t u = 0; u < block->user_count; ++u)
    if (block->users[u] == stream) return true;
  return false;
}

og_status memory_pool_record(memory_pool *pool, const void *address,
                             void *stream, opgraft_error *error) {
  bool has_room = true;
  pthread_mutex_lock(&pool->lock);
  memory_block *block = pool->live;
  while (block != NULL && block->address != address) block = block->next;
  if (block != NULL && block->stream != stream && !has_user(block, stream)) {
    has_room = block->user_count < USERS_MAX;
    if (has_room) block->users[block->user_count++] = stream;
  }
  pthread_mutex_unlock(&pool->lock);
  if (has_room) return OG_OK;
  *error = (opgraft_error){.code = OG_UNSUPPORTED};
  snprintf(error->text, sizeof error->text,
           "more than %d streams besides its own use a tensor's memory",
           (int)USERS_MAX);
  return OG_UNSUPPORTED;
}

static void blocks_move(memory_block *block, const void *from, void *to) {
  for (; block != NULL; block = block->next) {
    if (block->stream == from) block->stream = to;
    int32_t left = 0;
    for (int32_t u = 0; u < block->user_count; ++u)
      if (block->users[u] != from) block->users[left++] = block->users[u];
    block->user_count = left;
  }
}

void memory_pool_forget(memory_pool *pool, int32_t device, const void *stream) {
  void *other = opgraft_driver_default_stream(pool->driver, device);
  pthread_mutex_lock(&pool->trim_lock);
  pthread_mutex_lock(&pool->lock);
  blocks_move(pool->live, stream, other);
  for (int32_t l = 0; l < LISTS; ++l) blocks_move(pool->kept[l], stream, other);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->trim_lock);
}

// All kept blocks, in one list, taken from the pool.
static memory_block *kept_take_all(memory_pool *pool) {
  memory_block *all = NULL;
  pthread_mutex_lock(&pool->lock);
  for (int32_t l = 0; l < LISTS; ++l) {
    memory_block *next;
    for (memory_block *block = pool->kept[l]; block != NULL; block = next) {
      next = block->next;
      block->next = all;
      all = block;
      count_remove(&pool->stats[block->device].held_bytes,
                   (int64_t)block->size_bytes);
    }
    pool->kept[l] = NULL;
  }
  pthread_mutex_unlock(&pool->lock);
  return all;
}

// Every block is freed, also behind a stream whose work failed: the first
// failure is the one that is told.
og_status memory_pool_trim(memory_pool *pool, opgraft_error *error) {
  og_status status = OG_OK;
  pthread_mutex_lock(&pool->trim_lock);
  memory_block *next;
  for (memory_block *block = kept_take_all(pool); block != NULL; block = next) {
    next = block->next;
    const og_status waited = opgraft_driver_stream_synchronize(
        pool->driver, block->stream, -1, status == OG_OK ? error : NULL);
    if (status == OG_OK) status = waited;
    const og_status freed =
        opgraft_driver_free(pool->driver, block->device, block->address,
                            status == OG_OK ? error : NULL);
    if (status == OG_OK) status = freed;
    free(block);
  }
  pthread_mutex_unlock(&pool->trim_lock);
  return status;
}

static og_status on_memory(void *user, opgraft_error *error) {
  return memory_pool_trim(user, error);
}

memory_pool *memory_pool_create(opgraft_driver *driver) {
  const size_t devices = (size_t)opgraft_driver_device_count(driver);
  memory_pool *pool = calloc(1, sizeof *pool + devices * sizeof *pool->stats);
  if (pool == NULL) return NULL;
  pool->driver = driver;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_mutex_init(&pool->trim_lock, NULL);
  opgraft_driver_on_memory(driver, on_memory, pool);
  return pool;
}

void memory_pool_destroy(memory_pool *pool) {
  memory_block *next;
  for (memory_block *block = kept_take_all(pool); block != NULL; block = next) {
    next = block->next;
    free(block);
  }
  pthread_mutex_destroy(&pool->trim_lock);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

int32_t memory_pool_device(memory_pool *pool, const void *address) {
  pthread_mutex_lock(&pool->lock);
  const memory_block *block = pool->live;
  while (block != NULL &&
         (uintptr_t)address - (uintptr_t)block->address >= block->size_bytes)
    block = block->next;
  const int32_t device = block != NULL ? block->device : -1;
  pthread_mutex_unlock(&pool->lock);
  return device;
}

memory_stats memory_pool_stats(memory_pool *pool, int32_t device) {
  pthread_mutex_lock(&pool->lock);
  const memory_stats stats = pool->stats[device];
  pthread_mutex_unlock(&pool->lock);
  return stats;
}

static memory_count *counts_of(memory_stats *stats, int32_t i) {
  memory_count *counts[] = {&stats->tensors, &stats->tensor_bytes,
                            &stats->held_bytes};
  return i < 3 ? counts[i] : NULL;
}

void memory_pool_reset_peak(memory_pool *pool, int32_t device) {
  memory_count *count;
  pthread_mutex_lock(&pool->lock);
  for (int32_t i = 0; (count = counts_of(&pool->stats[device], i)) != NULL; ++i)
    count->peak = count->current;
  pthread_mutex_unlock(&pool->lock);
}

void memory_pool_reset_added(memory_pool *pool, int32_t device) {
  memory_count *count;
  pthread_mutex_lock(&pool->lock);
  for (int32_t i = 0; (count = counts_of(&pool->stats[device], i)) != NULL; ++i)
    count->added = count->removed = 0;
  pthread_mutex_unlock(&pool->lock);
}
