// SPDX-License-Identifier: Apache-2.0
// Replay through the public API: moved inputs, the limit of plans, calls that
// overlap, threads, errors that leave everything usable.

#include <opgraft/executable.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"
#include "test.h"

static const char chain[] =
    "graph chain(%x: f32[s0], %w: f32[4] static) {\n"
    "  %a: f32[s0] = mul(%x, 2)\n"
    "  %b: f32[s0] = add(%a, 1)\n"
    "  %s: f32[] = sum(%w; dims=[])\n"
    "  %e: f32[s0] = exp(%b)\n"
    "  %l: f32[s0] = log(%e)\n"
    "  %y: f32[s0] = add(%l, %s)\n"
    "  return %y, %x, size s0 + 1\n"
    "}\n";

static const opgraft_host one_thread = {
    .struct_size = sizeof one_thread, .threads = 1, .plan_limit = 2};

static og_tensor vector(float *data, int64_t *size) {
  static int64_t one = 1;
  return (og_tensor){.data = data,
                     .device = {OG_CPU, 0},
                     .ndim = 1,
                     .dtype = {OG_CODE_FLOAT, 32, 1},
                     .shape = size,
                     .strides = &one};
}

// y[i] of `chain` for x[i] and the sum of w.
static bool near(float found, float x, float sum) {
  const float wanted = 2 * x + 1 + sum;
  return found > wanted - 1e-4f && found < wanted + 1e-4f;
}

static og_status chain_run(machine *m, float *x, int64_t n, float *w,
                           float *y) {
  int64_t four = 4;
  const og_tensor tensors[2] = {vector(x, &n), vector(w, &four)};
  const og_tensor *in[2] = {&tensors[0], &tensors[1]};
  opgraft_call call = {.struct_size = sizeof call};
  void *storage[1] = {y};
  og_status status =
      opgraft_executable_begin(m->executable, in, NULL, 2, &call, &m->error);
  if (status != OG_OK) return status;
  CHECK_EQ(call.storage_count, 1);
  CHECK_EQ(call.storages[0].size_bytes, (size_t)n * 4);
  CHECK_EQ(call.storages[0].whole, 1);
  CHECK_EQ(call.outputs[1].kind, OPGRAFT_OUTPUT_INPUT);
  CHECK_EQ(call.outputs[2].size, n + 1);
  status = opgraft_call_run(&call, storage, &m->error);
  opgraft_call_end(&call);
  return status;
}

TEST(replays_at_new_addresses_and_sizes) {
  machine m;
  float x[8] = {1, 2, 3}, z[8] = {-1, 0.5f}, w[4] = {1, 1, 1, 1}, v[4] = {2};
  float y[8];
  REQUIRE(machine_make(&m, chain, &one_thread));
  REQUIRE(chain_run(&m, x, 3, w, y) == OG_OK);
  CHECK(near(y[0], 1, 4) && near(y[2], 3, 4));
  x[0] = 5;
  REQUIRE(chain_run(&m, x, 3, w, y) == OG_OK);
  CHECK(near(y[0], 5, 4));
  REQUIRE(chain_run(&m, z, 3, v, y) == OG_OK);
  CHECK(near(y[0], -1, 2) && near(y[1], 0.5f, 2));
  CHECK_EQ(stats_of(&m).rebinds_input, 1);  // only w is static
  CHECK_EQ(stats_of(&m).replans_shape, 1);
  // The limit is two plans: 3 is made again after 4 and 5.
  REQUIRE(chain_run(&m, x, 4, w, y) == OG_OK);
  REQUIRE(chain_run(&m, x, 5, w, y) == OG_OK);
  REQUIRE(chain_run(&m, x, 3, w, y) == OG_OK);
  REQUIRE(chain_run(&m, x, 5, w, y) == OG_OK);
  CHECK_EQ(stats_of(&m).replans_shape, 4);
  CHECK_EQ(stats_of(&m).plans, 2);
  CHECK_EQ(stats_of(&m).replays, 7);
done:
  machine_free(&m);
}

TEST(an_empty_call) {
  machine m;
  float w[4] = {1, 1, 1, 1}, y[1];
  REQUIRE(machine_make(&m, chain, &one_thread));
  REQUIRE(chain_run(&m, NULL, 0, w, y) == OG_OK);
done:
  machine_free(&m);
}

TEST(wrong_inputs_are_errors) {
  machine m;
  float x[4] = {1, 2, 3, 4}, w[4] = {0}, y[4];
  int64_t four = 4, three = 3;
  opgraft_call call = {.struct_size = sizeof call};
  REQUIRE(machine_make(&m, chain, &one_thread));
  og_tensor a = vector(x, &four), b = vector(w, &three);
  const og_tensor *in[2] = {&a, &b};
  CHECK_EQ(opgraft_executable_begin(m.executable, in, NULL, 1, &call, &m.error),
           OG_INVALID);
  CHECK_EQ(opgraft_executable_begin(m.executable, in, NULL, 2, &call, &m.error),
           OG_SHAPE);
  CHECK_STR(m.error.text,
            "graph chain: input 1 (w): its size in dim 0 is 3 here, "
            "expected 4");
  b = vector(w, &four);
  b.dtype.bits = 64;
  CHECK_EQ(opgraft_executable_begin(m.executable, in, NULL, 2, &call, &m.error),
           OG_DTYPE);
  CHECK_STR(m.error.text, "graph chain: input 1 (w) is f64, expected f32");
  REQUIRE(chain_run(&m, x, 4, w, y) == OG_OK);
done:
  machine_free(&m);
}

// --- Written inputs ----------------------------------------------------------

enum { INPUTS = 24, WRITTEN = 8, FOUR = 4 };

// Writes the first inputs and reads the others.
static bool writer_make(machine *m, char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "graph writer(");
  for (int i = 0; i < INPUTS; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%%x%d: f32[4]",
                             i > 0 ? ", " : "", i);
  used += (size_t)snprintf(text + used, size - used, ") {\n");
  for (int i = 0; i < WRITTEN; ++i)
    used +=
        (size_t)snprintf(text + used, size - used,
                         "  %%a%d: f32[4] = add(%%x%d, %%x%d)\n"
                         "  %%c%d: f32[4] in %%x%d = copy_to(%%x%d, %%a%d)\n",
                         i, i, INPUTS - 1 - i, i, i, i, i);
  snprintf(text + used, size - used, "  return\n}\n");
  return machine_make(m, text, &one_thread);
}

static uint64_t drawn = 7;
static int64_t draw(int64_t below) {
  drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((drawn >> 33) % (uint64_t)below);
}

// Whether input i, which is written, shares a byte with another one.
static bool meets(const int64_t *at, int32_t i) {
  for (int32_t k = 0; k < INPUTS; ++k)
    if (k != i && at[i] < at[k] + FOUR && at[k] < at[i] + FOUR) return true;
  return false;
}

TEST(a_written_input_that_overlaps_another_is_refused) {
  static char text[4096];
  static float memory[1024];
  machine m;
  int64_t at[INPUTS], four = FOUR;
  og_tensor tensors[INPUTS];
  const og_tensor *in[INPUTS];
  int32_t refused = 0, ran = 0;
  drawn = 7;
  REQUIRE(writer_make(&m, text, sizeof text));
  for (int32_t i = 0; i < INPUTS; ++i) at[i] = 8 * i;
  for (int32_t round = 0; round < 1000; ++round) {
    // Few that move are sorted in another way than many.
    for (int32_t moves = draw(8) == 0 ? INPUTS : 1 + (int32_t)draw(2);
         moves > 0; --moves)
      at[draw(INPUTS)] = draw(1020);
    if (draw(6) == 0)
      for (int32_t i = 0; i < INPUTS; ++i) at[i] = 8 * i;
    bool wanted = false;
    for (int32_t i = 0; i < INPUTS; ++i) {
      tensors[i] = vector(memory + at[i], &four);
      in[i] = &tensors[i];
      wanted |= i < WRITTEN && meets(at, i);
    }
    opgraft_call call = {.struct_size = sizeof call};
    const og_status status = opgraft_executable_begin(m.executable, in, NULL,
                                                      INPUTS, &call, &m.error);
    opgraft_call_end(&call);
    REQUIRE(status == (wanted ? OG_INVALID : OG_OK));
    refused += wanted;
    ran += !wanted;
  }
  CHECK(refused > 100 && ran > 100);
done:
  machine_free(&m);
}

TEST(a_written_input_that_overlaps_itself_is_refused) {
  static const char *const fill =
      "graph fill(%x: f32[4]{0}, %y: f32[4]) {\n"
      "  %a: f32[4] = add(%y, 1)\n"
      "  %c: f32[4]{0} in %x = copy_to(%x, %a)\n"
      "  return\n}\n";
  machine m;
  float x[1] = {0}, y[4] = {0};
  int64_t four = 4, zero = 0;
  opgraft_call call = {.struct_size = sizeof call};
  REQUIRE(machine_make(&m, fill, &one_thread));
  og_tensor a = vector(x, &four), b = vector(y, &four);
  a.strides = &zero;
  const og_tensor *in[2] = {&a, &b};
  for (int32_t i = 0; i < 2; ++i)
    REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 2, &call,
                                     &m.error) != OG_OK);
done:
  machine_free(&m);
}

// Two calls in flight have an arena each.
TEST(calls_overlap) {
  machine m;
  float x[3] = {1, 2, 3}, z[3] = {4, 5, 6}, w[4] = {0}, y[3], u[3];
  int64_t three = 3, four = 4;
  const og_tensor a = vector(x, &three), b = vector(z, &three);
  const og_tensor c = vector(w, &four);
  const og_tensor *first[2] = {&a, &c}, *second[2] = {&b, &c};
  opgraft_call one = {.struct_size = sizeof one};
  opgraft_call two = one;
  void *to_y[1] = {y}, *to_u[1] = {u};
  REQUIRE(machine_make(&m, chain, &one_thread));
  REQUIRE(opgraft_executable_begin(m.executable, first, NULL, 2, &one,
                                   &m.error) == OG_OK);
  REQUIRE(opgraft_executable_begin(m.executable, second, NULL, 2, &two,
                                   &m.error) == OG_OK);
  REQUIRE(opgraft_call_run(&two, to_u, &m.error) == OG_OK);
  REQUIRE(opgraft_call_run(&one, to_y, &m.error) == OG_OK);
  CHECK(near(y[0], 1, 0) && near(u[2], 6, 0));
  CHECK_EQ(stats_of(&m).instances, 2);
done:
  opgraft_call_end(&one);
  opgraft_call_end(&two);
  machine_free(&m);
}

// A call that outlives the caller's reference keeps the executable.
TEST(a_call_keeps_its_executable) {
  machine m;
  float x[3] = {1, 2, 3}, w[4] = {0}, y[3];
  int64_t three = 3, four = 4;
  const og_tensor a = vector(x, &three), b = vector(w, &four);
  const og_tensor *in[2] = {&a, &b};
  opgraft_call call = {.struct_size = sizeof call};
  void *to[1] = {y};
  REQUIRE(machine_make(&m, chain, &one_thread));
  REQUIRE(opgraft_executable_begin(m.executable, in, NULL, 2, &call,
                                   &m.error) == OG_OK);
  opgraft_executable_release(m.executable);
  m.executable = NULL;
  CHECK_EQ(opgraft_call_run(&call, to, &m.error), OG_OK);
  CHECK(near(y[1], 2, 0));
done:
  opgraft_call_end(&call);
  machine_free(&m);
}

TEST(gears_are_planned_beforehand) {
  machine m;
  const char *symbol[1] = {"s0"};
  const int64_t size = 3;
  float x[3] = {1, 2, 3}, w[4] = {0}, y[3];
  REQUIRE(machine_make(&m, chain, &one_thread));
  REQUIRE(opgraft_executable_plan(m.executable, symbol, &size, 1, &m.error) ==
          OG_OK);
  CHECK_EQ(stats_of(&m).replans_shape, 1);
  REQUIRE(chain_run(&m, x, 3, w, y) == OG_OK);
  CHECK_EQ(stats_of(&m).replans_shape, 1);
  CHECK_EQ(opgraft_executable_plan(m.executable, symbol, &size, 0, &m.error),
           OG_INVALID);
done:
  machine_free(&m);
}

// Two regions that do not run at once, and the bytes that this saves.
TEST(two_graphs_share_one_arena) {
  static const char small[] =
      "graph small(%x: f32[2000]) {\n"
      "  %a: f32[2000] = flip(%x; dims=[0])\n"
      "  %b: f32[] = sum(%a; dims=[])\n"
      "  return %b\n"
      "}\n";
  static const char large[] =
      "graph large(%x: f32[2000]) {\n"
      "  %a: f32[2000] = flip(%x; dims=[0])\n"
      "  %b: f32[2000] = flip(%a; dims=[0])\n"
      "  %c: f32[2000] = cumsum(%a; dim=0)\n"
      "  %d: f32[2000] = mul(%c, %b)\n"
      "  %e: f32[] = sum(%d; dims=[])\n"
      "  return %e\n"
      "}\n";
  machine m[2] = {{0}};
  static float x[2000];
  float y[2] = {0};
  int64_t size = 2000;
  for (int i = 0; i < 2000; ++i) x[i] = 1;
  REQUIRE(machine_make(&m[0], small, &one_thread));
  REQUIRE(machine_make(&m[1], large, &one_thread));
  for (int i = 0; i < 6; ++i) {
    opgraft_call call = {.struct_size = sizeof call};
    const og_tensor tensor = vector(x, &size);
    const og_tensor *in[1] = {&tensor};
    void *storage[1] = {&y[i % 2]};
    machine *own = &m[i % 2];
    REQUIRE(opgraft_executable_begin(own->executable, in, NULL, 1, &call,
                                     &own->error) == OG_OK);
    const og_status status = opgraft_call_run(&call, storage, &own->error);
    opgraft_call_end(&call);
    REQUIRE(status == OG_OK);
  }
  CHECK(y[0] == 2000 && y[1] == 2000.0f * 2001 / 2);
  const int64_t needs[2] = {stats_of(&m[0]).arena_bytes,
                            stats_of(&m[1]).arena_bytes};
  CHECK(needs[0] >= 8000 && needs[1] >= 2 * needs[0]);
  CHECK_EQ(needs[1], stats_of(&m[1]).lower_bound_bytes);
  // One arena of the larger size serves both.
  CHECK_EQ(stats_of(&m[0]).shared_bytes, needs[0]);
  CHECK_EQ(stats_of(&m[1]).shared_bytes, needs[0]);
done:
  machine_free(&m[0]);
  machine_free(&m[1]);
}

// --- Threads -----------------------------------------------------------------

enum { THREADS = 8, ROUNDS = 400 };

static void *replay_many(void *state) {
  machine *shared = state;
  machine own = *shared;  // its own error
  float x[4], w[4] = {1, 0, 0, 0}, y[4];
  for (int i = 0; i < ROUNDS; ++i) {
    const int64_t n = 2 + (i + (int)(((uintptr_t)&own >> 12) & 1)) % 3;
    for (int j = 0; j < 4; ++j) x[j] = (float)(i % 5 + j);
    if (chain_run(&own, x, n, w, y) != OG_OK) return state;
    for (int64_t j = 0; j < n; ++j)
      if (!near(y[j], x[j], 1)) return state;
  }
  return NULL;
}

TEST(eight_threads_replay_one_graph) {
  machine m;
  pthread_t threads[THREADS];
  REQUIRE(machine_make(&m, chain, &one_thread));
  for (int i = 0; i < THREADS; ++i)
    REQUIRE(pthread_create(&threads[i], NULL, replay_many, &m) == 0);
  for (int i = 0; i < THREADS; ++i) {
    void *failed = &m;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
  CHECK_EQ(stats_of(&m).replays, THREADS * ROUNDS);
done:
  machine_free(&m);
}

TEST_MAIN("exec_replay", CASE(replays_at_new_addresses_and_sizes),
          CASE(an_empty_call), CASE(wrong_inputs_are_errors),
          CASE(a_written_input_that_overlaps_another_is_refused),
          CASE(a_written_input_that_overlaps_itself_is_refused),
          CASE(calls_overlap), CASE(a_call_keeps_its_executable),
          CASE(gears_are_planned_beforehand), CASE(two_graphs_share_one_arena),
          CASE_NO_FAULTS(eight_threads_replay_one_graph))
