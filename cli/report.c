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
  enum { COLUMNS = 80, WHOLE = 4096 };  // of a terminal; in pipes and files
  const opgraft_report_options wanted = {
      .struct_size = sizeof wanted,
      .form = form,
      .is_colour = cli_paint(stdout, CLI_BOLD)[0] != '\0',
      .width = isatty(STDOUT_FILENO) ? COLUMNS : WHOLE,
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

static const struct {
  const char *option;
  int32_t form;
} forms[] = {
    {"json", OPGRAFT_REPORT_JSON},
    {"sarif", OPGRAFT_REPORT_SARIF},
    {"html", OPGRAFT_REPORT_HTML},
    {"row", OPGRAFT_REPORT_ROW},
};
enum { FORM_COUNT = (int)(sizeof forms / sizeof *forms) };

bool cli_report_outputs_check(const cli_args *args, const char *const *written,
                              int written_count, const char *const *inputs,
                              int input_count) {
  const char *outputs[FORM_COUNT + 4];
  const char *reads[CLI_REPORT_INPUTS_MAX + 1];
  const char *baseline = cli_value_of(args, "baseline");
  int count = 0, read_count = 0;
  for (; count < written_count; ++count) outputs[count] = written[count];
  for (int i = 0; i < FORM_COUNT; ++i) {
    const char *path = cli_value_of(args, forms[i].option);
    if (path != NULL && strcmp(path, "-") != 0) outputs[count++] = path;
  }
  for (; read_count < input_count; ++read_count)
    reads[read_count] = inputs[read_count];
  if (baseline != NULL) reads[read_count++] = baseline;
  return cli_outputs_check(outputs, count, reads, read_count);
}

static bool forms_write(const opgraft_report *report, const cli_args *args) {
  bool is_text_wanted = true;
  for (int i = 0; i < FORM_COUNT; ++i) {
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

// --- Limits ------------------------------------------------------------------

static bool number_of(const cli_args *args, const char *option,
                      double *out_number, int32_t *out_is_given) {
  const char *text = cli_value_of(args, option);
  char *end;
  *out_is_given = text != NULL;
  if (text == NULL) return true;
  *out_number = strtod(text, &end);
  // Neither a name nor less than nothing: also no NaN, no infinity.
  if (end != text && *end == '\0' && *out_number >= 0 && *out_number < 1e15)
    return true;
  cli_error("%s: --%s is '%s', expected a number from 0 on",
            args->command->name, option, text);
  return false;
}

static bool gate_read(const cli_args *args, opgraft_gate *out_gate) {
  *out_gate = (opgraft_gate){.struct_size = sizeof *out_gate};
  out_gate->has_max_roots = cli_has(args, "max-roots");
  out_gate->has_max_recompiles = cli_has(args, "max-recompiles");
  return cli_number_of(args, "max-roots", 0, INT32_MAX, 0,
                       &out_gate->max_roots) &&
         cli_number_of(args, "max-recompiles", 0, INT32_MAX, 0,
                       &out_gate->max_recompiles) &&
         number_of(args, "max-lost-ms", &out_gate->max_lost_ms,
                   &out_gate->has_max_lost_ms) &&
         number_of(args, "min-captured", &out_gate->min_captured,
                   &out_gate->has_min_captured);
}

// Findings go to stderr, so that a report on stdout stays one.
static void on_finding(void *user, const char *text, size_t length) {
  (void)user;
  fwrite(text, 1, length, stderr);
}

static int gate_check(const opgraft_report *report, const opgraft_gate *gate) {
  int32_t findings;
  opgraft_error error;
  fflush(stdout);
  if (opgraft_report_gate(report, gate, on_finding, NULL, &findings, &error) !=
      OG_OK)
    return cli_library_error(&error);
  return findings > 0 ? CLI_FINDINGS : CLI_OK;
}

int cli_report(const cli_args *args, const char *events) {
  const char *path = cli_value_of(args, "baseline");
  opgraft_gate gate;
  if (!gate_read(args, &gate)) return CLI_FAILED;
  opgraft_report *report = report_open(events);
  if (report == NULL) return CLI_FAILED;
  opgraft_report *baseline = path != NULL ? report_open(path) : NULL;
  gate.baseline = baseline;
  int result = CLI_FAILED;
  if ((path == NULL || baseline != NULL) && forms_write(report, args))
    result = gate_check(report, &gate);
  opgraft_report_release(baseline);
  opgraft_report_release(report);
  return result;
}

int32_t cli_report_root_count(const char *events) {
  opgraft_report *report = report_open(events);
  const int32_t count = report != NULL ? opgraft_report_root_count(report) : -1;
  opgraft_report_release(report);
  return count;
}

static void on_text(void *user, const char *text, size_t length) {
  (void)user;
  fwrite(text, 1, length, stdout);
}

int cli_report_compare(const char *before, const char *after) {
  int result = CLI_FAILED;
  opgraft_error error;
  opgraft_report *a = report_open(before);
  opgraft_report *b = a != NULL ? report_open(after) : NULL;
  if (a != NULL && b != NULL) {
    result = CLI_OK;
    if (opgraft_report_compare(a, b, on_text, NULL, &error) != OG_OK)
      result = cli_library_error(&error);
  }
  opgraft_report_release(a);
  opgraft_report_release(b);
  return result;
}

static int report_run(const cli_args *args) {
  const char *events = cli_only_operand(args, "an event file");
  return events != NULL && cli_report_outputs_check(args, NULL, 0, &events, 1)
             ? cli_report(args, events)
             : CLI_FAILED;
}

const cli_command cli_command_report = {
    .name = "report",
    .summary = "what an event file of doctor says",
    .usage = "FILE.events [OPTIONS]",
    .text =
        "Reads what `opgraft doctor --events FILE` recorded, and reports on "
        "it. Neither\nPython nor PyTorch is needed. Exit 0: within the limits "
        "given, 1: beyond one,\n2: could not run.",
    .examples =
        "  opgraft report run.events\n"
        "  opgraft report run.events --json report.json",
    .options = options,
    .operand = CLI_OPERAND_EVENTS,
    .run = report_run,
};
