// SPDX-License-Identifier: Apache-2.0
// Streams: each has a thread that does its work in order, with random delays.
//
// Invariants: a command leaves the queue when it is done; a wait stands at the
// head of its queue until the record that it waits for is done, which was given
// before it, so no two streams wait for each other. What is done is released by
// the host's threads, which allocated it: memory that another thread frees is
// dear to get again.

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "npu_sim.h"

enum { NS_PER_SECOND = 1000000000, POLL_NS = 100000 };

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

bool npu_wait(npu_sim *sim, int64_t timeout_ns, bool (*is_done)(void *user),
              void *user) {
  const int64_t most = INT64_MAX - now_ns();
  const int64_t end =
      timeout_ns < 0 ? -1 : now_ns() + (timeout_ns < most ? timeout_ns : most);
  while (!is_done(user)) {
    if (end < 0) {
      pthread_cond_wait(&sim->changed, &sim->lock);
      continue;
    }
    if (now_ns() >= end) return false;
    const struct timespec until = {(time_t)(end / NS_PER_SECOND),
                                   (long)(end % NS_PER_SECOND)};
    pthread_cond_timedwait(&sim->changed, &sim->lock, &until);
  }
  return true;
}

// --- The thread --------------------------------------------------------------

// xorshift64: from a seed of the stream's own, so that runs repeat.
static uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void failure_note(npu_stream *stream, const npu_work *work,
                         og_status status, const char *reason) {
  if (stream->failed != OG_OK) return;
  stream->failed = status;
  stream->failed_work = work->number;
  snprintf(stream->failure, sizeof stream->failure,
           "work %llu of stream %d failed (code %d): %s: %s",
           (unsigned long long)work->number, (int)stream->number, (int)status,
           npu_work_name(work), reason[0] != '\0' ? reason : "no reason given");
}

// Without the lock but for its begin and end.
static void command_do(npu_stream *stream, npu_command *command) {
  npu_sim *sim = stream->sim;
  npu_work *work = &command->work;
  const uint64_t wait_us =
      sim->delay_us > 0 ? random_next(&stream->random) % (sim->delay_us + 1)
                        : 0;
  const bool is_exec = work->kind == NPU_EXEC;
  const bool has_works = is_exec && npu_exec_has_works(work);
  if (has_works) npu_exec_apply(work);
  pthread_mutex_unlock(&sim->lock);
  if (is_exec && !has_works) npu_exec_apply(work);
  char own[256] = "";
  const char *reason = own;
  if (wait_us > 0) usleep((useconds_t)wait_us);
  og_status status;
  if (is_exec)
    status = npu_exec_run(sim, work->exec, own, sizeof own);
  else
    status = npu_work_run(sim, work);
  if (work->kind == NPU_LAUNCH) reason = work->call->reason;
  pthread_mutex_lock(&sim->lock);
  if (status != OG_OK) failure_note(stream, work, status, reason);
}

static void command_end(npu_stream *stream, npu_command *command) {
  npu_work *work = &command->work;
  if (work->kind == NPU_RECORD) {
    work->record->is_done = true;
    work->record->done_ns = now_ns();
  }
  if (work->kind == NPU_EXEC) npu_exec_done(work->exec);
  stream->first = command->next;
  if (stream->first == NULL) stream->last = NULL;
  command->next = stream->done;
  stream->done = command;
  ++stream->done_count;
  pthread_cond_broadcast(&stream->sim->changed);
}

static bool is_ready(const npu_work *work) {
  if (work->kind == NPU_WAIT) return work->record->is_done;
  return work->kind != NPU_EXEC || npu_exec_is_next(work->exec, work->ticket);
}

// The next work mostly comes soon, and whoever gives it does not have to wake a
// thread that still looks. With the lock, but not meanwhile.
static void queue_wait(npu_stream *stream) {
  npu_sim *sim = stream->sim;
  const uint64_t given = stream->given_count;
  pthread_mutex_unlock(&sim->lock);
  const int64_t end = now_ns() + POLL_NS;
  while (atomic_load(&stream->given_count) == given && now_ns() < end)
    sched_yield();
  pthread_mutex_lock(&sim->lock);
  while (stream->first == NULL && !stream->is_closing)
    pthread_cond_wait(&stream->given, &sim->lock);
}

static void *stream_main(void *argument) {
  npu_stream *stream = argument;
  npu_sim *sim = stream->sim;
  pthread_mutex_lock(&sim->lock);
  while (!stream->is_closing || stream->first != NULL) {
    npu_command *command = stream->first;
    if (command == NULL) {
      queue_wait(stream);
      continue;
    }
    if (!is_ready(&command->work)) {
      pthread_cond_wait(&sim->changed, &sim->lock);
      continue;
    }
    command_do(stream, command);
    command_end(stream, command);
  }
  pthread_mutex_unlock(&sim->lock);
  return NULL;
}

// --- From the host -----------------------------------------------------------

// One that was done, released; NULL for none. With the lock.
static npu_command *done_take(npu_stream *stream) {
  npu_command *command = stream->done;
  if (command == NULL) return NULL;
  stream->done = command->next;
  npu_work_release(&command->work);
  return command;
}

static void done_free(npu_stream *stream) {
  npu_command *command;
  while ((command = done_take(stream)) != NULL) free(command);
}

// So that there are no more of them than there were works in the queue at once.
static npu_command *command_make(npu_stream *stream) {
  free(done_take(stream));
  npu_command *command = done_take(stream);
  return command != NULL ? command : malloc(sizeof *command);
}

og_status npu_stream_give(npu_stream *stream, npu_work *work,
                          og_device_error *error) {
  npu_sim *sim = stream->sim;
  og_status status = npu_work_check(sim, work, error);
  if (status == OG_OK && stream->graph != NULL)
    return npu_graph_add(stream, work, error);
  npu_command *command = status == OG_OK ? command_make(stream) : NULL;
  if (status == OG_OK && command == NULL)
    status = npu_fail(error, OG_MEMORY, "no memory for work of a stream");
  if (status != OG_OK) {
    npu_work_release(work);
    return status;
  }
  work->number = ++sim->work_count;
  if (sim->race != NULL) {
    npu_race_give(sim->race, stream->context);
    npu_work_race(sim, work, stream->context, stream->number);
  }
  if (work->kind == NPU_RECORD) {
    work->record->stream = stream->number;
    work->record->work = work->number;
  }
  if (sim->trace != NULL && work->kind != NPU_EXEC) {
    const npu_row row = {.stream = stream->number};
    npu_trace_work(sim->trace, &row, work, &stream->simulated_ns);
  }
  *command = (npu_command){.work = *work};
  if (stream->last != NULL)
    stream->last->next = command;
  else
    stream->first = command;
  stream->last = command;
  ++stream->given_count;
  pthread_cond_signal(&stream->given);
  return OG_OK;
}

og_status npu_stream_create(void *state, int32_t device, void **out_stream,
                            og_device_error *error) {
  npu_sim *sim = state;
  (void)device;
  npu_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return npu_fail(error, OG_MEMORY, "no memory");
  npu_lock(sim);
  *stream = (npu_stream){.sim = sim, .number = ++sim->stream_count};
  stream->random = (sim->seed + 1) * 0x9e3779b97f4a7c15u +
                   (uint64_t)stream->number * 0xbf58476d1ce4e5b9u;
  stream->random |= 1;
  pthread_cond_init(&stream->given, NULL);
  stream->context = sim->race != NULL ? npu_race_begin(sim->race) : 0;
  int failed = stream->context < 0;
  if (!failed)
    failed = pthread_create(&stream->thread, NULL, stream_main, stream);
  if (!failed) {
    stream->next = sim->streams;
    sim->streams = stream;
  } else if (sim->race != NULL && stream->context > 0) {
    npu_race_end(sim->race, stream->context);
  }
  npu_unlock(sim);
  if (!failed) {
    *out_stream = stream;
    return OG_OK;
  }
  pthread_cond_destroy(&stream->given);
  free(stream);
  return npu_fail(error, OG_MEMORY, "no thread for another stream");
}

og_status npu_stream_destroy(void *state, void *given, og_device_error *error) {
  npu_sim *sim = state;
  npu_stream *stream = given;
  npu_lock(sim);
  npu_stream **link = &sim->streams;
  while (*link != NULL && *link != stream) link = &(*link)->next;
  const bool is_there = *link != NULL;
  if (is_there && stream->graph == NULL) {
    *link = stream->next;
    stream->is_closing = true;
    pthread_cond_signal(&stream->given);
  }
  const bool is_capturing = is_there && stream->graph != NULL;
  npu_unlock(sim);
  if (!is_there)
    return npu_fail(error, OG_INVALID, "%p is no stream, or destroyed", given);
  if (is_capturing)
    return npu_fail(error, OG_INVALID,
                    "stream %d captures; end the capture first",
                    (int)stream->number);
  pthread_join(stream->thread, NULL);
  npu_lock(sim);
  done_free(stream);
  if (stream->failed != OG_OK)  // nobody can ask the stream any more
    npu_report_add(sim, stream->failed, stream->failure);
  if (sim->race != NULL) npu_race_end(sim->race, stream->context);
  npu_trace_host(sim->trace, stream->simulated_ns);
  npu_unlock(sim);
  pthread_cond_destroy(&stream->given);
  free(stream);
  return OG_OK;
}

typedef struct stream_goal {
  const npu_stream *stream;
  uint64_t count;
} stream_goal;

static bool goal_is_reached(void *user) {
  const stream_goal *goal = user;
  return goal->stream->done_count >= goal->count;
}

og_status npu_stream_failure(npu_stream *stream, uint64_t work,
                             og_device_error *error) {
  const og_status status = stream->failed;
  if (status == OG_OK || stream->failed_work > work) return OG_OK;
  stream->failed = OG_OK;
  return npu_fail(error, status, "%s", stream->failure);
}

og_status npu_stream_synchronize(void *state, void *given, int64_t timeout_ns,
                                 og_device_error *error) {
  npu_sim *sim = state;
  npu_stream *stream = given;
  og_status status = OG_OK;
  npu_lock(sim);
  npu_clock clock;
  stream_goal goal = {stream, stream->given_count};
  const int64_t simulated_ns = stream->simulated_ns;
  if (sim->race != NULL) clock = *npu_race_clock(sim->race, stream->context);
  done_free(stream);
  if (stream->graph != NULL) {
    status = npu_fail(error, OG_INVALID,
                      "stream %d captures, so nothing runs on it; end the "
                      "capture first",
                      (int)stream->number);
  } else if (!npu_wait(sim, timeout_ns, goal_is_reached, &goal)) {
    status = npu_fail(error, OG_BUSY, "stream %d still has %llu works to do",
                      (int)stream->number,
                      (unsigned long long)(goal.count - stream->done_count));
  } else {
    if (sim->race != NULL) {
      npu_race_order(sim->race, NPU_HOST, &clock);
      npu_race_forget(sim->race, NULL);
    }
    if (timeout_ns != 0) npu_trace_host(sim->trace, simulated_ns);
    status = npu_stream_failure(stream, UINT64_MAX, error);
  }
  npu_unlock(sim);
  return status;
}
