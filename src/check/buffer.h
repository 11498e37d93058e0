// SPDX-License-Identifier: Apache-2.0
// Memory between pages that may not be touched.
//
// Buffers live in the checking child, which runs one sampled call at a time; a
// table of them is static, so that a signal handler can say what an address
// belongs to. Released buffers stay unreadable for a while, so that a kernel
// that kept a pointer is seen.

#ifndef OG_CHECK_BUFFER_H
#define OG_CHECK_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum og_buffer_role {
  OG_BUFFER_INPUT,
  OG_BUFFER_MUTATED,
  OG_BUFFER_RESULT,
  OG_BUFFER_WORKSPACE,
  OG_BUFFER_ARRAY,      // of the call itself; index: OG_ARRAY_*
  OG_BUFFER_ATTR_LIST,  // what an int[] or float[] points to; index: attr
} og_buffer_role;

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

typedef struct og_buffer {
  char *map;  // NULL: not mapped
  size_t map_bytes;
  char *page;  // the pages that may be touched
  size_t page_bytes;
  char *data;
  size_t bytes;
  og_buffer_role role;
  int32_t index;  // tensor argument, or fresh result
  int32_t entry;  // in a list
  bool is_released;
} og_buffer;

// Reserves the address space that buffers are cut from, less of it where a
// limit says so; false where not even 2 GiB are to be had.
bool og_buffer_reserve(void);
// Gives it back: the parent only asks whether there is any, since what it
// holds would count against its children's limit of memory.
void og_buffer_unreserve(void);

// `bytes` of memory whose end (or, with `is_left`, whose start) borders a
// page that may not be touched, as near as the alignment allows. The slack
// between is filled with a canary. NULL when memory is short.
og_buffer *og_buffer_create(size_t bytes, size_t alignment, bool is_left,
                            og_buffer_role role, int32_t index, int32_t entry);
void og_buffer_protect(og_buffer *buffer, bool is_read_only);
// Whether the slack is as it was.
bool og_buffer_is_intact(const og_buffer *buffer, int64_t *out_offset);
// Makes every buffer unreadable.
void og_buffers_release(void);

typedef struct og_place {
  const og_buffer *buffer;  // NULL: near none
  int64_t before;           // bytes before the start, or
  int64_t after;            // bytes past the end
} og_place;

// The buffer that an address is in or near. Safe in a signal handler.
og_place og_buffer_find(uintptr_t address);

#endif  // OG_CHECK_BUFFER_H
