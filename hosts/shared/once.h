// SPDX-License-Identifier: Apache-2.0
// What is found in the process once: a host's library of functions.

#ifndef OG_HOSTS_SHARED_ONCE_H
#define OG_HOSTS_SHARED_ONCE_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct og_once {
  _Atomic int is_done;
  pthread_mutex_t lock;
} og_once;

#define OG_ONCE_INIT \
  { 0, PTHREAD_MUTEX_INITIALIZER }

// Whether `find` has given 1, in this call or before: it runs alone, and again
// in later calls as long as it gives 0. What it wrote is seen behind a 1.
static inline int og_once_find(og_once *once, int (*find)(void)) {
  if (atomic_load_explicit(&once->is_done, memory_order_acquire)) return 1;
  pthread_mutex_lock(&once->lock);
  int found = atomic_load_explicit(&once->is_done, memory_order_relaxed);
  if (!found) found = find();
  atomic_store_explicit(&once->is_done, found, memory_order_release);
  pthread_mutex_unlock(&once->lock);
  return found;
}

#endif  // OG_HOSTS_SHARED_ONCE_H
