// SPDX-License-Identifier: Apache-2.0
// Which arguments other than tensors a kernel reads.

#define _GNU_SOURCE
#include "check/run/watchpoint.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
  WATCH_BYTES = 4096,
  TRAP_FLAG = 0x100,
  ARGUMENTS_MAX = 32,
  LIST_BYTES = OG_WATCH_ENTRIES * 8,
  LISTS_AT = ARGUMENTS_MAX * sizeof(og_attr),  // behind the arguments
  READS_MAX = 1 << 14,  // a kernel that reads more often ends too late
};

static struct {
  char *page;
  int32_t count;
  volatile int32_t left;  // reads that are still noted
  volatile uint32_t read;
  volatile uint8_t entries[ARGUMENTS_MAX];
  volatile bool is_armed;
  volatile bool is_stepping;
} watch;

static struct {
  char *begin;  // NULL: none
  size_t bytes;
  volatile bool is_touched;
} pages;

static void set_trap(void *context, bool is_on) {
#ifdef __x86_64__
  ucontext_t *c = context;
  if (is_on)
    c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
  else
    c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
#else
  (void)context;
  (void)is_on;
#endif
}

// Of what is read from now on nothing is known: all counts as read.
static void watch_give_up(void) {
  watch.read = UINT32_MAX;
  for (int32_t k = 0; k < watch.count; ++k) watch.entries[k] = UINT8_MAX;
  mprotect(watch.page, WATCH_BYTES, PROT_READ | PROT_WRITE);
}

bool og_watch_on_signal(int number, uintptr_t address, void *context) {
  const uintptr_t begin = (uintptr_t)watch.page;
  if (number == SIGSEGV && pages.begin != NULL && !pages.is_touched &&
      address - (uintptr_t)pages.begin < pages.bytes) {
    pages.is_touched = true;
    mprotect(pages.begin, pages.bytes, PROT_READ | PROT_WRITE);
    return true;
  }
  if (!watch.is_armed) return false;
  if (number == SIGTRAP && watch.is_stepping) {
    watch.is_stepping = false;
    set_trap(context, false);
    mprotect(watch.page, WATCH_BYTES, PROT_NONE);
    return true;
  }
  if (number != SIGSEGV || address < begin || address >= begin + WATCH_BYTES ||
      watch.is_stepping)
    return false;
  if (--watch.left < 0) {
    watch_give_up();
    return true;
  }
  const uintptr_t at = address - begin, index = at / sizeof(og_attr);
  if (at < LISTS_AT && index < (uintptr_t)watch.count)
    watch.read |= 1u << index;
  if (at >= LISTS_AT && (at - LISTS_AT) / LIST_BYTES < ARGUMENTS_MAX)
    watch.entries[(at - LISTS_AT) / LIST_BYTES] |=
        (uint8_t)(1u << (at - LISTS_AT) % LIST_BYTES / 8);
  watch.is_stepping = true;
  set_trap(context, true);
  mprotect(watch.page, WATCH_BYTES, PROT_READ | PROT_WRITE);
  return true;
}

og_attr *og_watch_begin(const og_attr *attr, int32_t count) {
  if (watch.page == NULL) {
    void *page = mmap(NULL, WATCH_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    watch.page = page;
  }
  mprotect(watch.page, WATCH_BYTES, PROT_READ | PROT_WRITE);
  memcpy(watch.page, attr, (size_t)count * sizeof *attr);
  og_attr *held = (og_attr *)(void *)watch.page;
  for (int32_t k = 0; k < count; ++k) {
    watch.entries[k] = 0;
    if ((attr[k].kind != OG_ATTR_INTS && attr[k].kind != OG_ATTR_BOOLS &&
         attr[k].kind != OG_ATTR_FLOATS) ||
        attr[k].count < 0 || attr[k].count > OG_WATCH_ENTRIES)
      continue;
    char *list = watch.page + LISTS_AT + k * LIST_BYTES;
    if (attr[k].count > 0)
      memcpy(list, attr[k].ints, (size_t)attr[k].count * 8);
    held[k].ints = (const int64_t *)(const void *)list;
  }
  mprotect(watch.page, WATCH_BYTES, PROT_NONE);
  watch.count = count;
  watch.read = 0;
  watch.left = READS_MAX;
  watch.is_armed = true;
  return (og_attr *)(void *)watch.page;
}

uint32_t og_watch_end(void) {
  watch.is_armed = false;
  return watch.read;
}

uint8_t og_watch_entries(int32_t k) { return watch.entries[k]; }

void og_watch_pages(char *begin, size_t bytes) {
  pages.begin = begin;
  pages.bytes = bytes;
  pages.is_touched = false;
  mprotect(begin, bytes, PROT_NONE);
}

bool og_watch_pages_end(void) {
  mprotect(pages.begin, pages.bytes, PROT_READ | PROT_WRITE);
  pages.begin = NULL;
  return pages.is_touched;
}

bool og_watch_works(void) {
#ifdef __x86_64__
  static enum { UNKNOWN, YES, NO } answer;
  if (answer != UNKNOWN) return answer == YES;
  const og_attr some[3] = {{.i = 1}, {.i = 2}, {.i = 3}};
  const og_attr *held = og_watch_begin(some, 3);
  answer = NO;
  if (held == NULL) return false;
  // Two reads, of which the second is seen only if the trap closed the page.
  const int64_t first = *(const volatile int64_t *)&held[0].i;
  const int64_t last = *(const volatile int64_t *)&held[2].i;
  if (og_watch_end() == 5 && first == 1 && last == 3) answer = YES;
  return answer == YES;
#else
  return false;
#endif
}
