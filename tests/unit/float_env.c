// SPDX-License-Identifier: Apache-2.0
// The floating-point environment stays: modules/float_env.c leaves it changed
// in its constructor and destructor, in kernels, in what infer asks, and in
// each share of a loop.

#include "base/float_env.h"

#include <opgraft/opgraft.h>
#include <pthread.h>
#include <stdlib.h>

#include "module/module.h"
#include "test.h"

enum { COUNT = 4096, THREADS = 4 };

static og_status load(opgraft_module **out) {
  char path[512];
  opgraft_error error;
  snprintf(path, sizeof path, "%s/float_env.so", TEST_MODULE_DIR);
  const og_status status = opgraft_module_load(path, out, &error);
  if (status != OG_OK) printf("%s\n", error.text);
  return status;
}

// The environment that each element's share found.
static og_status call(const opgraft_module *module, const char *name,
                      opgraft_team *team, int64_t *found) {
  static float x[COUNT];
  int64_t shape[] = {COUNT}, strides[] = {1};
  const og_tensor tensor = {.data = x,
                            .device = {OG_CPU, 0},
                            .ndim = 1,
                            .dtype = {OG_CODE_FLOAT, 32, 1},
                            .shape = shape,
                            .strides = strides};
  opgraft_error error;
  opgraft_frame frame;
  opgraft_frame_init(&frame, opgraft_module_find_op(module, name));
  if (team != NULL) opgraft_frame_set_team(&frame, team);
  frame.in[0] = &tensor;
  og_status status = opgraft_frame_infer(&frame, &error);
  frame.fresh[0].data = found;
  if (status == OG_OK) status = opgraft_frame_run(&frame, &error);
  if (status != OG_OK) printf("%s\n", error.text);
  opgraft_frame_reset(&frame);
  return status;
}

static int32_t count_of(const int64_t *found, og_float_env env) {
  int32_t count = 0;
  for (int32_t i = 0; i < COUNT; ++i) count += (og_float_env)found[i] == env;
  return count;
}

TEST(loading_and_unloading_leave_the_environment) {
  opgraft_module *module = NULL;
  const og_float_env before = og_float_env_get();
  REQUIRE(load(&module) == OG_OK);
  CHECK_EQ(og_float_env_get(), before);
  CHECK(og_module_float_env(module)[0] != '\0');
  opgraft_module_release(module);
  module = NULL;
  CHECK_EQ(og_float_env_get(), before);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(kernels_leave_the_environment_of_every_thread) {
  static int64_t found[COUNT];
  opgraft_module *module = NULL;
  opgraft_team *team = NULL;
  opgraft_error error;
  const og_float_env before = og_float_env_get();
  REQUIRE(load(&module) == OG_OK);
  REQUIRE(opgraft_team_create(THREADS, &team, &error) == OG_OK);
  // The team's threads start in a loop of the kernel that spoils, and would
  // inherit what it set.
  for (int round = 0; round < 4; ++round) {
    REQUIRE(call(module, "leave", round < 2 ? team : NULL, found) == OG_OK);
    CHECK_EQ(og_float_env_get(), before);
    REQUIRE(call(module, "asked", team, found) == OG_OK);
    CHECK_EQ(og_float_env_get(), before);
    CHECK_EQ(count_of(found, before), COUNT);
    REQUIRE(call(module, "look", team, found) == OG_OK);
    CHECK_EQ(count_of(found, before), COUNT);
  }
done:
  opgraft_team_destroy(team);
  if (module != NULL) opgraft_module_release(module);
}

// What a kernel sets on purpose holds in its loops, on whichever thread.
TEST(a_share_runs_in_the_environment_of_its_kernel) {
  static int64_t found[COUNT];
  opgraft_module *module = NULL;
  opgraft_team *team = NULL;
  opgraft_error error;
  const og_float_env before = og_float_env_get();
  REQUIRE(load(&module) == OG_OK);
  REQUIRE(opgraft_team_create(THREADS, &team, &error) == OG_OK);
  REQUIRE(call(module, "leave", team, found) == OG_OK);
  CHECK_EQ(count_of(found, before), 0);
  CHECK_EQ(count_of(found, (og_float_env)found[0]), COUNT);
done:
  opgraft_team_destroy(team);
  if (module != NULL) opgraft_module_release(module);
}

// The caller's own choice is not "restored" to a default.
TEST(the_caller_s_environment_is_kept_whatever_it_is) {
  static int64_t found[COUNT];
  opgraft_module *module = NULL;
  const og_float_env before = og_float_env_get();
  REQUIRE(load(&module) == OG_OK);
  REQUIRE(call(module, "leave", NULL, found) == OG_OK);
  const og_float_env spoilt = (og_float_env)found[0];
  og_float_env_set(spoilt);
  CHECK(spoilt != before);
  CHECK_EQ(og_float_env_get(), spoilt);
  CHECK(call(module, "look", NULL, found) == OG_OK);
  CHECK_EQ(count_of(found, spoilt), COUNT);
  CHECK_EQ(og_float_env_get(), spoilt);
done:
  og_float_env_set(before);
  CHECK_EQ(og_float_env_get(), before);
  if (module != NULL) opgraft_module_release(module);
}

// Code that cannot change MXCSR is not watched: reading it costs a call time.
TEST(only_code_that_may_change_it_is_watched) {
  static const char *const names[] = {"check_right", "check_wrong",
                                      "float_env"};
#if defined(__x86_64__) && TEST_FORK_WITH_THREADS
  const bool is_right_watched = false;
#else
  const bool is_right_watched = true;  // it links a sanitizer
#endif
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    opgraft_module *module = NULL;
    opgraft_error error;
    char path[512];
    snprintf(path, sizeof path, "%s/%s.so", TEST_MODULE_DIR, names[i]);
    REQUIRE(opgraft_module_load(path, &module, &error) == OG_OK);
    CHECK_EQ(opgraft_module_op(module, 0)->may_set_float_env,
             i > 0 || is_right_watched);
    opgraft_module_release(module);
  }
done:
  return;
}

TEST_MAIN("float_env",
          CASE_NO_FAULTS(loading_and_unloading_leave_the_environment),
          CASE_NO_FAULTS(kernels_leave_the_environment_of_every_thread),
          CASE_NO_FAULTS(a_share_runs_in_the_environment_of_its_kernel),
          CASE_NO_FAULTS(the_caller_s_environment_is_kept_whatever_it_is),
          CASE_NO_FAULTS(only_code_that_may_change_it_is_watched))
