// SPDX-License-Identifier: Apache-2.0
// Which arguments other than tensors a kernel reads.
//
// They lie on pages that may not be read. A read faults and is noted, one
// instruction runs with the pages open, and a trap closes them again. One
// watch at a time, in the checking child.

#ifndef OG_CHECK_RUN_WATCHPOINT_H
#define OG_CHECK_RUN_WATCHPOINT_H

#include <opgraft/op.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether this machine does it, which is tried out: false on other processors
// than x86-64, and where nobody lets single steps through. Needs the signal
// handlers of the child, which call og_watch_on_signal.
bool og_watch_works(void);
// A copy of the arguments (32 at most) that is watched until og_watch_end;
// NULL where memory is short.
og_attr *og_watch_begin(const og_attr *attr, int32_t count);
// One bit for each argument that was read.
uint32_t og_watch_end(void);
// Of a list: one bit for each of its first entries that was read.
enum { OG_WATCH_ENTRIES = 8 };
uint8_t og_watch_entries(int32_t k);
// Watches whole pages: whether anything in them is read or written. One range
// at a time.
void og_watch_pages(char *begin, size_t bytes);
bool og_watch_pages_end(void);
// True if the signal was the watch's own: the program may go on.
bool og_watch_on_signal(int number, uintptr_t address, void *context);

#endif  // OG_CHECK_RUN_WATCHPOINT_H
