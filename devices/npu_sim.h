// SPDX-License-Identifier: Apache-2.0
// The simulated NPU's parts: streams that do work (npu_stream.c), what work is
// (npu_work.c), captures (npu_graph.c), simulated time (npu_trace.c), and the
// driver's table (npu_sim.c).

#ifndef NPU_SIM_H
#define NPU_SIM_H

#include <pthread.h>
#include <stdatomic.h>

#include "npu_call.h"
#include "npu_memory.h"
#include "npu_queue.h"
#include "npu_race.h"

typedef struct npu_graph npu_graph;
typedef struct npu_stream npu_stream;
typedef struct npu_trace npu_trace;

// What cannot be returned, until the lock is released.
typedef struct npu_report {
  struct npu_report *next;
  og_status code;
  char text[768];
} npu_report;

typedef struct npu_sim {
  const og_device_host *host;
  npu_memory memory;
  npu_race *race;    // NULL: it is off
  npu_trace *trace;  // NULL: it is off
  uint64_t seed;
  uint64_t delay_us;        // most, before each work; 0: none
  atomic_int waiter_count;  // threads that wait for `changed`
  // What follows is written for each work.
  char line_between[NPU_LINE_BYTES];
  pthread_mutex_t lock;    // of all that changes
  pthread_cond_t changed;  // some work was done, and somebody waits
  npu_stream *streams;
  npu_report *reports;
  // Work that was given, which the stream's thread sees when the lock is
  // released: it is then the next one of `given_behind`, which is NULL for
  // none.
  npu_command *given, *given_behind;
  int32_t stream_count;  // ever made: numbers for messages
  uint64_t work_count;   // ever given
} npu_sim;

void npu_lock(npu_sim *sim);
// Releases the lock, then shows the stream what it was given, which is one
// work at most, and hands the reports on.
void npu_unlock(npu_sim *sim);
void npu_report_add(npu_sim *sim, og_status code, const char *text);
og_status npu_fail(og_device_error *error, og_status code, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

// --- Work --------------------------------------------------------------------

// One record of an event. Waits and the event hold it.
struct npu_record {
  int32_t references;
  atomic_bool is_done;
  int64_t done_ns;   // written before
  npu_clock clock;   // of the stream, where the detector is on
  int32_t stream;    // its number: what failed there before is the record's
  uint64_t work;     // of the record
  uint64_t capture;  // the id of the graph that it is a node of; 0: none
  int32_t node;
  uint64_t line;  // of the trace; of a node: its latest replay's
  int64_t simulated_ns;
};

// An access of work to memory.
typedef struct npu_touch {
  npu_range range;
  bool is_write;
  bool is_device;
} npu_touch;

// Calls fn for each access until one fails. A launch has operands.
og_status npu_work_touches(npu_sim *sim, const npu_work *work,
                           og_status (*fn)(void *user, const npu_touch *touch),
                           void *user);
// What a launch, or other work, does at addresses that are no live memory, or
// not the device's.
og_status npu_launch_check(npu_sim *sim, const og_launch *launch,
                           og_device_error *error);
og_status npu_work_check(npu_sim *sim, const npu_work *work,
                         og_device_error *error);
// Tells the detector of all accesses. `context` does them, `stream` names it.
void npu_work_race(npu_sim *sim, const npu_work *work, int32_t context,
                   int32_t stream);
void npu_work_retain(npu_work *work);
void npu_work_release(npu_work *work);
// Without the lock. A kernel's reason is in its call.
og_status npu_work_run(npu_sim *sim, const npu_work *work);
const char *npu_kind_name(npu_kind kind);
const char *npu_work_name(const npu_work *work);
void npu_record_release(npu_record *record);

// --- Streams -----------------------------------------------------------------

struct npu_stream {
  npu_sim *sim;
  npu_stream *next;
  pthread_t thread;
  pthread_cond_t given;
  int32_t number;
  int32_t context;  // of the detector
  bool is_closing;
  bool is_asleep;        // the thread waits for `given`
  npu_graph *graph;      // what captures; NULL
  int64_t simulated_ns;  // the end of its last work
  npu_queue queue;
  uint64_t random;
  og_status failed;  // of work, until the host has heard of it
  uint64_t failed_work;
  char failure[384];
};

og_status npu_stream_create(void *state, int32_t device, void **out_stream,
                            og_device_error *error);
og_status npu_stream_destroy(void *state, void *stream, og_device_error *error);
og_status npu_stream_synchronize(void *state, void *stream, int64_t timeout_ns,
                                 og_device_error *error);
// What the stream's work up to this number failed with, once. With the lock.
og_status npu_stream_failure(npu_stream *stream, uint64_t work,
                             og_device_error *error);
// Gives work, which was checked, to the stream, or to its capture. What the
// work holds is taken, also where it fails. With the lock, and once.
og_status npu_stream_give(npu_stream *stream, npu_work *work,
                          og_device_error *error);
// Waits until `is_done`, which may change without the lock, or the time is
// over: then false. With the lock.
bool npu_wait(npu_sim *sim, int64_t timeout_ns, bool (*is_done)(void *user),
              void *user);

// --- Captures ----------------------------------------------------------------

// Adds work to the stream's capture. With the lock.
og_status npu_graph_add(npu_stream *stream, npu_work *work,
                        og_device_error *error);
// An event that was recorded in a capture: the stream joins it. With the lock.
og_status npu_graph_wait(npu_stream *stream, npu_record *record,
                         og_device_error *error);
og_status npu_capture_begin(void *state, void *stream, og_device_error *error);
og_status npu_capture_end(void *state, void *stream, void **out_graph,
                          og_device_error *error);
og_status npu_graph_destroy(void *state, void *graph, og_device_error *error);
og_status npu_graph_instantiate(void *state, void *graph, void **out_exec,
                                og_device_error *error);
og_status npu_exec_destroy(void *state, void *exec, og_device_error *error);
og_status npu_exec_update(void *state, void *exec, int32_t index,
                          const og_launch *launch, og_device_error *error);
og_status npu_exec_move(void *state, void *exec, const og_slot *slots,
                        int32_t count, void *address, og_device_error *error);
og_status npu_exec_launch(void *state, void *exec, void *stream,
                          og_device_error *error);
// Whether nodes were updated since the launch before; else tensors moved alone.
bool npu_exec_has_works(const npu_work *launch);
// What was updated and moved since then, done by the stream: with the lock
// where nodes were updated.
void npu_exec_apply(const npu_work *launch);
void npu_updates_release(npu_update *updates);
// Does all nodes, on the calling stream's thread, without the lock.
og_status npu_exec_run(npu_sim *sim, npu_exec *exec, char *reason, size_t size);
// Whether the launches before this one are done. Without the lock.
bool npu_exec_is_next(const npu_exec *exec, uint64_t ticket);
// The launch that npu_exec_launch gave is done; then the executable may end.
// Without the lock.
void npu_exec_done(npu_exec *exec);

// --- Simulated time ----------------------------------------------------------

// What does one work after the other: a stream, or a lane of its replays.
typedef struct npu_row {
  int32_t stream;   // its number
  int32_t lane;     // of the replay; 0: the stream itself
  uint64_t replay;  // the number of the exec_launch; 0: none
} npu_row;

// The file is this device's until the trace is closed: OG_INVALID where another
// one writes it, OG_IO where it cannot be opened.
og_status npu_trace_open(const char *path, size_t length, npu_trace **out_trace,
                         og_device_error *error);
// Reports lines that could not be written. NULL is closed.
void npu_trace_close(npu_trace *trace, const og_device_host *host);
// Writes the line of a work that starts at *end_ns or later, where the work of
// its row before ends; sets it to its own end. With the lock.
void npu_trace_work(npu_trace *trace, const npu_row *row, const npu_work *work,
                    int64_t *end_ns);
// The host has waited until then. NULL is off. With the lock.
void npu_trace_host(npu_trace *trace, int64_t end_ns);

#endif  // NPU_SIM_H
