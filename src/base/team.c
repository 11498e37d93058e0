// SPDX-License-Identifier: Apache-2.0
// A team of threads that shares out loops.
//
// Invariants:
// - `gate` is {turn: 32 bits, open: 1 bit, joined: 31 bits}. A worker may read
//   the loop's fields only between joining and leaving the gate, and the
//   caller changes them only while the gate is closed and nobody is joined.
//   So a worker that wakes late finds a closed gate, and nobody waits for it.
// - A worker sleeps only after it has counted itself in `sleepers` and then
//   seen no new turn; the caller opens the gate before it reads `sleepers`.
// - `busy` is set by the one caller whose loop the team runs.

#define _GNU_SOURCE
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/memory.h"

enum {
  THREADS_MAX = 1024,
  SHARES_PER_THREAD = 4,  // so that an early finisher finds more to do
  SPIN_ROUNDS = 2000
};

static const uint64_t open_bit = 1ull << 31;
static const uint64_t joined_mask = (1ull << 31) - 1;

typedef struct worker {
  struct og_team *team;
  pthread_t thread;
  int32_t index;
} worker;

struct og_team {
  int32_t threads;
  int32_t started;      // threads that exist, the caller not counted
  uint32_t generation;  // of the process that started them
  worker *workers;      // threads - 1 of them
  atomic_uint_fast64_t gate;
  atomic_uint busy;
  atomic_int sleepers;
  atomic_int waiting;  // the caller sleeps until the last one leaves
  atomic_int stopping;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_cond_t left;
  // The loop.
  og_task_fn fn;
  void *state;
  int64_t total;
  int64_t share_count;
  atomic_int_fast64_t next_share;
};

// Counts forks, so that a child knows that its team has no threads.
static atomic_uint fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

// The team whose share this thread is running, and as which worker.
static _Thread_local const og_team *current_team;
static _Thread_local int32_t current_worker;

static void count_fork(void) { atomic_fetch_add(&fork_generation, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static int32_t processor_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int32_t)online : 1;
}

// --- A loop ------------------------------------------------------------------

static int64_t share_start(int64_t total, int64_t count, int64_t i) {
  // total / count * i, without overflow for any 64-bit total.
  return total / count * i + (i < total % count ? i : total % count);
}

static void run_shares(og_team *team, int32_t index) {
  const og_team *outer_team = current_team;
  const int32_t outer_worker = current_worker;
  current_team = team;
  current_worker = index;
  for (;;) {
    const int64_t i = atomic_fetch_add(&team->next_share, 1);
    if (i >= team->share_count) break;
    team->fn(team->state, share_start(team->total, team->share_count, i),
             share_start(team->total, team->share_count, i + 1), index);
  }
  current_team = outer_team;
  current_worker = outer_worker;
}

// --- Workers -----------------------------------------------------------------

static bool has_news(og_team *team, uint32_t seen) {
  return (uint32_t)(atomic_load(&team->gate) >> 32) != seen ||
         atomic_load(&team->stopping);
}

static void wait_for_news(og_team *team, uint32_t seen) {
  for (int i = 0; i < SPIN_ROUNDS; ++i) {
    if (has_news(team, seen)) return;
    relax();
  }
  pthread_mutex_lock(&team->lock);
  atomic_fetch_add(&team->sleepers, 1);
  while (!has_news(team, seen)) pthread_cond_wait(&team->wake, &team->lock);
  atomic_fetch_sub(&team->sleepers, 1);
  pthread_mutex_unlock(&team->lock);
}

static void leave(og_team *team) {
  const uint64_t before = atomic_fetch_sub(&team->gate, 1);
  if ((before & joined_mask) != 1 || (before & open_bit)) return;
  if (!atomic_load(&team->waiting)) return;
  pthread_mutex_lock(&team->lock);
  pthread_cond_signal(&team->left);
  pthread_mutex_unlock(&team->lock);
}

static void *work(void *argument) {
  worker *self = argument;
  og_team *team = self->team;
  uint32_t seen = 0;
  while (!atomic_load(&team->stopping)) {
    uint_fast64_t gate = atomic_load(&team->gate);
    if ((uint32_t)(gate >> 32) == seen) {
      wait_for_news(team, seen);
      continue;
    }
    if (!(gate & open_bit)) {
      seen = (uint32_t)(gate >> 32);
      continue;
    }
    if (!atomic_compare_exchange_weak(&team->gate, &gate, gate + 1)) continue;
    seen = (uint32_t)(gate >> 32);
    run_shares(team, self->index);
    leave(team);
  }
  return NULL;
}

// --- Start and stop ----------------------------------------------------------

static void reset_sync(og_team *team) {
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wake, NULL);
  pthread_cond_init(&team->left, NULL);
  atomic_store(&team->gate, 0);
  atomic_store(&team->sleepers, 0);
  atomic_store(&team->waiting, 0);
  atomic_store(&team->stopping, 0);
}

static void start_threads(og_team *team) {
  reset_sync(team);
  team->generation = atomic_load(&fork_generation);
  team->started = 0;
  for (int32_t i = 0; i < team->threads - 1; ++i) {
    worker *w = &team->workers[i];
    *w = (worker){.team = team, .index = i + 1};
    if (pthread_create(&w->thread, NULL, work, w) != 0) return;
    ++team->started;
  }
}

static bool has_threads(const og_team *team) {
  return team->started > 0 && team->generation == atomic_load(&fork_generation);
}

og_status og_team_create(int32_t threads, og_team **out_team,
                         opgraft_error *error) {
  *out_team = NULL;
  if (threads < 0 || threads > THREADS_MAX)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "a team of %d threads; ask for 0 (one per processor) "
                        "to %d",
                        (int)threads, (int)THREADS_MAX);
  pthread_once(&fork_once, watch_forks);
  if (threads == 0) threads = processor_count();
  if (threads > THREADS_MAX) threads = THREADS_MAX;
  og_team *team = og_alloc_zeroed(1, sizeof *team);
  worker *workers = og_alloc_zeroed((size_t)threads, sizeof *workers);
  if (team == NULL || workers == NULL) {
    og_free(team);
    og_free(workers);
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "not enough memory for a team of %d threads",
                        (int)threads);
  }
  team->threads = threads;
  team->workers = workers;
  // Never a real generation: the first loop starts the threads.
  team->generation = atomic_load(&fork_generation) - 1;
  *out_team = team;
  return OG_OK;
}

void og_team_destroy(og_team *team) {
  if (team == NULL) return;
  if (has_threads(team)) {
    pthread_mutex_lock(&team->lock);
    atomic_store(&team->stopping, 1);
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (int32_t i = 0; i < team->started; ++i)
      pthread_join(team->workers[i].thread, NULL);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->wake);
    pthread_cond_destroy(&team->left);
  }
  og_free(team->workers);
  og_free(team);
}

int32_t og_team_threads(const og_team *team) { return team->threads; }

// --- The caller's side -------------------------------------------------------

static void open_gate(og_team *team) {
  const uint64_t turn = (atomic_load(&team->gate) >> 32) + 1;
  // Turn 0 is what a worker that has seen nothing has seen.
  const uint64_t next = (uint32_t)turn == 0 ? 1 : (uint32_t)turn;
  atomic_store(&team->gate, next << 32 | open_bit);
  if (atomic_load(&team->sleepers) == 0) return;
  pthread_mutex_lock(&team->lock);
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
}

static void close_gate(og_team *team) {
  uint64_t gate = atomic_fetch_and(&team->gate, ~open_bit) & joined_mask;
  for (int i = 0; gate != 0 && i < SPIN_ROUNDS; ++i) {
    relax();
    gate = atomic_load(&team->gate) & joined_mask;
  }
  if (gate == 0) return;
  pthread_mutex_lock(&team->lock);
  atomic_store(&team->waiting, 1);
  while ((atomic_load(&team->gate) & joined_mask) != 0)
    pthread_cond_wait(&team->left, &team->lock);
  atomic_store(&team->waiting, 0);
  pthread_mutex_unlock(&team->lock);
}

// `busy` holds the taker's generation, so that a child of fork() that was made
// while a loop was running here can tell that nobody holds the team.
static bool take_team(og_team *team) {
  const unsigned now = atomic_load(&fork_generation) << 1 | 1u;
  unsigned found = 0;
  if (atomic_compare_exchange_strong(&team->busy, &found, now)) return true;
  return found != now &&
         atomic_compare_exchange_strong(&team->busy, &found, now);
}

void og_team_run(og_team *team, int64_t total, int64_t grain, og_task_fn fn,
                 void *state) {
  if (total <= 0) return;
  if (grain < 1) grain = 1;
  int64_t count = total / grain;
  const int64_t most = (int64_t)team->threads * SHARES_PER_THREAD;
  if (count > most) count = most;
  if (current_team == team) {
    fn(state, 0, total, current_worker);
    return;
  }
  if (count <= 1 || team->threads == 1 || !take_team(team)) {
    fn(state, 0, total, 0);
    return;
  }
  if (team->generation != atomic_load(&fork_generation)) start_threads(team);
  team->fn = fn;
  team->state = state;
  team->total = total;
  team->share_count = count;
  atomic_store(&team->next_share, 0);
  open_gate(team);
  run_shares(team, 0);
  close_gate(team);
  atomic_store(&team->busy, 0);
}
