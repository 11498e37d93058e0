// SPDX-License-Identifier: Apache-2.0
// Pages of code. Each is mapped writable and becomes executable when it is
// sealed; it is never both.

#define _GNU_SOURCE
#include "loop/code.h"

#include <string.h>
#include <sys/mman.h>

enum { CHUNK_BYTES = 64 << 10, ALIGNMENT = 64 };

typedef struct og_loop_chunk {
  struct og_loop_chunk *next;
  char *map;
  size_t bytes, used;
} chunk;

og_loop_code *og_loop_code_create(void) {
  static const og_loop_coder coder = {og_loop_encode, og_loop_code_add};
  og_loop_code *code = og_alloc_zeroed(1, sizeof *code);
  if (code != NULL) code->coder = &coder;
  return code;
}

void og_loop_code_destroy(og_loop_code *code) {
  if (code == NULL) return;
  for (chunk *c = code->chunks; c != NULL;) {
    chunk *next = c->next;
    munmap(c->map, c->bytes);
    og_free(c);
    c = next;
  }
  og_free(code);
}

static chunk *chunk_add(og_loop_code *code, size_t size) {
  chunk *c = og_alloc_zeroed(1, sizeof *c);
  if (c == NULL) return NULL;
  c->bytes = (size / CHUNK_BYTES + 1) * CHUNK_BYTES;
  void *map = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    og_free(c);
    return NULL;
  }
  c->map = map;
  c->next = code->chunks;
  code->chunks = c;
  return c;
}

const void *og_loop_code_add(og_loop_code *code, const void *bytes,
                             size_t size) {
  chunk *c = code->chunks;
  if (code->is_sealed) return NULL;
  if (c == NULL || c->bytes - c->used < size) c = chunk_add(code, size);
  if (c == NULL) return NULL;
  char *at = c->map + c->used;
  memcpy(at, bytes, size);
  c->used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (c->used > c->bytes) c->used = c->bytes;
  return at;
}

bool og_loop_code_seal(og_loop_code *code) {
  for (const chunk *c = code->chunks; c != NULL; c = c->next)
    if (mprotect(c->map, c->bytes, PROT_READ | PROT_EXEC) != 0) return false;
  code->is_sealed = true;
  return true;
}
