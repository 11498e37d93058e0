// SPDX-License-Identifier: Apache-2.0
// The process allocator, and arenas.
//
// Invariants: an arena block's payload starts 16-byte aligned, and what has
// been allocated never moves.

#define _GNU_SOURCE

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

// Allocations that still succeed; -1: without a limit. Written by tests only.
static int64_t allocations_left = -1;

static bool may_allocate(void) {
  if (allocations_left < 0) return true;
  if (allocations_left == 0) return false;
  --allocations_left;
  return true;
}

void og_alloc_fail_at(int64_t n) { allocations_left = n; }

void *og_alloc(size_t size_bytes) {
  if (!may_allocate()) return NULL;
  return malloc(size_bytes > 0 ? size_bytes : 1);
}

void *og_alloc_zeroed(size_t count, size_t size_bytes) {
  size_t total;
  if (!og_size_mul(count, size_bytes, &total) || !may_allocate()) return NULL;
  return calloc(1, total > 0 ? total : 1);
}

void *og_alloc_aligned(size_t alignment, size_t size_bytes) {
  size_t total;
  if (!og_size_add(size_bytes, alignment - 1, &total) || !may_allocate())
    return NULL;
  total = total / alignment * alignment;  // aligned_alloc wants a multiple
  void *memory = aligned_alloc(alignment, total > 0 ? total : alignment);
  if (memory != NULL && total >= OG_HUGE_LEAST) og_huge_ask(memory, total);
  return memory;
}

void og_huge_ask(void *memory, size_t size_bytes) {
#ifdef MADV_HUGEPAGE
  const size_t ahead = -(uintptr_t)memory % OG_HUGE_BYTES;
  const size_t whole = (size_bytes - ahead) / OG_HUGE_BYTES * OG_HUGE_BYTES;
  // Where the system refuses, pages stay small.
  (void)madvise((char *)memory + ahead, whole, MADV_HUGEPAGE);
#else
  (void)memory, (void)size_bytes;
#endif
}

void *og_realloc(void *memory, size_t size_bytes) {
  if (!may_allocate()) return NULL;
  return realloc(memory, size_bytes > 0 ? size_bytes : 1);
}

void og_free(void *memory) { free(memory); }

bool og_array_reserve(void **array, int32_t count, int32_t *capacity,
                      size_t element_bytes) {
  size_t size_bytes;
  int64_t grown = *capacity > 0 ? *capacity : 16;
  if (count <= *capacity) return true;
  while (grown < count) grown *= 2;
  if (grown > INT32_MAX) grown = count;
  if (!og_size_mul((size_t)grown, element_bytes, &size_bytes)) return false;
  void *moved = og_realloc(*array, size_bytes);
  if (moved == NULL) return false;
  *array = moved;
  *capacity = (int32_t)grown;
  return true;
}

// --- Arenas ------------------------------------------------------------------

// Each block is twice the one before it, up to a limit; what is larger than the
// first has one of its own.
enum {
  ARENA_BLOCK_BYTES = 4096,
  ARENA_BLOCK_MOST_BYTES = 16384,
  ARENA_ALIGNMENT = 16
};

struct og_arena_block {
  og_arena_block *next;
  size_t used;
  size_t size;
  size_t pad;  // keeps the payload aligned
};

static size_t payload_next(const og_arena_block *last) {
  if (last == NULL) return ARENA_BLOCK_BYTES;
  return last->size < ARENA_BLOCK_MOST_BYTES / 2 ? 2 * last->size
                                                 : ARENA_BLOCK_MOST_BYTES;
}

void *og_arena_alloc(og_arena *arena, size_t size_bytes) {
  size_t size;
  if (!og_size_add(size_bytes, ARENA_ALIGNMENT - 1, &size)) return NULL;
  size = size / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
  og_arena_block *block = arena->head;
  const bool is_large = size > ARENA_BLOCK_BYTES;
  if (is_large || block == NULL || block->size - block->used < size) {
    const size_t payload = is_large ? size : payload_next(block);
    size_t total;
    if (!og_size_add(payload, sizeof *block, &total)) return NULL;
    block = og_alloc_zeroed(1, total);
    if (block == NULL) return NULL;
    block->size = payload;
    // A large one is full at once: small ones go on sharing the head, side by
    // side, which is where replay reads them.
    og_arena_block **at =
        is_large && arena->head != NULL ? &arena->head->next : &arena->head;
    block->next = *at;
    *at = block;
  }
  void *memory = (char *)(block + 1) + block->used;
  block->used += size;
  return memory;
}

void *og_arena_array(og_arena *arena, size_t count, size_t size_bytes) {
  size_t total;
  if (!og_size_mul(count, size_bytes, &total)) return NULL;
  return og_arena_alloc(arena, total);
}

char *og_arena_strndup(og_arena *arena, const char *text, size_t length) {
  size_t size;
  if (!og_size_add(length, 1, &size)) return NULL;
  char *copy = og_arena_alloc(arena, size);
  if (copy != NULL && length > 0) memcpy(copy, text, length);
  return copy;
}

void og_arena_destroy(og_arena *arena) {
  og_arena_block *block = arena->head;
  while (block != NULL) {
    og_arena_block *next = block->next;
    og_free(block);
    block = next;
  }
  arena->head = NULL;
}
