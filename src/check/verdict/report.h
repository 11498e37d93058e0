// SPDX-License-Identifier: Apache-2.0
// The report as text and as JSON.

#ifndef OG_CHECK_VERDICT_REPORT_H
#define OG_CHECK_VERDICT_REPORT_H

#include "check/verdict/finding.h"

void og_report_begin(og_text *out, const opgraft_module *module,
                     const opgraft_check_options *options);
void og_report_operator(og_text *out, const og_findings *all,
                        const opgraft_check_options *options, bool is_first);
// An operator that is not checked.
void og_report_skipped(og_text *out, const opgraft_op *op, const char *why,
                       const opgraft_check_options *options, bool is_first);
typedef struct og_counts {
  int32_t operators;  // that were checked
  int32_t faults;
  int32_t notes;
  int32_t skipped;
  const char *device;  // the driver's name; "": the CPU
  bool is_stopped;     // before all operators were tried
} og_counts;

void og_report_end(og_text *out, const og_counts *counts,
                   const opgraft_check_options *options);
void og_report_coverage(const og_findings *all, og_text *out_types,
                        og_text *out_layouts);

#endif  // OG_CHECK_VERDICT_REPORT_H
