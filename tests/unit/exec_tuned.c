// SPDX-License-Identifier: Apache-2.0
// What races found, in the process and in its file: kept, read again, joined,
// and never lost to a damaged file or to short memory.

#define _GNU_SOURCE
#include "exec/choose/tuned.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#include "unit/test.h"

static int looks;

// The test's own: each look is a tenth of a second later.
int64_t og_now_ns(void) { return 100000000LL * ++looks; }

static char folder[] = "/tmp/opgraft-tuned.XXXXXX";

static void path_of(const char *name, char *out, size_t size) {
  snprintf(out, size, "%s/%s", folder, name);
  unlink(out);
}

typedef struct seen {
  int32_t count;
  char last[128];
} seen;

static void line_see(void *context, const char *node, const char *found) {
  seen *s = context;
  ++s->count;
  snprintf(s->last, sizeof s->last, "%s -> %s", node, found);
}

static void found_add(const char *node, const char *found, og_candidate by) {
  og_tuned_add(node, found, &by);
}

// Another process's file: what this one forgets it no longer has.
static og_status file_of(const char *path, const char *node, const char *found,
                         og_candidate by, opgraft_error *error) {
  og_tuned_forget();
  found_add(node, found, by);
  const og_status status = og_tuned_write(path, error);
  og_tuned_forget();
  return status;
}

TEST(the_first_result_of_a_node_stays) {
  og_candidate by = OG_BY_FAST;
  og_tuned_add("addmm f32[2]", "fast", &by);
  by = OG_BY_HOST;
  og_tuned_add("addmm f32[2]", "host", &by);
  CHECK_EQ(by, OG_BY_FAST);
  CHECK(og_tuned_find("addmm f32[2]", &by));
  CHECK(!og_tuned_find("addmm f32[3]", &by));
  og_tuned_forget();
}

TEST(a_file_is_read_by_the_next_process) {
  char path[64];
  opgraft_error error;
  og_candidate by = OG_BY_PLAIN;
  seen s = {0};
  path_of("made/anew.txt", path, sizeof path);
  REQUIRE(file_of(path, "matmul f32[2]", "fast  # 1 us", OG_BY_FAST, &error) ==
          OG_OK);
  REQUIRE(og_tuned_load(path, &error));
  CHECK(og_tuned_find("matmul f32[2]", &by));
  CHECK_EQ(by, OG_BY_FAST);
  REQUIRE(opgraft_tune_read(path, line_see, &s, &error) == OG_OK);
  CHECK_EQ(s.count, 1);
  CHECK_STR(s.last, "matmul f32[2] -> fast  # 1 us");
done:
  og_tuned_forget();
}

TEST(files_are_joined_and_the_newer_result_stays) {
  char to[64], from[64];
  opgraft_error error;
  seen s = {0};
  path_of("to.txt", to, sizeof to);
  path_of("from.txt", from, sizeof from);
  REQUIRE(file_of(to, "a f32[1]", "fast", OG_BY_FAST, &error) == OG_OK);
  REQUIRE(file_of(to, "b f32[1]", "fast", OG_BY_FAST, &error) == OG_OK);
  REQUIRE(file_of(from, "b f32[1]", "host", OG_BY_HOST, &error) == OG_OK);
  REQUIRE(opgraft_tune_merge(from, to, &error) == OG_OK);
  REQUIRE(opgraft_tune_read(to, line_see, &s, &error) == OG_OK);
  CHECK_EQ(s.count, 2);
  CHECK_STR(s.last, "b f32[1] -> host");
done:
  og_tuned_forget();
}

static bool bytes_put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return false;
  fputs(text, file);
  return fclose(file) == 0;
}

TEST(a_damaged_file_is_ignored_and_written_anew) {
  static const char *const damaged[] = {"", "rubbish",
                                        "# opgraft tune 1, another\n# end 0\n",
                                        "# opgraft tune 2"};
  char path[64];
  opgraft_error error;
  path_of("damaged.txt", path, sizeof path);
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; ++i) {
    seen s = {0};
    REQUIRE(bytes_put(path, damaged[i]));
    CHECK(!og_tuned_load(path, &error));
    CHECK_EQ(opgraft_tune_read(path, line_see, &s, &error), OG_INVALID);
    REQUIRE(file_of(path, "c f32[1]", "fast", OG_BY_FAST, &error) == OG_OK);
    REQUIRE(opgraft_tune_read(path, line_see, &s, &error) == OG_OK);
    CHECK_EQ(s.count, 1);
  }
done:
  og_tuned_forget();
}

// Whichever allocation fails, what other processes found is not lost.
TEST(short_memory_loses_no_other_result) {
  char path[64];
  opgraft_error error;
  seen s = {0};
  path_of("kept.txt", path, sizeof path);
  REQUIRE(file_of(path, "d f32[1]", "fast", OG_BY_FAST, &error) == OG_OK);
  for (int64_t fault = 0; fault < 40; ++fault) {
    og_alloc_fail_at(fault);
    file_of(path, "e f32[1]", "host", OG_BY_HOST, &error);
    og_alloc_fail_at(-1);
    s = (seen){0};
    REQUIRE(opgraft_tune_read(path, line_see, &s, &error) == OG_OK);
    CHECK(s.count == 1 || s.count == 2);
  }
  CHECK_EQ(s.count, 2);
done:
  og_alloc_fail_at(-1);
  og_tuned_forget();
}

// How often the clock was read in a write that is refused with these words.
static int refused(const char *path, const char *words) {
  opgraft_error error = {0};
  const int before = looks;
  CHECK(file_of(path, "f f32[1]", "fast", OG_BY_FAST, &error) != OG_OK);
  CHECK(strstr(error.text, words) != NULL);
  return looks - before;
}

static int hold(const char *path) {
  char beside[80];
  snprintf(beside, sizeof beside, "%s.lock", path);
  const int file = open(beside, O_RDWR | O_CREAT, 0666);
  CHECK_EQ(flock(file, LOCK_EX), 0);
  return file;
}

TEST(a_lock_that_another_process_keeps_is_not_waited_for) {
  char path[64];
  opgraft_error error;
  path_of("held.txt", path, sizeof path);
  const int holder = hold(path);
  CHECK_EQ(refused(path, "another process holds"), 11);
  CHECK(access(path, F_OK) != 0);
  close(holder);
  CHECK_EQ(file_of(path, "f f32[1]", "fast", OG_BY_FAST, &error), OG_OK);
}

static void signal_take(int number) { (void)number; }

// As Python's handler of Ctrl-C, which is heard when the call returns.
TEST(a_signal_ends_the_wait) {
  char path[64];
  struct sigaction action = {.sa_handler = signal_take}, before;
  path_of("held.txt", path, sizeof path);
  const int holder = hold(path);
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                           .sigev_signo = SIGUSR1};
  const struct timespec moment = {.tv_nsec = 5000000};
  // Again and again: the first may come before there is a wait.
  const struct itimerspec soon = {.it_interval = moment, .it_value = moment};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  REQUIRE(timer_settime(timer, 0, &soon, NULL) == 0);
  CHECK(refused(path, "another process holds") < 8);
  timer_delete(timer);
  sigaction(SIGUSR1, &before, NULL);
done:
  close(holder);
}

// Neither a pipe without a writer nor a folder keeps anybody.
TEST(what_is_no_file_is_refused) {
  char path[64];
  opgraft_error error;
  seen s = {0};
  path_of("pipe.txt", path, sizeof path);
  REQUIRE(mkfifo(path, 0666) == 0);
  CHECK(!og_tuned_load(path, &error));
  CHECK_EQ(opgraft_tune_read(path, line_see, &s, &error), OG_IO);
  CHECK_EQ(refused(path, "is no file, expected a file"), 1);
  unlink(path);
  path_of("pipe.txt.lock", path, sizeof path);
  REQUIRE(mkfifo(path, 0666) == 0);
  path[strlen(path) - 5] = '\0';
  CHECK_EQ(file_of(path, "f f32[1]", "fast", OG_BY_FAST, &error), OG_OK);
done:
  og_tuned_forget();
}

TEST(the_path_follows_the_cache_folder) {
  char buffer[256], small[4];
  setenv("XDG_CACHE_HOME", "/some/cache", 1);
  const size_t length = opgraft_tune_path(buffer, sizeof buffer);
  CHECK_EQ(length, strlen(buffer));
  CHECK(strncmp(buffer, "/some/cache/opgraft/tune-", 25) == 0);
  CHECK_EQ(opgraft_tune_path(small, sizeof small), length);
  CHECK_STR(small, "/so");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/somebody", 1);
  opgraft_tune_path(buffer, sizeof buffer);
  CHECK(strncmp(buffer, "/home/somebody/.cache/opgraft/", 30) == 0);
  unsetenv("HOME");
  CHECK_EQ(opgraft_tune_path(buffer, sizeof buffer), 0);
  CHECK_STR(buffer, "");
}

static void folder_remove(void) {
  static const char *const made[] = {"made/anew.txt", "to.txt",   "from.txt",
                                     "damaged.txt",   "kept.txt", "held.txt",
                                     "pipe.txt"};
  char path[80];
  for (size_t i = 0; i < sizeof made / sizeof *made; ++i) {
    snprintf(path, sizeof path, "%s/%s", folder, made[i]);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s.lock", folder, made[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/made", folder);
  rmdir(path);
  rmdir(folder);
}

int main(void) {
  static const test_case tests[] = {
      CASE(the_first_result_of_a_node_stays),
      CASE(a_file_is_read_by_the_next_process),
      CASE(files_are_joined_and_the_newer_result_stays),
      CASE(a_damaged_file_is_ignored_and_written_anew),
      CASE_NO_FAULTS(short_memory_loses_no_other_result),
      CASE_NO_FAULTS(a_lock_that_another_process_keeps_is_not_waited_for),
      CASE_NO_FAULTS(a_signal_ends_the_wait),
      CASE_NO_FAULTS(what_is_no_file_is_refused),
      CASE_NO_FAULTS(the_path_follows_the_cache_folder),
  };
  if (mkdtemp(folder) == NULL) return 1;
  const int result =
      test_run_all("exec_tuned", tests, sizeof tests / sizeof *tests);
  folder_remove();
  return result;
}
