// SPDX-License-Identifier: Apache-2.0
// The table of probes.

#include "check/probe/table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const og_probe og_probes[OG_PROBE_COUNT] = {
#define OG_PROBE(name, calls, flags, crash, doc) \
  {#name, calls, flags, crash, og_probe_##name},
#include "check/probe/probes.def"
#undef OG_PROBE
};

static_assert(OG_PROBE_base_ == 0, "the plain run comes first");
static_assert(OG_PROBE_COUNT <= 64, "og_job.disabled has a bit for each probe");

int32_t og_probe_find(const char *name) {
  for (int32_t p = 0; p < OG_PROBE_COUNT; ++p)
    if (strcmp(og_probes[p].name, name) == 0) return p;
  return -1;
}

void og_probe_names(uint32_t flag, char *out, size_t size) {
  size_t used = 0;
  for (int32_t p = 0; p < OG_PROBE_COUNT && used < size; ++p)
    if ((og_probes[p].flags & flag) == flag)
      used += (size_t)snprintf(out + used, size - used, "%s%s",
                               used > 0 ? ", " : "", og_probes[p].name);
}
