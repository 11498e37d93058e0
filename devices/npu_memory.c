// SPDX-License-Identifier: Apache-2.0
// The simulated NPU's memory: one file in memory, mapped twice.
//
// Invariants: blocks are sorted by address and do not touch: at least one
// alignment lies between two; a freed block's bytes are poisoned.

#define _GNU_SOURCE
#include "npu_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xa5 };

// --- Faults ------------------------------------------------------------------

// The memory whose faults are told, and who was told of them before. A handler
// that came after ours may call ours for ever: it is installed once.
static _Atomic(npu_memory *) watched;
static struct sigaction before;
static bool is_installed;

static const npu_block *block_at(const npu_memory *memory, size_t offset) {
  for (const npu_block *b = memory->blocks; b != NULL; b = b->next)
    if (offset >= b->offset_bytes && offset - b->offset_bytes < b->size_bytes)
      return b;
  return NULL;
}

static void fault_tell(const npu_memory *memory, const char *address) {
  char text[256];
  const size_t offset = (size_t)(address - memory->user);
  const bool is_known = atomic_load(&memory->changing) == 0;
  const npu_block *block = is_known ? block_at(memory, offset) : NULL;
  int length;
  if (block != NULL)
    length =
        snprintf(text, sizeof text,
                 "npu: the host accesses byte %zu of '%s' (%zu bytes), "
                 "expected a copy: device memory is not the host's\n",
                 offset - block->offset_bytes, block->label, block->size_bytes);
  else
    length = snprintf(text, sizeof text,
                      "npu: the host accesses byte %zu of the device's memory, "
                      "where nothing is allocated\n",
                      offset);
  const ssize_t wrote = write(STDERR_FILENO, text, (size_t)length);
  (void)wrote;
}

static void on_fault(int number, siginfo_t *info, void *context) {
  const npu_memory *memory = atomic_load(&watched);
  const bool is_sent = info->si_code <= 0;  // by a process: no address
  if (memory != NULL && !is_sent && npu_memory_has(memory, info->si_addr))
    fault_tell(memory, info->si_addr);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  if (is_sent && before.sa_handler == SIG_IGN) return;
  // The access is repeated, and ends the process as it would have.
  signal(number, SIG_DFL);
  if (is_sent) raise(number);
}

static void faults_watch(npu_memory *memory) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  action.sa_sigaction = on_fault;
  sigemptyset(&action.sa_mask);
  atomic_store(&watched, memory);
  if (!is_installed) sigaction(SIGSEGV, &action, &before);
  is_installed = true;
}

// A handler that came after ours stays, and still calls it.
static void faults_forget(void) {
  struct sigaction now;
  sigaction(SIGSEGV, NULL, &now);
  atomic_store(&watched, NULL);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) {
    sigaction(SIGSEGV, &before, NULL);
    is_installed = false;
  }
}

// --- The region --------------------------------------------------------------

static og_status map_fail(og_device_error *error, const char *what,
                          size_t size_bytes) {
  snprintf(error->text, sizeof error->text, "%s of %zu bytes failed: %s", what,
           size_bytes, strerror(errno));
  return OG_MEMORY;
}

og_status npu_memory_open(npu_memory *memory, size_t size_bytes,
                          og_device_error *error) {
  *memory = (npu_memory){.size_bytes = size_bytes};
  const int file = memfd_create("npu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)size_bytes) != 0) {
    const og_status status = map_fail(error, "memfd", size_bytes);
    if (file >= 0) close(file);
    return status;
  }
  void *user = mmap(NULL, size_bytes, PROT_NONE, MAP_SHARED, file, 0);
  void *alias = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (user == MAP_FAILED || alias == MAP_FAILED) {
    const og_status status = map_fail(error, "mmap", size_bytes);
    if (user != MAP_FAILED) munmap(user, size_bytes);
    if (alias != MAP_FAILED) munmap(alias, size_bytes);
    return status;
  }
  memory->user = user;
  memory->alias = alias;
  faults_watch(memory);
  return OG_OK;
}

void npu_memory_close(npu_memory *memory) {
  faults_forget();
  munmap(memory->user, memory->size_bytes);
  munmap(memory->alias, memory->size_bytes);
  while (memory->blocks != NULL) {
    npu_block *block = memory->blocks;
    memory->blocks = block->next;
    free(block);
  }
}

// --- Blocks ------------------------------------------------------------------

static size_t block_end(const npu_block *block) {
  const size_t end = block->offset_bytes + block->size_bytes;
  return (end + 2 * NPU_ALIGNMENT - 1) / NPU_ALIGNMENT * NPU_ALIGNMENT;
}

// The link behind which the first gap begins that is large enough; NULL for
// none. *out_offset is the gap's begin.
static npu_block **gap_find(npu_memory *memory, size_t size_bytes,
                            size_t *out_offset) {
  npu_block **link = &memory->blocks;
  size_t begin = 0;
  for (; *link != NULL; link = &(*link)->next) {
    const size_t end = (*link)->offset_bytes;
    if (end >= begin + NPU_ALIGNMENT &&
        end - begin - NPU_ALIGNMENT >= size_bytes)
      break;
    begin = block_end(*link);
  }
  *out_offset = begin;
  if (*link != NULL) return link;
  return begin <= memory->size_bytes && memory->size_bytes - begin >= size_bytes
             ? link
             : NULL;
}

og_status npu_memory_allocate(npu_memory *memory, size_t size_bytes,
                              void **out_address, og_device_error *error) {
  size_t offset;
  npu_block **link = gap_find(memory, size_bytes, &offset);
  npu_block *block = link != NULL ? calloc(1, sizeof *block) : NULL;
  if (block == NULL) {
    snprintf(error->text, sizeof error->text,
             "no room for %zu bytes: %zu of %zu are in use", size_bytes,
             memory->used_bytes, memory->size_bytes);
    return OG_MEMORY;
  }
  *block = (npu_block){.next = *link,
                       .offset_bytes = offset,
                       .size_bytes = size_bytes,
                       .serial = ++memory->serial};
  snprintf(block->label, sizeof block->label, "allocation %llu",
           (unsigned long long)block->serial);
  atomic_fetch_add(&memory->changing, 1);
  *link = block;
  atomic_fetch_sub(&memory->changing, 1);
  memory->used_bytes += size_bytes;
  *out_address = memory->user + offset;
  return OG_OK;
}

og_status npu_memory_free(npu_memory *memory, void *address,
                          og_device_error *error) {
  npu_block **link = &memory->blocks;
  while (*link != NULL && memory->user + (*link)->offset_bytes != address)
    link = &(*link)->next;
  npu_block *block = *link;
  if (block == NULL) {
    snprintf(error->text, sizeof error->text,
             "%p is not the address of a live allocation: it was freed before, "
             "or lies inside of one",
             address);
    return OG_INVALID;
  }
  atomic_fetch_add(&memory->changing, 1);
  *link = block->next;
  atomic_fetch_sub(&memory->changing, 1);
  memset(memory->alias + block->offset_bytes, POISON, block->size_bytes);
  memory->used_bytes -= block->size_bytes;
  ++memory->free_count;
  free(block);
  return OG_OK;
}

bool npu_memory_has(const npu_memory *memory, const void *address) {
  const uintptr_t at = (uintptr_t)address, begin = (uintptr_t)memory->user;
  return at >= begin && at - begin < memory->size_bytes;
}

void *npu_memory_alias(const npu_memory *memory, const void *address) {
  if (!npu_memory_has(memory, address)) return (void *)(uintptr_t)address;
  return memory->alias + ((uintptr_t)address - (uintptr_t)memory->user);
}

bool npu_block_has(const npu_memory *memory, const npu_block *block,
                   const void *address, size_t size_bytes) {
  const size_t offset = (size_t)((uintptr_t)address - (uintptr_t)memory->user);
  return offset >= block->offset_bytes &&
         offset - block->offset_bytes <= block->size_bytes &&
         size_bytes <= block->size_bytes - (offset - block->offset_bytes);
}

npu_block *npu_memory_find(const npu_memory *memory, const void *address,
                           size_t size_bytes) {
  if (!npu_memory_has(memory, address)) return NULL;
  for (npu_block *b = memory->blocks; b != NULL; b = b->next)
    if (npu_block_has(memory, b, address, size_bytes)) return b;
  return NULL;
}
