// SPDX-License-Identifier: Apache-2.0
// Memory of the host that torch counts as pinned.

#include "torch/device/pinned.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { PAGE_BYTES = 4096 };

typedef struct range {
  struct range *next;
  void *address;
  size_t size_bytes;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges;

void *pinned_take(size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > SIZE_MAX - PAGE_BYTES) return NULL;
  range *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  const size_t pages = (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
  void *address = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);
  if (address == NULL) {
    free(made);
    return NULL;
  }
  made->address = address;
  made->size_bytes = size_bytes;
  pthread_mutex_lock(&lock);
  made->next = ranges;
  ranges = made;
  pthread_mutex_unlock(&lock);
  return address;
}

void pinned_give(void *address) {
  if (address == NULL) return;
  pthread_mutex_lock(&lock);
  range **link = &ranges;
  while ((*link)->address != address) link = &(*link)->next;
  range *found = *link;
  *link = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
  free(address);
}

bool pinned_has(const void *address) {
  pthread_mutex_lock(&lock);
  const range *each = ranges;
  while (each != NULL &&
         (uintptr_t)address - (uintptr_t)each->address >= each->size_bytes)
    each = each->next;
  pthread_mutex_unlock(&lock);
  return each != NULL;
}
