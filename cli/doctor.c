// SPDX-License-Identifier: Apache-2.0
// opgraft doctor: runs a script with hooks in a Python of its own, then
// reports on the events that they wrote.

#include <stdlib.h>
#include <unistd.h>

#include "report.h"

static const cli_option options[] = {
    CLI_REPORT_OPTIONS,
    {"events", "FILE", "keep the event file", 0},
    {"compare", NULL, "compare two event files instead of running", 0},
    {"runs", "N", "timed runs of a step; 20, and 0 times nothing", 0},
    {"no-verify", NULL, "propose fixes without trying them", 0},
    {"apply", "FILE", "write the verified fixes to a patch file", 0},
    {0},
};

// The words of `python -m opgraft.doctor`, ended by NULL; freed by the caller.
// With `is_verifying` it tries fixes for what `events` holds.
static char **words_make(const cli_args *args, const char *events,
                         bool is_verifying) {
  static const struct {
    const char *option;
    const char *word;
    bool is_for_verifying;
  } passed[] = {{"runs", "--runs", false}, {"apply", "--apply", true}};
  const size_t most = (size_t)args->rest_count + (size_t)args->operand_count;
  const char **words = cli_alloc(most + 16, sizeof *words);
  int count = 0;
  words[count++] = cli_python();
  words[count++] = "-m";
  words[count++] = "opgraft.doctor";
  words[count++] = "--record";
  words[count++] = events;
  if (is_verifying) words[count++] = "--verify";
  for (size_t i = 0; i < sizeof passed / sizeof *passed; ++i) {
    const char *value = cli_value_of(args, passed[i].option);
    if (value == NULL || (passed[i].is_for_verifying && !is_verifying))
      continue;
    words[count++] = passed[i].word;
    words[count++] = value;
  }
  words[count++] = "--";
  for (int i = 0; i < args->operand_count; ++i)
    words[count++] = args->operands[i];
  for (int i = 0; i < args->rest_count; ++i) words[count++] = args->rest[i];
  return (char **)(uintptr_t)words;
}

// Runs the script with hooks, then again for each fix that is tried.
static bool events_record(const cli_args *args, const char *events) {
  const bool is_verifying = !cli_has(args, "no-verify");
  for (int pass = 0; pass < (is_verifying ? 2 : 1); ++pass) {
    char **words = words_make(args, events, pass == 1);
    fflush(NULL);
    const int status = cli_process_run(words);
    free(words);
    if (status < 0) {
      cli_error("%s: could not be started", cli_python());
      return false;
    }
    if (status == CLI_FAILED && pass == 0) {
      cli_error("doctor: the script could not be run; messages stand above");
      return false;
    }
    if (status != 0 && pass == 1)
      cli_error("doctor: fixes could not be tried; messages stand above");
  }
  return true;
}

static int compare_run(const cli_args *args) {
  if (args->operand_count + args->rest_count != 2 || args->operand_count == 0)
    return cli_error("doctor: --compare wants two event files");
  return cli_report_compare(args->operands[0], args->rest[0]);
}

static int doctor_run(const cli_args *args) {
  if (cli_has(args, "compare")) return compare_run(args);
  if (args->operand_count == 0 && args->rest_count == 0)
    return cli_error(
        "doctor: wanted a script; `opgraft help doctor` shows how");
  if (cli_has(args, "apply") && cli_has(args, "no-verify"))
    return cli_error("doctor: --apply wants what --no-verify leaves out");
  if (cli_python() == NULL)
    return cli_error(
        "doctor: wants a Python with opgraft and torch; none is beside the "
        "program or on PATH");
  const char *kept = cli_value_of(args, "events");
  char *temp = kept == NULL ? cli_temp_create(".events") : NULL;
  if (kept == NULL && temp == NULL) return CLI_FAILED;
  const char *events = kept != NULL ? kept : temp;
  const int result =
      events_record(args, events) ? cli_report(args, events) : CLI_FAILED;
  if (temp != NULL) {
    unlink(temp);
    cli_temp_forget(temp);
  }
  return result;
}

const cli_command cli_command_doctor = {
    .name = "doctor",
    .summary = "what splits a compiled model, what it costs, what mends it",
    .usage = "[OPTIONS] SCRIPT.py [ARGUMENTS]",
    .text =
        "Runs an unmodified Python script that uses torch.compile, and "
        "reports where its\ngraphs break, frames are skipped or compiled "
        "again, and backends fall back: the\nroot line, the cold and steady "
        "cost, and a fix. Options stand before the script;\nwhat follows it "
        "is the script's.",
    .examples =
        "  opgraft doctor train.py --steps 10\n"
        "  opgraft doctor --json report.json --no-verify train.py",
    .options = options,
    .operand = CLI_OPERAND_PYTHON,
    .is_first_operand_last = true,
    .run = doctor_run,
};
