// SPDX-License-Identifier: Apache-2.0
// The event reader: any bytes give a report or an error; every form of a
// report is written, gated and compared with itself.

#include <opgraft/report.h>
#include <stdlib.h>
#include <string.h>

extern const int fuzz_is_reader;
const int fuzz_is_reader = 1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// No form holds a control character that a terminal or a page would act on.
static void on_write(void *user, const char *text, size_t length) {
  (void)user;
  for (size_t i = 0; i < length; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c < 0x20 && c != '\n' && c != '\t') abort();
  }
}

static void write_forms(const opgraft_report *report) {
  opgraft_error error;
  for (int32_t form = OPGRAFT_REPORT_TEXT; form <= OPGRAFT_REPORT_ROW; ++form) {
    const opgraft_report_options options = {.struct_size = sizeof options,
                                            .form = form};
    if (opgraft_report_write(report, &options, on_write, NULL, &error) != OG_OK)
      abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  opgraft_error error;
  opgraft_report *report;
  int32_t findings;
  if (opgraft_report_read((const char *)data, size, &report, &error) != OG_OK)
    return 0;
  const opgraft_gate gate = {.struct_size = sizeof gate,
                             .has_max_roots = 1,
                             .has_max_lost_ms = 1,
                             .has_min_captured = 1,
                             .min_captured = 50,
                             .baseline = report};
  write_forms(report);
  // No limit holds for a script that did not run to its end.
  const og_status gated =
      opgraft_report_gate(report, &gate, on_write, NULL, &findings, &error);
  if ((gated != OG_OK && gated != OG_INVALID) ||
      opgraft_report_compare(report, report, on_write, NULL, &error) != OG_OK)
    abort();
  opgraft_report_release(report);
  return 0;
}
