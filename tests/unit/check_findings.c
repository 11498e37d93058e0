// SPDX-License-Identifier: Apache-2.0
// check, whole: each operator of check_wrong is named by what it does wrong
// (half of them; the other half is check_findings_more's), and nothing is said
// of those of check_right.

#include "check_seen.h"

TEST(names_each_mistake) { see_wrong(0); }

TEST(finds_nothing_in_right_operators) {
  static seen s;
  int32_t findings = -1;
  opgraft_module *module = NULL;
  REQUIRE(module_load("check_right", &module) == OG_OK);
  REQUIRE(check(module, NULL, &s, &findings) == OG_OK);
  CHECK_EQ(findings, 0);
  for (int32_t i = 0; i < s.count; ++i) printf("%s: %s\n", s.op[i], s.kind[i]);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(names_what_a_constructor_leaves_changed) {
  static seen s;
  int32_t findings = 0;
  opgraft_module *module = NULL;
  REQUIRE(module_load("float_env", &module) == OG_OK);
  REQUIRE(check(module, NULL, &s, &findings) == OG_OK);
  CHECK(has(&s, "look", "float_environment"));   // the constructor
  CHECK(has(&s, "leave", "float_environment"));  // its kernel
  CHECK(!has(&s, "asked", "float_environment"));
done:
  if (module != NULL) opgraft_module_release(module);
}

static void on_any(void *user, const opgraft_finding *finding) {
  seen *s = user;
  if (s->count == SEEN_MAX) return;
  snprintf(s->kind[s->count++], sizeof s->kind[0], "%s",
           opgraft_finding_name(finding->kind));
}

// Shown again, two calls at once have longer than a run may take.
TEST(shows_a_note_again_within_its_own_clock) {
  static seen s;
  opgraft_error error;
  opgraft_module *module = NULL;
  const opgraft_check_options options = {.struct_size = sizeof options,
                                         .op = "doubled",
                                         .probe = "concurrent",
                                         .call = "2",
                                         .run_limit_ms = 50};
  const opgraft_check_sink sink = {
      .struct_size = sizeof sink, .user = &s, .finding = on_any};
  REQUIRE(module_load("check_counts", &module) == OG_OK);
  REQUIRE(opgraft_check(module, &options, &sink, NULL, &error) == OG_OK);
  for (int32_t i = 0; i < s.count; ++i) CHECK_STR(s.kind[i], "static_data");
#ifndef __SANITIZE_ADDRESS__
  CHECK_EQ(s.count, 1);
#endif
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(refuses_what_it_does_not_know) {
  opgraft_error error;
  opgraft_module *module = NULL;
  opgraft_check_options options = {.struct_size = sizeof options,
                                   .op = "no_such_operator"};
  REQUIRE(module_load("check_right", &module) == OG_OK);
  CHECK_EQ(opgraft_check(NULL, &options, NULL, NULL, &error), OG_INVALID);
  CHECK_EQ(opgraft_check(module, &options, NULL, NULL, &error), OG_INVALID);
  CHECK(strstr(error.text, "no_such_operator") != NULL);
  options.op = "cat";
  options.probe = "no_such_probe";
  CHECK_EQ(opgraft_check(module, &options, NULL, NULL, &error), OG_INVALID);
  CHECK(strstr(error.text, "base, repeat, left,") != NULL);
  CHECK(strstr(error.text, ", arrays") != NULL);
  CHECK(opgraft_finding_name(-1) == NULL);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST_MAIN("check_findings", CASE_NO_FAULTS(names_each_mistake),
          CASE_NO_FAULTS(finds_nothing_in_right_operators),
          CASE_NO_FAULTS(names_what_a_constructor_leaves_changed),
          CASE_NO_FAULTS(shows_a_note_again_within_its_own_clock),
          CASE_NO_FAULTS(refuses_what_it_does_not_know))
