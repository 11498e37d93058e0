// SPDX-License-Identifier: Apache-2.0
// A stream's commands, as a list from the oldest that is not released to the
// last that was given.
//
// Invariants: commands are numbered in order, from an empty one that is number
// 0; number `done_count` is `done`, whose `next` the thread still reads, so
// only those before it leave the list, and the oldest is always done. They are
// released by the host's threads, which allocated them: memory that another
// thread frees is dear to get again.

#include "npu_queue.h"

#include <stdlib.h>

#include "npu_sim.h"

enum { KEPT = 64 };  // done, for the next ones

static npu_command *command_new(void) {
  const size_t lines =
      (sizeof(npu_command) + NPU_LINE_BYTES - 1) / NPU_LINE_BYTES;
  npu_command *command = aligned_alloc(NPU_LINE_BYTES, lines * NPU_LINE_BYTES);
  if (command == NULL) return NULL;
  atomic_init(&command->next, NULL);
  command->work = (npu_work){0};
  return command;
}

bool npu_queue_begin(npu_queue *queue) {
  *queue = (npu_queue){.oldest = command_new()};
  queue->last = queue->done = queue->oldest;
  return queue->oldest != NULL;
}

void npu_queue_end(npu_queue *queue) {
  npu_command *next;
  for (npu_command *command = queue->oldest; command != NULL; command = next) {
    next = atomic_load(&command->next);
    npu_work_release(&command->work);
    free(command);
  }
}

// How many the thread has passed, of which one is enough to know of: the count
// is in the thread's cache.
static uint64_t passed_count(npu_queue *queue) {
  if (queue->seen_count == queue->oldest_number)
    queue->seen_count = atomic_load(&queue->done_count);
  return queue->seen_count - queue->oldest_number;
}

// The oldest one, which the thread has passed.
static npu_command *oldest_take(npu_queue *queue) {
  npu_command *command = queue->oldest;
  queue->oldest = atomic_load(&command->next);
  ++queue->oldest_number;
  npu_work_release(&command->work);
  return command;
}

npu_call *npu_queue_spare(npu_queue *queue) {
  npu_command *command = queue->oldest;
  npu_call *call = command->work.call;
  if (call == NULL || call->references > 1) return NULL;
  command->work.call = NULL;
  return call;
}

npu_command *npu_queue_make(npu_queue *queue) {
  if (passed_count(queue) == 0) return command_new();
  npu_command *command = oldest_take(queue);
  atomic_store_explicit(&command->next, NULL, memory_order_relaxed);
  return command;
}

npu_command *npu_queue_add(npu_queue *queue, npu_command *command) {
  npu_command *before = queue->last;
  queue->last = command;
  ++queue->given_count;
  return before;
}

#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void npu_queue_prefetch(const npu_queue *queue) {
  __builtin_prefetch(queue->oldest, 1);
  if (queue->oldest->work.call != NULL)
    __builtin_prefetch(queue->oldest->work.call, 1);
}

void npu_queue_trim(npu_queue *queue) {
  queue->seen_count = atomic_load(&queue->done_count);
  while (passed_count(queue) > KEPT) free(oldest_take(queue));
}

npu_command *npu_queue_first(const npu_queue *queue) {
  return atomic_load_explicit(&queue->done->next, memory_order_acquire);
}

void npu_queue_done(npu_queue *queue) {
  queue->done = npu_queue_first(queue);
  atomic_fetch_add(&queue->done_count, 1);
}
