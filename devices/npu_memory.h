// SPDX-License-Identifier: Apache-2.0
// The simulated NPU's memory: one file in memory, mapped twice. The address
// that users see cannot be read or written; the alias of the same bytes is
// known to the driver alone. A host access faults, and says whose memory it is.
//
// Callers hold the driver's lock.

#ifndef NPU_MEMORY_H
#define NPU_MEMORY_H

#include <opgraft/device.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { NPU_ALIGNMENT = 256, NPU_LABEL = 48 };

typedef struct npu_block {
  struct npu_block *next;  // at a higher address
  size_t offset_bytes;
  size_t size_bytes;
  uint64_t serial;  // tells it from another one at the same address
  char label[NPU_LABEL];
} npu_block;

typedef struct npu_memory {
  char *user;   // what tensors hold; no access
  char *alias;  // the same bytes, for the driver
  size_t size_bytes;
  npu_block *blocks;
  uint64_t serial;
  uint64_t free_count;
  size_t used_bytes;
  atomic_int changing;  // a fault finds the list of blocks half done
} npu_memory;

og_status npu_memory_open(npu_memory *memory, size_t size_bytes,
                          og_device_error *error);
void npu_memory_close(npu_memory *memory);
og_status npu_memory_allocate(npu_memory *memory, size_t size_bytes,
                              void **out_address, og_device_error *error);
// The block is gone; its address must be a block's first.
og_status npu_memory_free(npu_memory *memory, void *address,
                          og_device_error *error);
bool npu_memory_has(const npu_memory *memory, const void *address);
// Where the driver reads and writes what lies at a user's address. A host
// address is its own.
void *npu_memory_alias(const npu_memory *memory, const void *address);
// Whether the block holds all of the range.
bool npu_block_has(const npu_memory *memory, const npu_block *block,
                   const void *address, size_t size_bytes);
// The live block that holds all of the range; NULL for none.
npu_block *npu_memory_find(const npu_memory *memory, const void *address,
                           size_t size_bytes);

#endif  // NPU_MEMORY_H
