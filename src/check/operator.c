// SPDX-License-Identifier: Apache-2.0
// The check of one operator: children that run its calls, and their records
// into findings.

#define _POSIX_C_SOURCE 200809L
#include "check/operator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "check/exchange.h"
#include "check/probe/table.h"
#include "check/probe/trials.h"
#include "check/run/allowance.h"
#include "check/run/child.h"
#include "check/run/record.h"
#include "check/shrink.h"
#include "check/verdict/crash.h"
#include "check/verdict/effects.h"
#include "check/verdict/settle.h"

enum {
  CRASHES_MAX = 2,  // of one probe, then it is left out
  BASE_CRASHES_MAX = 4,
  FAR_CRASHES_MAX = 6,  // with indices far out of range, before the edges
  CALLS_FACTOR = 4,     // calls sampled at most, of those that are to run
};

static og_found_at place_of(const og_operator_check *s) {
  return (og_found_at){.call = s->call.index,
                       .probe = s->probe,
                       .numel = s->call.numel,
                       .has_index_hazard = s->call.has_index_hazard,
                       .is_index_far = s->call.is_index_far,
                       .call_text = s->call.text,
                       .missing = s->call.missing};
}

// --- Records -----------------------------------------------------------------

static void count_type(og_findings *found, const char *name, bool is_refused,
                       bool is_extra) {
  int32_t i = 0;
  while (i < found->type_count && strcmp(found->type[i].name, name) != 0) ++i;
  if (i == OG_TYPES_MAX || name[0] == '\0') return;
  if (i == found->type_count) {
    snprintf(found->type[i].name, sizeof found->type[i].name, "%.15s", name);
    ++found->type_count;
  }
  found->type[i].count += !is_refused;
  found->type[i].drawn += !is_refused && !is_extra;
  found->type[i].refused += is_refused && !is_extra;
}

// A call drawn because another one was refused: more of them are refused than
// of all, so that they say nothing of a type.
static bool is_extra(const og_operator_check *s, int32_t call) {
  return call >= s->job.options->calls;
}

static void take_call(og_operator_check *s, const og_record_call *r) {
  const bool is_again = s->counted_call == r->index;
  s->counted_call = r->index;
  s->call = *r;
  s->is_drawing = false;
  s->probe = OG_PROBE_base_;
  if (is_again) return;
  ++s->found.call_count;
  count_type(&s->found, r->type, false, is_extra(s, r->index));
  if (s->sink->progress != NULL)
    s->sink->progress(s->sink->user, s->job.op->decl->name, r->index,
                      s->job.call_end);
}

static void take_refusal(og_operator_check *s, const og_record_refusal *r) {
  const og_found_at at = place_of(s);
  ++s->found.refused_count;
  count_type(&s->found, s->call.type, true, is_extra(s, s->call.index));
  snprintf(s->found.refusal, sizeof s->found.refusal, "%s",
           r->text[0] ? r->text : "no reason given");
  if (r->status == OG_MEMORY)
    og_findings_add(&s->found, OPGRAFT_MEMORY_LIMIT, false,
                    s->job.op->decl->name, "", "the kernel ran out of memory",
                    &at);
}

static void take_counts(og_operator_check *s, const og_record_counts *r) {
  s->found.run_count += r->runs;
  s->found.offset_count += r->offsets;
  s->found.compared_count += r->is_compared;
  for (int32_t i = 0; i < OG_LAYOUT_COUNT; ++i)
    s->found.layout_count[i] += r->layouts[i];
}

// No index is right where it picks from an empty dim. On the CPU a kernel that
// takes one crashes, and verdict/crash.c says the same of it.
static bool is_of_hazard(const og_operator_check *s, int32_t kind) {
  return s->target->device != OG_CPU && s->call.has_index_hazard &&
         (kind == OPGRAFT_OUT_OF_BOUNDS_READ ||
          kind == OPGRAFT_OUT_OF_BOUNDS_WRITE);
}

static void take_finding(og_operator_check *s, const opgraft_op *op,
                         const og_record_finding *r) {
  const og_found_at at = place_of(s);
  if (is_of_hazard(s, r->kind))
    og_findings_add(&s->found, OPGRAFT_UNCHECKED_INDEX, true, op->decl->name,
                    "",
                    "with an index out of range the kernel touches memory that "
                    "is not its own",
                    &at);
  else
    og_findings_add(&s->found, r->kind, r->is_note, op->decl->name, r->argument,
                    r->text, &at);
}

static void take(og_operator_check *s, const og_record *r) {
  switch (r->kind) {
    case OG_RECORD_BEGIN:
      s->call = r->call;
      s->is_drawing = true;
      s->probe = OG_PROBE_base_;
      break;
    case OG_RECORD_CALL:
    case OG_RECORD_SHRUNK:
      take_call(s, &r->call);
      break;
    case OG_RECORD_SHOWN:
      s->call.numel = r->call.numel;
      s->call.is_index_far = r->call.is_index_far;
      memcpy(s->call.text, r->call.text, sizeof s->call.text);
      break;
    case OG_RECORD_UNDRAWN:
      snprintf(s->found.undrawn, sizeof s->found.undrawn, "%s", r->undrawn.why);
      s->call.index = r->undrawn.index;
      break;
    case OG_RECORD_PROBE:
      s->probe = r->probe;
      break;
    case OG_RECORD_FINDING:
      take_finding(s, r->op, &r->finding);
      break;
    case OG_RECORD_REFUSED:
      take_refusal(s, &r->refusal);
      break;
    case OG_RECORD_USE:
      og_effects_count(&s->found.uses, r->effect.argument, r->effect.used);
      break;
    case OG_RECORD_ENDS:
      og_effects_count(&s->found.ends, r->effect.argument, r->effect.used);
      break;
    case OG_RECORD_ORDER:
      og_orders_count(&s->found, r->order.fresh, r->order.item, r->order.fits);
      break;
    case OG_RECORD_EXPECT:
      og_effects_count(&s->found.expects[r->expect.kind], r->expect.name,
                       r->expect.holds);
      break;
    case OG_RECORD_END:
      take_counts(s, &r->counts);
      break;
    default:
      break;
  }
}

// --- Ends of children --------------------------------------------------------

static void add_crash(og_operator_check *s, const og_record *r) {
  og_found_at at = place_of(s);
  og_finding f;
  memcpy(at.code, r->crash.code, sizeof at.code);
  // The forward operator, run for a backward one: its own check says so.
  if (r->op != s->job.op && s->is_drawing) return;
  og_finding_of_crash(r->op, &r->crash, &at, &f);
  og_findings_add(&s->found, f.kind, f.is_note, f.op, f.name, f.text, &at);
}

static void add_end(og_operator_check *s, int32_t kind, const char *text) {
  const og_found_at at = place_of(s);
  og_findings_add(&s->found, kind, false, s->job.op->decl->name, "", text, &at);
}

// Where the next child goes on: past the probe that ended this one.
static void go_on(og_operator_check *s) {
  const int32_t probe = s->probe;
  const int32_t limit = probe == OG_PROBE_base_ ? BASE_CRASHES_MAX
                        : s->call.is_index_far && probe == OG_PROBE_index_edge_
                            ? FAR_CRASHES_MAX
                            : CRASHES_MAX;
  ++s->crashes[probe];
  if (s->crashes[probe] >= limit) {
    if (probe == OG_PROBE_base_) s->has_ended = true;
    s->job.disabled |= (uint64_t)1 << probe;
  }
  s->job.call_begin = s->call.index + (probe == OG_PROBE_base_);
  s->job.probe_begin = probe == OG_PROBE_base_ ? 0 : probe + 1;
}

// A child whose device works no more says so, and ends.
static bool is_end(const og_record *r) {
  return r->kind == OG_RECORD_FINDING && r->finding.is_end;
}

// One child, to its end. *out_done: it did all it was to do.
static og_status run_child(og_operator_check *s, og_allowance *left,
                           bool *out_done, opgraft_error *error) {
  og_child child;
  og_record r;
  int32_t status = 0, got;
  int64_t used_ms = 0;
  bool has_crash = false;
  *out_done = false;
  OG_TRY(og_child_start(s->sink, og_trials_run, &s->job, &child, error));
  while ((got = og_child_wait(s->sink, &child, &r, &status)) == 1) {
    if (r.kind == OG_RECORD_DONE) *out_done = true;
    if (r.kind == OG_RECORD_CRASH) {
      has_crash = true;
      add_crash(s, &r);
      if (r.crash.signal_number == SIGPROF) s->has_ended = true;
    } else {
      has_crash |= is_end(&r);
      s->has_ended |= is_end(&r) && r.finding.kind == OPGRAFT_TIMEOUT;
      take(s, &r);
    }
    const int64_t now_used_ms = og_child_cpu_ms(&child);
    if (now_used_ms > used_ms) used_ms = now_used_ms;
    if (!og_is_over(left, used_ms)) continue;
    s->has_ended = true;
    s->found.is_cut_short = true;
    og_child_stop(&child);
    return OG_OK;
  }
  left->work_ms -= used_ms;
  if (got == 0 && og_is_stopped(s->sink)) {
    og_child_stop(&child);
    s->has_ended = s->found.is_stopped = true;
  } else if (got == 0) {
    og_child_stop(&child);
    add_end(s, OPGRAFT_TIMEOUT, "the kernel blocks: it neither ends nor works");
    s->has_ended = true;
  } else if (!*out_done && !has_crash) {
    const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    add_end(s, is_killed ? OPGRAFT_MEMORY_LIMIT : OPGRAFT_CRASH,
            is_killed ? "the system ended the process, for want of memory"
            : WIFSIGNALED(status)
                ? "the process ended by a signal that could not be handled"
                : "the kernel ended the process (exit)");
  }
  return OG_OK;
}

static void take_inline(void *state, const og_record *r) { take(state, r); }

static og_status run_range(og_operator_check *s, og_allowance *left,
                           opgraft_error *error) {
  bool done = false;
  while (!done && !s->has_ended && s->job.call_begin < s->job.call_end) {
    s->call.index = s->job.call_begin;
    s->probe = OG_PROBE_base_;
    OG_TRY(run_child(s, left, &done, error));
    if (!done) go_on(s);
  }
  return OG_OK;
}

// Other calls for those that the kernel refused, where it took any.
static og_status run_calls(og_operator_check *s, opgraft_error *error) {
  if (s->job.options->is_inline) {
    og_record_hand(take_inline, s);
    og_trials_run(&s->job);
    og_record_hand(NULL, NULL);
    return OG_OK;
  }
  og_allowance left = og_allow(s->job.options->operator_limit_ms);
  const int32_t wanted = s->job.call_end, most = CALLS_FACTOR * wanted;
  for (;;) {
    OG_TRY(run_range(s, &left, error));
    const int32_t refused = s->found.refused_count;
    const int32_t ran = s->found.call_count - refused;
    const int32_t missing = refused < wanted - ran ? refused : wanted - ran;
    if (s->has_ended || missing <= 0 || ran == 0 || s->job.call_end >= most ||
        s->job.options->call != NULL)
      return OG_OK;
    s->job.call_begin = s->job.call_end;
    s->job.call_end +=
        missing < most - s->job.call_end ? missing : most - s->job.call_end;
    s->job.probe_begin = 0;
  }
}

// --- Lines -------------------------------------------------------------------

// Adds the source's line to a finding, where the host can tell: of the
// instruction that crashed, else of the kernel, where there is only one.
static void add_line(const og_operator_check *s, og_finding *f) {
  const og_decl *decl = s->job.op->decl;
  const bool is_own = decl->kernel_count == 1 && strcmp(f->op, decl->name) == 0;
  const size_t used = strlen(f->text);
  void *code[3] = {(void *)(uintptr_t)f->code[0], (void *)(uintptr_t)f->code[1],
                   NULL};
  char line[128];
  if (s->sink->locate == NULL || f->is_note || f->call_text[0] == '\0') return;
  if (is_own) memcpy(&code[2], &decl->kernels[0].run, sizeof code[2]);
  for (int32_t i = 0; i < 3; ++i) {
    if (s->sink->locate(s->sink->user, code[i], line, sizeof line) == 0)
      continue;
    snprintf(f->text + used, sizeof f->text - used, " (%s)", line);
    return;
  }
}

// --- All of it ---------------------------------------------------------------

// "17" or "17:3,0,5".
static bool read_call(const char *text, og_job *out) {
  char *end;
  const long index = strtol(text, &end, 10);
  if (end == text || index < 0 || index > INT32_MAX - 1) return false;
  out->call_begin = (int32_t)index;
  out->call_end = (int32_t)index + 1;
  while (*end == (out->path_count == 0 ? ':' : ',')) {
    const char *from = end + 1;
    const long step = strtol(from, &end, 10);
    if (end == from || step < 0 || step > INT32_MAX ||
        out->path_count == OG_SHRINKS_MAX)
      return false;
    out->path[out->path_count++] = (int32_t)step;
  }
  return *end == '\0';
}

og_status og_operator_check_run(og_operator_check *s, const opgraft_op *op,
                                const opgraft_check_options *options,
                                opgraft_error *error) {
  s->job = (og_job){.op = op, .options = options, .call_end = options->calls};
  if (options->call != NULL && !read_call(options->call, &s->job))
    return og_error_set(error, OG_INVALID, op->decl->name, NULL,
                        "check: the call is \"%s\", expected its number, or "
                        "\"17:3,0\" with the steps that make it smaller, at "
                        "most %d",
                        options->call, OG_SHRINKS_MAX);
  s->found = (og_findings){.op = op, .device = s->target->name};
  memset(s->crashes, 0, sizeof s->crashes);
  s->has_ended = false;
  s->counted_call = -1;
  OG_TRY(run_calls(s, error));
  s->found.ran_count = s->found.call_count - s->found.refused_count;
  og_findings_settle(&s->found);
  for (int32_t i = 0; i < s->found.count && options->call == NULL; ++i)
    OG_TRY(og_finding_shrink(&s->job, s->sink, &s->found.entry[i], error));
  if (options->call == NULL)
    OG_TRY(og_findings_exchange(&s->job, s->sink, &s->found, error));
  for (int32_t i = 0; i < s->found.count; ++i) add_line(s, &s->found.entry[i]);
  return OG_OK;
}
