// SPDX-License-Identifier: Apache-2.0
// Watches: whether anything wrote a range of memory since.
//
// Invariants: `lock` guards the tracker and the list of watches, and is held
// for writing while pages are protected again, since that forgets who wrote
// them: all watches that share them are told first. After fork() a child's
// watches hold no more, for its pages are not tracked.

#define _GNU_SOURCE
#include "base/watch.h"

#include "base/memory.h"

#if defined(__linux__) && defined(__x86_64__)

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

// --- The system's interface --------------------------------------------------

// Headers older than the system lack these.
enum { USER_MODE_ONLY = 1 };
#define FEATURE_UNPOPULATED (UINT64_C(1) << 13)
#define FEATURE_ASYNC (UINT64_C(1) << 15)
#define FEATURES (FEATURE_UNPOPULATED | FEATURE_ASYNC)

enum {
  PAGE_WP_ALLOWED = 1 << 0,
  PAGE_WRITTEN = 1 << 1,
  PAGE_FILE = 1 << 2,
  PAGE_PRESENT = 1 << 3,
  PAGE_SWAPPED = 1 << 4,
};
enum {
  SCAN_PROTECT = 1 << 0,  // what is found, in the same step
  SCAN_NEED_TRACKED = 1 << 1,
};

typedef struct pages {
  uint64_t begin, end, categories;
} pages;

typedef struct scan {
  uint64_t size, flags, begin, end, walk_end;
  uint64_t found;  // address of pages[found_count]
  uint64_t found_count, most_pages;
  uint64_t inverted, all_of, any_of, returned;
} scan;

#define PAGEMAP_SCAN_CALL _IOWR('f', 16, scan)

// --- The tracker -------------------------------------------------------------

struct og_watch {
  og_watch *next;
  const char *data;
  size_t size_bytes;
  uintptr_t begin, end;    // whole pages within; begin == end: none
  atomic_bool is_written;  // told by who protected the pages again
  char edges[];            // copies of what lies before and after those
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static struct {
  int faults, pagemap;  // -1: not supported
  bool is_fast;
  uintptr_t page;
  og_watch *watches;
} tracker = {.faults = -1, .pagemap = -1};

static bool tracker_open(void) {
  const int faults =
      (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
  if (faults < 0) return false;
  struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const bool is_right = pagemap >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 &&
                        (api.features & FEATURES) == FEATURES;
  if (is_right) {
    tracker.faults = faults;
    tracker.pagemap = pagemap;
    return true;
  }
  if (pagemap >= 0) close(pagemap);
  close(faults);
  return false;
}

static void before_fork(void) { pthread_rwlock_wrlock(&lock); }
static void parent_after_fork(void) { pthread_rwlock_unlock(&lock); }

// Both descriptors are the parent's: they tell of its memory.
static void child_after_fork(void) {
  for (og_watch *at = tracker.watches; at != NULL; at = at->next)
    atomic_store(&at->is_written, true);
  if (tracker.faults >= 0) {
    close(tracker.faults);
    close(tracker.pagemap);
    tracker.faults = tracker.pagemap = -1;
    tracker_open();
  }
  pthread_rwlock_init(&lock, NULL);  // the parent's thread has it locked
}

// Before Linux 6.10 the fast scan mistook pages that were swapped out.
static bool has_fast_scan(void) {
  struct utsname system;
  int major = 0, minor = 0;
  if (uname(&system) != 0) return false;
  const int read = sscanf(system.release, "%d.%d", &major, &minor);
  return read == 2 && (major > 6 || (major == 6 && minor >= 10));
}

static void open_once(void) {
  tracker.is_fast = has_fast_scan();
  tracker.page = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (tracker_open())
    pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}

bool og_watch_is_supported(void) {
  pthread_once(&opened, open_once);
  pthread_rwlock_rdlock(&lock);
  const bool is_supported = tracker.faults >= 0;
  pthread_rwlock_unlock(&lock);
  return is_supported;
}

// --- Pages -------------------------------------------------------------------

static bool pages_track(uintptr_t begin, uintptr_t end, bool is_on) {
  if (!is_on) {
    struct uffdio_range range = {.start = begin, .len = end - begin};
    return ioctl(tracker.faults, UFFDIO_UNREGISTER, &range) == 0;
  }
  struct uffdio_register wanted = {
      .range = {.start = begin, .len = end - begin},
      .mode = UFFDIO_REGISTER_MODE_WP};
  return ioctl(tracker.faults, UFFDIO_REGISTER, &wanted) == 0;
}

static void told(uintptr_t begin, uintptr_t end) {
  for (og_watch *at = tracker.watches; at != NULL; at = at->next)
    if (at->begin < end && begin < at->end) atomic_store(&at->is_written, true);
}

// Protects all pages, and tells the watches that share those which were
// written.
static bool pages_protect(uintptr_t begin, uintptr_t end) {
  enum { FOUND = 64 };
  pages found[FOUND];
  while (begin < end) {
    scan s = {.size = sizeof s,
              .flags = SCAN_PROTECT | SCAN_NEED_TRACKED,
              .begin = begin,
              .end = end,
              .found = (uintptr_t)found,
              .found_count = FOUND,
              .all_of = PAGE_WRITTEN,
              .returned = PAGE_WRITTEN};
    const int count = ioctl(tracker.pagemap, PAGEMAP_SCAN_CALL, &s);
    if (count < 0 || s.walk_end <= begin) return false;
    for (int i = 0; i < count; ++i)
      told((uintptr_t)found[i].begin, (uintptr_t)found[i].end);
    begin = (uintptr_t)s.walk_end;
  }
  return true;
}

// Whether all pages have what the scan asks for.
static bool pages_are(uintptr_t begin, uintptr_t end, scan s) {
  pages found = {0};
  s.size = sizeof s;
  s.begin = begin;
  s.end = end;
  s.found = (uintptr_t)&found;
  s.found_count = 1;
  return ioctl(tracker.pagemap, PAGEMAP_SCAN_CALL, &s) == 1 &&
         found.begin == begin && found.end == end;
}

// A page that was never touched has no entry that could be protected. A file's
// pages, and memory that processes share, may be written elsewhere.
static bool pages_begin(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin; at < end; at += tracker.page)
    (void)*(const volatile char *)at;
  const scan anonymous = {
      .inverted = PAGE_FILE, .all_of = PAGE_FILE, .returned = PAGE_WP_ALLOWED};
  return pages_track(begin, end, true) && pages_are(begin, end, anonymous) &&
         pages_protect(begin, end);
}

// Memory of a page table. A range that was returned to the system whole has
// no table, and no entry that could tell; a read makes both.
enum { TABLE_BYTES = 1 << 21 };

static void tables_make(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin; at < end;
       at = (at / TABLE_BYTES + 1) * TABLE_BYTES)
    (void)*(const volatile char *)at;
}

// Scanned for what was written or is not there, which the system does at a
// tenth of the cost of any other question (12 ns a page).
static bool pages_hold_fast(uintptr_t begin, uintptr_t end) {
  pages found;
  scan s = {.size = sizeof s,
            .flags = SCAN_NEED_TRACKED,
            .begin = begin,
            .end = end,
            .found = (uintptr_t)&found,
            .found_count = 1,
            .all_of = PAGE_WRITTEN,
            .returned = PAGE_WRITTEN};
  tables_make(begin, end);
  return ioctl(tracker.pagemap, PAGEMAP_SCAN_CALL, &s) == 0;
}

// Present or swapped out, tracked, and not written.
static bool pages_hold(uintptr_t begin, uintptr_t end) {
  if (tracker.is_fast) return pages_hold_fast(begin, end);
  return pages_are(begin, end,
                   (scan){.flags = SCAN_NEED_TRACKED,
                          .inverted = PAGE_WRITTEN,
                          .all_of = PAGE_WRITTEN | PAGE_WP_ALLOWED,
                          .any_of = PAGE_PRESENT | PAGE_SWAPPED,
                          .returned = PAGE_WP_ALLOWED});
}

// --- Watches -----------------------------------------------------------------

static size_t head_bytes(const og_watch *watch) {
  return watch->begin == watch->end ? watch->size_bytes
                                    : watch->begin - (uintptr_t)watch->data;
}

static size_t tail_bytes(const og_watch *watch) {
  return watch->begin == watch->end
             ? 0
             : (uintptr_t)watch->data + watch->size_bytes - watch->end;
}

static og_watch *watch_make(const void *data, size_t size_bytes) {
  const uintptr_t page = tracker.page;
  const uintptr_t first = ((uintptr_t)data + page - 1) / page * page;
  const uintptr_t last = ((uintptr_t)data + size_bytes) / page * page;
  og_watch sized = {.data = data, .size_bytes = size_bytes};
  if (first < last) {
    sized.begin = first;
    sized.end = last;
  }
  const size_t head = head_bytes(&sized), tail = tail_bytes(&sized);
  og_watch *watch = og_alloc(sizeof *watch + head + tail);
  if (watch == NULL) return NULL;
  memcpy(watch, &sized, sizeof sized);
  return watch;
}

static void edges_copy(og_watch *watch) {
  const size_t head = head_bytes(watch), tail = tail_bytes(watch);
  memcpy(watch->edges, watch->data, head);
  memcpy(watch->edges + head, watch->data + watch->size_bytes - tail, tail);
}

static bool edges_hold(const og_watch *watch) {
  const size_t head = head_bytes(watch), tail = tail_bytes(watch);
  return memcmp(watch->edges, watch->data, head) == 0 &&
         memcmp(watch->edges + head, watch->data + watch->size_bytes - tail,
                tail) == 0;
}

// Pages that no watch needs are written without a fault again.
static void pages_leave(uintptr_t begin, uintptr_t end) {
  for (const og_watch *at = tracker.watches; at != NULL; at = at->next)
    if (at->begin < end && begin < at->end) return;
  if (tracker.faults >= 0 && begin < end) pages_track(begin, end, false);
}

og_watch *og_watch_create(const void *data, size_t size_bytes) {
  if (size_bytes == 0 || !og_watch_is_supported()) return NULL;
  og_watch *watch = watch_make(data, size_bytes);
  if (watch == NULL) return NULL;
  pthread_rwlock_wrlock(&lock);
  const bool is_tracked =
      tracker.faults >= 0 &&
      (watch->begin == watch->end || pages_begin(watch->begin, watch->end));
  if (is_tracked) {
    watch->next = tracker.watches;
    tracker.watches = watch;
  } else {
    pages_leave(watch->begin, watch->end);
  }
  pthread_rwlock_unlock(&lock);
  if (!is_tracked) {
    og_free(watch);
    return NULL;
  }
  edges_copy(watch);
  return watch;
}

bool og_watch_holds(og_watch *watch) {
  if (atomic_load(&watch->is_written)) return false;
  pthread_rwlock_rdlock(&lock);
  const bool holds =
      !atomic_load(&watch->is_written) && edges_hold(watch) &&
      (watch->begin == watch->end || pages_hold(watch->begin, watch->end));
  pthread_rwlock_unlock(&lock);
  if (!holds) atomic_store(&watch->is_written, true);
  return holds;
}

bool og_watch_is_known_written(og_watch *watch) {
  return atomic_load(&watch->is_written);
}

void og_watch_destroy(og_watch *watch) {
  if (watch == NULL) return;
  pthread_rwlock_wrlock(&lock);
  og_watch **at = &tracker.watches;
  while (*at != watch) at = &(*at)->next;
  *at = watch->next;
  pages_leave(watch->begin, watch->end);
  pthread_rwlock_unlock(&lock);
  og_free(watch);
}

#else

bool og_watch_is_supported(void) { return false; }

og_watch *og_watch_create(const void *data, size_t size_bytes) {
  (void)data;
  (void)size_bytes;
  return NULL;
}

bool og_watch_holds(og_watch *watch) {
  (void)watch;
  return false;
}

bool og_watch_is_known_written(og_watch *watch) {
  (void)watch;
  return true;
}

void og_watch_destroy(og_watch *watch) { (void)watch; }

#endif
