// SPDX-License-Identifier: Apache-2.0
// Memory that is freed at once, and what malloc keeps of what was freed.

#ifndef OG_TORCH_POOL_H
#define OG_TORCH_POOL_H

#include "torch/base/host.h"

typedef struct pool {
  struct pool_block *blocks;
} pool;

// Zeroed; NULL with MemoryError set.
void *pool_alloc(pool *p, size_t count, size_t size);
const char *pool_string(pool *p, const char *text);
void pool_free(pool *p);
// Free memory that the process's allocator keeps goes back to the system: what
// compiling and a first call leave behind lies in holes that nothing fits in,
// and would stay resident beside all that later calls need. Takes
// milliseconds, so once a graph.
void memory_settle(void);

#endif  // OG_TORCH_POOL_H
