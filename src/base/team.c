// SPDX-License-Identifier: Apache-2.0
// A team of threads that shares out loops.
//
// Invariants:
// - `gate` is {turn: 32 bits, open: 1 bit, joined: 31 bits}. A worker may read
//   the loop's fields only between joining and leaving the gate, and the
//   caller changes them only while the gate is closed and nobody is joined.
//   So a worker that wakes late finds a closed gate, and nobody waits for it.
// - A worker sleeps only after it has counted itself in `sleepers` and then
//   seen no new turn; the caller opens the gate before it reads `sleepers`. Who
//   wakes the sleepers sets `sleepers` to 0, under the lock.
// - `busy` is set by the one caller whose loop the team runs.
//
// To wake the workers takes their caller longer than a short loop does: 15 us
// where an interrupt leaves a virtual machine, and they come another 30 us
// later. Both are measured. Hence a run of loops that is known to be over by
// then wakes nobody, until such runs follow one another so closely that workers
// would stay awake.
//
// Other processes may want the same processors. A caller waits for every share
// that was begun, so a worker that the scheduler stops in the middle of one
// stops the loop for a time slice. Hence:
// - Shares shrink towards the end of a loop: what a late worker holds is small.
// - A worker that has run for TURN_NS yields, between two shares and while it
//   has not joined: whoever waits for its processor runs then, and not in the
//   middle of a share.
// - A worker on the processor of its caller moves away: there it would only
//   take the caller's time.

#define _GNU_SOURCE
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/float_env.h"
#include "base/memory.h"

enum {
  THREADS_MAX = 1024,
  UNITS_MOST = 1 << 30,
  SHARE_DIVISOR = 2,  // a share is (work left) / threads / SHARE_DIVISOR
  SPIN_ROUNDS = 2000,
  TURN_NS = 1000000,   // less than a scheduler's slice
  BESIDE_NS = 300000,  // on the caller's processor until a worker moves
  // Until it is measured: what waking the workers takes the caller, and after
  // what time they come. More than the last is not believed of either.
  WAKE_NS = 5000,
  COME_NS = 15000,
  WAKE_MOST_NS = 100000,
  CLOSE_NS = 10000,  // between two loops without a pause
};

static const uint64_t open_bit = 1ull << 31;
static const uint64_t joined_mask = (1ull << 31) - 1;

typedef struct worker {
  struct og_team *team;
  pthread_t thread;
  int32_t index;
  int64_t rested_ns;  // when it last slept or yielded
  int64_t beside_ns;  // when it was first seen beside its caller; 0: it is not
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
  int64_t woken_ns;  // when the sleepers were last woken, under the lock
  atomic_int_fast64_t wake_ns, come_ns;  // what that takes, about
  // Of short loops that woke nobody, one right after the other: the caller's.
  int64_t alone_ns, alone_until_ns;
  // The loop.
  og_task_fn fn;
  void *state;
  int64_t total;
  int64_t units, unit;  // shares are so many items, or times as many
  int32_t caller_cpu;
  og_float_env float_env;  // the caller's
  // Units that were taken: from the front, and, times 2^32, from the end.
  atomic_uint_fast64_t taken;
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

// The next share; false where none is left. Every second thread takes from the
// end: one that finds the same items in loop after loop finds their data in its
// caches. The last items may be up to a unit longer than their turn.
static bool share_take(og_team *team, int32_t index, int64_t *out_begin,
                       int64_t *out_end) {
  uint_fast64_t taken = atomic_load(&team->taken);
  const bool is_back = index % 2 != 0;
  int64_t at, size;
  do {
    const int64_t front = (int64_t)(taken & UINT32_MAX);
    const int64_t back = (int64_t)(taken >> 32);
    const int64_t left = team->units - front - back;
    if (left <= 0) return false;
    size = left / team->threads / SHARE_DIVISOR;
    if (size < 1) size = 1;
    at = is_back ? team->units - back - size : front;
  } while (!atomic_compare_exchange_weak(
      &team->taken, &taken, taken + ((uint64_t)size << (is_back ? 32 : 0))));
  *out_begin = at * team->unit;
  *out_end = at + size == team->units ? team->total : (at + size) * team->unit;
  return true;
}

static void share_run(og_team *team, int64_t begin, int64_t end,
                      int32_t index) {
  const og_team *outer_team = current_team;
  const int32_t outer_worker = current_worker;
  current_team = team;
  current_worker = index;
  team->fn(team->state, begin, end, index);
  current_team = outer_team;
  current_worker = outer_worker;
}

// --- Workers -----------------------------------------------------------------

// One measurement counts a quarter, and no more than twice what was known: the
// system may have stopped the thread in the middle of it.
static void time_note(atomic_int_fast64_t *known_ns, int64_t ns) {
  const int64_t known = atomic_load(known_ns);
  const int64_t next = (3 * known + (ns < 2 * known ? ns : 2 * known)) / 4;
  atomic_store(known_ns, next < 1              ? 1
                         : next < WAKE_MOST_NS ? next
                                               : WAKE_MOST_NS);
}

static bool has_news(og_team *team, uint32_t seen) {
  return (uint32_t)(atomic_load(&team->gate) >> 32) != seen ||
         atomic_load(&team->stopping);
}

static void wait_for_news(worker *self, uint32_t seen) {
  og_team *team = self->team;
  for (int i = 0; i < SPIN_ROUNDS; ++i) {
    if (has_news(team, seen)) return;
    relax();
  }
  pthread_mutex_lock(&team->lock);
  atomic_fetch_add(&team->sleepers, 1);
  const bool sleeps = !has_news(team, seen);
  if (!sleeps) atomic_fetch_sub(&team->sleepers, 1);
  while (!has_news(team, seen)) pthread_cond_wait(&team->wake, &team->lock);
  const int64_t woken_ns = team->woken_ns;
  pthread_mutex_unlock(&team->lock);
  self->rested_ns = og_now_ns();
  if (sleeps) time_note(&team->come_ns, self->rested_ns - woken_ns);
}

static void leave(og_team *team) {
  const uint64_t before = atomic_fetch_sub(&team->gate, 1);
  if ((before & joined_mask) != 1 || (before & open_bit)) return;
  if (!atomic_load(&team->waiting)) return;
  pthread_mutex_lock(&team->lock);
  pthread_cond_signal(&team->left);
  pthread_mutex_unlock(&team->lock);
}

static bool is_tired(const worker *self) {
  return og_now_ns() - self->rested_ns >= TURN_NS;
}

// Whether the worker should leave its processor to the caller. Being woken
// there is common and passes by itself, so it is given some time.
static bool is_beside_caller(worker *self) {
  if (sched_getcpu() != self->team->caller_cpu) {
    self->beside_ns = 0;
    return false;
  }
  const int64_t now = og_now_ns();
  if (self->beside_ns == 0) self->beside_ns = now;
  return now - self->beside_ns >= BESIDE_NS;
}

// To another processor, if this thread may run on one. It is free to come back
// later: a scheduler that knows better has its way.
static void move_away(worker *self, int32_t from) {
  cpu_set_t all, others;
  self->beside_ns = 0;
  if (from < 0 || sched_getaffinity(0, sizeof all, &all) != 0) return;
  others = all;
  CPU_CLR((size_t)from, &others);
  if (CPU_COUNT(&others) == 0 ||
      sched_setaffinity(0, sizeof others, &others) != 0)
    return;
  sched_setaffinity(0, sizeof all, &all);
  self->rested_ns = og_now_ns();
}

// As a worker that has joined. False where shares may be left.
static bool shares_run(worker *self) {
  og_team *team = self->team;
  int64_t begin, end;
  og_float_env_set(team->float_env);
  while (share_take(team, self->index, &begin, &end)) {
    share_run(team, begin, end, self->index);
    if (is_tired(self)) return false;
  }
  return true;
}

// A turn of the gate that is open. Whether the worker is through with it.
static bool turn_run(worker *self) {
  og_team *team = self->team;
  if (is_beside_caller(self)) {
    const int32_t from = team->caller_cpu;
    leave(team);
    move_away(self, from);
    return false;
  }
  const bool is_done = shares_run(self);
  leave(team);
  if (is_done) return true;
  sched_yield();
  self->rested_ns = og_now_ns();
  return false;
}

static void *work(void *argument) {
  worker *self = argument;
  og_team *team = self->team;
  uint32_t seen = 0;
  while (!atomic_load(&team->stopping)) {
    uint_fast64_t gate = atomic_load(&team->gate);
    const uint32_t turn = (uint32_t)(gate >> 32);
    if (turn == seen) {
      wait_for_news(self, seen);
      continue;
    }
    if (!(gate & open_bit)) {
      seen = turn;
      continue;
    }
    if (!atomic_compare_exchange_weak(&team->gate, &gate, gate + 1)) continue;
    if (turn_run(self)) seen = turn;
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
  atomic_store(&team->wake_ns, WAKE_NS);
  atomic_store(&team->come_ns, COME_NS);
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

static void sleepers_wake(og_team *team) {
  pthread_mutex_lock(&team->lock);
  const int64_t begun = og_now_ns();
  team->woken_ns = begun;
  atomic_store(&team->sleepers, 0);
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
  time_note(&team->wake_ns, og_now_ns() - begun);
}

static void open_gate(og_team *team) {
  const uint64_t turn = (atomic_load(&team->gate) >> 32) + 1;
  // Turn 0 stands for "has seen no turn yet".
  const uint64_t next = (uint32_t)turn == 0 ? 1 : (uint32_t)turn;
  atomic_store(&team->gate, next << 32 | open_bit);
  if (atomic_load(&team->sleepers) > 0) sleepers_wake(team);
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

// --- Short loops -------------------------------------------------------------

// From so much work on a caller is sooner done if it wakes the workers: it
// loses the first time, and they take half of what is left after the second.
static int64_t worth_ns(og_team *team) {
  return atomic_load(&team->wake_ns) + atomic_load(&team->come_ns);
}

// Whether nobody would take a share unless woken, and loops that take so long
// are not worth that.
static bool is_left_asleep(og_team *team, int64_t expected_ns) {
  const bool are_asleep =
      !has_threads(team) || atomic_load(&team->sleepers) == team->started;
  if (!are_asleep || expected_ns <= 0 || expected_ns >= worth_ns(team))
    return false;
  if (og_now_ns() - team->alone_until_ns > CLOSE_NS) team->alone_ns = 0;
  return team->alone_ns < worth_ns(team);
}

static void loop_run_alone(og_team *team, int64_t total) {
  const int64_t begun = og_now_ns();
  share_run(team, 0, total, 0);
  team->alone_until_ns = og_now_ns();
  team->alone_ns += team->alone_until_ns - begun;
}

static void loop_run(og_team *team, int64_t total, int64_t grain) {
  int64_t begin, end;
  if (team->generation != atomic_load(&fork_generation)) start_threads(team);
  team->total = total;
  team->unit = grain * (1 + total / grain / UNITS_MOST);
  team->units = total / team->unit;
  team->caller_cpu = sched_getcpu();
  team->float_env = og_float_env_get();
  team->alone_ns = 0;
  atomic_store(&team->taken, 0);
  open_gate(team);
  while (share_take(team, 0, &begin, &end)) share_run(team, begin, end, 0);
  close_gate(team);
}

void og_team_run_expected(og_team *team, int64_t expected_ns, int64_t total,
                          int64_t grain, og_task_fn fn, void *state) {
  if (total <= 0) return;
  if (grain < 1) grain = 1;
  if (current_team == team) {
    fn(state, 0, total, current_worker);
    return;
  }
  if (total / grain <= 1 || team->threads == 1 || !take_team(team)) {
    fn(state, 0, total, 0);
    return;
  }
  team->fn = fn;
  team->state = state;
  if (is_left_asleep(team, expected_ns))
    loop_run_alone(team, total);
  else
    loop_run(team, total, grain);
  atomic_store(&team->busy, 0);
}

void og_team_run(og_team *team, int64_t total, int64_t grain, og_task_fn fn,
                 void *state) {
  og_team_run_expected(team, 0, total, grain, fn, state);
}
