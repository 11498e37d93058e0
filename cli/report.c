// SPDX-License-Identifier: Apache-2.0
// opgraft report: an event file of `opgraft doctor` as text, JSON and so on.

#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option options[] = {
    CLI_REPORT_OPTIONS,
    {0},
};

typedef struct sink {
  char *text;
  size_t length;
} sink;

static void on_write(void *user, const char *text, size_t length) {
  sink *s = user;
  s->text = cli_realloc(s->text, s->length + length, 1);
  memcpy(s->text + s->length, text, length);
  s->length += length;
}

// One form to a file, or to standard output where the file is "-".
static bool form_write(const opgraft_report *report, int32_t form,
                       const char *path) {
  const opgraft_report_options wanted = {
      .struct_size = sizeof wanted,
      .form = form,
      .is_colour = cli_paint(stdout, CLI_BOLD)[0] != '\0',
      .width = 80,
  };
  opgraft_error error;
  sink s = {0};
  if (opgraft_report_write(report, &wanted, on_write, &s, &error) != OG_OK) {
    free(s.text);
    cli_library_error(&error);
    return false;
  }
  bool is_done = true;
  if (path == NULL || strcmp(path, "-") == 0)
    is_done = fwrite(s.text, 1, s.length, stdout) == s.length;
  else
    is_done = cli_file_write(path, s.text, s.length);
  free(s.text);
  return is_done;
}

static bool forms_write(const opgraft_report *report, const cli_args *args) {
  static const struct {
    const char *option;
    int32_t form;
  } forms[] = {
      {"json", OPGRAFT_REPORT_JSON},
  };
  bool is_text_wanted = true;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
    const char *path = cli_value_of(args, forms[i].option);
    if (path == NULL) continue;
    // Two forms on one stream would be neither.
    if (strcmp(path, "-") == 0) is_text_wanted = false;
    if (!form_write(report, forms[i].form, path)) return false;
  }
  return !is_text_wanted || form_write(report, OPGRAFT_REPORT_TEXT, NULL);
}

static opgraft_report *report_open(const char *path) {
  opgraft_report *report = NULL;
  opgraft_error error;
  size_t size;
  char *bytes = cli_file_read(path, &size);
  if (bytes == NULL) return NULL;
  if (opgraft_report_read(bytes, size, &report, &error) != OG_OK)
    cli_error("%s: %s", path, error.text);
  free(bytes);
  return report;
}

int cli_report(const cli_args *args, const char *events) {
  opgraft_report *report = report_open(events);
  if (report == NULL) return CLI_FAILED;
  const int result = forms_write(report, args) ? CLI_OK : CLI_FAILED;
  opgraft_report_release(report);
  return result;
}

static int report_run(const cli_args *args) {
  const char *events = cli_only_operand(args, "an event file");
  return events != NULL ? cli_report(args, events) : CLI_FAILED;
}

const cli_command cli_command_report = {
    .name = "report",
    .summary = "what an event file of doctor says",
    .usage = "FILE.events [OPTIONS]",
    .text =
        "Reads what `opgraft doctor --events FILE` recorded, and reports on "
        "it. Neither\nPython nor PyTorch is needed.",
    .examples =
        "  opgraft report run.events\n"
        "  opgraft report run.events --json report.json",
    .options = options,
    .operand = CLI_OPERAND_EVENTS,
    .run = report_run,
};
