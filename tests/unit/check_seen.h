// SPDX-License-Identifier: Apache-2.0
// What check says of the operators of a module of tests/modules, and the test
// of those of check_wrong, which two programs share: one would run longest of
// all.

#ifndef TESTS_UNIT_CHECK_SEEN_H
#define TESTS_UNIT_CHECK_SEEN_H

#include <opgraft/check.h>

#include "test.h"

enum { SEEN_MAX = 96 };

typedef struct seen {
  char kind[SEEN_MAX][48];
  char op[SEEN_MAX][64];
  int32_t count;
  int32_t operators;
} seen;

static inline void on_finding(void *user, const opgraft_finding *finding) {
  seen *s = user;
  if (finding->is_note || s->count == SEEN_MAX) return;
  snprintf(s->kind[s->count], sizeof s->kind[0], "%s",
           opgraft_finding_name(finding->kind));
  snprintf(s->op[s->count++], sizeof s->op[0], "%s", finding->op);
  if (finding->text[0] == '\0' || finding->fix[0] == '\0')
    printf("%s: a finding without text or fix\n", finding->op);
}

static inline void on_operator(void *user, const opgraft_check_operator *done) {
  seen *s = user;
  s->operators += done->call_count >= 0;
}

static inline bool has(const seen *s, const char *op, const char *kind) {
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

// Loads tests/modules/NAME.
static inline og_status module_load(const char *name,
                                    opgraft_module **out_module) {
  char path[512];
  opgraft_error error;
  snprintf(path, sizeof path, "%s/%s.so", TEST_MODULE_DIR, name);
  *out_module = NULL;
  const og_status status = opgraft_module_load(path, out_module, &error);
  if (status != OG_OK) printf("%s\n", error.text);
  return status;
}

// Checks one operator, or with NULL all of them, and adds what is found.
static inline og_status check(const opgraft_module *module, const char *op,
                              seen *s, int32_t *out_findings) {
  opgraft_error error;
  const opgraft_check_options options = {.struct_size = sizeof options,
                                         .op = op,
                                         .run_limit_ms = run_limit_ms,
                                         .memory_limit_bytes = memory_limit};
  const opgraft_check_sink sink = {.struct_size = sizeof sink,
                                   .user = s,
                                   .finding = on_finding,
                                   .operator_done = on_operator};
  const og_status status =
      opgraft_check(module, &options, &sink, out_findings, &error);
  if (status != OG_OK) printf("%s\n", error.text);
  return status;
}

// AddressSanitizer keeps malloc, the stack and static data to itself.
static inline bool is_hidden(const char *kind) {
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

static inline bool is_kind(const char *name) {
  for (int32_t i = 0; i < OPGRAFT_FINDING_COUNT; ++i)
    if (strcmp(opgraft_finding_name(i), name) == 0) return true;
  return false;
}

// Operators of check_wrong that are not called after their finding.
static const char *const others[][2] = {
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

static inline const char *kind_of_other(const char *op) {
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (strcmp(others[i][0], op) == 0) return others[i][1];
  return NULL;
}

// Each operator of check_wrong whose place is `first`, or two, four ... behind
// it, is named by what it does wrong.
static inline void see_wrong(int32_t first) {
  static seen s;
  int32_t findings = 0;
  int32_t operators = 0;
  opgraft_module *module = NULL;
  REQUIRE(module_load("check_wrong", &module) == OG_OK);
  for (int32_t i = first; i < opgraft_module_op_count(module); i += 2) {
    const char *op = opgraft_op_name(opgraft_module_op(module, i));
    REQUIRE(check(module, op, &s, &findings) == OG_OK);
    ++operators;
    // Operators that are there for another one's backward are right.
    if (is_kind(op) && !is_hidden(op) && !CHECK(has(&s, op, op)))
      printf("missed: %s\n", op);
    const char *other = kind_of_other(op);
    if (other != NULL && !is_hidden(op) && !CHECK(has(&s, op, other)))
      printf("missed: %s\n", op);
    if (!is_kind(op) && other == NULL) CHECK(!has(&s, op, "wrong_gradient"));
  }
  CHECK(s.count >= 15);
  CHECK_EQ(s.operators, operators);
done:
  if (module != NULL) opgraft_module_release(module);
}

#endif  // TESTS_UNIT_CHECK_SEEN_H
