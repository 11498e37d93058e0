// SPDX-License-Identifier: Apache-2.0
// Memory of a device, kept when a tensor releases it: the next tensor of its
// size on the same stream gets it (a caching allocator, as PyTorch's of CUDA).
//
// A block belongs to the stream on which it was taken, in whose order it
// changes its owner: nothing waits. Where another stream uses it too, that is
// recorded, and the block's stream waits for the other's work when the tensor
// releases it. Any thread, with or without the interpreter lock.

#ifndef OG_TORCH_DEVICE_MEMORY_H
#define OG_TORCH_DEVICE_MEMORY_H

#include <opgraft/driver.h>

#include "torch/device/memory_stats.h"

typedef struct memory_pool memory_pool;
typedef struct memory_block memory_block;

// NULL where memory is short. It is trimmed whenever the driver has no room,
// also for others; it lives as long as the driver.
memory_pool *memory_pool_create(opgraft_driver *driver);
// When the driver is destroyed, and no tensor has its memory.
void memory_pool_destroy(memory_pool *pool);
// At least size_bytes on the device, for work of the stream; NULL, without an
// address, for 0.
og_status memory_pool_take(memory_pool *pool, int32_t device, void *stream,
                           size_t size_bytes, memory_block **out_block,
                           opgraft_error *error);
void *memory_block_address(const memory_block *block);
// NULL is allowed.
void memory_pool_give(memory_pool *pool, memory_block *block);
// A stream besides the block's own uses the live block at this address, which
// its memory_block_address is. Nothing where there is none.
og_status memory_pool_record(memory_pool *pool, const void *address,
                             void *stream, opgraft_error *error);
// The stream is about to end, and its work is done: its blocks are the default
// stream's from now on.
void memory_pool_forget(memory_pool *pool, int32_t device, const void *stream);
// Gives the driver what no tensor has, when the streams have passed it. Fails,
// having done so, where their work failed.
og_status memory_pool_trim(memory_pool *pool, opgraft_error *error);
// The device that has the live block with this address in it; -1 for none.
int32_t memory_pool_device(memory_pool *pool, const void *address);
// Of a device that is there.
memory_stats memory_pool_stats(memory_pool *pool, int32_t device);
void memory_pool_reset_peak(memory_pool *pool, int32_t device);
// What was added and removed is counted anew.
void memory_pool_reset_added(memory_pool *pool, int32_t device);

#endif  // OG_TORCH_DEVICE_MEMORY_H
