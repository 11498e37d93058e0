// SPDX-License-Identifier: Apache-2.0
// Memory of a device, kept when a tensor releases it: the next tensor of its
// size gets it.
//
// All tensors are used on the device's default stream, in whose order a block
// changes its owner: nothing waits. Any thread, with or without the
// interpreter lock.

#ifndef OG_TORCH_DEVICE_MEMORY_H
#define OG_TORCH_DEVICE_MEMORY_H

#include <opgraft/driver.h>

typedef struct memory_pool memory_pool;

typedef struct memory_stats {
  int64_t live_count;  // tensors' memories
  int64_t live_bytes;
  int64_t peak_bytes;    // most of live_bytes
  int64_t kept_bytes;    // that no tensor has
  int64_t driver_count;  // allocations that the driver was asked for
} memory_stats;

// NULL where memory is short. It is trimmed whenever the driver has no room,
// also for others; it lives as long as the driver.
memory_pool *memory_pool_create(opgraft_driver *driver);
// When the driver is destroyed, and no tensor has its memory.
void memory_pool_destroy(memory_pool *pool);
// At least size_bytes on the device; NULL for 0.
og_status memory_pool_take(memory_pool *pool, int32_t device, size_t size_bytes,
                           void **out_address, opgraft_error *error);
// The size is the one that was asked for.
void memory_pool_give(memory_pool *pool, int32_t device, void *address,
                      size_t size_bytes);
// Gives the driver what no tensor has, when the streams have passed it. Fails,
// having done so, where their work failed.
og_status memory_pool_trim(memory_pool *pool, opgraft_error *error);
memory_stats memory_pool_stats(memory_pool *pool);
void memory_pool_reset_peak(memory_pool *pool);

#endif  // OG_TORCH_DEVICE_MEMORY_H
