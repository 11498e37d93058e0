// SPDX-License-Identifier: Apache-2.0
// What the forms of a report share.

#ifndef OG_REPORT_FORM_H
#define OG_REPORT_FORM_H

#include "report/report.h"

// Gives the text away, or says that memory was short; resets it.
og_status og_report_flush(og_text *out, opgraft_report_write_fn write,
                          void *user, opgraft_error *error);

// How a form writes a text that may come from anywhere, of at most `width`
// characters where it cuts texts.
typedef void (*og_foreign_fn)(og_text *out, const char *text, int32_t width);
// Adds `format`, in which %s is such a text, %*s one with its width before it,
// %d an int, %l an int64_t; of doubles %t a time in nanoseconds, %b bytes, %f
// with one digit; %m a spread (pointer), %% a percent sign.
void og_form_add(og_text *out, og_foreign_fn foreign, const char *format, ...);

// What may be done about a root, by registry id: rows of advice.def.
typedef struct og_advice {
  const char *class_;  // "flag", "adopt", "rewrite", "hoist", ...
  const char *text;
} og_advice;
og_advice og_advice_find(const og_root *root);

// Whether its fix was tried and held.
bool og_is_mended(const og_root *root);
// "2 of 3 mended, 1 left: FILE:8: refuted: why"; nothing where no fix was
// tried.
void og_report_mended_add(og_text *out, const opgraft_report *report);

// A file as reports name it: the home folder becomes ~.
const char *og_report_file(const opgraft_report *report, const char *file,
                           og_text *scratch);
// The site, "~/model.py:12", in `scratch`.
const char *og_report_site(const opgraft_report *report, const og_root *root,
                           og_text *scratch);
// "found on a torch that has no hook ...", one sentence; "" when all is there.
bool og_report_is_degraded(const opgraft_report *report);
// One sentence of what the times say: a net loss, a gain, or why neither can
// be told. Both times were measured.
void og_report_verdict_add(og_text *out, const opgraft_report *report);
// " 2.40 ms, now 1.20 ms, reachable 1.00 ms a step: ", behind the word for what
// was not compiled. Both times were measured.
void og_report_times_add(og_text *out, const opgraft_report *report);
// The word for what was not compiled.
const char *og_report_eager(const opgraft_report *report);
bool og_report_is_loss(const opgraft_report *report);
// A time, and half the range of its middle half in percent: "1.20 ms +- 3 %".
void og_spread_add(og_text *out, const og_spread *spread);

#endif  // OG_REPORT_FORM_H
