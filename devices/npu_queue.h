// SPDX-License-Identifier: Apache-2.0
// What a stream was given, in order: by threads of the host, one at a time, and
// done by the stream's own thread, which takes no lock for it.

#ifndef NPU_QUEUE_H
#define NPU_QUEUE_H

#include <stdatomic.h>

#include "npu_call.h"

typedef struct npu_record npu_record;
typedef struct npu_exec npu_exec;
typedef struct npu_update npu_update;

typedef enum npu_kind {
  NPU_COPY_TO_DEVICE,
  NPU_COPY_TO_HOST,
  NPU_COPY_ON_DEVICE,
  NPU_SET,
  NPU_LAUNCH,
  NPU_HOST_FUNCTION,
  NPU_RECORD,
  NPU_WAIT,
  NPU_EXEC,
} npu_kind;

// What the thread reads of a launch stands first, in a command's first cache
// line.
typedef struct npu_work {
  npu_kind kind;
  int32_t byte;
  npu_call *call;
  npu_record *record;
  npu_exec *exec;
  uint64_t number;  // for messages
  void *to;         // at addresses of users
  const void *from;
  size_t size_bytes;
  void (*fn)(void *user);
  void *user;
  uint64_t ticket;      // of the executable's launches, in order
  npu_update *updates;  // of it, which this launch brings
} npu_work;

typedef struct npu_command {
  struct npu_command *_Atomic next;  // NULL until the thread may do it
  npu_work work;
} npu_command;

enum { NPU_LINE_BYTES = 64 };

// The first half belongs to whoever has the driver's lock, the second one to
// the thread; each is written for each command, in cache lines of its own.
typedef struct npu_queue {
  char line_before[NPU_LINE_BYTES];
  npu_command *oldest;  // whose work is not released
  npu_command *last;
  uint64_t oldest_number, given_count;
  uint64_t seen_count;  // done_count, when it was last asked for
  char line_between[NPU_LINE_BYTES];
  npu_command *done;  // the thread's last
  atomic_ullong done_count;
} npu_queue;

// False where memory is short.
bool npu_queue_begin(npu_queue *queue);
// When the thread has ended.
void npu_queue_end(npu_queue *queue);

// With the driver's lock:

// The block of a launch that is done, which is the caller's now; NULL for none.
npu_call *npu_queue_spare(npu_queue *queue);
// A command that stands in no queue; NULL where memory is short.
npu_command *npu_queue_make(npu_queue *queue);
// It is the last one now. The thread sees it when it is the next one of the
// command that is returned.
npu_command *npu_queue_add(npu_queue *queue, npu_command *command);
// The host is about to write what npu_queue_make and npu_queue_spare give next,
// which lies in the thread's cache.
void npu_queue_prefetch(const npu_queue *queue);
// Releases what is done, but for a few that the next ones use again.
void npu_queue_trim(npu_queue *queue);

// On the stream's thread, without it:

// NULL where it sees none.
npu_command *npu_queue_first(const npu_queue *queue);
// The first one is done, and may be released from now on.
void npu_queue_done(npu_queue *queue);

#endif  // NPU_QUEUE_H
