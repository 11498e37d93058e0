// SPDX-License-Identifier: Apache-2.0
// Memory between pages that may not be touched.

#define _GNU_SOURCE
#include "check/run/guard.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  GUARD_BYTES = 1 << 18,
  BUFFERS_MAX = 512,  // alive and released together
  CANARY = 0xc7
};

// Address space of which buffers are cut in turn, so that an address is used
// again only after very many others.
static const size_t most_field_bytes = (size_t)1 << 36;
static const size_t least_field_bytes = (size_t)1 << 31;
static size_t field_bytes;
static char *field;
static size_t field_used;

bool og_guard_reserve(void) {
  for (size_t bytes = most_field_bytes;
       field == NULL && bytes >= least_field_bytes; bytes /= 2) {
    void *map = mmap(NULL, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) continue;
    field = map;
    field_bytes = bytes;
  }
  return field != NULL;
}

void og_guard_unreserve(void) {
  if (field != NULL) munmap(field, field_bytes);
  field = NULL;
  field_used = 0;
}

static og_guard buffers[BUFFERS_MAX];
static int32_t next_buffer;

// The oldest slot that may be reused.
static og_guard *take_slot(void) {
  for (int32_t i = 0; i < BUFFERS_MAX; ++i) {
    og_guard *slot = &buffers[(next_buffer + i) % BUFFERS_MAX];
    if (slot->map != NULL && !slot->is_released) continue;
    next_buffer = (next_buffer + i + 1) % BUFFERS_MAX;
    slot->map = NULL;
    return slot;
  }
  return NULL;
}

size_t og_guard_position(void) { return field_used; }

void og_guard_go_back(size_t position) { field_used = position; }

static char *take_field(size_t bytes) {
  if (!og_guard_reserve() || bytes > field_bytes / 2) return NULL;
  if (field_used + bytes > field_bytes) field_used = 0;
  char *at = field + field_used;
  field_used += bytes;
  return at;
}

og_guard *og_guard_create(size_t bytes, size_t alignment, bool is_left,
                          og_role role, int32_t index, int32_t entry) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  // An empty buffer has no page of its own: any access is out of bounds.
  const size_t page_bytes = (bytes + page - 1) / page * page;
  const size_t room = (bytes + alignment - 1) / alignment * alignment;
  og_guard *b = take_slot();
  if (b == NULL) return NULL;
  *b = (og_guard){.map_bytes = page_bytes + 2 * GUARD_BYTES,
                  .page_bytes = page_bytes,
                  .bytes = bytes,
                  .alignment = alignment,
                  .role = role,
                  .index = index,
                  .entry = entry};
  b->map = take_field(b->map_bytes);
  if (b->map == NULL) return NULL;
  b->page = b->map + GUARD_BYTES;
  b->data = is_left ? b->page : b->page + page_bytes - room;
  if (page_bytes == 0) return b;
  if (mprotect(b->page, page_bytes, PROT_READ | PROT_WRITE) != 0) {
    b->map = NULL;
    return NULL;
  }
  memset(b->page, CANARY, (size_t)(b->data - b->page));
  memset(b->data + bytes, CANARY,
         page_bytes - bytes - (size_t)(b->data - b->page));
  return b;
}

bool og_guard_note(char *map, size_t map_bytes, char *data, size_t bytes,
                   size_t alignment, og_role role, int32_t index) {
  og_guard *b = take_slot();
  if (b == NULL) return false;
  *b = (og_guard){.map = map,
                  .map_bytes = map_bytes,
                  .page = data,
                  .data = data,
                  .bytes = bytes,
                  .alignment = alignment,
                  .role = role,
                  .index = index};
  return true;
}

void og_guard_protect(og_guard *buffer, bool is_read_only) {
  if (buffer->page_bytes > 0)
    mprotect(buffer->page, buffer->page_bytes,
             is_read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

// Each byte is compared with the next: memcmp takes many at once.
static bool is_canary(const char *begin, const char *end) {
  return begin == end ||
         ((unsigned char)*begin == CANARY &&
          memcmp(begin, begin + 1, (size_t)(end - begin - 1)) == 0);
}

bool og_guard_is_intact(const og_guard *b, int64_t *out_offset) {
  const char *end = b->data + b->bytes;
  if (is_canary(end, b->page + b->page_bytes) && is_canary(b->page, b->data))
    return true;
  const char *at = end, *limit = b->page + b->page_bytes;
  while (at < limit && (unsigned char)*at == CANARY) ++at;
  if (at == limit)
    for (at = b->data - 1; (unsigned char)*at == CANARY;) --at;
  *out_offset = at - b->data;
  return false;
}

void og_guards_release(void) {
  for (int32_t i = 0; i < BUFFERS_MAX; ++i) {
    og_guard *b = &buffers[i];
    if (b->map == NULL || b->is_released) continue;
    b->is_released = true;
    if (b->page_bytes == 0) continue;
    // Fresh pages over the old ones: gone, and unreadable.
    mmap(b->page, b->page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
}

og_guard_place og_guard_find(uintptr_t address) {
  og_guard_place best = {NULL, 0, 0};
  for (int32_t i = 0; i < BUFFERS_MAX; ++i) {
    const og_guard *b = &buffers[i];
    const uintptr_t map = (uintptr_t)b->map;
    if (b->map == NULL || address < map || address >= map + b->map_bytes)
      continue;
    if (best.buffer != NULL && !best.buffer->is_released && b->is_released)
      continue;  // an earlier one at the same place
    const uintptr_t data = (uintptr_t)b->data;
    best.buffer = b;
    best.before = address < data ? (int64_t)(data - address) : 0;
    best.after = address >= data + b->bytes
                     ? (int64_t)(address - data - b->bytes) + 1
                     : 0;
  }
  return best;
}
