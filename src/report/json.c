// SPDX-License-Identifier: Apache-2.0
// The JSON form: docs/doctor.schema.json.

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "report/form.h"

static void number_ms(og_text *out, const char *key, double ns, bool is_known) {
  og_json_number(out, key, is_known ? ns / 1e6 : (double)NAN, 6);
}

static void file_text(og_text *out, const opgraft_report *report,
                      const char *key, const char *file) {
  og_text scratch = {0};
  og_json_text(out, key, og_report_file(report, file, &scratch));
  out->failed |= scratch.failed;
  og_text_reset(&scratch);
}

static const char *text_or_null(const char *value) {
  return value[0] != '\0' ? value : NULL;
}

static void spread_ms(og_text *out, const char *const keys[3],
                      const og_spread *spread) {
  const double values[] = {spread->median, spread->low, spread->high};
  for (int i = 0; i < 3; ++i)
    number_ms(out, keys[i], values[i], spread->count > 0);
}

static void verdict(og_text *out, const opgraft_report *report) {
  static const char *const eager[] = {"eager_ms", "eager_low_ms",
                                      "eager_high_ms"};
  static const char *const now[] = {"compiled_ms", "compiled_low_ms",
                                    "compiled_high_ms"};
  const og_joined *j = &report->joined;
  const og_times times = og_joined_times(j);
  og_json_begin(out, "verdict", '{');
  spread_ms(out, eager, &j->eager_ns);
  spread_ms(out, now, &j->compiled_ns);
  number_ms(out, "reachable_ms", j->reachable_ns, j->reachable_ns > 0);
  og_json_number(out, "stretch", j->stretch > 0 ? j->stretch : (double)NAN, 2);
  og_json_int(out, "runs", j->compiled_ns.count);
  og_json_bool(out, "is_too_noisy",
               times == OG_TIMES_BUSY || times == OG_TIMES_SPREAD);
  og_json_bool(out, "is_net_loss", og_report_is_loss(report));
  og_json_end(out, '}');
}

static void stages(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  og_json_line(out, 2);
  og_json_begin(out, "frames", '{');
  og_json_int(out, "total", j->frames.total);
  og_json_int(out, "compiled", j->frames.compiled);
  og_json_int(out, "skipped", j->frames.skipped);
  og_json_int(out, "unexplained", j->frames.unexplained);
  og_json_end(out, '}');
  og_json_line(out, 2);
  og_json_begin(out, "graphs", '{');
  og_json_int(out, "fx", j->fx_count);
  og_json_int(out, "backend", j->backend_count);
  og_json_int(out, "kernels", j->kernel_count);
  og_json_int(out, "externs", j->extern_count);
  og_json_end(out, '}');
  og_json_line(out, 2);
  if (j->has_hlo) {
    og_json_begin(out, "hlo", '{');
    og_json_int(out, "graphs", j->compiled_hlo.graphs);
    og_json_int(out, "fallbacks", j->compiled_hlo.fallbacks);
    og_json_int(out, "lazy_graphs", j->lazy_hlo.graphs);
    og_json_int(out, "lazy_fallbacks", j->lazy_hlo.fallbacks);
    og_json_int(out, "compiles", j->hlo_compiles);
    og_json_number(out, "compile_s", j->hlo_compile_ns / 1e9, 6);
    og_json_end(out, '}');
    og_json_line(out, 2);
  }
  const double captured = og_joined_captured(j);
  og_json_number(out, "captured_percent",
                 captured >= 0 ? captured * 100 : (double)NAN, 2);
  og_json_line(out, 2);
  og_json_begin(out, "compile", '{');
  og_json_number(out, "dynamo_s", j->dynamo_ns / 1e9, 6);
  og_json_number(out, "backend_s", j->backend_ns / 1e9, 6);
  og_json_number(out, "hooks_s", j->hooks_ns / 1e9, 6);
  og_json_end(out, '}');
}

static void fix(og_text *out, const og_root *root) {
  const og_advice advice = og_advice_find(root);
  const og_trace_fix *f = root->fix;
  og_json_begin(out, "fix", '{');
  og_json_text(out, "class", f != NULL ? f->class_ : advice.class_);
  og_json_text(out, "title", f != NULL ? f->title : advice.text);
  og_json_text(out, "diff", text_or_null(f != NULL ? f->diff : ""));
  og_json_text(out, "status", f != NULL ? f->status : "proposed");
  og_json_text(out, "text", f != NULL ? f->text : "");
  og_json_number(out, "gain_ms",
                 og_is_mended(root) ? f->before_ms - f->after_ms : (double)NAN,
                 6);
  og_json_end(out, '}');
}

static void costs(og_text *out, const og_root *root) {
  const bool is_timed = root->steady_ns.count > 0;
  const double none = (double)NAN;
  og_json_number(out, "cold_s", root->cold_ns / 1e9, 6);
  og_json_number(out, "steady_us",
                 is_timed ? root->steady_ns.median / 1e3 : none, 3);
  og_json_number(out, "steady_low_us",
                 is_timed ? root->steady_ns.low / 1e3 : none, 3);
  og_json_number(out, "steady_high_us",
                 is_timed ? root->steady_ns.high / 1e3 : none, 3);
  og_json_number(out, "boundary_bytes", root->boundary_bytes, 0);
}

static void root_add(og_text *out, const opgraft_report *report,
                     const og_root *root) {
  const og_trace_cause *cause = root->cause;
  og_json_begin(out, NULL, '{');
  file_text(out, report, "file", cause->file);
  og_json_int(out, "line", cause->line);
  og_json_text(out, "id", text_or_null(root->id));
  og_json_text(out, "stage", root->stage);
  og_json_text(out, "title", cause->title);
  og_json_text(out, "text", cause->text);
  og_json_text(out, "function", cause->function);
  og_json_text(out, "code", cause->code);
  og_json_text(out, "owner", cause->owner);
  og_json_int(out, "hits", root->hits);
  costs(out, root);
  if (cause->at_file[0] != '\0') {
    og_json_begin(out, "at", '{');
    file_text(out, report, "file", cause->at_file);
    og_json_int(out, "line", cause->at_line);
    og_json_end(out, '}');
  }
  fix(out, root);
  og_json_end(out, '}');
}

// A list with a line for each entry, and its end on a line of its own.
static void list_begin(og_text *out, const char *key) {
  og_json_line(out, 2);
  og_json_begin(out, key, '[');
}

static void list_end(og_text *out) {
  if (out->length > 0 && out->data[out->length - 1] != '[')
    og_text_add(out, "\n  ");
  og_json_end(out, ']');
}

static void roots(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  list_begin(out, "roots");
  for (int32_t i = 0; i < j->root_count; ++i) {
    og_json_line(out, 4);
    root_add(out, report, &j->root[i]);
  }
  list_end(out);
}

// The causes of one stage, each as it happened.
static void causes(og_text *out, const opgraft_report *report, const char *name,
                   const char *stage) {
  list_begin(out, name);
  for (int32_t i = 0; i < og_trace_cause_count(&report->trace); ++i) {
    const og_trace_cause *cause = og_trace_cause_at(&report->trace, i);
    if (strcmp(cause->stage, stage) != 0) continue;
    og_json_line(out, 4);
    og_json_begin(out, NULL, '{');
    file_text(out, report, "file", cause->file);
    og_json_int(out, "line", cause->line);
    if (strcmp(stage, "recompile") == 0) {
      og_json_text(out, "function", cause->function);
      og_json_text(out, "guard", cause->guard);
    } else {
      og_json_text(out, "op", cause->operator_);
    }
    og_json_text(out, "reason", cause->text);
    og_json_end(out, '}');
  }
  list_end(out);
}

static void skips(og_text *out, const opgraft_report *report) {
  list_begin(out, "skipped");
  for (int32_t i = 0; i < og_trace_frame_count(&report->trace); ++i) {
    const og_trace_frame *frame = og_trace_frame_at(&report->trace, i);
    if (strcmp(frame->outcome, "compiled") == 0) continue;
    og_json_line(out, 4);
    og_json_begin(out, NULL, '{');
    og_json_text(out, "function", frame->name);
    file_text(out, report, "file", frame->file);
    og_json_int(out, "line", frame->line);
    og_json_text(out, "reason", frame->reason);
    og_json_end(out, '}');
  }
  list_end(out);
}

static void run(og_text *out, const opgraft_report *report) {
  const og_trace *trace = &report->trace;
  const int32_t runs = og_trace_run_count(trace);
  const int32_t ends = og_trace_end_count(trace);
  static const og_trace_run nothing = {"", "", "", "", "", "", "", 0};
  const og_trace_run *r =
      runs > 0 ? og_trace_run_at(trace, runs - 1) : &nothing;
  const og_trace_end *end = ends > 0 ? og_trace_end_at(trace, ends - 1) : NULL;
  og_json_line(out, 2);
  og_json_begin(out, "run", '{');
  file_text(out, report, "script", r->script);
  og_json_text(out, "arguments", r->arguments);
  og_json_text(out, "torch", r->torch);
  og_json_text(out, "python", r->python);
  og_json_text(out, "adapter", r->adapter);
  og_json_int(out, "threads", r->threads);
  og_json_text(out, "status", end != NULL ? end->status : "cut short");
  og_json_text(out, "error", end != NULL ? end->text : "");
  og_json_begin(out, "hooks", '[');
  for (int32_t i = 0; i < og_trace_hook_count(trace); ++i) {
    const og_trace_hook *hook = og_trace_hook_at(trace, i);
    og_json_begin(out, NULL, '{');
    og_json_text(out, "name", hook->name);
    og_json_text(out, "state", hook->state);
    og_json_end(out, '}');
  }
  og_json_end(out, ']');
  og_json_begin(out, "notes", '[');
  for (int32_t i = 0; i < og_trace_note_count(trace); ++i)
    og_json_text(out, NULL, og_trace_note_at(trace, i)->text);
  og_json_end(out, ']');
  og_json_end(out, '}');
}

void og_report_json(og_text *out, const opgraft_report *report,
                    const opgraft_report_options *options) {
  (void)options;
  og_json_begin(out, NULL, '{');
  og_json_line(out, 2);
  og_json_text(out, "format", "opgraft-doctor");
  og_json_int(out, "version", 1);
  og_json_line(out, 2);
  verdict(out, report);
  stages(out, report);
  roots(out, report);
  causes(out, report, "recompiles", "recompile");
  causes(out, report, "fallbacks", "backend");
  skips(out, report);
  run(out, report);
  og_text_add(out, "\n}\n");
}
