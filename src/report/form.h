// SPDX-License-Identifier: Apache-2.0
// What the forms of a report share.

#ifndef OG_REPORT_FORM_H
#define OG_REPORT_FORM_H

#include "report/report.h"

// Gives the text away, or says that memory was short; resets it.
og_status og_report_flush(og_text *out, opgraft_report_write_fn write,
                          void *user, opgraft_error *error);

// What may be done about a root, by registry id: rows of advice.def.
typedef struct og_advice {
  const char *class_;  // "flag", "adopt", "rewrite", "hoist", ...
  const char *text;
} og_advice;
og_advice og_advice_find(const og_root *root);

// A file as reports name it: the home folder becomes ~.
const char *og_report_file(const opgraft_report *report, const char *file,
                           og_text *scratch);
// The site, "~/model.py:12", in `scratch`.
const char *og_report_site(const opgraft_report *report, const og_root *root,
                           og_text *scratch);
// "found on a torch that has no hook ...", one sentence; "" when all is there.
bool og_report_is_degraded(const opgraft_report *report);
// Whether the times say that compiling makes a step slower.
bool og_report_is_loss(const opgraft_report *report);

// `digits` after the point; null where the value is not finite.
void og_json_number(og_text *out, const char *key, double value, int digits);
void og_add_fixed(og_text *out, double value, int digits);

#endif  // OG_REPORT_FORM_H
