// SPDX-License-Identifier: Apache-2.0
// The streams of a device by number, and what is current in each thread.
//
// A number is never given twice, so one that outlives its stream is known to:
// its work is done, and it means the default stream, whose number is 0. Any
// thread, with or without the interpreter lock.

#ifndef OG_TORCH_STREAM_TABLE_H
#define OG_TORCH_STREAM_TABLE_H

#include <opgraft/driver.h>

#include "torch/device/memory.h"

typedef struct stream_table stream_table;
// Counted: whoever releases it last waits for its work and destroys it.
typedef struct stream_entry stream_entry;

// NULL where memory is short.
stream_table *stream_table_create(opgraft_driver *driver, memory_pool *pool);
// When nobody uses the driver's streams any more.
void stream_table_destroy(stream_table *table);

og_status stream_table_add(stream_table *table, int32_t device,
                           stream_entry **out_entry, opgraft_error *error);
// One that lives as long as the table; after 32 of a device the first again.
og_status stream_table_share(stream_table *table, int32_t device,
                             int64_t *out_number, opgraft_error *error);
// Retained; NULL for the default stream, and for a number that means it.
stream_entry *stream_table_find(stream_table *table, int64_t number);
int64_t stream_entry_number(const stream_entry *entry);
void *stream_entry_stream(const stream_entry *entry);
// NULL is allowed.
void stream_entry_release(stream_entry *entry);

// Waits for all streams of a device. Fails, having done so, with the first
// failure of their work.
og_status stream_table_synchronize(stream_table *table, int32_t device,
                                   opgraft_error *error);

// The number of this thread's current stream of a device.
int64_t stream_current(int32_t device);
// Gives the one before.
int64_t stream_exchange(int32_t device, int64_t number);
// This thread's current device.
int32_t device_current(void);
void device_current_set(int32_t device);

#endif  // OG_TORCH_STREAM_TABLE_H
