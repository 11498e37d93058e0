// SPDX-License-Identifier: Apache-2.0
// The race detector: which accesses to memory are ordered, by vector clocks of
// the host and of every stream. It runs when work is given, so what it finds
// does not depend on when the work is done.
//
// Context 0 is the host, whose threads count as one; the others are streams.
// Callers hold the driver's lock.

#ifndef NPU_RACE_H
#define NPU_RACE_H

#include <opgraft/op.h>
#include <stdbool.h>

enum { NPU_CONTEXTS = 128, NPU_HOST = 0, NPU_RANK = 8, NPU_WHAT = 160 };

// The bytes of a tensor: `size` runs of `element_bytes`, `step_bytes` apart in
// each dim. A run alone has rank 0.
typedef struct npu_range {
  uintptr_t begin, end;  // all of them lie in [begin, end)
  int32_t rank;
  size_t element_bytes;
  int64_t size[NPU_RANK];
  int64_t step_bytes[NPU_RANK];
} npu_range;

// The first byte of a tensor and the one behind its last; empty where it has no
// elements.
typedef struct npu_ends {
  uintptr_t begin, end;
} npu_ends;

npu_ends npu_ends_tensor(const og_tensor *tensor);
npu_range npu_range_bytes(const void *address, size_t size_bytes);
npu_range npu_range_tensor(const og_tensor *tensor);
bool npu_range_meets(const npu_range *a, const npu_range *b);

typedef struct npu_clock {
  uint64_t at[NPU_CONTEXTS];
} npu_clock;

typedef struct npu_race npu_race;

// NULL where memory is short.
npu_race *npu_race_create(void);
void npu_race_destroy(npu_race *race);
// A context that nothing uses; -1 for none. What it does comes after what the
// host has done.
int32_t npu_race_begin(npu_race *race);
// The host has waited for all of it.
void npu_race_end(npu_race *race, int32_t context);
// The host gives work to a stream: the work comes after all that the host did.
void npu_race_give(npu_race *race, int32_t context);
// What the context does from now on is told from what it did before.
void npu_race_tick(npu_race *race, int32_t context);
const npu_clock *npu_race_clock(const npu_race *race, int32_t context);
// What the context does next comes after what the clock stands for.
void npu_race_order(npu_race *race, int32_t context, const npu_clock *clock);
// An access: false where it is ordered with all that it conflicts with, else
// `text` names both. `what` is "stream 1: copy_to_device (#4) writes 'x'".
bool npu_race_access(npu_race *race, int32_t context, const npu_range *range,
                     bool is_write, const char *what, char *text, size_t size);
// Forgets accesses that later ones are ordered with: those before the host's
// last wait. `range`, which may be NULL: all accesses to it, for it is gone.
void npu_race_forget(npu_race *race, const npu_range *range);

#endif  // NPU_RACE_H
