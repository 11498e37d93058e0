// SPDX-License-Identifier: Apache-2.0
// Smaller calls that still show a finding.

#include "check/shrink.h"

#include <stdio.h>
#include <string.h>

#include "check/probe/table.h"
#include "check/run/allowance.h"
#include "check/run/child.h"
#include "check/run/record.h"
#include "check/verdict/crash.h"

enum { SHRINK_CHILDREN = 40, SHRINK_MS = 1500 };

static bool shows(const og_record *r, const og_finding *f, og_found_at at,
                  og_finding *out) {
  if (r->kind == OG_RECORD_CRASH) {
    og_finding_of_crash(r->op, &r->crash, &at, out);
  } else if (r->kind == OG_RECORD_FINDING) {
    memset(out, 0, sizeof *out);
    out->kind = r->finding.kind;
    out->is_note = r->finding.is_note;
    snprintf(out->name, sizeof out->name, "%s", r->finding.argument);
    snprintf(out->text, sizeof out->text, "%s", r->finding.text);
  } else {
    return false;
  }
  return out->kind == f->kind && strcmp(out->name, f->name) == 0 &&
         out->is_note == f->is_note;
}

// One child that tries every smaller call from job->step on. *out_step is the
// first that still shows the finding, or where a crash of another kind makes
// the next child begin; -1: none is left.
static og_status shrink_once(const opgraft_check_sink *sink, const og_job *job,
                             og_finding *f, og_allowance *left,
                             bool *out_smaller, int32_t *out_step,
                             opgraft_error *error) {
  og_child child;
  og_record r;
  og_finding shown;
  int32_t status;
  int32_t step = -1, probe = OG_PROBE_base_;
  char call[sizeof f->call_text] = "", missing[sizeof r.call.missing] = "";
  int64_t numel = 0, used_ms = 0;
  bool has_index_hazard = false, is_index_far = false;
  *out_smaller = false;
  *out_step = -1;
  OG_TRY(og_child_start(sink, og_trials_run, job, &child, error));
  while (og_child_wait(sink, &child, &r, &status) == 1) {
    const int64_t now_used_ms = og_child_cpu_ms(&child);
    if (now_used_ms > used_ms) used_ms = now_used_ms;
    if (r.kind == OG_RECORD_DONE) {
      step = -1;
    } else if (r.kind == OG_RECORD_SHOWN) {
      memcpy(call, r.call.text, sizeof call);
      is_index_far = r.call.is_index_far;
    } else if (r.kind == OG_RECORD_SHRUNK) {
      step = r.call.step;
      numel = r.call.numel;
      has_index_hazard = r.call.has_index_hazard;
      is_index_far = false;
      memcpy(call, r.call.text, sizeof call);
      memcpy(missing, r.call.missing, sizeof missing);
    } else if (r.kind == OG_RECORD_PROBE) {
      probe = r.probe;
    }
    const og_found_at at = {.call = f->call,
                            .probe = probe,
                            .numel = numel,
                            .has_index_hazard = has_index_hazard,
                            .is_index_far = is_index_far,
                            .call_text = call,
                            .missing = missing};
    if (step < 0 || !shows(&r, f, at, &shown)) continue;
    memcpy(f->text, shown.text, sizeof f->text);
    memcpy(f->call_text, call, sizeof f->call_text);
    f->numel = numel;
    *out_smaller = true;
    break;
  }
  og_child_stop(&child);
  left->work_ms -= used_ms;
  if (step >= 0) *out_step = *out_smaller ? step : step + 1;
  return OG_OK;
}

static bool may_shrink(const og_finding *f) {
  return !f->is_note && !(og_probes[f->probe].flags & OG_PROBE_ASKED) &&
         f->kind != OPGRAFT_TIMEOUT && f->kind != OPGRAFT_MEMORY_LIMIT &&
         f->call_text[0] != '\0' && f->numel > 0;
}

og_status og_finding_shrink(const og_job *of, const opgraft_check_sink *sink,
                            og_finding *f, opgraft_error *error) {
  if (!may_shrink(f)) return OG_OK;
  og_allowance left = og_allow(SHRINK_MS);
  og_job job = *of;
  job.call_begin = f->call;
  job.probe = f->probe;
  job.probe_begin = 0;
  job.is_shrinking = true;
  job.path_count = 0;
  job.step = 0;
  for (int32_t i = 0;
       i < SHRINK_CHILDREN && !og_is_over(&left, 0) && !og_is_stopped(sink);
       ++i) {
    bool is_smaller;
    int32_t step;
    OG_TRY(shrink_once(sink, &job, f, &left, &is_smaller, &step, error));
    if (step < 0) return OG_OK;
    job.step = step;
    if (!is_smaller) continue;
    if (job.path_count == OG_SHRINKS_MAX) return OG_OK;
    job.path[job.path_count++] = step;
    job.step = 0;
    memcpy(f->path, job.path, sizeof f->path);
    f->path_count = job.path_count;
  }
  return OG_OK;
}
