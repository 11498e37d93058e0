// SPDX-License-Identifier: Apache-2.0
// A report: read from an event file, written in one of its forms.

#include "report/report.h"

#include "base/sized.h"
#include "report/form.h"

og_status opgraft_report_read(const char *bytes, size_t size,
                              opgraft_report **out_report,
                              opgraft_error *error) {
  if (out_report != NULL) *out_report = NULL;
  if (out_report == NULL || (bytes == NULL && size > 0))
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "report: an argument is NULL; give the bytes of an "
                        "event file and where the report goes");
  opgraft_report *report = og_alloc_zeroed(1, sizeof *report);
  if (report == NULL)
    return og_error_set(error, OG_MEMORY, NULL, NULL, "report: out of memory");
  og_status status =
      og_trace_read(bytes != NULL ? bytes : "", size, &report->trace, error);
  if (status == OG_OK)
    status = og_trace_join(&report->trace, &report->joined, error);
  if (status != OG_OK) {
    opgraft_report_release(report);
    return status;
  }
  *out_report = report;
  return OG_OK;
}

void opgraft_report_release(opgraft_report *report) {
  if (report == NULL) return;
  og_joined_reset(&report->joined);
  og_trace_reset(&report->trace);
  og_free(report);
}

int32_t opgraft_report_root_count(const opgraft_report *report) {
  return report->joined.root_count;
}

static const struct {
  int32_t code;
  og_report_form *write;
} forms[] = {
#define FORM(name, code) {code, og_report_##name},
#include "report/forms.def"
#undef FORM
};

og_status opgraft_report_write(const opgraft_report *report,
                               const opgraft_report_options *options,
                               opgraft_report_write_fn write, void *user,
                               opgraft_error *error) {
  opgraft_report_options all;
  if (report == NULL || write == NULL)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "report: an argument is NULL; give a report and where "
                        "its text goes");
  OG_TRY(og_copy_sized("opgraft_report_options", options, &all, sizeof all,
                       error));
  if (all.width <= 0) all.width = 80;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
    if (forms[i].code != all.form) continue;
    og_text out = {0};
    forms[i].write(&out, report, &all);
    return og_report_flush(&out, write, user, error);
  }
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "report: form is %d, expected one of OPGRAFT_REPORT_TEXT "
                      "to OPGRAFT_REPORT_ROW",
                      (int)all.form);
}
