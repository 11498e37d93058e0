// SPDX-License-Identifier: Apache-2.0
// Watches notice every way in which a process writes memory, and nothing else.

#define _GNU_SOURCE
#include "base/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

enum { BYTES = 1 << 18, PAGE = 4096 };

static bool is_skipped(void) {
  if (og_watch_is_supported()) return false;
  printf("skipped %s: this system does not track writes\n", test_now.name);
  return true;
}

static char *region_make(int flags) {
  char *region =
      mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) return NULL;
  memset(region, 1, BYTES);
  return region;
}

static void *store(void *at) {
  *(volatile char *)at = 7;
  return NULL;
}

// By the kernel, on behalf of the process.
static bool read_into(char *at) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool is_done = write(ends[1], "x", 1) == 1 && read(ends[0], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return is_done;
}

static bool store_in_thread(char *at) {
  pthread_t thread;
  return pthread_create(&thread, NULL, store, at) == 0 &&
         pthread_join(thread, NULL) == 0;
}

static bool store_here(char *at) { return store(at) == NULL; }

static bool drop(char *at) {
  char *page = at - (uintptr_t)at % PAGE;
  return madvise(page, PAGE, MADV_DONTNEED) == 0;
}

static bool map_anew(char *at) {
  char *page = at - (uintptr_t)at % PAGE;
  return mmap(page, PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page;
}

static const struct {
  const char *name;
  bool (*write)(char *at);
} ways[] = {
    {"store", store_here},      {"store in a thread", store_in_thread},
    {"system call", read_into}, {"drop", drop},
    {"map anew", map_anew},
};

// [begin, begin + size) of a region is watched; a write at `at` is noticed if
// it is within, and only then.
static void way_try(size_t way, size_t begin, size_t size, size_t at) {
  char *region = region_make(MAP_PRIVATE);
  og_watch *watch =
      region != NULL ? og_watch_create(region + begin, size) : NULL;
  const bool is_within = at >= begin && at < begin + size;
  if (watch == NULL) {
    CHECK(test_now.fault >= 0);
  } else {
    CHECK(og_watch_holds(watch) && og_watch_holds(watch));
    CHECK(ways[way].write(region + at));
    if (og_watch_holds(watch) != !is_within && test_miss(__FILE__, __LINE__))
      printf("%s at %zu of [%zu, %zu)\n", ways[way].name, at, begin,
             begin + size);
    if (is_within) CHECK(!og_watch_holds(watch));
  }
  og_watch_destroy(watch);
  if (region != NULL) munmap(region, BYTES);
}

TEST(every_way_of_writing) {
  if (is_skipped()) return;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; ++way) {
    const size_t places[] = {2 * PAGE, 3 * PAGE + 5, 9 * PAGE, 10 * PAGE - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
      way_try(way, 2 * PAGE, 8 * PAGE, places[i]);
    way_try(way, 2 * PAGE, 8 * PAGE, PAGE + 1);
    way_try(way, 2 * PAGE, 8 * PAGE, 10 * PAGE);
  }
}

// Bytes that share a page with others, and ranges that have no whole page.
TEST(ends_within_a_page) {
  if (is_skipped()) return;
  const size_t ranges[][2] = {
      {100, 7 * PAGE}, {PAGE - 1, PAGE + 2}, {64, 128}, {PAGE - 8, 16}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
    const size_t begin = ranges[i][0], size = ranges[i][1];
    way_try(0, begin, size, begin);
    way_try(0, begin, size, begin + size - 1);
    way_try(0, begin, size, begin + size / 2);
    way_try(0, begin, size, begin - 1);
    way_try(0, begin, size, begin + size);
  }
}

// To protect pages again forgets who wrote them, so all that share them are
// told.
TEST(watches_that_overlap) {
  if (is_skipped()) return;
  char *region = region_make(MAP_PRIVATE);
  og_watch *early = NULL, *late = NULL, *apart = NULL;
  REQUIRE(region != NULL);
  early = og_watch_create(region, 16 * PAGE);
  apart = og_watch_create(region + 40 * PAGE, 4 * PAGE);
  REQUIRE(early != NULL && apart != NULL);
  store(region + 12 * PAGE);
  late = og_watch_create(region + 8 * PAGE, 16 * PAGE);
  REQUIRE(late != NULL);
  CHECK(!og_watch_holds(early));
  CHECK(og_watch_holds(late) && og_watch_holds(apart));
  og_watch_destroy(early);
  early = NULL;
  CHECK(og_watch_holds(late));
  store(region + 20 * PAGE);
  CHECK(!og_watch_holds(late) && og_watch_holds(apart));
done:
  og_watch_destroy(early);
  og_watch_destroy(late);
  og_watch_destroy(apart);
  if (region != NULL) munmap(region, BYTES);
}

TEST(pages_that_were_never_touched) {
  if (is_skipped()) return;
  char *region = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  og_watch *watch = NULL;
  REQUIRE(region != MAP_FAILED);
  watch = og_watch_create(region, BYTES);
  REQUIRE(watch != NULL);
  CHECK(og_watch_holds(watch));
  store(region + 5 * PAGE);
  CHECK(!og_watch_holds(watch));
done:
  og_watch_destroy(watch);
  if (region != MAP_FAILED) munmap(region, BYTES);
}

// What is returned to the system whole loses its page tables as well, and is
// zero afterwards, whether it is touched again or not.
static void give_back(size_t begin, size_t size, bool is_touched) {
  enum { LARGE = 1 << 24 };
  char *region = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  og_watch *watch = NULL;
  REQUIRE(region != MAP_FAILED);
  memset(region, 1, LARGE);
  watch = og_watch_create(region, LARGE);
  REQUIRE(watch != NULL);
  CHECK(og_watch_holds(watch));
  CHECK(madvise(region + begin, size, MADV_DONTNEED) == 0);
  if (is_touched) CHECK(region[begin + size / 2] == 0);
  CHECK(!og_watch_holds(watch));
done:
  og_watch_destroy(watch);
  if (region != MAP_FAILED) munmap(region, LARGE);
}

TEST(memory_that_is_given_back) {
  if (is_skipped()) return;
  for (int touched = 0; touched < 2; ++touched) {
    give_back(0, 1 << 24, touched);
    give_back(1 << 22, 1 << 22, touched);
    give_back(5 << 20, 7 << 20, touched);
    give_back(1 << 23, PAGE, touched);
  }
}

// Another process may write what is shared, unseen by our page tables.
TEST(shared_memory_is_refused) {
  if (is_skipped()) return;
  char *region = region_make(MAP_SHARED);
  REQUIRE(region != NULL);
  og_watch *watch = og_watch_create(region, BYTES);
  CHECK(watch == NULL);
  og_watch_destroy(watch);
  munmap(region, BYTES);
done:;
}

// ThreadSanitizer knows no lock that a child makes anew: it takes the parent's,
// which is held across fork(), for held for good.
#ifdef __SANITIZE_THREAD__
enum { LOCKS_LAST_OVER_FORK = 1 };
#else
enum { LOCKS_LAST_OVER_FORK = 0 };
#endif

// 0: the child's watches hold no more, and it can make its own.
static int child_check(char *region, og_watch *watch) {
  if (og_watch_holds(watch)) return 1;
  og_watch *own = og_watch_create(region, BYTES);
  if (own == NULL || !og_watch_holds(own)) return 2;
  store(region + 3 * PAGE);
  return og_watch_holds(own) ? 3 : 0;
}

TEST(a_child_of_fork) {
  if (is_skipped()) return;
  if (LOCKS_LAST_OVER_FORK) {
    printf("base_watch: fork skipped under ThreadSanitizer\n");
    return;
  }
  char *region = region_make(MAP_PRIVATE);
  og_watch *watch = NULL;
  REQUIRE(region != NULL);
  watch = og_watch_create(region, BYTES);
  REQUIRE(watch != NULL);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(child_check(region, watch));
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  // What the child wrote is its own.
  CHECK(og_watch_holds(watch));
  store(region);
  CHECK(!og_watch_holds(watch));
done:
  og_watch_destroy(watch);
  if (region != NULL) munmap(region, BYTES);
}

TEST_MAIN("base_watch", CASE(every_way_of_writing), CASE(ends_within_a_page),
          CASE(watches_that_overlap), CASE(pages_that_were_never_touched),
          CASE_NO_FAULTS(memory_that_is_given_back),
          CASE(shared_memory_is_refused), CASE_NO_FAULTS(a_child_of_fork))
