// SPDX-License-Identifier: Apache-2.0
// check's own parallel_for: shares in any order and of any size, on one thread
// or several, with a record of which chunk wrote which byte.

#ifndef OG_CHECK_RUN_PARALLEL_H
#define OG_CHECK_RUN_PARALLEL_H

#include "base/team.h"
#include "check/run/mode.h"
#include "check/sample/random.h"

typedef struct og_region {
  char *data;
  size_t bytes;
  char name[64];
  bool is_per_worker;  // one worker's shares may overlap
  unsigned char *shadow;
  uint8_t *owner;
} og_region;

enum { OG_REGIONS_MAX = 96 };

typedef struct og_share_host {
  void *user;     // the caller's
  og_team *team;  // for OG_SHARES_REAL
  const og_mode *mode;
  og_random random;
  int32_t depth;
  int32_t worker;
  bool has_shared;  // parallel_for was called
  int64_t total;    // of the last such loop
  int64_t grain;
  int32_t region_count;
  og_region region[OG_REGIONS_MAX];
  bool has_clash;  // two shares wrote one byte
  char clash_name[64];
  char clash_text[160];
} og_share_host;

og_status og_share_parallel_for(const og_call *call, int64_t total,
                                int64_t grain, og_task_fn fn, void *state);
// Notes memory whose writers are watched.
void og_share_watch(og_share_host *host, void *data, size_t bytes,
                    const char *name, bool is_per_worker);

#endif  // OG_CHECK_RUN_PARALLEL_H
