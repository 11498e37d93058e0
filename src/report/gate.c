// SPDX-License-Identifier: Apache-2.0
// Limits that a report is held to, and the comparison of two reports. Both go
// by root site and id, never by counts: one root makes as many breaks as it is
// calls deep.

#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "report/form.h"
#include "report/plain.h"

static bool is_same_place(const og_root *a, const og_root *b) {
  if (strcmp(a->cause->file, b->cause->file) != 0 ||
      strcmp(a->id, b->id) != 0 ||
      strcmp(a->cause->operator_, b->cause->operator_) != 0)
    return false;
  if (a->cause->line == b->cause->line) return true;
  return a->cause->code[0] != '\0' &&
         strcmp(a->cause->code, b->cause->code) == 0 &&
         strcmp(a->cause->function, b->cause->function) == 0;
}

// The root of `in` with the same site and id: the same file, and the same line
// or, where the file has changed, the same code in the same function. NULL:
// none.
static const og_root *root_match(const og_joined *in, const og_root *root) {
  for (int32_t i = 0; i < in->root_count; ++i)
    if (is_same_place(&in->root[i], root)) return &in->root[i];
  return NULL;
}

static void root_line(og_text *out, const opgraft_report *report,
                      const og_root *root) {
  og_text site = {0};
  og_plain_add(out, og_report_site(report, root, &site), 200);
  og_text_addf(out, " ");
  og_plain_add(out, root->id[0] != '\0' ? root->id : root->stage, 12);
  og_text_add(out, ": ");
  og_plain_add(out, root->cause->title, 80);
  out->failed |= site.failed;
  og_text_reset(&site);
}

// --- Limits ------------------------------------------------------------------

typedef struct gate_state {
  og_text *out;
  const opgraft_report *report;
  const opgraft_gate *gate;
  int32_t findings;
} gate_state;

static void beyond(gate_state *s, const char *what, double found,
                   const char *wanted, double limit, int digits) {
  ++s->findings;
  og_text_addf(s->out, "gate: %s is ", what);
  og_text_add_fixed(s->out, found, digits);
  og_text_addf(s->out, ", expected %s ", wanted);
  og_text_add_fixed(s->out, limit, digits);
  og_text_add(s->out, "\n");
}

static int64_t recompile_count(const opgraft_report *report) {
  int64_t count = 0;
  for (int32_t i = 0; i < og_trace_cause_count(&report->trace); ++i)
    count +=
        strcmp(og_trace_cause_at(&report->trace, i)->stage, "recompile") == 0;
  return count;
}

static void baseline_check(gate_state *s) {
  const og_joined *now = &s->report->joined;
  for (int32_t i = 0; i < now->root_count; ++i) {
    if (root_match(&s->gate->baseline->joined, &now->root[i])) continue;
    ++s->findings;
    og_text_add(s->out, "gate: new root ");
    root_line(s->out, s->report, &now->root[i]);
    og_text_add(s->out, "\n");
  }
}

static bool has_limit(const opgraft_gate *gate) {
  return gate->has_max_roots || gate->has_max_recompiles ||
         gate->has_max_lost_ms || gate->has_min_captured ||
         gate->baseline != NULL;
}

// What a script that did not run to its end would have done is not known, so
// that no limit holds for it.
static og_status whole_check(const opgraft_report *report,
                             opgraft_error *error) {
  const int32_t ends = og_trace_end_count(&report->trace);
  if (ends == 0)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "gate: the script was cut short (a signal, a crash, "
                        "os._exit), expected one that runs to its end: its "
                        "limits cannot be checked");
  const og_trace_end *end = og_trace_end_at(&report->trace, ends - 1);
  if (strcmp(end->status, "ok") == 0) return OG_OK;
  og_text text = {0};
  og_plain_add(&text, end->text, 200);
  const og_status status =
      og_error_set(error, OG_INVALID, NULL, NULL,
                   "gate: the script ended early (%s), expected one that runs "
                   "to its end: its "
                   "limits cannot be checked",
                   text.failed || text.data == NULL ? end->status : text.data);
  og_text_reset(&text);
  return status;
}

static void limits_check(gate_state *s) {
  const og_joined *j = &s->report->joined;
  const opgraft_gate *gate = s->gate;
  const double captured = og_joined_captured(j);
  const int64_t recompiles = recompile_count(s->report);
  if (gate->has_max_roots && j->root_count > gate->max_roots)
    beyond(s, "the number of roots", j->root_count, "at most",
           (double)gate->max_roots, 0);
  if (gate->has_max_recompiles && recompiles > gate->max_recompiles)
    beyond(s, "the number of recompiles", (double)recompiles, "at most",
           (double)gate->max_recompiles, 0);
  if (gate->has_max_lost_ms && og_joined_lost_ms(j) > gate->max_lost_ms)
    beyond(s, "the time lost to roots, in ms a step,", og_joined_lost_ms(j),
           "at most", gate->max_lost_ms, 3);
  if (gate->has_min_captured && captured < 0) {
    ++s->findings;
    og_text_add(s->out,
                "gate: the captured share was not measured; run doctor "
                "without --runs 0\n");
  } else if (gate->has_min_captured && captured * 100 < gate->min_captured) {
    beyond(s, "the captured share of operators, in percent,", captured * 100,
           "at least", gate->min_captured, 1);
  }
  if (gate->has_max_lost_ms && j->compiled_ns.count == 0) {
    ++s->findings;
    og_text_add(s->out,
                "gate: the time lost to roots was not measured; run doctor "
                "without --runs 0\n");
  }
  if (gate->baseline != NULL) baseline_check(s);
}

og_status opgraft_report_gate(const opgraft_report *report,
                              const opgraft_gate *gate,
                              opgraft_report_write_fn write, void *user,
                              int32_t *out_findings, opgraft_error *error) {
  opgraft_gate all;
  og_text out = {0};
  if (out_findings != NULL) *out_findings = 0;
  if (report == NULL || write == NULL || out_findings == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "gate: an argument is NULL; give a report, and where "
                        "findings and their number go");
  OG_TRY(og_copy_sized("opgraft_gate", gate, &all, sizeof all, error));
  if (has_limit(&all)) OG_TRY(whole_check(report, error));
  gate_state s = {&out, report, &all, 0};
  limits_check(&s);
  *out_findings = s.findings;
  return og_report_flush(&out, write, user, error);
}

// --- Two reports -------------------------------------------------------------

static void figure(og_text *out, const char *what, double before, double after,
                   bool is_known) {
  if (!is_known) return;
  og_text_addf(out, "%-9s ", what);
  og_time_add(out, before);
  og_text_add(out, " -> ");
  og_time_add(out, after);
  og_text_add(out, " a step\n");
}

static void changes(og_text *out, const char *sign,
                    const opgraft_report *report, const og_joined *other) {
  const og_joined *j = &report->joined;
  for (int32_t i = 0; i < j->root_count; ++i) {
    if (root_match(other, &j->root[i]) != NULL) continue;
    og_text_addf(out, "%s ", sign);
    root_line(out, report, &j->root[i]);
    og_text_add(out, "\n");
  }
}

static void kept(og_text *out, const opgraft_report *after,
                 const og_joined *before) {
  const og_joined *j = &after->joined;
  for (int32_t i = 0; i < j->root_count; ++i) {
    const og_root *then = root_match(before, &j->root[i]);
    if (then == NULL) continue;
    og_text_add(out, "= ");
    root_line(out, after, &j->root[i]);
    if (then->steady_ns.count > 0 && j->root[i].steady_ns.count > 0) {
      og_text_add(out, ": ");
      og_time_add(out, then->steady_ns.median);
      og_text_add(out, " -> ");
      og_time_add(out, j->root[i].steady_ns.median);
    }
    og_text_add(out, "\n");
  }
}

og_status opgraft_report_compare(const opgraft_report *before,
                                 const opgraft_report *after,
                                 opgraft_report_write_fn write, void *user,
                                 opgraft_error *error) {
  og_text out = {0};
  if (before == NULL || after == NULL || write == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "compare: an argument is NULL; give two reports and "
                        "where the text goes");
  const og_joined *a = &before->joined, *b = &after->joined;
  figure(&out, "eager", a->eager_ns.median, b->eager_ns.median,
         a->eager_ns.count > 0 && b->eager_ns.count > 0);
  figure(&out, "compiled", a->compiled_ns.median, b->compiled_ns.median,
         a->compiled_ns.count > 0 && b->compiled_ns.count > 0);
  og_text_addf(&out,
               "frames    %lld of %lld -> %lld of %lld compiled\n"
               "graphs    %d -> %d\nroots     %d -> %d\n",
               (long long)a->frames.compiled, (long long)a->frames.total,
               (long long)b->frames.compiled, (long long)b->frames.total,
               (int)a->fx_count, (int)b->fx_count, (int)a->root_count,
               (int)b->root_count);
  changes(&out, "-", before, b);
  changes(&out, "+", after, a);
  kept(&out, after, a);
  return og_report_flush(&out, write, user, error);
}
