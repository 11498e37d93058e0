// SPDX-License-Identifier: Apache-2.0
// The JSON form: docs/doctor.schema.json.

#include <math.h>
#include <string.h>

#include "report/form.h"

static void number_ms(og_text *out, const char *key, double ns, bool is_known) {
  og_json_number(out, key, is_known ? ns / 1e6 : (double)NAN, 6);
}

static void integer(og_text *out, const char *key, int64_t value) {
  og_text_add_json(out, key);
  og_text_addf(out, ": %lld", (long long)value);
}

static void file_text(og_text *out, const opgraft_report *report,
                      const char *key, const char *file) {
  og_text scratch = {0};
  og_text_add_json_field(out, key, og_report_file(report, file, &scratch));
  out->failed |= scratch.failed;
  og_text_reset(&scratch);
}

static void text_or_null(og_text *out, const char *key, const char *value) {
  if (value[0] != '\0') {
    og_text_add_json_field(out, key, value);
    return;
  }
  og_text_add_json(out, key);
  og_text_add(out, ": null");
}

static void spread_ms(og_text *out, const char *const keys[3],
                      const og_spread *spread) {
  const double values[] = {spread->median, spread->low, spread->high};
  for (int i = 0; i < 3; ++i) {
    number_ms(out, keys[i], values[i], spread->count > 0);
    og_text_add(out, ", ");
  }
}

static void verdict(og_text *out, const opgraft_report *report) {
  static const char *const eager[] = {"eager_ms", "eager_low_ms",
                                      "eager_high_ms"};
  static const char *const now[] = {"compiled_ms", "compiled_low_ms",
                                    "compiled_high_ms"};
  const og_joined *j = &report->joined;
  const og_times times = og_joined_times(j);
  og_text_add(out, "  \"verdict\": {");
  spread_ms(out, eager, &j->eager_ns);
  spread_ms(out, now, &j->compiled_ns);
  number_ms(out, "reachable_ms", j->reachable_ns, j->reachable_ns > 0);
  og_text_add(out, ", ");
  og_json_number(out, "stretch", j->stretch > 0 ? j->stretch : (double)NAN, 2);
  og_text_addf(
      out, ", \"runs\": %d, \"is_too_noisy\": %s, \"is_net_loss\": %s},\n",
      (int)j->compiled_ns.count,
      times == OG_TIMES_BUSY || times == OG_TIMES_SPREAD ? "true" : "false",
      og_report_is_loss(report) ? "true" : "false");
}

static void stages(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  og_text_addf(out,
               "  \"frames\": {\"total\": %lld, \"compiled\": %lld, "
               "\"skipped\": %lld, \"unexplained\": %lld},\n",
               (long long)j->frames.total, (long long)j->frames.compiled,
               (long long)j->frames.skipped, (long long)j->frames.unexplained);
  og_text_addf(out,
               "  \"graphs\": {\"fx\": %d, \"backend\": %d, \"kernels\": %lld, "
               "\"externs\": %lld},\n  ",
               (int)j->fx_count, (int)j->backend_count,
               (long long)j->kernel_count, (long long)j->extern_count);
  const double captured = og_joined_captured(j);
  og_json_number(out, "captured_percent",
                 captured >= 0 ? captured * 100 : (double)NAN, 2);
  og_text_add(out, ",\n  \"compile\": {");
  og_json_number(out, "dynamo_s", j->dynamo_ns / 1e9, 6);
  og_text_add(out, ", ");
  og_json_number(out, "backend_s", j->backend_ns / 1e9, 6);
  og_text_add(out, ", ");
  og_json_number(out, "hooks_s", j->hooks_ns / 1e9, 6);
  og_text_add(out, "},\n");
}

static void fix(og_text *out, const og_root *root) {
  const og_advice advice = og_advice_find(root);
  const og_trace_fix *f = root->fix;
  og_text_add(out, "\"fix\": {");
  og_text_add_json_field(out, "class", f != NULL ? f->class_ : advice.class_);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "title", f != NULL ? f->title : advice.text);
  og_text_add(out, ", ");
  text_or_null(out, "diff", f != NULL ? f->diff : "");
  og_text_add(out, ", ");
  og_text_add_json_field(out, "status", f != NULL ? f->status : "proposed");
  og_text_add(out, ", ");
  og_text_add_json_field(out, "text", f != NULL ? f->text : "");
  og_text_add(out, ", ");
  const bool is_timed = f != NULL && strcmp(f->status, "verified") == 0;
  og_json_number(out, "gain_ms",
                 is_timed ? f->before_ms - f->after_ms : (double)NAN, 6);
  og_text_add(out, "}");
}

static void costs(og_text *out, const og_root *root) {
  const bool is_timed = root->steady_ns.count > 0;
  const double none = (double)NAN;
  og_json_number(out, "cold_s", root->cold_ns / 1e9, 6);
  og_text_add(out, ", ");
  og_json_number(out, "steady_us",
                 is_timed ? root->steady_ns.median / 1e3 : none, 3);
  og_text_add(out, ", ");
  og_json_number(out, "steady_low_us",
                 is_timed ? root->steady_ns.low / 1e3 : none, 3);
  og_text_add(out, ", ");
  og_json_number(out, "steady_high_us",
                 is_timed ? root->steady_ns.high / 1e3 : none, 3);
  og_text_addf(out, ", \"border_bytes\": %.0f", root->border_bytes);
}

static void root_add(og_text *out, const opgraft_report *report,
                     const og_root *root) {
  const og_trace_cause *cause = root->cause;
  og_text_add(out, "{");
  file_text(out, report, "file", cause->file);
  og_text_add(out, ", ");
  integer(out, "line", cause->line);
  og_text_add(out, ", ");
  text_or_null(out, "id", root->id);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "stage", root->stage);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "title", cause->title);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "text", cause->text);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "function", cause->function);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "code", cause->code);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "owner", cause->owner);
  og_text_addf(out, ", \"hits\": %d, ", (int)root->hits);
  costs(out, root);
  if (cause->at_file[0] != '\0') {
    og_text_add(out, ", \"at\": {");
    file_text(out, report, "file", cause->at_file);
    og_text_add(out, ", ");
    integer(out, "line", cause->at_line);
    og_text_add(out, "}");
  }
  og_text_add(out, ", ");
  fix(out, root);
  og_text_add(out, "}");
}

static void roots(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  og_text_add(out, "  \"roots\": [");
  for (int32_t i = 0; i < j->root_count; ++i) {
    og_text_add(out, i > 0 ? ",\n    " : "\n    ");
    root_add(out, report, &j->root[i]);
  }
  og_text_add(out, j->root_count > 0 ? "\n  ],\n" : "],\n");
}

// The causes of one stage, each as it happened.
static void causes(og_text *out, const opgraft_report *report, const char *name,
                   const char *stage) {
  bool is_first = true;
  og_text_addf(out, "  \"%s\": [", name);
  for (int32_t i = 0; i < og_trace_cause_count(&report->trace); ++i) {
    const og_trace_cause *cause = og_trace_cause_at(&report->trace, i);
    if (strcmp(cause->stage, stage) != 0) continue;
    og_text_add(out, is_first ? "\n    {" : ",\n    {");
    is_first = false;
    file_text(out, report, "file", cause->file);
    og_text_add(out, ", ");
    integer(out, "line", cause->line);
    og_text_add(out, ", ");
    if (strcmp(stage, "recompile") == 0) {
      og_text_add_json_field(out, "function", cause->function);
      og_text_add(out, ", ");
      og_text_add_json_field(out, "guard", cause->guard);
    } else {
      og_text_add_json_field(out, "op", cause->operator_);
    }
    og_text_add(out, ", ");
    og_text_add_json_field(out, "reason", cause->text);
    og_text_add(out, "}");
  }
  og_text_add(out, is_first ? "],\n" : "\n  ],\n");
}

static void skips(og_text *out, const opgraft_report *report) {
  bool is_first = true;
  og_text_add(out, "  \"skipped\": [");
  for (int32_t i = 0; i < og_trace_frame_count(&report->trace); ++i) {
    const og_trace_frame *frame = og_trace_frame_at(&report->trace, i);
    if (strcmp(frame->outcome, "compiled") == 0) continue;
    og_text_add(out, is_first ? "\n    {" : ",\n    {");
    is_first = false;
    og_text_add_json_field(out, "function", frame->name);
    og_text_add(out, ", ");
    file_text(out, report, "file", frame->file);
    og_text_add(out, ", ");
    integer(out, "line", frame->line);
    og_text_add(out, ", ");
    og_text_add_json_field(out, "reason", frame->reason);
    og_text_add(out, "}");
  }
  og_text_add(out, is_first ? "],\n" : "\n  ],\n");
}

static void run(og_text *out, const opgraft_report *report) {
  const og_trace *trace = &report->trace;
  const int32_t runs = og_trace_run_count(trace);
  const int32_t ends = og_trace_end_count(trace);
  static const og_trace_run nothing = {"", "", "", "", "", "", "", 0};
  const og_trace_run *r =
      runs > 0 ? og_trace_run_at(trace, runs - 1) : &nothing;
  og_text_add(out, "  \"run\": {");
  file_text(out, report, "script", r->script);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "arguments", r->arguments);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "torch", r->torch);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "python", r->python);
  og_text_add(out, ", ");
  og_text_add_json_field(out, "adapter", r->adapter);
  og_text_addf(out, ", \"threads\": %lld, ", (long long)r->threads);
  og_text_add_json_field(
      out, "status",
      ends > 0 ? og_trace_end_at(trace, ends - 1)->status : "cut short");
  og_text_add(out, ", ");
  og_text_add_json_field(
      out, "error", ends > 0 ? og_trace_end_at(trace, ends - 1)->text : "");
  og_text_add(out, ", \"hooks\": [");
  for (int32_t i = 0; i < og_trace_hook_count(trace); ++i) {
    const og_trace_hook *hook = og_trace_hook_at(trace, i);
    og_text_add(out, i > 0 ? ", {" : "{");
    og_text_add_json_field(out, "name", hook->name);
    og_text_add(out, ", ");
    og_text_add_json_field(out, "state", hook->state);
    og_text_add(out, "}");
  }
  og_text_add(out, "], \"notes\": [");
  for (int32_t i = 0; i < og_trace_note_count(trace); ++i) {
    if (i > 0) og_text_add(out, ", ");
    og_text_add_json(out, og_trace_note_at(trace, i)->text);
  }
  og_text_add(out, "]}\n");
}

void og_report_json(og_text *out, const opgraft_report *report,
                    const opgraft_report_options *options) {
  (void)options;
  og_text_add(out, "{\n  \"format\": \"opgraft-doctor\", \"version\": 1,\n");
  verdict(out, report);
  stages(out, report);
  roots(out, report);
  causes(out, report, "recompiles", "recompile");
  causes(out, report, "fallbacks", "backend");
  skips(out, report);
  run(out, report);
  og_text_add(out, "}\n");
}
