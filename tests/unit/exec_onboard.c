// SPDX-License-Identifier: Apache-2.0
// Graphs whose values lie on the simulated NPU, whose memory the host cannot
// touch: launches, their capture, arguments that move, copies, streams.

#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "device_sim.h"
#include "machine.h"

static const opgraft_host one_thread = {.struct_size = sizeof one_thread,
                                        .threads = 1};

typedef struct graph_case {
  sim sim;
  machine m;
  void *x, *y;  // device memory
  float in[SIM_FLOATS], out[SIM_FLOATS];
} graph_case;

static bool begin_in(graph_case *c, const opgraft_host *host,
                     const char *options, const char *text) {
  memset(c, 0, sizeof *c);
  if (!sim_open(&c->sim, options)) return false;
  c->x = sim_floats(&c->sim, "x");
  c->y = sim_floats(&c->sim, "y");
  for (int i = 0; i < SIM_FLOATS; ++i) c->in[i] = 0.25F * (float)(i - 8);
  if (c->x == NULL || c->y == NULL ||
      !SIM_OK(&c->sim,
              sim_copy(&c->sim, 0, OPGRAFT_COPY_TO_DEVICE, c->x, c->in)) ||
      !SIM_OK(&c->sim, sim_wait(&c->sim, 0)))
    return false;
  if (machine_make(&c->m, text, host)) return true;
  if (test_now.fault < 0) printf("%s\n", c->m.error.text);
  return CHECK(false);
}

static bool begin(graph_case *c, const char *options, const char *text) {
  return begin_in(c, &one_thread, options, text);
}

static void end(graph_case *c) {
  machine_free(&c->m);
  if (c->x != NULL) sim_free(&c->sim, c->x);
  if (c->y != NULL) sim_free(&c->sim, c->y);
  if (c->sim.driver != NULL) {
    CHECK_EQ(c->sim.reports, 0);
    if (c->sim.reports > 0 && test_now.fault < 0) printf("%s\n", c->sim.report);
    sim_close(&c->sim);
  }
}

// One call with the input and the storage at these addresses.
static og_status replay(graph_case *c, og_device device, void *x, void *y) {
  const int64_t size = SIM_FLOATS, stride = 1;
  const og_tensor tensor = {.data = x,
                            .device = device,
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = (int64_t *)(uintptr_t)&size,
                            .strides = (int64_t *)(uintptr_t)&stride};
  const og_tensor *in[1] = {&tensor};
  opgraft_call call = {.struct_size = sizeof call};
  void *storage[1] = {y};
  og_status status = opgraft_executable_begin(c->m.executable, in, NULL, 1,
                                              &call, &c->m.error);
  if (status == OG_OK) {
    status = opgraft_call_run(&call, storage, &c->m.error);
    opgraft_call_end(&call);
  }
  return status;
}

static const og_device npu = {OG_EXT_DEV, 0};

static bool fetch(graph_case *c, const void *from) {
  return SIM_OK(&c->sim,
                sim_copy(&c->sim, 0, OPGRAFT_COPY_TO_HOST, c->out, from)) &&
         SIM_OK(&c->sim, sim_wait(&c->sim, 0));
}

static void expect(const graph_case *c, float (*wanted)(float x)) {
  int wrong = 0;
  for (int i = 0; i < SIM_FLOATS; ++i) wrong += c->out[i] != wanted(c->in[i]);
  CHECK_EQ(wrong, 0);
}

// --- A chain of the engine's kernels -----------------------------------------

// %b, a sum, does not take over %a, so the arena is used.
static const char chain[] =
    "graph chain(%x: f32[64] on ext:0) {\n"
    "  %a: f32[64] on ext:0 = neg(%x)\n"
    "  %b: f32[64] on ext:0 = mul(%a, %a)\n"
    "  %c: f32[64] on ext:0 = add(%b, %a)\n"
    "  %y: f32[64] on ext:0 = mul(%c, 2.0)\n"
    "  return %y\n"
    "}\n";

static float chain_of(float x) { return 2.0F * (x * x - x); }

TEST(a_chain_is_one_launch) {
  graph_case c;
  REQUIRE(begin(&c, "seed=1,delay_us=100,races=1", chain));
  for (int i = 0; i < 5; ++i) REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
  REQUIRE(fetch(&c, c.y));
  expect(&c, chain_of);
  CHECK_EQ(stats_of(&c.m).captures, 1);
  CHECK_EQ(stats_of(&c.m).recaptures, 0);
  CHECK_EQ(stats_of(&c.m).launches, 5);
  CHECK_EQ(stats_of(&c.m).device_waits, 0);
done:
  end(&c);
}

TEST(addresses_that_move_are_told) {
  graph_case c;
  void *x = NULL, *y = NULL;
  REQUIRE(begin(&c, "seed=2,races=1", chain));
  x = sim_floats(&c.sim, "x2");
  y = sim_floats(&c.sim, "y2");
  for (int i = 0; i < 4; ++i) REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
  for (int i = 0; i < SIM_FLOATS; ++i) c.in[i] = (float)i;
  SIM_OK(&c.sim, sim_copy(&c.sim, 0, OPGRAFT_COPY_TO_DEVICE, x, c.in));
  SIM_OK(&c.sim, sim_wait(&c.sim, 0));
  REQUIRE(replay(&c, npu, x, c.y) == OG_OK);
  REQUIRE(fetch(&c, c.y));
  expect(&c, chain_of);
  REQUIRE(replay(&c, npu, c.x, y) == OG_OK);
  REQUIRE(replay(&c, npu, x, y) == OG_OK);
  REQUIRE(fetch(&c, y));
  expect(&c, chain_of);
  CHECK_EQ(stats_of(&c.m).captures, 1);
  CHECK_EQ(stats_of(&c.m).launches, 7);
done:
  if (x != NULL) sim_free(&c.sim, x);
  if (y != NULL) sim_free(&c.sim, y);
  end(&c);
}

// --- Copies ------------------------------------------------------------------

// From the host and back, with a node of the CPU's in the middle.
static const char mixed[] =
    "graph mixed(%x: f32[64]) {\n"
    "  %a: f32[64] on ext:0 = copy(%x)\n"
    "  %b: f32[64] on ext:0 = neg(%a)\n"
    "  %c: f32[64] on ext:0 = mul(%b, %b)\n"
    "  %d: f32[64] = copy(%c)\n"
    "  %e: f32[64] = add(%d, %x)\n"
    "  %f: f32[64] on ext:0 = copy(%e)\n"
    "  %g: f32[64] on ext:0 = mul(%f, 2.0)\n"
    "  %h: f32[64] on ext:0 = add(%g, %a)\n"
    "  %y: f32[64] = copy(%h)\n"
    "  return %y\n"
    "}\n";

static float mixed_of(float x) { return 2.0F * (x * x + x) + x; }

TEST(copies_stand_between_captures) {
  graph_case c;
  REQUIRE(begin(&c, "seed=3,delay_us=100,races=1", mixed));
  for (int i = 0; i < 3; ++i) {
    memset(c.out, 0, sizeof c.out);
    REQUIRE(replay(&c, og_cpu, c.in, c.out) == OG_OK);
    expect(&c, mixed_of);
  }
  CHECK_EQ(stats_of(&c.m).captures, 2);
  CHECK_EQ(stats_of(&c.m).launches, 6);
  CHECK_EQ(stats_of(&c.m).device_waits, 12);
done:
  end(&c);
}

// --- Memory and drivers ------------------------------------------------------

TEST(two_graphs_share_an_arena_on_two_streams) {
  graph_case c;
  machine other = {0};
  REQUIRE(begin(&c, "seed=4,delay_us=300,races=1", chain));
  REQUIRE(machine_make(&other, chain, &one_thread));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
    machine mine = c.m;
    c.m = other;
    const og_status status = replay(&c, npu, c.x, c.y);
    other = c.m;
    c.m = mine;
    REQUIRE(status == OG_OK);
  }
  REQUIRE(fetch(&c, c.y));
  expect(&c, chain_of);
  CHECK(stats_of(&c.m).arena_bytes > 0);
  CHECK_EQ(stats_of(&c.m).shared_bytes, stats_of(&c.m).arena_bytes);
done:
  machine_free(&other);
  end(&c);
}

static void *second_stream(void *user, int32_t device) {
  (void)device;
  return ((sim *)user)->stream[1];
}

// The second call, on another stream, has the first one's arena and launches.
TEST(another_stream_waits_for_the_first) {
  graph_case c;
  REQUIRE(begin(&c, "seed=5,delay_us=2000,races=1", chain));
  REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
  opgraft_driver_on_stream(c.sim.driver, second_stream, &c.sim);
  REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
  opgraft_driver_on_stream(c.sim.driver, NULL, NULL);
  SIM_OK(&c.sim, sim_wait(&c.sim, 1));
  REQUIRE(fetch(&c, c.y));
  expect(&c, chain_of);
done:
  end(&c);
}

// --- Lanes -------------------------------------------------------------------

static const char branches[] =
    "graph branches(%x: f32[64] on ext:0) {\n"
    "  %a: f32[64] on ext:0 = neg(%x)\n"
    "  %b: f32[64] on ext:0 = mul(%a, %a)\n"
    "  %c: f32[64] on ext:0 = add(%b, %a)\n"
    "  %d: f32[64] on ext:0 = mul(%x, 3.0)\n"
    "  %e: f32[64] on ext:0 = mul(%d, %d)\n"
    "  %f: f32[64] on ext:0 = add(%e, %d)\n"
    "  %y: f32[64] on ext:0 = add(%c, %f)\n"
    "  return %y\n"
    "}\n";

static float branches_of(float x) { return 10.0F * x * x + 2.0F * x; }

// Of all launches in the trace: their lengths over the time that they span, in
// percent.
static int64_t overlap_percent(const char *path) {
  char line[512];
  int64_t busy_ns = 0, begin_ns = INT64_MAX, end_ns = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) abort();
  while (fgets(line, sizeof line, file) != NULL) {
    const char *at = strstr(line, "\"start_ns\":");
    long long from = 0, to = 0;
    if (strstr(line, "\"launch\"") == NULL || at == NULL ||
        sscanf(at, "\"start_ns\":%lld,\"end_ns\":%lld", &from, &to) != 2)
      continue;
    busy_ns += to - from;
    if (from < begin_ns) begin_ns = from;
    if (to > end_ns) end_ns = to;
  }
  fclose(file);
  return end_ns > begin_ns ? 100 * busy_ns / (end_ns - begin_ns) : 0;
}

// Seven launches of about one length take as long as four where two branches
// overlap.
TEST(lanes_are_streams) {
  for (int32_t lanes = 1; lanes < 4; ++lanes) {
    graph_case c = {0};
    char path[] = "/tmp/opgraft-lanes-XXXXXX", options[96];
    const opgraft_host host = {
        .struct_size = sizeof host, .threads = 1, .lanes = lanes};
    const int file = mkstemp(path);
    if (file < 0) abort();
    close(file);
    snprintf(options, sizeof options, "seed=3,delay_us=50,races=1,trace=%s",
             path);
    REQUIRE(begin_in(&c, &host, options, branches));
    for (int i = 0; i < 5; ++i) REQUIRE(replay(&c, npu, c.x, c.y) == OG_OK);
    REQUIRE(fetch(&c, c.y));
    expect(&c, branches_of);
    const int64_t percent = overlap_percent(path);
    CHECK(lanes > 1 ? percent > 170 && percent <= 175 : percent == 100);
    CHECK_EQ(stats_of(&c.m).lanes, lanes > 1 ? 2 : 1);
    CHECK_EQ(stats_of(&c.m).captures, 1);
    CHECK_EQ(stats_of(&c.m).launches, 5);
  done:
    end(&c);
    unlink(path);
  }
}

TEST(a_driver_that_is_gone) {
  graph_case c;
  REQUIRE(begin(&c, NULL, chain));
  sim_free(&c.sim, c.x);
  sim_free(&c.sim, c.y);
  sim_close(&c.sim);
  c.sim.driver = NULL;
  CHECK_EQ(replay(&c, npu, c.x, c.y), OG_DEVICE);
  CHECK(strstr(c.m.error.text, "the driver of ext:0 is gone") != NULL);
  c.x = c.y = NULL;
done:
  end(&c);
}

TEST_MAIN("exec_onboard", CASE(a_chain_is_one_launch),
          CASE(addresses_that_move_are_told),
          CASE(copies_stand_between_captures),
          CASE(two_graphs_share_an_arena_on_two_streams),
          CASE(another_stream_waits_for_the_first), CASE(lanes_are_streams),
          CASE(a_driver_that_is_gone))
