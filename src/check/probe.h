// SPDX-License-Identifier: Apache-2.0
// Probes: what is tried on each sampled call. One row a probe; a probe runs in
// the child, reports what it finds, and leaves the trial as it was.

#ifndef OG_CHECK_PROBE_H
#define OG_CHECK_PROBE_H

#include "check/trial.h"

// X(name, which calls of ten, what is said of a crash in it)
#define OG_PROBE_LIST(X)                                            \
  X(base, 10, "")                                                   \
  X(repeat, 10, "")                                                 \
  X(left, 10, "")                                                   \
  X(poison, 10, "")                                                 \
  X(read_only, 10, "")                                              \
  X(shares, 10, " (several shares)")                                \
  X(threads, 3, " (several threads)")                               \
  X(concurrent, 3, " (two calls at once)")                          \
  X(offset, 10, " (byte_offset is not 0)")                          \
  X(loose, 10, " (a dim of size 1 with a senseless stride)")        \
  X(strided, 10, " (strided arguments)")                            \
  X(expanded, 5, " (an argument with stride 0)")                    \
  X(types, 10, "")                                                  \
  X(kernels, 10, " (a kernel that a better machine would not use)") \
  X(in_place, 10, " (the result in the argument's memory)")         \
  X(batch, 10, "")                                                  \
  X(pack, 10, " (with another value at one place)")                 \
  X(broadcast, 10, "")                                              \
  X(pointwise, 10, "")                                              \
  X(index_range, 2, "")                                             \
  X(gradient, 10, " (in the gradient's check)")                     \
  X(reference, 10, "")                                              \
  X(first, 3, " (as the first call of a process)")                  \
  X(masked, 10, " (a mask that hides everything)")                  \
  X(unused, 10, " (while its arguments were watched)")              \
  X(ends, 10, " (with another value at one place)")                 \
  X(order, 10, " (with another value at one place)")                \
  X(arrays, 10, "")

#define OG_PROBE_ENUM(name, share, text) OG_PROBE_##name##_,
enum { OG_PROBE_LIST(OG_PROBE_ENUM) OG_PROBE_COUNT };
#undef OG_PROBE_ENUM

typedef struct og_probe {
  const char *name;
  int32_t share;
  const char *crash_text;
  void (*run)(og_trial *trial);
} og_probe;
extern const og_probe og_probes[OG_PROBE_COUNT];

#define OG_PROBE_DECLARE(name, share, text) \
  void og_probe_##name(og_trial *trial);
OG_PROBE_LIST(OG_PROBE_DECLARE)
#undef OG_PROBE_DECLARE

// The sample with every floating type as wide as may be; false if it is so
// already.
bool og_sample_widen(const og_sample *sample, og_sample *out);

// Whether `text` holds the word, whole.
bool og_has_word(const char *text, const char *word);

// Whether the operator's values may be compared from run to run.
static inline bool og_is_comparable(const og_trial *trial) {
  return trial->has_base && !trial->is_settled && !trial->is_erratic;
}
static inline bool og_has_flag(const og_trial *trial, uint32_t flag) {
  return (trial->op->decl->flags & flag) != 0;
}

// Runs the trial's own call in `mode` and compares it with the base run; true
// if it ran and differs, with the verdict. *out_ran may be NULL.
bool og_trial_differs(og_trial *trial, const og_mode *mode, double slack,
                      og_verdict *out_verdict, og_ran *out_ran);

// Another call of the same operator with other values.
void og_run_another(og_trial *trial);
// Keeps the module's static data as it is before anything ran.
void og_statics_begin(const opgraft_op *op);
// Whether a call with other values changes the module's static data, and the
// first call changes it again: what is set up once does not.
bool og_writes_statics(og_trial *trial);

// Whether the plain run still gives what it gave at first, time and again.
// Asked before a difference is put down to anything else; if not, that is
// reported, and nothing is compared any more.
bool og_trial_is_steady(og_trial *trial);

#endif  // OG_CHECK_PROBE_H
