// SPDX-License-Identifier: Apache-2.0
// The fake's memory: one range of the process, so that an address in it tells
// whether a live block lies there.
//
// Invariants: blocks stand in the order of their addresses, apart by a guard;
// the next allocation is tried behind the last one, so that a freed address is
// not another block's soon.

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/fake.h"

enum { ALIGNMENT = 256, GUARD = 256, GUARD_BYTE = 0xA5, FREED_BYTE = 0xDD };

typedef struct block {
  struct block *next;
  uint64_t address;
  size_t size_bytes;
  int device;
  struct fake_pool *pool;  // NULL: of cuMemAlloc
} block;

typedef struct fake_pool {
  fake_object object;
  int device;
  uint64_t threshold;
} fake_pool;

static uint64_t begin, end, cursor;
static block *blocks;

static bool region_open(void) {
  if (begin != 0) return true;
  const size_t size = (size_t)fake_environment("OPGRAFT_FAKE_MEMORY_MB", 64)
                      << 20;
  void *region = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return false;
  begin = cursor = (uint64_t)(uintptr_t)region;
  end = begin + size;
  return true;
}

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

static const block *block_at(uint64_t address, size_t size_bytes) {
  for (const block *b = blocks; b != NULL; b = b->next)
    if (address >= b->address &&
        address + size_bytes <= b->address + b->size_bytes)
      return b;
  return NULL;
}

bool fake_memory_has(uint64_t address, size_t size_bytes) {
  return block_at(address, size_bytes) != NULL;
}

bool fake_memory_is_device(uint64_t address) {
  return begin != 0 && address >= begin && address < end;
}

int fake_memory_count(void) {
  int count = 0;
  for (const block *b = blocks; b != NULL; b = b->next) ++count;
  return count;
}

static bool guard_is_whole(const unsigned char *guard, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (guard[i] != GUARD_BYTE) return false;
  return true;
}

// The guard in front is the one behind the block before.
static void block_check(const block *b) {
  const unsigned char *at = pointer(b->address);
  if (!guard_is_whole(at - GUARD, GUARD) ||
      !guard_is_whole(at + b->size_bytes, GUARD))
    fake_misuse(0, "bytes beside the %zu at %p were written", b->size_bytes,
                pointer(b->address));
}

void fake_memory_check(void) {
  for (const block *b = blocks; b != NULL; b = b->next) block_check(b);
}

// The first room from an address on; the link that the block belongs into.
static block **room_find(uint64_t from, size_t size_bytes,
                         uint64_t *out_address) {
  block **link = &blocks;
  uint64_t at = from;
  for (;; link = &(*link)->next) {
    const uint64_t up = (at + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t limit = *link != NULL ? (*link)->address - GUARD : end;
    *out_address = up;
    if (up + size_bytes + GUARD <= limit) return link;
    if (*link == NULL) return NULL;
    const uint64_t behind = (*link)->address + (*link)->size_bytes + GUARD;
    if (behind > at) at = behind;
  }
}

static int block_make(uint64_t *out_address, size_t size_bytes,
                      fake_pool *pool) {
  uint64_t address = 0;
  if (size_bytes == 0 || !region_open()) return OG_CUDA_INVALID_VALUE;
  if (size_bytes > end - begin) return OG_CUDA_OUT_OF_MEMORY;
  block **link = room_find(cursor, size_bytes, &address);
  if (link == NULL) link = room_find(begin, size_bytes, &address);
  if (link == NULL) return OG_CUDA_OUT_OF_MEMORY;
  block *b = malloc(sizeof *b);
  if (b == NULL) abort();
  *b = (block){.next = *link,
               .address = address,
               .size_bytes = size_bytes,
               .device = pool != NULL ? pool->device : fake_current()->device,
               .pool = pool};
  *link = b;
  unsigned char *at = pointer(address);
  memset(at - GUARD, GUARD_BYTE, GUARD);
  memset(at, FREED_BYTE, size_bytes);
  memset(at + size_bytes, GUARD_BYTE, GUARD);
  cursor = address + size_bytes;
  *out_address = address;
  return 0;
}

static int block_free(uint64_t address, const char *symbol) {
  block **link = &blocks;
  while (*link != NULL && (*link)->address != address) link = &(*link)->next;
  block *b = *link;
  if (b == NULL)
    return fake_misuse(OG_CUDA_INVALID_VALUE,
                       "%s: %p is not allocated, or freed already", symbol,
                       pointer(address));
  block_check(b);
  if (fake_is_used(b->address, b->size_bytes))
    fake_misuse(0, "%s: work that is not done uses the %zu bytes at %p", symbol,
                b->size_bytes, pointer(address));
  memset(pointer(address), FREED_BYTE, b->size_bytes);
  *link = b->next;
  free(b);
  return 0;
}

// --- Entries -----------------------------------------------------------------

int cuMemAlloc_v2(uint64_t *out_address, size_t size_bytes) {
  FAKE_ENTER("cuMemAlloc_v2");
  if (!fake_has_context("cuMemAlloc"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (fake_is_forbidden("cuMemAlloc"))
    return fake_leave(OG_CUDA_CAPTURE_UNSUPPORTED);
  return fake_leave(block_make(out_address, size_bytes, NULL));
}

int cuMemFree_v2(uint64_t address) {
  FAKE_ENTER("cuMemFree_v2");
  if (!fake_has_context("cuMemFree"))
    return fake_leave(OG_CUDA_INVALID_CONTEXT);
  if (fake_is_forbidden("cuMemFree"))
    return fake_leave(OG_CUDA_CAPTURE_UNSUPPORTED);
  fake_drain_all();
  return fake_leave(block_free(address, "cuMemFree"));
}

int cuMemPoolCreate(void **out_pool, const og_cuda_pool_props *props) {
  FAKE_ENTER("cuMemPoolCreate");
  if (props->allocation_type != OG_CUDA_ALLOCATION_PINNED ||
      props->location_type != OG_CUDA_LOCATION_DEVICE)
    return fake_leave(OG_CUDA_INVALID_VALUE);
  fake_pool *pool = fake_make(FAKE_POOL, sizeof *pool);
  pool->device = props->location_id;
  *out_pool = pool;
  return fake_leave(0);
}

int cuMemPoolDestroy(void *pool) {
  FAKE_ENTER("cuMemPoolDestroy");
  if (!fake_is(FAKE_POOL, pool, "cuMemPoolDestroy"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  for (const block *b = blocks; b != NULL; b = b->next)
    if (b->pool == pool)
      fake_misuse(0, "cuMemPoolDestroy: %zu bytes at %p are not freed",
                  b->size_bytes, pointer(b->address));
  fake_drop(pool);
  return fake_leave(0);
}

int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
  FAKE_ENTER("cuMemPoolSetAttribute");
  if (!fake_is(FAKE_POOL, pool, "cuMemPoolSetAttribute") ||
      attribute != OG_CUDA_POOL_THRESHOLD)
    return fake_leave(OG_CUDA_INVALID_VALUE);
  memcpy(&((fake_pool *)pool)->threshold, value, sizeof(uint64_t));
  return fake_leave(0);
}

int cuMemPoolTrimTo(void *pool, size_t kept_bytes) {
  FAKE_ENTER("cuMemPoolTrimTo");
  (void)kept_bytes;
  return fake_leave(
      fake_is(FAKE_POOL, pool, "cuMemPoolTrimTo") ? 0 : OG_CUDA_INVALID_VALUE);
}

int cuMemAllocFromPoolAsync(uint64_t *out_address, size_t size_bytes,
                            void *pool, void *stream) {
  FAKE_ENTER("cuMemAllocFromPoolAsync");
  if (!fake_is(FAKE_POOL, pool, "cuMemAllocFromPoolAsync"))
    return fake_leave(OG_CUDA_INVALID_VALUE);
  if (fake_stream_find(stream, "cuMemAllocFromPoolAsync") == NULL)
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  return fake_leave(block_make(out_address, size_bytes, pool));
}

int cuMemFreeAsync(uint64_t address, void *stream) {
  FAKE_ENTER("cuMemFreeAsync");
  if (fake_stream_find(stream, "cuMemFreeAsync") == NULL)
    return fake_leave(OG_CUDA_INVALID_HANDLE);
  return fake_leave(block_free(address, "cuMemFreeAsync"));
}

// --- Work on memory ----------------------------------------------------------

static bool range_check(uint64_t address, size_t size_bytes,
                        const char *symbol) {
  if (fake_memory_has(address, size_bytes)) return true;
  fake_misuse(0, "%s: the %zu bytes at %p are not in a live block", symbol,
              size_bytes, pointer(address));
  return false;
}

static int work_give(const fake_work *work, void *handle, const char *symbol) {
  fake_stream *stream = fake_stream_find(handle, symbol);
  if (stream == NULL) return OG_CUDA_INVALID_HANDLE;
  if ((work->is_to_device &&
       !range_check(work->to, work->size_bytes, symbol)) ||
      (work->is_from_device &&
       !range_check(work->from, work->size_bytes, symbol)))
    return OG_CUDA_INVALID_VALUE;
  return fake_give(stream, fake_work_copy(work), symbol);
}

int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t size_bytes,
                    void *stream) {
  FAKE_ENTER("cuMemsetD8Async");
  const fake_work work = {.kind = FAKE_SET,
                          .to = address,
                          .is_to_device = true,
                          .size_bytes = size_bytes,
                          .byte = byte};
  return fake_leave(work_give(&work, stream, "cuMemsetD8Async"));
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size_bytes,
                         void *stream) {
  FAKE_ENTER("cuMemcpyHtoDAsync_v2");
  const fake_work work = {.kind = FAKE_COPY,
                          .to = to,
                          .from = (uint64_t)(uintptr_t)from,
                          .is_to_device = true,
                          .size_bytes = size_bytes};
  return fake_leave(work_give(&work, stream, "cuMemcpyHtoDAsync"));
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size_bytes,
                         void *stream) {
  FAKE_ENTER("cuMemcpyDtoHAsync_v2");
  const fake_work work = {.kind = FAKE_COPY,
                          .to = (uint64_t)(uintptr_t)to,
                          .from = from,
                          .is_from_device = true,
                          .size_bytes = size_bytes};
  return fake_leave(work_give(&work, stream, "cuMemcpyDtoHAsync"));
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size_bytes,
                         void *stream) {
  FAKE_ENTER("cuMemcpyDtoDAsync_v2");
  const fake_work work = {.kind = FAKE_COPY,
                          .to = to,
                          .from = from,
                          .is_to_device = true,
                          .is_from_device = true,
                          .size_bytes = size_bytes};
  return fake_leave(work_give(&work, stream, "cuMemcpyDtoDAsync"));
}
