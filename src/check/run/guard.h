// SPDX-License-Identifier: Apache-2.0
// Memory between pages that may not be touched.
//
// Buffers live in the checking child, which runs one sampled call at a time; a
// table of them is static, so that a signal handler can say what an address
// belongs to. Released buffers stay unreadable for a while, so that a kernel
// that kept a pointer is seen.

#ifndef OG_CHECK_RUN_GUARD_H
#define OG_CHECK_RUN_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum og_role {
  OG_ROLE_INPUT,
  OG_ROLE_MUTATED,
  OG_ROLE_RESULT,
  OG_ROLE_WORKSPACE,
  OG_ROLE_ARRAY,      // of the call itself; index: OG_ARRAY_*
  OG_ROLE_ATTR_LIST,  // what an int[] or float[] points to; index: attr
} og_role;

// What the arrays of an og_call are.
enum {
  OG_ARRAY_IN,
  OG_ARRAY_OUT,
  OG_ARRAY_IN_LIST,
  OG_ARRAY_OUT_LIST,
  OG_ARRAY_ATTR,
  OG_ARRAY_DIM,
  OG_ARRAY_COUNT,
};

typedef struct og_guard {
  char *map;  // NULL: not mapped
  size_t map_bytes;
  char *page;  // the pages that may be touched
  size_t page_bytes;
  char *data;
  size_t bytes;
  size_t alignment;  // of a tensor: the bytes of an element
  og_role role;
  int32_t index;  // tensor argument, or fresh result
  int32_t entry;  // in a list
  bool is_released;
} og_guard;

// Reserves the address space that buffers are cut from, less of it where a
// limit says so; false where not even 2 GiB are to be had.
bool og_guard_reserve(void);
// Releases it: the parent only asks whether there is any, since what it
// holds would count against its children's limit of memory.
void og_guard_unreserve(void);

// `bytes` of memory whose end (or, with `is_left`, whose start) borders a
// page that may not be touched, as near as the alignment allows. The slack
// between is filled with a canary. NULL when memory is short.
og_guard *og_guard_create(size_t bytes, size_t alignment, bool is_left,
                          og_role role, int32_t index, int32_t entry);
// Memory of the caller's own between such pages, which og_guard_find is to
// know until og_guards_release; false where there are too many.
bool og_guard_note(char *map, size_t map_bytes, char *data, size_t bytes,
                   size_t alignment, og_role role, int32_t index);
void og_guard_protect(og_guard *buffer, bool is_read_only);
// Whether the slack is as it was.
bool og_guard_is_intact(const og_guard *buffer, int64_t *out_offset);
// Makes every buffer unreadable.
void og_guards_release(void);
// Where the next buffer will lie, and the same place again, for buffers of
// which none is in use.
size_t og_guard_position(void);
void og_guard_go_back(size_t position);

typedef struct og_guard_place {
  const og_guard *buffer;  // NULL: near none
  int64_t before;          // bytes before the start, or
  int64_t after;           // bytes past the end
} og_guard_place;

// The buffer that an address is in or near. Safe in a signal handler.
og_guard_place og_guard_find(uintptr_t address);

#endif  // OG_CHECK_RUN_GUARD_H
