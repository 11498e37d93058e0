// SPDX-License-Identifier: Apache-2.0
// check, whole: each operator of check_wrong is named by what it does wrong,
// and nothing is said of those of check_right.

#include <opgraft/check.h>

#include "test.h"

enum { SEEN_MAX = 96 };

typedef struct seen {
  char kind[SEEN_MAX][48];
  char op[SEEN_MAX][64];
  int32_t count;
  int32_t operators;
} seen;

static void on_finding(void *user, const opgraft_finding *finding) {
  seen *s = user;
  if (finding->is_note || s->count == SEEN_MAX) return;
  snprintf(s->kind[s->count], sizeof s->kind[0], "%s",
           opgraft_finding_name(finding->kind));
  snprintf(s->op[s->count++], sizeof s->op[0], "%s", finding->op);
  if (finding->text[0] == '\0' || finding->fix[0] == '\0')
    printf("%s: a finding without text or fix\n", finding->op);
}

static void on_operator(void *user, const opgraft_check_operator *done) {
  seen *s = user;
  s->operators += done->call_count >= 0;
}

static bool has(const seen *s, const char *op, const char *kind) {
  for (int32_t i = 0; i < s->count; ++i)
    if (strcmp(s->op[i], op) == 0 && strcmp(s->kind[i], kind) == 0) return true;
  return false;
}

// A kernel that takes memory without end has to meet that limit before the
// clock: a machine's first touch of a page can cost microseconds.
// AddressSanitizer needs more of both, and its report of a failed allocation
// blocks where memory is short.
#ifdef __SANITIZE_ADDRESS__
enum { run_limit_ms = 4000, memory_limit = 1 << 30 };
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
#else
enum { run_limit_ms = 500, memory_limit = 64 << 20 };
#endif

static og_status check(const char *name, seen *s, int32_t *out_findings,
                       opgraft_module **out_module) {
  char path[512];
  opgraft_error error;
  const opgraft_check_options options = {.struct_size = sizeof options,
                                         .run_limit_ms = run_limit_ms,
                                         .memory_limit_bytes = memory_limit};
  const opgraft_check_sink sink = {.struct_size = sizeof sink,
                                   .user = s,
                                   .finding = on_finding,
                                   .operator_done = on_operator};
  memset(s, 0, sizeof *s);
  snprintf(path, sizeof path, "%s/%s.so", TEST_MODULE_DIR, name);
  *out_module = NULL;
  og_status status = opgraft_module_load(path, out_module, &error);
  if (status == OG_OK)
    status = opgraft_check(*out_module, &options, &sink, out_findings, &error);
  if (status != OG_OK) printf("%s\n", error.text);
  return status;
}

// AddressSanitizer keeps malloc, the stack and static data to itself.
static bool is_hidden(const char *kind) {
#ifdef __SANITIZE_ADDRESS__
  if (strcmp(kind, "memory_leak") != 0 && strcmp(kind, "uninitialised") != 0 &&
      strcmp(kind, "first_wins") != 0)
    return false;
  printf("check_findings: %s skipped under AddressSanitizer\n", kind);
  return true;
#else
  (void)kind;
  return false;
#endif
}

static bool is_kind(const char *name) {
  for (int32_t i = 0; i < OPGRAFT_FINDING_COUNT; ++i)
    if (strcmp(opgraft_finding_name(i), name) == 0) return true;
  return false;
}

// Operators of check_wrong that are not called after their finding.
static const char *const more[][2] = {
    {"magnitude", "wrong_values_across_dtypes"},
    {"widen", "wrong_values_across_dtypes"},
    {"first_wins", "not_repeatable"},
    {"like_row_major", "layout_dependent"},
    {"claims_zero", "missing_gradient"},
    {"first_count", "crash"},
    {"sum_entries", "crash"},
    {"add_twice_", "wrong_gradient"},
    {"read_second", "out_of_bounds_read"},
    {"sum_past_list", "out_of_bounds_read"},
    {"add_first", "unused_end"},
    {"unscaled", "unused_argument"},
    // Its own backward is given its argument in place of the gradient.
    {"doubled_backward", "wrong_gradient"},
    {"claims_zero_twice_backward", "missing_gradient"},
    {"read_unused", "untrue_expect"},
    {"whole_end", "untrue_expect"},
    {"added_", "untrue_expect"},
    {"twice", "untrue_expect"},
    {"without_nan", "untrue_expect"},
    {"of_no_type", "untrue_expect"},
};

static bool is_in_more(const char *op) {
  for (size_t i = 0; i < sizeof more / sizeof *more; ++i)
    if (strcmp(more[i][0], op) == 0) return true;
  return false;
}

TEST(names_each_mistake) {
  static seen s;
  int32_t findings = 0;
  opgraft_module *module = NULL;
  REQUIRE(check("check_wrong", &s, &findings, &module) == OG_OK);
  CHECK(findings >= 30);
  CHECK_EQ(s.operators, opgraft_module_op_count(module));
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const char *op = opgraft_op_name(opgraft_module_op(module, i));
    // Operators that are there for another one's backward are right.
    if (is_kind(op) && !is_hidden(op) && !CHECK(has(&s, op, op)))
      printf("missed: %s\n", op);
    if (!is_kind(op) && !is_in_more(op)) CHECK(!has(&s, op, "wrong_gradient"));
  }
  for (size_t i = 0; i < sizeof more / sizeof *more; ++i)
    if (!is_hidden(more[i][0]) && !CHECK(has(&s, more[i][0], more[i][1])))
      printf("missed: %s\n", more[i][0]);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(every_operator_whose_pack_elements_meet_is_found) {
  static seen s;
  int32_t findings = 0, wrong = 0;
  opgraft_module *module = NULL;
  REQUIRE(check("check_pack", &s, &findings, &module) == OG_OK);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const char *op = opgraft_op_name(opgraft_module_op(module, i));
    const bool is_right = strncmp(op, "right_", 6) == 0;
    wrong += !is_right;
    const bool meets =
        has(&s, op, "mixed_pack") || has(&s, op, "wrong_batch_rule");
    if (!CHECK(meets == !is_right)) printf("%s\n", op);
  }
  CHECK(wrong >= 8);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(finds_nothing_in_right_operators) {
  static seen s;
  int32_t findings = -1;
  opgraft_module *module = NULL;
  REQUIRE(check("check_right", &s, &findings, &module) == OG_OK);
  CHECK_EQ(findings, 0);
  for (int32_t i = 0; i < s.count; ++i) printf("%s: %s\n", s.op[i], s.kind[i]);
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(names_what_a_constructor_leaves_changed) {
  static seen s;
  int32_t findings = 0;
  opgraft_module *module = NULL;
  REQUIRE(check("float_env", &s, &findings, &module) == OG_OK);
  CHECK(has(&s, "look", "float_environment"));   // the constructor
  CHECK(has(&s, "leave", "float_environment"));  // its kernel
  CHECK(!has(&s, "asked", "float_environment"));
done:
  if (module != NULL) opgraft_module_release(module);
}

TEST(refuses_what_it_does_not_know) {
  opgraft_error error;
  opgraft_module *module = NULL;
  char path[512];
  opgraft_check_options options = {.struct_size = sizeof options,
                                   .op = "no_such_operator"};
  snprintf(path, sizeof path, "%s/check_right.so", TEST_MODULE_DIR);
  REQUIRE(opgraft_module_load(path, &module, &error) == OG_OK);
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
          CASE_NO_FAULTS(every_operator_whose_pack_elements_meet_is_found),
          CASE_NO_FAULTS(finds_nothing_in_right_operators),
          CASE_NO_FAULTS(names_what_a_constructor_leaves_changed),
          CASE_NO_FAULTS(refuses_what_it_does_not_know))
