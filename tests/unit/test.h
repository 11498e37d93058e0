// SPDX-License-Identifier: Apache-2.0
// The whole test framework of the C units.
//
//   TEST(sum_overflows) {
//     thing *t = NULL;
//     REQUIRE(thing_create(&t, &error) == OG_OK);
//     CHECK_EQ(thing_size(t), 3);
//   done:
//     thing_destroy(t);
//   }
//   TEST_MAIN("thing", CASE(sum_overflows), CASE_NO_FAULTS(with_threads))
//
// Each CASE runs once as it is, and then again with allocation 0, 1, 2...
// failing until it gets through without meeting the failure. In those runs a
// check that does not hold is not a failure: what counts is that nothing
// crashes and, under AddressSanitizer, that nothing leaks. So a case frees what
// it made on every way out; REQUIRE goes to its label `done`. CASE_NO_FAULTS is
// for cases with threads, children, or no allocations worth the time.

#ifndef OG_TEST_H
#define OG_TEST_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

// What another thread has locked inside a sanitizer's runtime stays locked in
// a child of fork(), so tests that fork beside threads run without sanitizers.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_FORK_WITH_THREADS 0
#else
#define TEST_FORK_WITH_THREADS 1
#endif

typedef struct test_case {
  const char *name;
  void (*run)(void);
  bool no_faults;
} test_case;

static struct {
  const char *name;
  int64_t fault;  // the allocation that fails, or -1
  int missed;     // checks that did not hold in this run
} test_now;

#define TEST(name) static void test_##name(void)
#define CASE(name) \
  { #name, test_##name, false }
#define CASE_NO_FAULTS(name) \
  { #name, test_##name, true }

// Each is true where the check holds.
#define CHECK(condition) \
  test_check((condition) != 0, __FILE__, __LINE__, #condition)
#define CHECK_EQ(found, wanted)                                           \
  test_check_int((int64_t)(found), (int64_t)(wanted), __FILE__, __LINE__, \
                 #found)
#define CHECK_STR(found, wanted) \
  test_check_str((found), (wanted), __FILE__, __LINE__, #found)
#define REQUIRE(condition)            \
  do {                                \
    if (!CHECK(condition)) goto done; \
  } while (0)

static inline bool test_miss(const char *file, int line) {
  ++test_now.missed;
  if (test_now.fault < 0) printf("%s:%d: %s: ", file, line, test_now.name);
  return test_now.fault < 0;
}

static inline bool test_check(bool holds, const char *file, int line,
                              const char *text) {
  if (!holds && test_miss(file, line)) printf("not so: %s\n", text);
  return holds;
}

static inline bool test_check_int(int64_t found, int64_t wanted,
                                  const char *file, int line,
                                  const char *text) {
  if (found != wanted && test_miss(file, line))
    printf("%s is %" PRId64 ", not %" PRId64 "\n", text, found, wanted);
  return found == wanted;
}

static inline bool test_check_str(const char *found, const char *wanted,
                                  const char *file, int line,
                                  const char *text) {
  const bool same =
      found == wanted || (found && wanted && strcmp(found, wanted) == 0);
  if (!same && test_miss(file, line))
    printf("%s is\n  \"%s\", not\n  \"%s\"\n", text, found ? found : "(null)",
           wanted ? wanted : "(null)");
  return same;
}

static inline void test_on_crash(int signal_number) {
  printf("%s: signal %d with allocation %" PRId64 " failing (-1: none)\n",
         test_now.name, signal_number, test_now.fault);
  fflush(stdout);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

// One run; true if it got through. *out_met says whether the allocation that
// was to fail was asked for.
static inline bool test_run_once(const test_case *test, int64_t fault,
                                 bool *out_met) {
  test_now.name = test->name;
  test_now.fault = fault;
  test_now.missed = 0;
  og_alloc_fail_at(fault);
  test->run();
  void *probe = og_alloc(1);  // fails once the failing allocation was met
  og_alloc_fail_at(-1);
  *out_met = probe == NULL;
  og_free(probe);
  return test_now.missed == 0;
}

static inline bool test_run_faults(const test_case *test) {
  bool met = true;
  // Every allocation up to 256, then in growing steps.
  for (int64_t n = 0; met; n += 1 + n / 256) {
    const bool passed = test_run_once(test, n, &met);
    if (met || passed) continue;
    printf("%s: fails although allocation %" PRId64 " is not reached\n",
           test->name, n);
    return false;
  }
  return true;
}

static inline int test_run_all(const char *name, const test_case *tests,
                               size_t count) {
  int failed = 0;
#ifndef __SANITIZE_ADDRESS__
  signal(SIGSEGV, test_on_crash);
  signal(SIGABRT, test_on_crash);
  signal(SIGFPE, test_on_crash);
#endif
  for (size_t i = 0; i < count; ++i) {
    bool met;
    const bool passed = test_run_once(&tests[i], -1, &met) &&
                        (tests[i].no_faults || test_run_faults(&tests[i]));
    if (!passed) printf("FAILED %s: %s\n", name, tests[i].name);
    failed += !passed;
  }
  printf("%s: %zu passed, %d failed\n", name, count - (size_t)failed, failed);
  return failed != 0;
}

#define TEST_MAIN(name, ...)                                        \
  int main(void) {                                                  \
    static const test_case tests[] = {__VA_ARGS__};                 \
    return test_run_all(name, tests, sizeof tests / sizeof *tests); \
  }

#endif  // OG_TEST_H
