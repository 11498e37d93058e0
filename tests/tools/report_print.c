// SPDX-License-Identifier: Apache-2.0
// report_print FORM: reads an event file from standard input and reports on it.

#include <opgraft/report.h>
#include <string.h>

#include "tools/tool.h"

static void on_write(void *user, const char *text, size_t length) {
  fwrite(text, 1, length, (FILE *)user);
}

static int print(const char *bytes, size_t size, int32_t form) {
  static const char *const names[] = {"text", "json", "sarif", "html", "row"};
  const opgraft_report_options options = {.struct_size = sizeof options,
                                          .form = form};
  opgraft_report *report;
  opgraft_error error;
  og_status status = opgraft_report_read(bytes, size, &report, &error);
  if (status == OG_OK) {
    status = opgraft_report_write(report, &options, on_write, stdout, &error);
    opgraft_report_release(report);
  }
  if (status != OG_OK) printf("%s: %s\n", names[form], error.text);
  return status == OG_OK ? 0 : 1;
}

static int32_t form_find(const char *name) {
  static const char *const names[] = {"text", "json", "sarif", "html", "row"};
  for (int32_t i = 0; i < 5; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

int main(int argc, char **argv) {
  size_t size;
  const int32_t form = argc == 2 ? form_find(argv[1]) : -1;
  if (form < 0) {
    fprintf(stderr, "report_print text|json|sarif|html|row\n");
    return 2;
  }
  char *bytes = tool_read_input(&size);
  if (bytes == NULL) return 2;
  tool_begin();
  const int rc = print(bytes, size, form);
  free(bytes);
  return tool_end(rc);
}
