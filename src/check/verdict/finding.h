// SPDX-License-Identifier: Apache-2.0
// What was found on one operator, each fault once, with its smallest call.

#ifndef OG_CHECK_VERDICT_FINDING_H
#define OG_CHECK_VERDICT_FINDING_H

#include "check/probe/trials.h"
#include "check/run/axis_order.h"
#include "check/run/record.h"
#include "check/run/trial.h"

typedef struct og_finding {
  int32_t kind;
  bool is_note;
  int32_t count;  // calls that showed it
  int32_t call;   // the smallest of them
  int32_t last;   // the last of them
  int32_t probe;
  int32_t path[OG_SHRINKS_MAX];  // the steps that made the call smaller
  int32_t path_count;
  int64_t numel;
  uint64_t code[2];  // where it crashed; 0: it did not
  char op[64];
  char name[64];
  char text[520];
  char call_text[420];
} og_finding;

enum {
  OG_FINDINGS_MAX = 64,
  OG_TYPES_MAX = 16,
  OG_EFFECTS_MAX = 32,
  OG_TRIED_MIN = 8,  // calls, before what none of them showed is a finding
};

// Arguments by name: how many calls tried something of them, and in how many
// of those each of a few things had an effect.
typedef struct og_effects {
  struct {
    char name[64];
    int32_t tried;
    int32_t used[OG_END_COUNT];
  } entry[OG_EFFECTS_MAX];
  int32_t count;
} og_effects;

// The verdict on one operator.
typedef struct og_findings {
  const opgraft_op *op;
  const char *device;  // the driver's name; "": the CPU
  og_finding entry[OG_FINDINGS_MAX];
  int32_t count;
  int32_t call_count;
  int32_t run_count;
  int32_t compared_count;  // calls compared with a reference
  int32_t ran_count;       // calls that the kernel took
  int32_t refused_count;
  char refusal[420];
  char undrawn[420];
  int32_t layout_count[OG_LAYOUT_COUNT];
  int32_t offset_count;
  struct {
    char name[16];
    int32_t count;
    int32_t drawn;    // of them, those in place of no refused call
    int32_t refused;  // of `drawn`
  } type[OG_TYPES_MAX];
  int32_t type_count;
  og_effects uses;  // used[OG_USE_*]: calls that read the argument
  // By what `expect` says: used[0]: calls that are so.
  og_effects expects[OG_EXPECT_COUNT];
  og_effects ends;  // used[OG_END_*]: calls that depend on that element
  struct {
    int32_t wrong;    // calls in which the declared order did not fit
    uint32_t misfit;  // orders that did not fit in some call
  } order[OPGRAFT_OUT_MAX][OG_ORDER_ITEMS];
  bool is_cut_short;  // time was up before all calls were tried
  bool is_stopped;    // the user stopped the check
} og_findings;

// A call's place in the report: what was running when something was found.
typedef struct og_found_at {
  int32_t call;
  int32_t probe;
  int64_t numel;
  bool has_index_hazard;
  bool is_index_far;
  const char *call_text;
  const char *missing;  // "", or the only argument that is not all there
  uint64_t code[2];     // as og_record_crash has it
} og_found_at;

void og_finding_set(og_finding *f, const char *op, const char *name,
                    const char *text, const og_found_at *at);
void og_findings_add(og_findings *all, int32_t kind, bool is_note,
                     const char *op, const char *name, const char *text,
                     const og_found_at *at);
int32_t og_findings_faults(const og_findings *all);

// The command that runs the finding's call again; nothing where it has none.
// `op` is the operator that was checked.
void og_finding_write_again(const og_finding *f, const opgraft_op *op,
                            const opgraft_check_options *options, og_text *out);
const char *og_finding_name(int32_t kind);
const char *og_finding_fix(int32_t kind);

#endif  // OG_CHECK_VERDICT_FINDING_H
