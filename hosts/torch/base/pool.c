// SPDX-License-Identifier: Apache-2.0
// Memory that is freed at once, and what malloc keeps of what was freed.

#include "torch/base/pool.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

// A node of a plan has a pool of its own, and is made anew for each size: the
// first block is small, each further one twice the last.
enum { FIRST_BYTES = 512, BLOCK_BYTES = 16384 };

typedef struct pool_block {
  struct pool_block *next;
  size_t used, size;
} pool_block;

void *pool_alloc(pool *p, size_t count, size_t size) {
  if (size != 0 && count > (SIZE_MAX / 2) / size) {
    PyErr_NoMemory();
    return NULL;
  }
  const size_t bytes = (count * size + 15) & ~(size_t)15;
  pool_block *block = p->blocks;
  if (block == NULL || block->size - block->used < bytes) {
    size_t room = block != NULL ? 2 * block->size : FIRST_BYTES;
    if (room > BLOCK_BYTES) room = BLOCK_BYTES;
    if (room < bytes) room = bytes;
    const size_t head = (sizeof *block + 15) & ~(size_t)15;
    block = calloc(1, head + room);
    if (block == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    block->used = head;
    block->size = head + room;
    block->next = p->blocks;
    p->blocks = block;
  }
  void *memory = (char *)block + block->used;
  block->used += bytes;
  return memory;
}

const char *pool_string(pool *p, const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = pool_alloc(p, size, 1);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

void pool_free(pool *p) {
  while (p->blocks != NULL) {
    pool_block *block = p->blocks;
    p->blocks = block->next;
    free(block);
  }
}

void memory_settle(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}
