// SPDX-License-Identifier: Apache-2.0
// The report as text and as JSON.

#include "check/verdict/report.h"

#include "base/json.h"
#include "check/probe/table.h"
#include "check/verdict/finding.h"

static bool is_json(const opgraft_check_options *options) {
  return options->format == OPGRAFT_CHECK_JSON;
}

void og_report_coverage(const og_findings *all, og_text *out_types,
                        og_text *out_layouts) {
  for (int32_t i = 0; i < all->type_count; ++i)
    og_text_addf(out_types, "%s%s %d", i > 0 ? ", " : "", all->type[i].name,
                 (int)all->type[i].count);
  og_text_addf(out_layouts,
               "dense %d, strided %d, expanded %d, loose %d, offset %d",
               (int)all->layout_count[OG_LAYOUT_DENSE],
               (int)all->layout_count[OG_LAYOUT_STRIDED],
               (int)all->layout_count[OG_LAYOUT_EXPANDED],
               (int)all->layout_count[OG_LAYOUT_LOOSE], (int)all->offset_count);
}

// --- Text --------------------------------------------------------------------

static void text_finding(og_text *out, const og_finding *f,
                         const og_findings *all,
                         const opgraft_check_options *options) {
  og_text again = {0};
  og_text_addf(out, "  %s%s", f->is_note ? "note " : "",
               og_finding_name(f->kind));
  if (f->name[0] != '\0') og_text_addf(out, ": %s", f->name);
  og_text_addf(out, ": %s\n", f->text);
  if (f->call_text[0] != '\0')
    og_text_addf(out, "    call: %s(%s)\n", f->op, f->call_text);
  og_text_addf(out, "    fix:  %s\n", og_finding_fix(f->kind));
  og_finding_write_again(f, all->op, options, &again);
  if (again.data != NULL) og_text_addf(out, "    again: %s\n", again.data);
  og_text_reset(&again);
}

static void text_operator(og_text *out, const og_findings *all,
                          const opgraft_check_options *options) {
  const int32_t faults = og_findings_faults(all);
  og_text_addf(out, "%s: ", all->op->decl->name);
  if (faults == 0 && all->is_stopped)
    og_text_add(out, "nothing found");
  else if (faults == 0 && all->device[0] != '\0')
    og_text_addf(out, "right on %s%s", all->device,
                 all->compared_count > 0 ? "" : ", no reference");
  else if (faults == 0)
    og_text_add(out, all->compared_count > 0 ? "right by its reference"
                                             : "right, no reference");
  else
    og_text_addf(out, "%d finding%s", (int)faults, og_plural(faults));
  og_text_addf(out, " (%d call%s, %d run%s%s)\n", (int)all->call_count,
               og_plural(all->call_count), (int)all->run_count,
               og_plural(all->run_count),
               all->is_stopped     ? "; then it was stopped"
               : all->is_cut_short ? "; then the time was up"
                                   : "");
  for (int32_t i = 0; i < all->count; ++i)
    text_finding(out, &all->entry[i], all, options);
  if (!options->is_verbose) return;
  og_text types = {0}, layouts = {0};
  og_report_coverage(all, &types, &layouts);
  og_text_addf(out, "  tried: types %s; runs %s; %d refused\n",
               types.data ? types.data : "-", layouts.data ? layouts.data : "-",
               (int)all->refused_count);
  og_text_reset(&types);
  og_text_reset(&layouts);
}

static void text_skipped(og_text *out, const opgraft_op *op, const char *why) {
  og_text_addf(out, "%s: skipped: %s\n", op->decl->name, why);
}

// --- JSON --------------------------------------------------------------------

static void json_finding(og_text *out, const og_finding *f,
                         const og_findings *all,
                         const opgraft_check_options *options) {
  og_text again = {0};
  og_finding_write_again(f, all->op, options, &again);
  og_json_line(out, 6);
  og_json_begin(out, NULL, '{');
  og_json_text(out, "kind", og_finding_name(f->kind));
  og_json_bool(out, "note", f->is_note);
  og_json_text(out, "op", f->op);
  og_json_text(out, "argument", f->name);
  og_json_text(out, "text", f->text);
  og_json_text(out, "call", f->call_text);
  og_json_text(out, "fix", og_finding_fix(f->kind));
  og_json_text(out, "again", again.data != NULL ? again.data : "");
  og_json_int(out, "calls", f->count);
  og_json_end(out, '}');
  og_text_reset(&again);
}

static void json_operator(og_text *out, const og_findings *all,
                          const opgraft_check_options *options, bool is_first) {
  og_text types = {0}, layouts = {0};
  const bool is_cut = all->is_cut_short || all->is_stopped;
  og_report_coverage(all, &types, &layouts);
  // What came before was written already.
  if (!is_first) og_text_add(out, ",");
  og_json_line(out, 4);
  og_json_begin(out, NULL, '{');
  og_json_text(out, "op", all->op->decl->name);
  if (all->device[0] != '\0') og_json_text(out, "device", all->device);
  og_json_bool(out, "right", og_findings_faults(all) == 0 && !all->is_stopped);
  og_json_int(out, "compared", all->compared_count);
  og_json_int(out, "calls", all->call_count);
  og_json_int(out, "runs", all->run_count);
  og_json_int(out, "refused", all->refused_count);
  og_json_bool(out, "cut_short", is_cut);
  og_json_text(out, "types", types.data ? types.data : "");
  og_json_text(out, "layouts", layouts.data ? layouts.data : "");
  og_json_begin(out, "findings", '[');
  for (int32_t i = 0; i < all->count; ++i)
    json_finding(out, &all->entry[i], all, options);
  og_text_add(out, all->count > 0 ? "\n    ]}" : "]}");
  og_text_reset(&types);
  og_text_reset(&layouts);
}

static void json_skipped(og_text *out, const opgraft_op *op, const char *why,
                         bool is_first) {
  if (!is_first) og_text_add(out, ",");
  og_json_line(out, 4);
  og_json_begin(out, NULL, '{');
  og_json_text(out, "op", op->decl->name);
  og_json_bool(out, "right", false);
  og_json_text(out, "skipped", why);
  og_json_begin(out, "findings", '[');
  og_text_add(out, "]}");
}

// --- Both --------------------------------------------------------------------

void og_report_begin(og_text *out, const opgraft_module *module,
                     const opgraft_check_options *options) {
  if (!is_json(options)) return;
  og_json_begin(out, NULL, '{');
  og_json_text(out, "module", opgraft_module_name(module));
  og_json_key(out, "seed");
  og_text_addf(out, "%llu", (unsigned long long)options->seed);
  og_json_line(out, 2);
  og_json_begin(out, "operators", '[');
}

void og_report_operator(og_text *out, const og_findings *all,
                        const opgraft_check_options *options, bool is_first) {
  if (is_json(options))
    json_operator(out, all, options, is_first);
  else
    text_operator(out, all, options);
}

void og_report_skipped(og_text *out, const opgraft_op *op, const char *why,
                       const opgraft_check_options *options, bool is_first) {
  if (is_json(options))
    json_skipped(out, op, why, is_first);
  else
    text_skipped(out, op, why);
}

static void text_untried(og_text *out, const char *device) {
  char names[OG_PROBE_NAMES];
  og_probe_names(OG_PROBE_HOST, names, sizeof names);
  og_text_addf(out,
               "not tried on %s, since they need the host's memory or threads: "
               "%s\n",
               device, names);
}

void og_report_end(og_text *out, const og_counts *counts,
                   const opgraft_check_options *options) {
  const int operators = (int)counts->operators;
  const int faults = (int)counts->faults, notes = (int)counts->notes;
  if (is_json(options)) {
    og_text_add(out, "\n  ]");
    og_json_line(out, 2);
    og_json_int(out, "operator_count", operators);
    og_json_int(out, "finding_count", faults);
    og_json_int(out, "note_count", notes);
    if (counts->is_stopped) og_json_bool(out, "stopped", true);
    if (counts->skipped > 0) og_json_int(out, "skipped_count", counts->skipped);
    og_text_add(out, "}\n");
  } else {
    if (counts->device[0] != '\0' && options->probe == NULL)
      text_untried(out, counts->device);
    og_text_addf(out, "%s%d operator%s, %d finding%s, %d note%s\n",
                 counts->is_stopped ? "stopped: " : "", operators,
                 og_plural(operators), faults, og_plural(faults), notes,
                 og_plural(notes));
  }
}
