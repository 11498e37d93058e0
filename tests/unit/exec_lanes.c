// SPDX-License-Identifier: Apache-2.0
// Lanes: calls from many threads, failures, forks, and the trial that finds
// out whether they pay.

#define _DEFAULT_SOURCE
#include <opgraft/executable.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/step/exec.h"
#include "machine.h"
#include "test.h"

// Four branches, and what joins them.
static const char branches[] =
    "graph branches(%x: f32[64]) {\n"
    "  %h: f32[64] = mul(%x, 2)\n"
    "  %a: f32[64] = cumsum(%h; dim=0)\n"
    "  %b: f32[64] = flip(%a; dims=[0])\n"
    "  %c: f32[64] = flip(%h; dims=[0])\n"
    "  %d: f32[64] = cumsum(%c; dim=0)\n"
    "  %e: f32[64] = add(%h, 1)\n"
    "  %f: f32[64] = cumsum(%e; dim=0)\n"
    "  %g: f32[64] = sub(%h, 1)\n"
    "  %i: f32[64] = flip(%g; dims=[0])\n"
    "  %j: f32[64] = add(%b, %d)\n"
    "  %k: f32[64] = add(%f, %i)\n"
    "  %y: f32[64] = add(%j, %k)\n"
    "  return %y\n"
    "}\n";

// Two branches of two nodes that the host runs.
static const char naps[] =
    "graph naps(%x: f32[64]) {\n"
    "  %a: f32[64] = foreign \"nap\"(%x)\n"
    "  %b: f32[64] = foreign \"nap\"(%a)\n"
    "  %c: f32[64] = foreign \"nap\"(%x)\n"
    "  %d: f32[64] = foreign \"nap\"(%c)\n"
    "  %y: f32[64] = add(%b, %d)\n"
    "  return %y\n"
    "}\n";

enum { N = 64 };

static og_status machine_run(machine *m, float *x, float *y) {
  int64_t size = N, one = 1;
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = &size,
                            .strides = &one};
  const og_tensor *in[1] = {&tensor};
  void *storage[1] = {y};
  opgraft_call call = {.struct_size = sizeof call};
  og_status status =
      opgraft_executable_begin(m->executable, in, NULL, 1, &call, &m->error);
  if (status != OG_OK) return status;
  status = opgraft_call_run(&call, storage, &m->error);
  opgraft_call_end(&call);
  return status;
}

// Element i of `branches` for x[j] = v everywhere.
static bool branches_right(const float *y, float v) {
  bool is_right = true;
  for (int i = 0; i < N; ++i) {
    const float h = 2 * v, n = (float)(i + 1);
    const float wanted = (float)(N - i) * h + n * h + n * (h + 1) + (h - 1);
    is_right &= y[i] > wanted - 1e-2f && y[i] < wanted + 1e-2f;
  }
  return is_right;
}

// --- Right numbers -----------------------------------------------------------

enum { THREADS = 8, ROUNDS = 200 };

static void *branches_many(void *state) {
  machine own = *(machine *)state;  // its own error
  float x[N], y[N];
  for (int i = 0; i < ROUNDS; ++i) {
    const float v = (float)(i % 7);
    for (int j = 0; j < N; ++j) x[j] = v;
    if (machine_run(&own, x, y) != OG_OK || !branches_right(y, v)) return state;
  }
  return NULL;
}

TEST(many_threads_replay_lanes) {
  machine m;
  pthread_t threads[THREADS];
  const opgraft_host host = {.struct_size = sizeof host,
                             .flags = OPGRAFT_HOST_LANES_NOW,
                             .threads = 4};
  REQUIRE(machine_make(&m, branches, &host));
  for (int i = 0; i < THREADS; ++i)
    REQUIRE(pthread_create(&threads[i], NULL, branches_many, &m) == 0);
  for (int i = 0; i < THREADS; ++i) {
    void *failed = &m;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
  CHECK_EQ(stats_of(&m).lanes, 4);
  CHECK_EQ(stats_of(&m).sections, 2);  // the branches; their first sums
done:
  machine_free(&m);
}

TEST(lanes_after_a_fork) {
#if !TEST_FORK_WITH_THREADS
  printf("exec_lanes: fork skipped under a sanitizer\n");
#else
  machine m;
  const opgraft_host host = {.struct_size = sizeof host,
                             .flags = OPGRAFT_HOST_LANES_NOW,
                             .threads = 3};
  REQUIRE(machine_make(&m, branches, &host));
  CHECK(branches_many(&m) == NULL);
  const pid_t child = fork();
  if (child == 0) _exit(branches_many(&m) == NULL ? 0 : 1);
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(branches_many(&m) == NULL);
done:
  machine_free(&m);
#endif
}

TEST(lanes_may_be_limited) {
  machine m = {0};
  const opgraft_host none = {.struct_size = sizeof none,
                             .flags = OPGRAFT_HOST_LANES_NOW,
                             .threads = 4,
                             .lanes = 1};
  const opgraft_host two = {.struct_size = sizeof two,
                            .flags = OPGRAFT_HOST_LANES_NOW,
                            .threads = 4,
                            .lanes = 2};
  float x[N] = {0}, y[N];
  REQUIRE(machine_make(&m, branches, &none));
  REQUIRE(machine_run(&m, x, y) == OG_OK && branches_right(y, 0));
  CHECK_EQ(stats_of(&m).lanes, 1);
  machine_free(&m);
  REQUIRE(machine_make(&m, branches, &two));
  REQUIRE(machine_run(&m, x, y) == OG_OK && branches_right(y, 0));
  CHECK_EQ(stats_of(&m).lanes, 2);
done:
  machine_free(&m);
}

// --- The trial ---------------------------------------------------------------

// The engine's clock, which nodes put forward: a trial decides by what they
// take, whatever the machine does besides.
static int64_t now_ns = 1;

int64_t og_now_ns(void) { return __atomic_load_n(&now_ns, __ATOMIC_RELAXED); }

enum { NAP_NS = 5000000, PARTNER_S = 60 };

// Nodes that take NAP_NS each. Where `pairs` is set, two that run in lanes wait
// for one another and take it once, as on a machine that has a thread for each.
typedef struct napper {
  const machine *pairs;
  bool fails, is_waiting;
  int64_t meetings;
  pthread_mutex_t lock;
  pthread_cond_t met;
} napper;

static og_status nap_prepare(void *context, const opgraft_node_call *node,
                             void **out_state, uint32_t *out_flags,
                             opgraft_error *error) {
  (void)context, (void)node, (void)error;
  *out_state = NULL;
  *out_flags = OPGRAFT_NODE_ANY_THREAD;
  return OG_OK;
}

// False where nobody comes.
static bool partner_meet(napper *n) {
  if (n->is_waiting) {
    n->is_waiting = false;
    ++n->meetings;
    __atomic_fetch_add(&now_ns, NAP_NS, __ATOMIC_RELAXED);
    pthread_cond_signal(&n->met);
    return true;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PARTNER_S;
  n->is_waiting = true;
  const int64_t before = n->meetings;
  while (n->meetings == before)
    if (pthread_cond_timedwait(&n->met, &n->lock, &until) != 0) return false;
  return true;
}

static void nap(napper *n) {
  const bool is_in_lane = n->pairs != NULL && stats_of(n->pairs).sections > 0;
  pthread_mutex_lock(&n->lock);
  if (!is_in_lane)
    __atomic_fetch_add(&now_ns, NAP_NS, __ATOMIC_RELAXED);
  else
    CHECK(partner_meet(n));
  pthread_mutex_unlock(&n->lock);
}

static og_status nap_run(void *context, void *state,
                         const opgraft_node_call *node, opgraft_error *error) {
  napper *n = context;
  (void)state;
  nap(n);
  memcpy(node->out[0]->data, node->in[0]->data, N * sizeof(float));
  if (!n->fails) return OG_OK;
  if (error != NULL) {
    *error = (opgraft_error){.code = OG_KERNEL, .begin = -1, .end = -1};
    snprintf(error->text, sizeof error->text, "it woke up badly");
  }
  return OG_KERNEL;
}

static opgraft_host nap_host(napper *n) {
  return (opgraft_host){.struct_size = sizeof(opgraft_host),
                        .context = n,
                        .prepare = nap_prepare,
                        .run = nap_run,
                        .threads = 2};
}

enum { TRIAL = 20 };  // replays after which it is over

static bool is_tried(machine *m) {
  float x[N], y[N] = {0};
  for (int i = 0; i < N; ++i) x[i] = (float)i;
  for (int i = 0; i < TRIAL; ++i) {
    if (machine_run(m, x, y) != OG_OK || y[0] != 0 || y[N - 1] != 2 * (N - 1))
      return false;
  }
  return true;
}

TEST(a_trial_finds_lanes_that_pay) {
  machine m = {0};
  napper n = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .met = PTHREAD_COND_INITIALIZER};
  const opgraft_host host = nap_host(&n);
  float x[N] = {0}, y[N];
  REQUIRE(machine_make(&m, naps, &host));
  n.pairs = &m;
  REQUIRE(is_tried(&m));
  const opgraft_stats stats = stats_of(&m);
  CHECK_EQ(stats.lanes, 2);
  CHECK_EQ(stats.sections, 1);
  CHECK_EQ(stats.replans_shape, 1);
  CHECK_EQ(stats.replans_lanes, 1);
  CHECK_EQ(stats.plans, 1);
  CHECK_EQ(stats.serial_ns, 4 * NAP_NS);
  CHECK_EQ(stats.lanes_ns, 2 * NAP_NS);
  // What fails in a lane is named, and the next call is whole again.
  n.fails = true;
  CHECK_EQ(machine_run(&m, x, y), OG_KERNEL);
  CHECK_STR(m.error.text, "nap: it woke up badly");
  n.fails = false;
  CHECK_EQ(machine_run(&m, x, y), OG_OK);
done:
  machine_free(&m);
}

TEST(a_trial_drops_lanes_that_do_not) {
  machine m;
  napper n = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .met = PTHREAD_COND_INITIALIZER};
  const opgraft_host host = nap_host(&n);
  REQUIRE(machine_make(&m, naps, &host));
  REQUIRE(is_tried(&m));
  CHECK_EQ(stats_of(&m).lanes, 1);
  CHECK_EQ(stats_of(&m).sections, 0);
  CHECK_EQ(stats_of(&m).replans_lanes, 2);
done:
  machine_free(&m);
}

// A plan makes way for another one, or for none, while calls are in it.
static void *naps_many(void *state) {
  machine own = *(machine *)state;  // its own error
  return is_tried(&own) ? NULL : state;
}

TEST(many_threads_replay_through_a_trial) {
  machine m;
  napper n = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .met = PTHREAD_COND_INITIALIZER};
  const opgraft_host host = nap_host(&n);
  pthread_t threads[THREADS];
  REQUIRE(machine_make(&m, naps, &host));
  for (int i = 0; i < THREADS; ++i)
    REQUIRE(pthread_create(&threads[i], NULL, naps_many, &m) == 0);
  for (int i = 0; i < THREADS; ++i) {
    void *failed = &m;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
  CHECK_EQ(stats_of(&m).replays, THREADS * TRIAL);
  CHECK(stats_of(&m).replans_lanes >= 1);
  CHECK_EQ(stats_of(&m).plans, 1);
done:
  machine_free(&m);
}

TEST_MAIN("exec_lanes", CASE_NO_FAULTS(many_threads_replay_lanes),
          CASE_NO_FAULTS(lanes_after_a_fork), CASE(lanes_may_be_limited),
          CASE_NO_FAULTS(a_trial_finds_lanes_that_pay),
          CASE_NO_FAULTS(a_trial_drops_lanes_that_do_not),
          CASE_NO_FAULTS(many_threads_replay_through_a_trial))
