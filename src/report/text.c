// SPDX-License-Identifier: Apache-2.0
// The terminal form: the verdict first, then the roots by cost; 40 lines at
// most.

#include <string.h>

#include "report/form.h"
#include "report/plain.h"

enum { LINES_MAX = 40, LINES_OF_ROOT = 5, LINES_AROUND = 13 };

typedef struct page {
  og_text *out;
  const opgraft_report *report;
  int32_t width;
  bool is_colour;
} page;

static void paint(const page *p, const char *sequence) {
  if (p->is_colour) og_text_add(p->out, sequence);
}
static void bold(const page *p) { paint(p, "\033[1m"); }
static void red(const page *p) { paint(p, "\033[1;31m"); }
static void dim(const page *p) { paint(p, "\033[2m"); }
static void plain(const page *p) { paint(p, "\033[0m"); }

// --- Head --------------------------------------------------------------------

static void head(const page *p) {
  const og_trace *trace = &p->report->trace;
  const int32_t runs = og_trace_run_count(trace);
  og_text file = {0};
  bold(p);
  og_text_add(p->out, "opgraft doctor");
  plain(p);
  if (runs > 0) {
    const og_trace_run *run = og_trace_run_at(trace, runs - 1);
    og_text_add(p->out, ": ");
    og_plain_add(p->out, og_report_file(p->report, run->script, &file),
                 p->width - 40);
    og_text_add(p->out, " (torch ");
    og_plain_add(p->out, run->torch, 20);
    og_text_add(p->out, ")");
  }
  og_text_add(p->out, "\n");
  p->out->failed |= file.failed;
  og_text_reset(&file);
}

static void verdict(const page *p) {
  const og_joined *j = &p->report->joined;
  if (j->eager_ns.count == 0 || j->compiled_ns.count == 0) {
    og_text_add(p->out, "no time was measured\n");
    return;
  }
  og_text_addf(p->out, "%s ", og_report_eager(p->report));
  og_spread_add(p->out, &j->eager_ns);
  og_text_add(p->out, ", now ");
  og_spread_add(p->out, &j->compiled_ns);
  if (j->reachable_ns > 0) {
    og_text_add(p->out, ", reachable ");
    og_time_add(p->out, j->reachable_ns);
  }
  og_text_add(p->out, " a step: ");
  if (og_report_is_loss(p->report)) red(p);
  og_report_verdict_add(p->out, p->report);
  if (og_report_is_loss(p->report)) plain(p);
  og_text_add(p->out, "\n");
}

static void waterfall(const page *p) {
  const og_joined *j = &p->report->joined;
  og_text_addf(p->out,
               "frames %lld, of them compiled %lld -> FX graphs %d -> backend "
               "graphs %d\n",
               (long long)j->frames.total, (long long)j->frames.compiled,
               (int)j->fx_count, (int)j->backend_count);
  og_text_addf(p->out, "kernels %lld, library calls %lld",
               (long long)j->kernel_count, (long long)j->extern_count);
  if (j->has_hlo) {
    og_text_addf(p->out,
                 "\nHLO graphs a step: %lld (%lld fallbacks), by LazyTensor "
                 "tracing %lld (%lld); %lld compiled in ",
                 (long long)j->compiled_hlo.graphs,
                 (long long)j->compiled_hlo.fallbacks,
                 (long long)j->lazy_hlo.graphs,
                 (long long)j->lazy_hlo.fallbacks, (long long)j->hlo_compiles);
    og_time_add(p->out, j->hlo_compile_ns);
  }
  og_text_add(p->out, "\ncompile time: Dynamo ");
  og_time_add(p->out, j->dynamo_ns);
  og_text_add(p->out, ", backend ");
  og_time_add(p->out, j->backend_ns);
  og_text_add(p->out, "\n");
}

// --- Roots -------------------------------------------------------------------

// A reader needs the end of a long site: the file and the line.
static void site_add(const page *p, const char *site) {
  const int32_t most = p->width / 2;
  int32_t count = 0;
  uint32_t code;
  for (const char *s = site; *s != '\0'; ++count) {
    const size_t length = og_utf8_read(s, &code);
    s += length > 0 ? length : 1;
  }
  if (count > most) og_text_add(p->out, "...");
  for (int32_t left = count > most ? count - most + 3 : 0; left > 0; --left) {
    const size_t length = og_utf8_read(site, &code);
    site += length > 0 ? length : 1;
  }
  og_plain_add(p->out, site, most);
}

static void root_site(const page *p, int32_t number, const og_root *root) {
  og_text site = {0};
  og_report_site(p->report, root, &site);
  og_text_addf(p->out, "%2d ", (int)number);
  bold(p);
  site_add(p, site.data != NULL ? site.data : "");
  plain(p);
  og_text_add(p->out, "  ");
  og_plain_add(p->out, root->id[0] != '\0' ? root->id : "-", 10);
  og_text_add(p->out, " ");
  og_plain_add(p->out, root->stage, 10);
  og_text_addf(p->out, ", %d hit%s", (int)root->hits, og_plural(root->hits));
  og_text_add(p->out, "\n");
  p->out->failed |= site.failed;
  og_text_reset(&site);
}

static void root_cost(const page *p, const og_root *root) {
  og_text_add(p->out, "   ");
  if (root->steady_ns.count > 0) {
    og_time_add(p->out, root->steady_ns.median);
    og_text_add(p->out, " a step");
    if (root->steady_ns.count > 1) {
      og_text_add(p->out, " (");
      og_time_add(p->out, root->steady_ns.low);
      og_text_add(p->out, " to ");
      og_time_add(p->out, root->steady_ns.high);
      og_text_add(p->out, ")");
    }
    og_text_add(p->out, ", ");
  }
  og_text_add(p->out, "cold ");
  og_time_add(p->out, root->cold_ns);
  if (root->boundary_bytes > 0) {
    og_text_add(p->out, ", keeps ");
    og_bytes_add(p->out, root->boundary_bytes);
    og_text_add(p->out, " alive");
  }
  og_text_add(p->out, "; ");
  og_plain_add(p->out, root->cause->owner, 30);
  og_text_add(p->out, "\n");
}

static void root_fix(const page *p, const og_root *root) {
  const og_trace_fix *f = root->fix;
  const og_advice advice = og_advice_find(root);
  og_text_add(p->out, "   fix (");
  og_plain_add(p->out, f != NULL ? f->class_ : advice.class_, 12);
  og_text_add(p->out, ", ");
  og_plain_add(p->out, f != NULL ? f->status : "proposed", 12);
  if (og_is_mended(root)) {
    og_text_add(p->out, ": ");
    og_time_add(p->out, f->before_ms * 1e6);
    og_text_add(p->out, " -> ");
    og_time_add(p->out, f->after_ms * 1e6);
  }
  og_text_add(p->out, "): ");
  og_plain_add(p->out, f != NULL ? f->title : advice.text, p->width);
  og_text_add(p->out, "\n");
  if (f == NULL || og_is_mended(root) || f->text[0] == '\0') return;
  og_text_add(p->out, "     ");
  og_plain_add(p->out, f->status, 12);
  og_text_add(p->out, ": ");
  og_plain_add(p->out, f->text, 2 * p->width);
  og_text_add(p->out, "\n");
}

static void root_add(const page *p, int32_t number, const og_root *root) {
  root_site(p, number, root);
  og_text_add(p->out, "   ");
  dim(p);
  og_plain_add(p->out, root->cause->code, p->width / 2);
  plain(p);
  if (root->cause->code[0] != '\0') og_text_add(p->out, "  # ");
  og_plain_add(p->out, root->cause->title, p->width - 8);
  og_text_add(p->out, "\n");
  root_cost(p, root);
  root_fix(p, root);
}

static void roots(const page *p) {
  const og_joined *j = &p->report->joined;
  const int32_t most = (LINES_MAX - LINES_AROUND) / LINES_OF_ROOT;
  const int32_t shown = j->root_count < most ? j->root_count : most;
  if (j->root_count == 0) {
    og_text_add(p->out, "nothing splits, skips, recompiles or falls back\n");
    return;
  }
  og_text_addf(p->out, "\n%d root cause%s\n", (int)j->root_count,
               og_plural(j->root_count));
  for (int32_t i = 0; i < shown; ++i) root_add(p, i + 1, &j->root[i]);
  if (shown < j->root_count)
    og_text_addf(p->out, "and %d more: --json FILE or --html FILE\n",
                 (int)(j->root_count - shown));
}

// --- What is not known -------------------------------------------------------

static void tail(const page *p) {
  const og_trace *trace = &p->report->trace;
  const double captured = og_joined_captured(&p->report->joined);
  if (captured >= 0) {
    og_text_add(p->out, "operators captured: ");
    og_text_add_fixed(p->out, captured * 100, 1);
    og_text_add(p->out, " %\n");
  }
  const int32_t ends = og_trace_end_count(trace);
  const int64_t unexplained = p->report->joined.frames.unexplained;
  if (unexplained > 0)
    og_text_addf(p->out, "unexplained: %lld\n", (long long)unexplained);
  if (og_report_is_degraded(p->report))
    og_text_add(p->out,
                "a hook is missing in this torch: what it would have seen is "
                "not in this report\n");
  if (ends == 0) {
    og_text_add(p->out, "the run was cut short: its end is not recorded\n");
  } else if (strcmp(og_trace_end_at(trace, ends - 1)->status, "ok") != 0) {
    og_text_add(p->out, "the script ended early: ");
    og_plain_add(p->out, og_trace_end_at(trace, ends - 1)->text, p->width);
    og_text_add(p->out, "\n");
  }
  const int32_t notes = og_trace_note_count(trace);
  for (int32_t i = 0; i < notes && i < 3; ++i) {
    og_text_add(p->out, "note: ");
    og_plain_add(p->out, og_trace_note_at(trace, i)->text, 2 * p->width);
    og_text_add(p->out, "\n");
  }
  og_text mended = {0};
  og_report_mended_add(&mended, p->report);
  if (mended.length > 0) og_plain_add(p->out, mended.data, 4 * p->width);
  if (mended.length > 0) og_text_add(p->out, "\n");
  p->out->failed |= mended.failed;
  og_text_reset(&mended);
}

void og_report_text(og_text *out, const opgraft_report *report,
                    const opgraft_report_options *options) {
  const page p = {out, report, options->width, options->is_colour != 0};
  head(&p);
  verdict(&p);
  waterfall(&p);
  roots(&p);
  tail(&p);
}
