// SPDX-License-Identifier: Apache-2.0
// Probes: what is tried on each sampled call (probes.def). A probe runs in the
// child, reports what it finds, and leaves the trial as it was.

#ifndef OG_CHECK_PROBE_TABLE_H
#define OG_CHECK_PROBE_TABLE_H

#include "check/run/trial.h"

#define OG_PROBE(name, calls, flags, crash, doc) OG_PROBE_##name##_,
enum {
#include "check/probe/probes.def"
  OG_PROBE_COUNT
};
#undef OG_PROBE

enum { OG_PROBE_NAMES = 500 };  // bytes that hold all names

enum {
  OG_PROBE_SLOW = 1,    // tried also where one run takes milliseconds
  OG_PROBE_LAYOUT = 2,  // of strides and offsets
  OG_PROBE_ASKED = 4,   // takes long: only where options name it
  OG_PROBE_HOST = 8,    // of the host's memory and threads: not on a device
};

#define OG_PROBE(name, calls, flags, crash, doc) \
  void og_probe_##name(og_trial *trial);
#include "check/probe/probes.def"
#undef OG_PROBE

typedef struct og_probe {
  const char *name;
  int32_t calls_of_ten;  // that it is tried on
  uint32_t flags;
  const char *crash_text;
  void (*run)(og_trial *trial);
} og_probe;
extern const og_probe og_probes[OG_PROBE_COUNT];
// The probe's index, or -1.
int32_t og_probe_find(const char *name);
// "base, repeat, ...": all names, or those whose flags have the one given.
void og_probe_names(uint32_t flag, char *out, size_t size);

#endif  // OG_CHECK_PROBE_TABLE_H
