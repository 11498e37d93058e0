// SPDX-License-Identifier: Apache-2.0
// Which threads a graph runs on: the engine's team where the host runs nothing
// large, else the host's; calls from many threads, and after a fork.

#define _DEFAULT_SOURCE
#include <opgraft/executable.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "test.h"

enum { N = 1 << 17, THREADS = 4, ROUNDS = 50 };

static const char alone[] =
    "graph alone(%x: f32[131072]) {\n"
    "  %a: f32[131072] = mul(%x, 2)\n"
    "  %y: f32[131072] = exp(%a)\n"
    "  return %a, %y\n"
    "}\n";

static const char with_large[] =
    "graph with_large(%x: f32[131072]) {\n"
    "  %b: f32[131072] = foreign \"copy\"(%x)\n"
    "  %a: f32[131072] = mul(%b, 2)\n"
    "  %y: f32[131072] = exp(%a)\n"
    "  return %a, %y\n"
    "}\n";

static const char with_small[] =
    "graph with_small(%x: f32[131072]) {\n"
    "  %s: f32[64] = view(%x)\n"
    "  %b: f32[64] = foreign \"copy\"(%s)\n"
    "  %c: f32[64] = neg(%b)\n"
    "  %a: f32[131072] = mul(%x, 2)\n"
    "  %y: f32[131072] = exp(%a)\n"
    "  return %a, %y, %c\n"
    "}\n";

// --- The host ----------------------------------------------------------------

typedef struct host_state {
  atomic_int loops;  // that the host was given
  atomic_int asked;  // how many threads there are now
  int32_t now;
} host_state;

static og_status host_loop(const og_call *call, int64_t total, int64_t grain,
                           og_task_fn fn, void *state) {
  host_state *s = call->host;
  (void)grain;
  atomic_fetch_add(&s->loops, 1);
  fn(state, 0, total, 0);
  return OG_OK;
}

static int32_t host_now(void *context) {
  host_state *s = context;
  atomic_fetch_add(&s->asked, 1);
  return s->now;
}

static og_status copy_prepare(void *context, const opgraft_node_call *node,
                              void **out_state, uint32_t *out_flags,
                              opgraft_error *error) {
  (void)context, (void)error;
  *out_state = NULL;
  *out_flags = OPGRAFT_NODE_ANY_THREAD;
  return strcmp(node->name, "copy") == 0 ? OG_OK : OG_UNSUPPORTED;
}

static og_status copy_run(void *context, void *state,
                          const opgraft_node_call *node, opgraft_error *error) {
  (void)context, (void)state, (void)error;
  memcpy((char *)node->out[0]->data + node->out[0]->byte_offset,
         (const char *)node->in[0]->data + node->in[0]->byte_offset,
         (size_t)og_numel(node->in[0]) * sizeof(float));
  return OG_OK;
}

static opgraft_host host_of(host_state *state) {
  return (opgraft_host){.struct_size = sizeof(opgraft_host),
                        .flags = OPGRAFT_HOST_TEAM,
                        .context = state,
                        .prepare = copy_prepare,
                        .run = copy_run,
                        .parallel_for = host_loop,
                        .threads = THREADS,
                        .threads_now = host_now};
}

// --- Calls -------------------------------------------------------------------

static float x[N];

static bool machine_run(machine *m, float *a, float *y, int32_t outputs) {
  int64_t size = N, one = 1;
  float few[64];
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = &size,
                            .strides = &one};
  const og_tensor *in[1] = {&tensor};
  void *storage[3] = {a, y, few};
  opgraft_error error;
  opgraft_call call = {.struct_size = sizeof call};
  if (opgraft_executable_begin(m->executable, in, NULL, 1, &call, &error) !=
      OG_OK)
    return false;
  const og_status status = call.storage_count == outputs
                               ? opgraft_call_run(&call, storage, &error)
                               : OG_INTERNAL;
  opgraft_call_end(&call);
  for (int i = 0; status == OG_OK && i < N; ++i)
    if (a[i] != 2 * x[i] || !(y[i] >= 1)) return false;
  return status == OG_OK;
}

static void *machine_many(void *state) {
  float *memory = og_alloc(2 * N * sizeof *memory);
  bool is_right = memory != NULL;
  for (int i = 0; is_right && i < ROUNDS; ++i) {
    memset(memory, 0, 2 * N * sizeof *memory);
    is_right = machine_run(state, memory, memory + N, 2);
  }
  og_free(memory);
  return is_right ? NULL : state;
}

static float a[N], y[N];

// Whether the statistics say so.
static bool is_said(const machine *m, const char *wanted) {
  static char text[1 << 14];
  const size_t length =
      opgraft_executable_describe(m->executable, text, sizeof text);
  const bool is = length < sizeof text && strstr(text, wanted) != NULL;
  if (!is && test_now.fault < 0) printf("wanted: %s\nsaid: %s\n", wanted, text);
  return is;
}

TEST(a_graph_of_the_engine_s_kernels_has_a_team) {
  machine m;
  host_state state = {.now = THREADS};
  const opgraft_host host = host_of(&state);
  REQUIRE(machine_make(&m, alone, &host));
  CHECK(machine_run(&m, a, y, 2));
  CHECK(is_said(&m, "\"threads\": \"engine\", \"host_loops\": []"));
  CHECK_EQ(stats_of(&m).fallbacks, 0);
  CHECK_EQ(atomic_load(&state.loops), 0);
  CHECK(atomic_load(&state.asked) > 0);
  state.now = 1;  // the host has fewer threads now
  CHECK(machine_run(&m, a, y, 2));
  state.now = 2 * THREADS;  // or more than kernels have scratch for
  CHECK(machine_run(&m, a, y, 2));
  CHECK_EQ(atomic_load(&state.loops), 0);
done:
  machine_free(&m);
}

TEST(a_large_node_of_the_host_s_brings_its_threads) {
  machine m;
  host_state state = {.now = THREADS};
  const opgraft_host host = host_of(&state);
  REQUIRE(machine_make(&m, with_large, &host));
  CHECK(machine_run(&m, a, y, 2));
  CHECK(atomic_load(&state.loops) > 0);
  CHECK_EQ(atomic_load(&state.asked), 0);
  CHECK(is_said(&m,
                "\"threads\": \"host\", \"host_loops\": [{\"operator\": "
                "\"copy\", \"reason\": "));
done:
  machine_free(&m);
}

TEST(a_small_one_does_not) {
  machine m;
  host_state state = {.now = THREADS};
  const opgraft_host host = host_of(&state);
  REQUIRE(machine_make(&m, with_small, &host));
  CHECK(machine_run(&m, a, y, 3));
  CHECK_EQ(atomic_load(&state.loops), 0);
  CHECK(atomic_load(&state.asked) > 0);
done:
  machine_free(&m);
}

TEST(without_the_flag_the_host_s_threads_run_all) {
  machine m;
  host_state state = {.now = THREADS};
  opgraft_host host = host_of(&state);
  host.flags = 0;
  REQUIRE(machine_make(&m, alone, &host));
  CHECK(machine_run(&m, a, y, 2));
  CHECK(atomic_load(&state.loops) > 0);
  CHECK(is_said(&m, "\"threads\": \"host\", \"host_loops\": []"));
done:
  machine_free(&m);
}

// Each call has a team of its own.
TEST(calls_at_once_have_teams_of_their_own) {
  machine m;
  pthread_t threads[3];
  host_state state = {.now = THREADS};
  const opgraft_host host = host_of(&state);
  REQUIRE(machine_make(&m, alone, &host));
  for (int i = 0; i < 3; ++i)
    REQUIRE(pthread_create(&threads[i], NULL, machine_many, &m) == 0);
  for (int i = 0; i < 3; ++i) {
    void *failed = &m;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
done:
  machine_free(&m);
}

TEST(a_team_after_a_fork) {
#if !TEST_FORK_WITH_THREADS
  printf("exec_teams: fork skipped under a sanitizer\n");
#else
  machine m;
  host_state state = {.now = THREADS};
  const opgraft_host host = host_of(&state);
  REQUIRE(machine_make(&m, alone, &host));
  CHECK(machine_many(&m) == NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(machine_many(&m) == NULL ? 0 : 1);
  }
  int status = -1;
  REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(machine_many(&m) == NULL);
done:
  machine_free(&m);
#endif
}

TEST_MAIN("exec_teams", CASE(a_graph_of_the_engine_s_kernels_has_a_team),
          CASE(a_large_node_of_the_host_s_brings_its_threads),
          CASE(a_small_one_does_not),
          CASE(without_the_flag_the_host_s_threads_run_all),
          CASE_NO_FAULTS(calls_at_once_have_teams_of_their_own),
          CASE_NO_FAULTS(a_team_after_a_fork))
