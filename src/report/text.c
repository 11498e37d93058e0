// SPDX-License-Identifier: Apache-2.0
// The terminal form: the verdict first, then the roots by cost; 40 lines at
// most.

#include <string.h>

#include "report/form.h"
#include "report/plain.h"

enum { LINES_MAX = 40, LINES_OF_ROOT = 5, LINES_AROUND = 14 };

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
    og_form_add(p->out, og_plain_add, ": %*s (torch %*s)", p->width - 40,
                og_report_file(p->report, run->script, &file), 20, run->torch);
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
  og_text_add(p->out, og_report_eager(p->report));
  og_report_times_add(p->out, p->report);
  if (og_report_is_loss(p->report)) red(p);
  og_report_verdict_add(p->out, p->report);
  if (og_report_is_loss(p->report)) plain(p);
  og_text_add(p->out, "\n");
}

static void waterfall(const page *p) {
  const og_joined *j = &p->report->joined;
  og_form_add(p->out, NULL,
              "frames %l, of them compiled %l -> FX graphs %d -> backend "
              "graphs %d\nkernels %l, library calls %l",
              j->frames.total, j->frames.compiled, j->fx_count,
              j->backend_count, j->kernel_count, j->extern_count);
  if (j->has_hlo)
    og_form_add(p->out, NULL,
                "\nHLO graphs a step: %l (%l fallbacks), by LazyTensor tracing "
                "%l (%l); %l compiled in %t",
                j->compiled_hlo.graphs, j->compiled_hlo.fallbacks,
                j->lazy_hlo.graphs, j->lazy_hlo.fallbacks, j->hlo_compiles,
                j->hlo_compile_ns);
  og_form_add(p->out, NULL, "\ncompile time: Dynamo %t, backend %t\n",
              j->dynamo_ns, j->backend_ns);
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
  og_form_add(p->out, og_plain_add, "  %*s %*s, %d hit%s\n", 10,
              root->id[0] != '\0' ? root->id : "-", 10, root->stage, root->hits,
              og_plural(root->hits));
  p->out->failed |= site.failed;
  og_text_reset(&site);
}

static void root_cost(const page *p, const og_root *root) {
  const og_spread *steady = &root->steady_ns;
  og_text_add(p->out, "   ");
  if (steady->count > 0) {
    og_form_add(p->out, NULL, "%t a step", steady->median);
    if (steady->count > 1)
      og_form_add(p->out, NULL, " (%t to %t)", steady->low, steady->high);
    og_text_add(p->out, ", ");
  }
  og_form_add(p->out, NULL, "cold %t", root->cold_ns);
  if (root->boundary_bytes > 0)
    og_form_add(p->out, NULL, ", keeps %b alive", root->boundary_bytes);
  og_form_add(p->out, og_plain_add, "; %*s\n", 30, root->cause->owner);
}

static void root_fix(const page *p, const og_root *root) {
  const og_trace_fix *f = root->fix;
  const og_advice advice = og_advice_find(root);
  og_form_add(p->out, og_plain_add, "   fix (%*s, %*s", 12,
              f != NULL ? f->class_ : advice.class_, 12,
              f != NULL ? f->status : "proposed");
  if (og_is_mended(root))
    og_form_add(p->out, NULL, ": %t -> %t", f->before_ms * 1e6,
                f->after_ms * 1e6);
  if (og_is_mended(root) && f->after_ms > f->before_ms)
    og_text_add(p->out, ", not faster");
  og_form_add(p->out, og_plain_add, "): %*s\n", p->width,
              f != NULL ? f->title : advice.text);
  if (f != NULL && !og_is_mended(root) && f->text[0] != '\0')
    og_form_add(p->out, og_plain_add, "     %*s: %*s\n", 12, f->status,
                2 * p->width, f->text);
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

static bool has_registry_id(const og_joined *joined, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    if (strncmp(joined->root[i].id, "GB", 2) == 0) return true;
  return false;
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
  if (has_registry_id(j, shown))
    og_text_add(p->out,
                "GB...: explained at "
                "https://meta-pytorch.github.io/compile-graph-break-site/\n");
  if (shown < j->root_count)
    og_text_addf(p->out, "and %d more: --json FILE or --html FILE\n",
                 (int)(j->root_count - shown));
}

// --- What is not known -------------------------------------------------------

static void tail(const page *p) {
  const og_trace *trace = &p->report->trace;
  const double captured = og_joined_captured(&p->report->joined);
  if (captured >= 0)
    og_form_add(p->out, NULL, "operators captured: %f %%\n", captured * 100);
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
    og_form_add(p->out, og_plain_add, "the script ended early: %*s\n", p->width,
                og_trace_end_at(trace, ends - 1)->text);
  }
  const int32_t notes = og_trace_note_count(trace);
  for (int32_t i = 0; i < notes && i < 3; ++i)
    og_form_add(p->out, og_plain_add, "note: %*s\n", 2 * p->width,
                og_trace_note_at(trace, i)->text);
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
