// SPDX-License-Identifier: Apache-2.0
// Watches: whether anything wrote a range of memory since.
//
// Whoever keeps something that was computed from memory of somebody else
// (packed weights) asks before each use. Linux from 6.7 on tracks the first
// write of a page, by any thread or system call of the process, without a
// signal and at no cost for reads; the bytes at both ends that share a page
// with others are compared with a copy. Nothing is estimated: true means that
// no byte was written.
// Source: userfaultfd(2), UFFD_FEATURE_WP_ASYNC; ioctl_pagemap_scan(2).

#ifndef OG_BASE_WATCH_H
#define OG_BASE_WATCH_H

#include <stdbool.h>
#include <stddef.h>

typedef struct og_watch og_watch;

// Whether this system tracks writes and lets this process ask. Any thread.
bool og_watch_is_supported(void);
// From when it returns on, a write is noticed. NULL where writes cannot be
// tracked (another system, memory that other processes map too, or that a
// debugger or another library tracks already) and where memory is short.
// Watches may overlap. Any thread.
og_watch *og_watch_create(const void *data, size_t size_bytes);
// False once any byte was written, the memory was unmapped, or in a child of
// fork(). The range has to be readable. Any thread.
bool og_watch_holds(og_watch *watch);
// Whether somebody found out already that it no longer holds; asks nobody.
bool og_watch_is_known_written(og_watch *watch);
void og_watch_destroy(og_watch *watch);  // NULL is allowed

#endif  // OG_BASE_WATCH_H
