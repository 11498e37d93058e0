// SPDX-License-Identifier: Apache-2.0
// All operators of a module, one after the other, and the report.

#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "check/driver.h"
#include "check/operator.h"
#include "check/probe/table.h"
#include "check/run/allowance.h"
#include "check/run/guard.h"
#include "check/verdict/finding.h"
#include "check/verdict/report.h"
#include "module/module.h"

static void tell_findings(const og_operator_check *s) {
  const opgraft_check_sink *sink = s->sink;
  for (int32_t i = 0; sink->finding != NULL && i < s->found.count; ++i) {
    const og_finding *f = &s->found.entry[i];
    og_text again = {0};
    og_finding_write_again(f, s->job.op, s->job.options, &again);
    const opgraft_finding out = {.struct_size = sizeof out,
                                 .kind = f->kind,
                                 .is_note = f->is_note,
                                 .count = f->count,
                                 .op = f->op,
                                 .argument = f->name,
                                 .text = f->text,
                                 .call_text = f->call_text,
                                 .fix = og_finding_fix(f->kind),
                                 .again = again.data ? again.data : ""};
    sink->finding(sink->user, &out);
    og_text_reset(&again);
  }
}

static void tell_operator(const og_operator_check *s) {
  const opgraft_check_sink *sink = s->sink;
  if (sink->operator_done == NULL) return;
  og_text types = {0}, layouts = {0};
  og_report_coverage(&s->found, &types, &layouts);
  const int32_t faults = og_findings_faults(&s->found);
  const opgraft_check_operator out = {
      .struct_size = sizeof out,
      .finding_count = faults,
      .note_count = s->found.count - faults,
      .call_count = s->found.call_count,
      .run_count = s->found.run_count,
      .refused_count = s->found.refused_count,
      .op = s->job.op->decl->name,
      .dtypes = types.data ? types.data : "",
      .layouts = layouts.data ? layouts.data : ""};
  sink->operator_done(sink->user, &out);
  og_text_reset(&types);
  og_text_reset(&layouts);
}

static og_status write_text(const opgraft_check_sink *sink, og_text *text,
                            opgraft_error *error) {
  const bool failed = text->failed;
  if (!failed && text->data != NULL && sink->write != NULL)
    sink->write(sink->user, text->data, text->length);
  og_text_reset(text);
  return failed ? og_error_set(error, OG_MEMORY, NULL, NULL,
                               "check: not enough memory for the report")
                : OG_OK;
}

// What loading the module does is said of the first operator.
static void see_loading(og_operator_check *s, const opgraft_module *module,
                        const opgraft_op *op) {
  const char *changed = og_module_float_env(module);
  const og_found_at nowhere = {
      .call = -1, .call_text = "loading the module", .missing = ""};
  char text[256];
  if (changed[0] == '\0') return;
  snprintf(text, sizeof text,
           "a constructor leaves the floating-point environment of the thread "
           "that loads the module changed: %s",
           changed);
  og_findings_add(&s->found, OPGRAFT_FLOAT_ENVIRONMENT, false, op->decl->name,
                  "", text, &nowhere);
}

static og_status nothing_checked(const og_operator_check *s,
                                 const opgraft_check_options *options,
                                 opgraft_error *error) {
  const char *device = s->target->name[0] != '\0' ? s->target->name : "the CPU";
  if (options->op == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "check: the module has no operator with a kernel for "
                        "%s that a call of tensors reaches; expected a kernel "
                        "with .device = %d",
                        device, (int)s->target->device);
  return og_error_set(error, OG_INVALID, options->op, NULL,
                      "check: the module has no operator \"%s\" with a "
                      "kernel for %s",
                      options->op, device);
}

static og_status check_all(og_operator_check *s, const opgraft_module *module,
                           const opgraft_check_options *options,
                           int32_t *out_findings, opgraft_error *error) {
  og_text text = {0};
  int32_t operators = 0, notes = 0, skipped = 0;
  og_report_begin(&text, module, options);
  for (int32_t i = 0;
       i < opgraft_module_op_count(module) && !og_is_stopped(s->sink); ++i) {
    const opgraft_op *op = opgraft_module_op(module, i);
    if (options->op != NULL && strcmp(options->op, op->decl->name) != 0)
      continue;
    const char *lacks = og_target_lacks(s->target, op->decl);
    if (lacks != NULL && options->device != NULL)
      og_report_skipped(&text, op, lacks, options, operators + skipped++ == 0);
    if (lacks != NULL) continue;
    OG_TRY(og_operator_check_run(s, op, options, error));
    if (operators == 0) see_loading(s, module, op);
    tell_findings(s);
    tell_operator(s);
    og_report_operator(&text, &s->found, options, skipped + operators++ == 0);
    const int32_t faults = og_findings_faults(&s->found);
    *out_findings += faults;
    notes += s->found.count - faults;
    OG_TRY(write_text(s->sink, &text, error));
  }
  if (operators == 0 && (options->op != NULL || options->device != NULL) &&
      !og_is_stopped(s->sink)) {
    og_text_reset(&text);
    return nothing_checked(s, options, error);
  }
  const og_counts counts = {.operators = operators,
                            .faults = *out_findings,
                            .notes = notes,
                            .skipped = skipped,
                            .device = s->target->name,
                            .is_stopped = og_is_stopped(s->sink)};
  og_report_end(&text, &counts, options);
  return write_text(s->sink, &text, error);
}

static og_status find_probe(const opgraft_check_options *options,
                            opgraft_error *error) {
  char names[OG_PROBE_NAMES];
  const char *name = options->probe;
  const int32_t found = name != NULL ? og_probe_find(name) : OG_PROBE_base_;
  if (found >= 0 && options->device != NULL &&
      (og_probes[found].flags & OG_PROBE_HOST)) {
    og_probe_names(OG_PROBE_HOST, names, sizeof names);
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "check: the probe \"%s\" needs the host's memory or "
                        "threads, expected one for a device: any but %s",
                        name, names);
  }
  if (found >= 0) return OG_OK;
  og_probe_names(0, names, sizeof names);
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "check: there is no probe \"%s\"; the probes are %s",
                      name, names);
}

og_status og_check(const opgraft_module *module,
                   const opgraft_check_options *options,
                   const opgraft_check_sink *sink, int32_t *out_findings,
                   opgraft_error *error) {
  opgraft_check_options all = *options;
  if (all.calls <= 0) all.calls = 40;
  if (all.run_limit_ms <= 0) all.run_limit_ms = 2000;
  if (all.memory_limit_bytes <= 0) all.memory_limit_bytes = 1ll << 30;
  if (all.operator_limit_ms <= 0) all.operator_limit_ms = 30000;
  OG_TRY(find_probe(&all, error));
  if (all.is_inline && all.call == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "check: only one call can run in this process; say "
                        "which");
  // Without it no call could run, and nothing found would mean nothing.
  if (!og_guard_reserve())
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "check: no 2 GiB of address space for guarded memory; "
                        "raise the limit (ulimit -v)");
  og_guard_unreserve();
  og_target target;
  OG_TRY(og_target_find(&all, sink, &target, error));
  int32_t findings = 0;
  og_operator_check *s = og_alloc_zeroed(1, sizeof *s);
  if (s == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL,
                        "check: not enough memory");
  s->sink = sink;
  s->target = &target;
  const og_status status = check_all(s, module, &all, &findings, error);
  og_free(s);
  if (out_findings != NULL) *out_findings = findings;
  return status;
}
