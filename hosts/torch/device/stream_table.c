// SPDX-License-Identifier: Apache-2.0
// The streams of a device by number, and what is current in each thread.
//
// Invariants: an entry is in the table as long as somebody holds it, or is
// shared, which the table holds. Its stream is destroyed when nobody can find
// it any more.

#include "torch/device/stream_table.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEVICES_MAX = 128, SHARED_MAX = 32 };  // torch's indices are of 8 bits

struct stream_entry {
  stream_table *table;
  stream_entry *next;
  int64_t number;
  void *stream;
  int32_t device;
  int32_t holders;
  bool is_shared;
};

struct stream_table {
  opgraft_driver *driver;
  memory_pool *pool;
  pthread_mutex_t lock;
  stream_entry *entries;  // the newest first
  int64_t last_number;
  int32_t turns[DEVICES_MAX];  // how many shared ones were asked for
};

static _Thread_local int64_t current[DEVICES_MAX];
static _Thread_local int32_t current_device;

static bool is_known(int32_t device) {
  return device >= 0 && device < DEVICES_MAX;
}

int64_t stream_current(int32_t device) {
  return is_known(device) ? current[device] : 0;
}

int64_t stream_exchange(int32_t device, int64_t number) {
  const int64_t before = stream_current(device);
  if (is_known(device)) current[device] = number;
  return before;
}

int32_t device_current(void) { return current_device; }

void device_current_set(int32_t device) { current_device = device; }

stream_table *stream_table_create(opgraft_driver *driver, memory_pool *pool) {
  stream_table *table = calloc(1, sizeof *table);
  if (table == NULL) return NULL;
  table->driver = driver;
  table->pool = pool;
  pthread_mutex_init(&table->lock, NULL);
  return table;
}

void stream_table_destroy(stream_table *table) {
  stream_entry *next;
  for (stream_entry *entry = table->entries; entry != NULL; entry = next) {
    next = entry->next;
    free(entry);
  }
  pthread_mutex_destroy(&table->lock);
  free(table);
}

og_status stream_table_add(stream_table *table, int32_t device,
                           stream_entry **out_entry, opgraft_error *error) {
  *out_entry = NULL;
  stream_entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    *error = (opgraft_error){.code = OG_MEMORY};
    snprintf(error->text, sizeof error->text,
             "not enough memory for the record of a stream");
    return OG_MEMORY;
  }
  const og_status status = opgraft_driver_stream_create(table->driver, device,
                                                        &entry->stream, error);
  if (status != OG_OK) {
    free(entry);
    return status;
  }
  entry->table = table;
  entry->device = device;
  entry->holders = 1;
  pthread_mutex_lock(&table->lock);
  entry->number = ++table->last_number;
  entry->next = table->entries;
  table->entries = entry;
  pthread_mutex_unlock(&table->lock);
  *out_entry = entry;
  return OG_OK;
}

// With the lock: the shared one of the device that is `turn` away from the
// newest; NULL where there are fewer.
static stream_entry *shared_find(const stream_table *table, int32_t device,
                                 int32_t turn) {
  for (stream_entry *entry = table->entries; entry != NULL; entry = entry->next)
    if (entry->is_shared && entry->device == device && turn-- == 0)
      return entry;
  return NULL;
}

og_status stream_table_share(stream_table *table, int32_t device,
                             int64_t *out_number, opgraft_error *error) {
  *out_number = 0;
  pthread_mutex_lock(&table->lock);
  const int32_t slot = is_known(device) ? device : 0;
  const stream_entry *entry =
      shared_find(table, device, SHARED_MAX - 1) == NULL
          ? NULL
          : shared_find(table, device,
                        SHARED_MAX - 1 - table->turns[slot]++ % SHARED_MAX);
  if (entry != NULL) *out_number = entry->number;
  pthread_mutex_unlock(&table->lock);
  if (entry != NULL) return OG_OK;
  stream_entry *made;
  const og_status status = stream_table_add(table, device, &made, error);
  if (status != OG_OK) return status;
  pthread_mutex_lock(&table->lock);
  made->is_shared = true;
  pthread_mutex_unlock(&table->lock);
  *out_number = made->number;
  return OG_OK;
}

stream_entry *stream_table_find(stream_table *table, int64_t number) {
  if (number == 0) return NULL;
  pthread_mutex_lock(&table->lock);
  stream_entry *entry = table->entries;
  while (entry != NULL && entry->number != number) entry = entry->next;
  if (entry != NULL) ++entry->holders;
  pthread_mutex_unlock(&table->lock);
  return entry;
}

int64_t stream_entry_number(const stream_entry *entry) { return entry->number; }

void *stream_entry_stream(const stream_entry *entry) { return entry->stream; }

void stream_entry_release(stream_entry *entry) {
  if (entry == NULL) return;
  stream_table *table = entry->table;
  pthread_mutex_lock(&table->lock);
  const bool is_last = --entry->holders == 0;
  if (is_last) {
    stream_entry **link = &table->entries;
    while (*link != entry) link = &(*link)->next;
    *link = entry->next;
  }
  pthread_mutex_unlock(&table->lock);
  if (!is_last) return;
  // Its work is done when its blocks go to the default stream.
  opgraft_driver_stream_synchronize(table->driver, entry->stream, -1, NULL);
  memory_pool_forget(table->pool, entry->device, entry->stream);
  opgraft_driver_stream_destroy(table->driver, entry->stream, NULL);
  free(entry);
}

// The entry with the next greater number, retained; NULL behind the last.
static stream_entry *entry_after(stream_table *table, int32_t device,
                                 int64_t number) {
  stream_entry *found = NULL;
  pthread_mutex_lock(&table->lock);
  for (stream_entry *entry = table->entries; entry != NULL; entry = entry->next)
    if (entry->device == device && entry->number > number &&
        (found == NULL || entry->number < found->number))
      found = entry;
  if (found != NULL) ++found->holders;
  pthread_mutex_unlock(&table->lock);
  return found;
}

og_status stream_table_synchronize(stream_table *table, int32_t device,
                                   opgraft_error *error) {
  opgraft_driver *driver = table->driver;
  og_status status = opgraft_driver_stream_synchronize(
      driver, opgraft_driver_default_stream(driver, device), -1, error);
  stream_entry *entry = entry_after(table, device, 0);
  while (entry != NULL) {
    const og_status waited = opgraft_driver_stream_synchronize(
        driver, entry->stream, -1, status == OG_OK ? error : NULL);
    if (status == OG_OK) status = waited;
    const int64_t number = entry->number;
    stream_entry_release(entry);
    entry = entry_after(table, device, number);
  }
  return status;
}
