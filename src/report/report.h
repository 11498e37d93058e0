// SPDX-License-Identifier: Apache-2.0
// A report, and the list of its forms.

#ifndef OG_REPORT_REPORT_H
#define OG_REPORT_REPORT_H

#include <opgraft/report.h>

#include "base/memory.h"
#include "base/text.h"
#include "trace/join.h"

struct opgraft_report {
  og_trace trace;
  og_joined joined;
};

// A form adds itself to `out`, and looks at out->failed nowhere.
typedef void og_report_form(og_text *out, const opgraft_report *report,
                            const opgraft_report_options *options);
#define FORM(name, code) og_report_form og_report_##name;
#include "report/forms.def"
#undef FORM

#endif  // OG_REPORT_REPORT_H
