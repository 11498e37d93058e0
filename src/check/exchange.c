// SPDX-License-Identifier: Apache-2.0

#include "check/exchange.h"

#include <stdio.h>
#include <string.h>

#include "check/probe/table.h"
#include "check/run/allowance.h"
#include "check/run/child.h"

enum { EXCHANGE_MS = 1500 };

// What a wrong size shows in, in calls that are run again here.
static bool is_of_sizes(const og_finding *f, const og_job *job) {
  if (f->is_note || f->call >= job->options->calls) return false;
  switch (f->kind) {
    case OPGRAFT_OUT_OF_BOUNDS_READ:
    case OPGRAFT_OUT_OF_BOUNDS_WRITE:
    case OPGRAFT_OUTPUT_NOT_WRITTEN:
    case OPGRAFT_DIFFERS_FROM_REFERENCE:
    case OPGRAFT_CRASH:
      return f->probe == OG_PROBE_base_ || f->probe == OG_PROBE_poison_ ||
             f->probe == OG_PROBE_reference_;
    default:
      return false;
  }
}

// Whether the kernel takes all calls of the job, and nothing is found.
static og_status is_clean(const opgraft_check_sink *sink, const og_job *job,
                          og_allowance *left, bool *out_clean,
                          opgraft_error *error) {
  og_child child;
  og_record r;
  int32_t status, calls = 0;
  bool is_done = false, is_wrong = false;
  int64_t used_ms = 0;
  *out_clean = false;
  OG_TRY(og_child_start(sink, og_trials_run, job, &child, error));
  while (!is_wrong && og_child_wait(sink, &child, &r, &status) == 1) {
    const int64_t now_used_ms = og_child_cpu_ms(&child);
    if (now_used_ms > used_ms) used_ms = now_used_ms;
    calls += r.kind == OG_RECORD_CALL;
    is_done |= r.kind == OG_RECORD_DONE;
    is_wrong = r.kind == OG_RECORD_CRASH || r.kind == OG_RECORD_REFUSED ||
               (r.kind == OG_RECORD_FINDING && !r.finding.is_note) ||
               og_is_over(left, used_ms);
  }
  og_child_stop(&child);
  left->work_ms -= used_ms;
  *out_clean = is_done && !is_wrong && calls >= OG_TRIED_MIN;
  return OG_OK;
}

static void tell(og_finding *f, const og_decl *decl, const int32_t *dims) {
  const size_t length = strlen(f->text);
  snprintf(f->text + length, sizeof f->text - length,
           "; every call is right where the kernel gets the sizes of %s and %s "
           "in exchange: is its enum of dims in the order of the rule, as "
           "`opgraft inspect --enum` prints it?",
           decl->dims[dims[0]].name, decl->dims[dims[1]].name);
}

og_status og_findings_exchange(const og_job *of, const opgraft_check_sink *sink,
                               og_findings *found, opgraft_error *error) {
  const og_decl *decl = of->op->decl;
  og_job job = *of;
  og_allowance left = og_allow(EXCHANGE_MS);
  int32_t i = 0;
  while (i < found->count && !is_of_sizes(&found->entry[i], of)) ++i;
  if (i == found->count) return OG_OK;
  job.call_begin = 0;
  job.call_end = of->options->calls;
  job.probe_begin = 0;
  job.disabled =
      ~((uint64_t)1 << OG_PROBE_base_ | (uint64_t)1 << OG_PROBE_poison_ |
        (uint64_t)1 << OG_PROBE_reference_);
  for (int32_t a = 0; a < decl->dim_count; ++a)
    for (int32_t b = a + 1; b < decl->dim_count; ++b) {
      bool is_right;
      if (decl->dims[a].kind == OG_DIM_FOUND ||
          decl->dims[b].kind == OG_DIM_FOUND || og_is_over(&left, 0) ||
          og_is_stopped(sink))
        continue;
      job.exchanged[0] = a;
      job.exchanged[1] = b;
      OG_TRY(is_clean(sink, &job, &left, &is_right, error));
      if (!is_right) continue;
      tell(&found->entry[i], decl, job.exchanged);
      return OG_OK;
    }
  return OG_OK;
}
