// SPDX-License-Identifier: Apache-2.0
// The checking child: runs probes on sampled calls under limits, and tells the
// parent over a pipe.
//
// Every record is of one size, below what a pipe writes at once, so that a
// signal handler may write one too. The parent forked the child: pointers into
// the module's declarations mean the same in both.

#ifndef OG_CHECK_CHILD_H
#define OG_CHECK_CHILD_H

#include "check/probe.h"

typedef enum og_record_kind {
  OG_RECORD_BEGIN,    // call `index` is being drawn
  OG_RECORD_CALL,     // a sampled call begins: index, numel, text is the call
  OG_RECORD_UNDRAWN,  // no such call was found: text is the last refusal
  OG_RECORD_SHRUNK,   // a smaller call begins: step
  OG_RECORD_PROBE,    // probe
  OG_RECORD_FINDING,  // finding, is_note, name, text
  OG_RECORD_REFUSED,  // the kernel refused: status, text
  OG_RECORD_CRASH,    // signal_number and where
  OG_RECORD_USE,      // of an argument: name, is_used
  OG_RECORD_ENDS,     // of an argument: name, is_used as bits of OG_END_*
  OG_RECORD_ORDER,    // of a result: index, step (its item), is_used as bits
  OG_RECORD_END,      // of a call: counts
  OG_RECORD_DONE,
} og_record_kind;

typedef struct og_record {
  og_record_kind kind;
  int32_t index;  // of the call
  int32_t step;   // of shrinking
  int32_t probe;
  int32_t finding;  // OPGRAFT_*
  int32_t is_note;
  int32_t is_used;
  int32_t status;
  int32_t signal_number;
  int32_t signal_code;
  int32_t is_write;
  int32_t is_near_stack;
  int32_t is_return;  // to an address that cannot be: the stack is overwritten
  int32_t is_memory_short;
  int32_t is_released;
  int32_t has_index_hazard;  // an index that no empty dim can hold
  int32_t run_count;
  int32_t layout_count[4];
  int32_t offset_count;
  int32_t buffer_role;  // -1: no buffer is near
  int32_t buffer_index;
  int32_t buffer_entry;
  int64_t before;
  int64_t after;
  int64_t bytes;  // of the buffer
  int64_t numel;
  uint64_t address;
  const opgraft_op *op;  // whose kernel ran
  char name[64];
  char missing[64];  // of a call: the only argument that is not all there
  char text[420];
} og_record;

enum { OG_SHRINKS_MAX = 24 };

// What a child is to do.
typedef struct og_job {
  const opgraft_op *op;
  const opgraft_check_options *options;
  const opgraft_check_sink *sink;  // told of forks
  int32_t call_begin;
  int32_t call_end;
  int32_t probe_begin;  // of the first call
  uint32_t disabled;    // bits of probes
  // Shrinking: the steps so far, then every further one is tried from `step`.
  bool is_shrinking;
  int32_t path[OG_SHRINKS_MAX];
  int32_t path_count;
  int32_t step;
  int32_t probe;  // the only one besides base
} og_job;

typedef struct og_child {
  int64_t pid;
  int32_t pipe;
} og_child;

og_status og_child_start(const og_job *job, og_child *out_child,
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

// Arms the clock of one run; the child reports a crash by SIGPROF when it runs
// out. Names the operator that runs, for the handler.
void og_child_watch(const opgraft_op *op);

// Draws call `index` of an operator, as child and parent number them.
bool og_call_draw(const opgraft_op *op, const opgraft_check_options *options,
                  int32_t index, og_sample *out, opgraft_error *error);

#endif  // OG_CHECK_CHILD_H
