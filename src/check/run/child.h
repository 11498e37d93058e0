// SPDX-License-Identifier: Apache-2.0
// Child processes, as their parent sees them.

#ifndef OG_CHECK_RUN_CHILD_H
#define OG_CHECK_RUN_CHILD_H

#include "check/run/record.h"

typedef struct og_child {
  int64_t pid;
  int32_t pipe;
} og_child;

// What a child does; it ends when this returns.
typedef void (*og_child_main)(const void *job);

// Forks a child that does the job. The sink is told of the fork.
og_status og_child_start(const opgraft_check_sink *sink, og_child_main run,
                         const void *job, og_child *out_child,
                         opgraft_error *error);
// Waits up to timeout_ms for a record. 1: got one; 0: time is up; -1: the child
// has ended, and *out_exit is its status as waitpid gives it.
int32_t og_child_read(og_child *child, int32_t timeout_ms, og_record *out,
                      int32_t *out_exit);
void og_child_stop(og_child *child);
// Whether a thread of the child runs or waits for a processor, and for nothing
// else.
bool og_child_is_runnable(const og_child *child);
// Processor time that the child has used so far; -1 if that is not known.
int64_t og_child_cpu_ms(const og_child *child);

#endif  // OG_CHECK_RUN_CHILD_H
