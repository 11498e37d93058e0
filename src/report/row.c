// SPDX-License-Identifier: Apache-2.0
// The form of a table over many models: one line each.

#include <string.h>

#include "report/form.h"
#include "report/plain.h"

static void time_or_dash(og_text *out, double ns, bool is_known) {
  og_text cell = {0};
  if (is_known)
    og_time_add(&cell, ns);
  else
    og_text_add(&cell, "-");
  og_text_addf(out, " %9s", cell.data != NULL ? cell.data : "");
  out->failed |= cell.failed;
  og_text_reset(&cell);
}

void og_report_row(og_text *out, const opgraft_report *report,
                   const opgraft_report_options *options) {
  const og_joined *j = &report->joined;
  const double captured = og_joined_captured(j);
  int32_t breaks = 0;
  (void)options;
  for (int32_t i = 0; i < og_trace_cause_count(&report->trace); ++i)
    breaks +=
        strcmp(og_trace_cause_at(&report->trace, i)->stage, "dynamo") == 0;
  og_text_addf(out, "%7lld %7lld %7d %7d %7d %6d", (long long)j->frames.total,
               (long long)j->frames.skipped, (int)j->fx_count,
               (int)j->backend_count, (int)breaks, (int)j->root_count);
  if (captured >= 0)
    og_text_addf(out, " %5.0f %%", captured * 100);
  else
    og_text_add(out, "       -");
  time_or_dash(out, j->eager_ns.median, j->eager_ns.count > 0);
  time_or_dash(out, j->compiled_ns.median, j->compiled_ns.count > 0);
  time_or_dash(out, j->dynamo_ns + j->backend_ns, true);
  og_text_add(out, "\n");
}
