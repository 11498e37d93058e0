// SPDX-License-Identifier: Apache-2.0
// Streams: each has a thread that does its work in order, with random delays.
//
// Invariants: a wait stands at the head of its queue until the record that it
// waits for is done, which was given before it, so no two streams wait for each
// other. A thread that works takes no lock: who waits for what it does counts
// itself in `waiter_count` before it looks, and the thread looks there behind
// each work, so one of the two sees the other.

#define _GNU_SOURCE
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

// What is waited for mostly comes soon, and nobody has to wake a thread that
// still looks. For a while, no longer than `end_ns`, which is negative for
// none.
static bool poll_for(bool (*is_done)(void *user), void *user, int64_t end_ns) {
  bool is_over = is_done(user);
  if (is_over) return true;
  const int64_t now = now_ns();
  const int64_t last_ns =
      end_ns < 0 || end_ns > now + POLL_NS ? now + POLL_NS : end_ns;
  while (!is_over && now_ns() < last_ns) {
    sched_yield();
    is_over = is_done(user);
  }
  return is_over;
}

bool npu_wait(npu_sim *sim, int64_t timeout_ns, bool (*is_done)(void *user),
              void *user) {
  const int64_t most = INT64_MAX - now_ns();
  const int64_t end =
      timeout_ns < 0 ? -1 : now_ns() + (timeout_ns < most ? timeout_ns : most);
  pthread_mutex_unlock(&sim->lock);
  bool is_over = poll_for(is_done, user, end);
  pthread_mutex_lock(&sim->lock);
  if (is_over) return true;
  atomic_fetch_add(&sim->waiter_count, 1);
  while (!(is_over = is_done(user)) && (end < 0 || now_ns() < end)) {
    const struct timespec until = {(time_t)(end / NS_PER_SECOND),
                                   (long)(end % NS_PER_SECOND)};
    if (end < 0)
      pthread_cond_wait(&sim->changed, &sim->lock);
    else
      pthread_cond_timedwait(&sim->changed, &sim->lock, &until);
  }
  atomic_fetch_sub(&sim->waiter_count, 1);
  return is_over;
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
  pthread_mutex_lock(&stream->sim->lock);
  if (stream->failed == OG_OK) {
    stream->failed = status;
    stream->failed_work = work->number;
    snprintf(stream->failure, sizeof stream->failure,
             "work %llu of stream %d failed (code %d): %s: %s",
             (unsigned long long)work->number, (int)stream->number, (int)status,
             npu_work_name(work),
             reason[0] != '\0' ? reason : "no reason given");
  }
  pthread_mutex_unlock(&stream->sim->lock);
}

static og_status exec_do(npu_sim *sim, const npu_work *work, char *reason,
                         size_t size) {
  const bool has_works = npu_exec_has_works(work);
  if (has_works) pthread_mutex_lock(&sim->lock);
  npu_exec_apply(work);
  if (has_works) pthread_mutex_unlock(&sim->lock);
  return npu_exec_run(sim, work->exec, reason, size);
}

static void work_do(npu_stream *stream, const npu_work *work) {
  npu_sim *sim = stream->sim;
  char own[256] = "";
  if (sim->delay_us > 0)
    usleep((useconds_t)(random_next(&stream->random) % (sim->delay_us + 1)));
  const og_status status = work->kind == NPU_EXEC
                               ? exec_do(sim, work, own, sizeof own)
                               : npu_work_run(sim, work);
  if (status != OG_OK)
    failure_note(stream, work, status,
                 work->kind == NPU_LAUNCH ? work->call->reason : own);
}

static void work_end(npu_stream *stream, const npu_work *work) {
  npu_sim *sim = stream->sim;
  if (work->kind == NPU_RECORD) {
    work->record->done_ns = now_ns();
    atomic_store(&work->record->is_done, true);
  }
  if (work->kind == NPU_EXEC) npu_exec_done(work->exec);
  npu_queue_done(&stream->queue);
  if (atomic_load(&sim->waiter_count) == 0) return;
  pthread_mutex_lock(&sim->lock);
  pthread_cond_broadcast(&sim->changed);
  pthread_mutex_unlock(&sim->lock);
}

static bool is_ready(void *user) {
  const npu_work *work = user;
  if (work->kind == NPU_WAIT) return atomic_load(&work->record->is_done);
  return work->kind != NPU_EXEC || npu_exec_is_next(work->exec, work->ticket);
}

static void ready_wait(npu_sim *sim, npu_work *work) {
  if (is_ready(work)) return;
  pthread_mutex_lock(&sim->lock);
  npu_wait(sim, -1, is_ready, work);
  pthread_mutex_unlock(&sim->lock);
}

static bool has_command(void *user) {
  const npu_stream *stream = user;
  return npu_queue_first(&stream->queue) != NULL;
}

// Until there is work, which may still have to be shown; false where there
// never will be.
static bool work_wait(npu_stream *stream) {
  npu_sim *sim = stream->sim;
  const npu_queue *queue = &stream->queue;
  pthread_mutex_lock(&sim->lock);
  stream->is_asleep = true;
  while (queue->given_count == atomic_load(&queue->done_count) &&
         !stream->is_closing)
    pthread_cond_wait(&stream->given, &sim->lock);
  stream->is_asleep = false;
  const bool has_work = queue->given_count != atomic_load(&queue->done_count);
  pthread_mutex_unlock(&sim->lock);
  return has_work;
}

static void *stream_main(void *argument) {
  npu_stream *stream = argument;
  do {
    while (poll_for(has_command, stream, -1)) {
      npu_work *work = &npu_queue_first(&stream->queue)->work;
      ready_wait(stream->sim, work);
      work_do(stream, work);
      work_end(stream, work);
    }
  } while (work_wait(stream));
  return NULL;
}

// --- From the host -----------------------------------------------------------

og_status npu_stream_give(npu_stream *stream, npu_work *work,
                          og_device_error *error) {
  npu_sim *sim = stream->sim;
  if (stream->graph != NULL) return npu_graph_add(stream, work, error);
  npu_command *command = npu_queue_make(&stream->queue);
  if (command == NULL) {
    npu_work_release(work);
    return npu_fail(error, OG_MEMORY, "no memory for work of a stream");
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
  command->work = *work;
  sim->given = command;
  sim->given_behind = npu_queue_add(&stream->queue, command);
  if (stream->is_asleep) pthread_cond_signal(&stream->given);
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
  int failed = !npu_queue_begin(&stream->queue);
  pthread_cond_init(&stream->given, NULL);
  stream->context = sim->race != NULL ? npu_race_begin(sim->race) : 0;
  failed = failed || stream->context < 0;
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
  npu_queue_end(&stream->queue);
  pthread_cond_destroy(&stream->given);
  free(stream);
  return npu_fail(error, OG_MEMORY,
                  "no memory or no thread for another stream");
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
  npu_queue_end(&stream->queue);
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
  uint64_t left;  // when it was last looked at
} stream_goal;

static bool goal_is_reached(void *user) {
  stream_goal *goal = user;
  const uint64_t done = atomic_load(&goal->stream->queue.done_count);
  goal->left = done < goal->count ? goal->count - done : 0;
  return goal->left == 0;
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
  stream_goal goal = {stream, stream->queue.given_count, 0};
  const int64_t simulated_ns = stream->simulated_ns;
  if (sim->race != NULL) clock = *npu_race_clock(sim->race, stream->context);
  npu_queue_trim(&stream->queue);
  if (stream->graph != NULL) {
    status = npu_fail(error, OG_INVALID,
                      "stream %d captures, so nothing runs on it; end the "
                      "capture first",
                      (int)stream->number);
  } else if (!npu_wait(sim, timeout_ns, goal_is_reached, &goal)) {
    status = npu_fail(error, OG_BUSY, "stream %d still has %llu works to do",
                      (int)stream->number, (unsigned long long)goal.left);
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
