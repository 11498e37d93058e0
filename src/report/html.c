// SPDX-License-Identifier: Apache-2.0
// The HTML form: one page, no script, nothing loaded from anywhere.

#include <string.h>

#include "report/form.h"
#include "report/plain.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'\">\n"
    "<title>opgraft doctor</title>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--soft:#667;"
    "--line:#d5d8de;--bad:#c0392b;--good:#2471a3;--gap:#e59866}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#16181c;"
    "--soft:#9aa0aa;--line:#363a42;--good:#5dade2}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:60rem;padding:1rem;"
    "font:1rem/1.45 system-ui,sans-serif;color:var(--ink);"
    "background:var(--paper);overflow-wrap:anywhere}\n"
    "h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}\n"
    ".loss{color:var(--bad);font-weight:600}.soft{color:var(--soft)}\n"
    ".bar{display:flex;height:1.4rem;border:1px solid var(--line);"
    "overflow:hidden}.bar span{flex:0 0 auto;min-width:0}\n"
    ".region{background:var(--good)}.gap{background:var(--gap)}\n"
    ".stages{display:flex;flex-wrap:wrap;gap:.5rem;padding:0;list-style:none}"
    "\n.stages li{flex:1 1 7rem;border:1px solid var(--line);padding:.4rem}\n"
    ".stages b{display:block;font-size:1.3rem}\n"
    "article{border-top:1px solid var(--line);padding:.8rem 0}\n"
    ".cost{height:.5rem;background:var(--gap);min-width:2px}\n"
    "pre{overflow-x:auto;padding:.5rem;border:1px solid var(--line);"
    "font-size:.85rem;overflow-wrap:normal}pre b{color:var(--bad)}\n"
    "table{border-collapse:collapse;width:100%}td{border-top:1px solid "
    "var(--line);padding:.2rem .4rem;vertical-align:top}\n"
    "</style></head><body>\n";

// Text that may come from anywhere, as text and nothing else.
static void safe_add(og_text *out, const char *text, int32_t width) {
  (void)width;
  for (const char *s = text; *s != '\0';) {
    uint32_t code;
    const size_t length = og_utf8_read(s, &code);
    if (length == 0 || (!og_is_plain(code) && code != '\n' && code != '\t'))
      og_text_add(out, "\xEF\xBF\xBD");
    else if (code == '&' || code == '<' || code == '>' || code == '"' ||
             code == '\'')
      og_text_addf(out, "&#%u;", (unsigned)code);
    else
      og_text_add_n(out, s, length);
    s += length > 0 ? length : 1;
  }
}

static void file_add(og_text *out, const opgraft_report *report,
                     const char *file) {
  og_text scratch = {0};
  safe_add(out, og_report_file(report, file, &scratch), 0);
  out->failed |= scratch.failed;
  og_text_reset(&scratch);
}

// --- Verdict and stages ------------------------------------------------------

static void verdict(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  const int32_t runs = og_trace_run_count(&report->trace);
  og_text_add(out, "<h1>opgraft doctor: ");
  if (runs > 0)
    file_add(out, report, og_trace_run_at(&report->trace, runs - 1)->script);
  og_text_add(out, "</h1>\n<p>");
  if (j->eager_ns.count == 0 || j->compiled_ns.count == 0) {
    og_text_add(out, "No time was measured.</p>\n");
    return;
  }
  og_text_add(out, j->has_hlo ? "LazyTensor" : "Eager");
  og_report_times_add(out, report);
  og_text_add(out, "<span");
  if (og_report_is_loss(report)) og_text_add(out, " class=\"loss\"");
  og_text_add(out, ">");
  og_report_verdict_add(out, report);
  og_text_add(out, "</span>.</p>\n");
}

static void waterfall(og_text *out, const opgraft_report *report) {
  const og_joined *j = &report->joined;
  og_form_add(out, safe_add,
              "<h2>From source to kernels</h2>\n<ul class=\"stages\">\n"
              "<li>frames<b>%l</b>%l not compiled, %l unexplained</li>\n"
              "<li>FX graphs<b>%d</b>Dynamo %t</li>\n"
              "<li>backend graphs<b>%d</b>backend %t</li>\n",
              j->frames.total, j->frames.skipped, j->frames.unexplained,
              j->fx_count, j->dynamo_ns, j->backend_count, j->backend_ns);
  if (j->has_hlo)
    og_form_add(out, safe_add,
                "<li>HLO graphs<b>%l</b>a step</li>\n"
                "<li>HLO graphs<b>%l</b>by LazyTensor tracing</li>\n",
                j->compiled_hlo.graphs, j->lazy_hlo.graphs);
  og_form_add(out, safe_add,
              "<li>kernels<b>%l</b>generated</li>\n"
              "<li>library calls<b>%l</b>and fallbacks</li>\n</ul>\n",
              j->kernel_count, j->extern_count);
}

// --- Timeline ----------------------------------------------------------------

static void piece(og_text *out, const char *kind, double from, double to,
                  double whole) {
  if (to <= from || whole <= 0) return;
  og_text_addf(out, "<span class=\"%s\" style=\"width:", kind);
  og_text_add_fixed(out, (to - from) / whole * 100, 3);
  og_form_add(out, safe_add, "%%\" title=\"%t\"></span>", to - from);
}

// The last marked step of each entry, region by region.
static void timeline(og_text *out, const opgraft_report *report) {
  const og_trace *trace = &report->trace;
  int32_t at = 0;
  og_text_add(out,
              "<h2>One step: compiled regions and the gaps between "
              "them</h2>\n");
  for (int32_t i = 0; i < og_trace_step_count(trace); ++i) {
    const og_trace_step *step = og_trace_step_at(trace, i);
    if (strcmp(step->mode, "marked") != 0) continue;
    const bool is_shown = step->run == 1;
    double cursor = 0;
    if (is_shown) og_text_add(out, "<div class=\"bar\">");
    for (; at < og_trace_mark_count(trace); ++at) {
      const og_trace_mark *mark = og_trace_mark_at(trace, at);
      if (mark->entry != step->entry || mark->run != step->run) break;
      if (!is_shown) continue;
      piece(out, "gap", cursor, (double)mark->begin, (double)step->ns);
      piece(out, "region", (double)mark->begin, (double)mark->end,
            (double)step->ns);
      cursor = (double)mark->end;
    }
    if (!is_shown) continue;
    piece(out, "gap", cursor, (double)step->ns, (double)step->ns);
    og_text_add(out, "</div>\n");
  }
  og_text_add(out,
              "<p class=\"soft\">Blue: compiled. Orange: Python, eager "
              "operators and dispatch.</p>\n");
}

// --- Roots -------------------------------------------------------------------

static void source(og_text *out, const opgraft_report *report,
                   const og_root *root) {
  const og_trace *trace = &report->trace;
  bool is_open = false;
  int64_t last = 0;
  for (int32_t i = 0; i < og_trace_source_count(trace); ++i) {
    const og_trace_source *line = og_trace_source_at(trace, i);
    const int64_t away = line->line > root->cause->line
                             ? line->line - root->cause->line
                             : root->cause->line - line->line;
    if (away > 4 || strcmp(line->file, root->cause->file) != 0) continue;
    if (is_open && line->line <= last) continue;  // said by another root
    if (!is_open) og_text_add(out, "<pre>");
    is_open = true;
    last = line->line;
    og_text_addf(out, "%s%5lld  ", away == 0 ? "<b>" : "",
                 (long long)line->line);
    og_form_add(out, safe_add, away == 0 ? "%s</b>\n" : "%s\n", line->text);
  }
  if (is_open) og_text_add(out, "</pre>\n");
}

static void cost(og_text *out, const og_root *root, double most) {
  const og_spread *steady = &root->steady_ns;
  og_text_add(out, "<p>");
  if (steady->count > 0)
    og_form_add(out, safe_add, "%t a step (%t to %t), ", steady->median,
                steady->low, steady->high);
  og_form_add(out, safe_add, "cold %t", root->cold_ns);
  if (root->boundary_bytes > 0)
    og_form_add(out, safe_add, ", keeps %b alive", root->boundary_bytes);
  og_text_add(out, "</p>\n");
  if (most <= 0 || root->steady_ns.median <= 0) return;
  og_text_add(out, "<div class=\"cost\" style=\"width:");
  og_text_add_fixed(out, root->steady_ns.median / most * 100, 2);
  og_text_add(out, "%\"></div>\n");
}

static void remedy(og_text *out, const og_root *root) {
  const og_trace_fix *f = root->fix;
  const og_advice advice = og_advice_find(root);
  og_form_add(out, safe_add, "<p>Fix (%s, %s): %s",
              f != NULL ? f->class_ : advice.class_,
              f != NULL ? f->status : "proposed",
              f != NULL ? f->title : advice.text);
  if (f != NULL && !og_is_mended(root) && f->text[0] != '\0')
    og_form_add(out, safe_add, "; %s", f->text);
  if (og_is_mended(root))
    og_form_add(out, safe_add, "; %t before, %t after", f->before_ms * 1e6,
                f->after_ms * 1e6);
  og_text_add(out, "</p>\n");
  if (f != NULL && f->diff[0] != '\0')
    og_form_add(out, safe_add, "<pre>%s</pre>\n", f->diff);
}

// A number of PyTorch's registry of breaks, and its page there.
static void id_add(og_text *out, const char *id) {
  const char *number = id + 2;
  const bool is_registered = strncmp(id, "GB", 2) == 0 && *number != '\0' &&
                             strspn(number, "0123456789") == strlen(number);
  if (is_registered)
    og_text_addf(out,
                 "<a href=\"https://meta-pytorch.github.io/"
                 "compile-graph-break-site/gb/gb%s.html\">",
                 number);
  safe_add(out, id[0] != '\0' ? id : "no registry id", 0);
  if (is_registered) og_text_add(out, "</a>");
}

static void root_add(og_text *out, const opgraft_report *report,
                     const og_root *root, double most) {
  og_text_add(out, "<article><h3>");
  file_add(out, report, root->cause->file);
  og_form_add(out, safe_add, ":%l</h3>\n<p>%s<br><span class=\"soft\">",
              (int64_t)root->cause->line, root->cause->title);
  id_add(out, root->id);
  og_form_add(out, safe_add, ", %s, %d hit%s, %s</span></p>\n", root->stage,
              root->hits, og_plural(root->hits), root->cause->owner);
  cost(out, root, most);
  source(out, report, root);
  remedy(out, root);
  og_form_add(out, safe_add,
              "<details><summary>What was said</summary><pre>%s</pre>"
              "</details></article>\n",
              root->cause->text);
}

static void notes(og_text *out, const opgraft_report *report) {
  const og_trace *trace = &report->trace;
  const int32_t ends = og_trace_end_count(trace);
  const double captured = og_joined_captured(&report->joined);
  og_text_add(out, "<h2>Besides</h2>\n<table>\n");
  if (captured >= 0)
    og_form_add(out, safe_add, "<tr><td>operators captured: %f %%</td></tr>\n",
                captured * 100);
  if (ends == 0 || strcmp(og_trace_end_at(trace, ends - 1)->status, "ok") != 0)
    og_form_add(out, safe_add, "<tr><td>The script ended early: %s</td></tr>\n",
                ends > 0 ? og_trace_end_at(trace, ends - 1)->text
                         : "its end is not recorded");
  for (int32_t i = 0; i < og_trace_note_count(trace); ++i)
    og_form_add(out, safe_add, "<tr><td>%s</td></tr>\n",
                og_trace_note_at(trace, i)->text);
  og_form_add(out, safe_add,
              "<tr><td>unexplained frames: %l</td></tr></table>\n",
              (int64_t)report->joined.frames.unexplained);
}

void og_report_html(og_text *out, const opgraft_report *report,
                    const opgraft_report_options *options) {
  const og_joined *j = &report->joined;
  (void)options;
  og_text_add(out, head);
  verdict(out, report);
  waterfall(out, report);
  timeline(out, report);
  og_text_addf(out, "<h2>%d root cause%s</h2>\n", (int)j->root_count,
               og_plural(j->root_count));
  // The roots come by cost.
  const double most = j->root_count > 0 ? j->root[0].steady_ns.median : 0;
  for (int32_t i = 0; i < j->root_count; ++i)
    root_add(out, report, &j->root[i], most);
  notes(out, report);
  og_text_add(out, "</body></html>\n");
}
