// SPDX-License-Identifier: Apache-2.0
// opgraft doctor: runs a script with hooks in a Python of its own, then
// reports on the events that they wrote.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static const cli_option options[] = {
    CLI_REPORT_OPTIONS,
    {"events", "FILE", "keep the event file", 0},
    {"suite", "FILE", "a table over the scripts of a list; --html: a page", 0},
    {"compare", NULL, "compare two event files instead of running", 0},
    {"backend", "NAME", "the backend of every torch.compile in the script", 0},
    {"runs", "N", "timed runs of a step; 20, and 0 times nothing", 0},
    {"no-verify", NULL, "propose fixes without trying them", 0},
    {"budget", "SECONDS", "how long fixes are tried; 60", 0},
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
  } passed[] = {{"runs", "--runs", false},
                {"backend", "--backend", false},
                {"budget", "--budget", false},
                {"apply", "--apply", true}};
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

// The exit status of one Python; negative, and prints, where there was none.
static int python_run(const cli_args *args, const char *events,
                      bool is_verifying) {
  char **words = words_make(args, events, is_verifying);
  fflush(NULL);
  const int status = cli_process_run(words);
  free(words);
  if (status < 0) cli_error("%s: could not be started", cli_python());
  return status;
}

// Runs the script with hooks, then again for each fix that is tried.
static bool events_record(const cli_args *args, const char *events,
                          bool is_verifying) {
  const int ran = python_run(args, events, false);
  if (ran < 0) return false;
  if (cli_stop_signal() != 0) return true;  // what was seen is reported
  if (ran == CLI_FAILED) return false;      // it said why
  if (!is_verifying) return true;
  const int32_t roots = cli_report_root_count(events);
  // With nothing to mend, only a patch that is not written needs a word.
  if (roots < 0 || (roots == 0 && !cli_has(args, "apply"))) return roots == 0;
  const int tried = python_run(args, events, true);
  if (tried > 0 && cli_stop_signal() == 0)
    cli_error("doctor: fixes could not be tried; messages stand above");
  return tried >= 0;
}

static bool python_check(void) {
  if (cli_python() != NULL) return true;
  cli_error(
      "doctor: needs a Python with opgraft and torch; none is beside the "
      "program or on PATH");
  return false;
}

static int compare_run(const cli_args *args) {
  if (args->operand_count + args->rest_count != 2 || args->operand_count == 0)
    return cli_error("doctor: --compare needs two event files");
  return cli_report_compare(args->operands[0], args->rest[0]);
}

// --- A suite ----------------------------------------------------------------

// A signal that stopped the run says more than what was found until then.
static int stopped_or(int result) {
  const int stopped = cli_stop_signal();
  return stopped != 0 ? CLI_SIGNALLED + stopped : result;
}

static bool suite_options_fit(const cli_args *args) {
  static const char *const taken[] = {"suite",   "runs", "no-verify",
                                      "backend", "json", "html"};
  for (int i = 0; i < args->given_count; ++i) {
    const char *name = args->given[i].option->name;
    bool is_taken = false;
    for (size_t k = 0; k < sizeof taken / sizeof *taken; ++k)
      is_taken |= strcmp(name, taken[k]) == 0;
    if (is_taken) continue;
    cli_error("doctor: --suite prints one table, and takes no --%s", name);
    return false;
  }
  if (args->operand_count + args->rest_count == 0) return true;
  cli_error("doctor: --suite names the scripts; found %s besides",
            args->operand_count > 0 ? args->operands[0] : args->rest[0]);
  return false;
}

static int suite_run(const cli_args *args) {
  static const char *const passed[][2] = {{"runs", "--runs"},
                                          {"backend", "--backend"},
                                          {"json", "--json"},
                                          {"html", "--html"}};
  const char *suite = cli_value_of(args, "suite");
  const char *words[16] = {cli_python(), "-m", "opgraft.doctor", "--rows",
                           suite};
  int count = 5;
  if (!suite_options_fit(args) ||
      !cli_report_outputs_check(args, NULL, 0, &suite, 1) || !python_check())
    return CLI_FAILED;
  for (size_t i = 0; i < sizeof passed / sizeof *passed; ++i) {
    const char *value = cli_value_of(args, passed[i][0]);
    if (value == NULL) continue;
    words[count++] = passed[i][1];
    words[count++] = value;
  }
  cli_stop_watch();
  fflush(NULL);
  const int status = cli_process_run((char **)(uintptr_t)words);
  if (status < 0) return cli_error("%s: could not be started", cli_python());
  return stopped_or(status == 0 ? CLI_OK : CLI_FAILED);
}

static bool outputs_check(const cli_args *args) {
  static const char *const kept[] = {"events", "apply"};
  const char *written[2], *read[1];
  int written_count = 0;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i)
    if (cli_value_of(args, kept[i]) != NULL)
      written[written_count++] = cli_value_of(args, kept[i]);
  const int read_count = args->operand_count > 0;
  if (read_count > 0) read[0] = args->operands[0];
  return cli_report_outputs_check(args, written, written_count, read,
                                  read_count);
}

static int doctor_run(const cli_args *args) {
  if (cli_has(args, "compare")) return compare_run(args);
  if (cli_has(args, "suite")) return suite_run(args);
  if (args->operand_count == 0 && args->rest_count == 0)
    return cli_error(
        "doctor: no file is given, expected a script; `opgraft help doctor` "
        "shows how");
  if (!outputs_check(args)) return CLI_FAILED;
  if (cli_has(args, "apply") && cli_has(args, "no-verify"))
    return cli_error(
        "doctor: --apply takes verified fixes; leave out --no-verify");
  if (!python_check()) return CLI_FAILED;
  const char *kept = cli_value_of(args, "events");
  char *temp = kept == NULL ? cli_temp_create(".events") : NULL;
  if (kept == NULL && temp == NULL) return CLI_FAILED;
  const char *events = kept != NULL ? kept : temp;
  cli_stop_watch();
  const int result = events_record(args, events, !cli_has(args, "no-verify"))
                         ? cli_report(args, events)
                         : CLI_FAILED;
  if (temp != NULL) {
    unlink(temp);
    cli_temp_forget(temp);
  }
  return stopped_or(result);
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
        "is the script's.\nExit 0: within the limits given, 1: beyond one, 2: "
        "the script could not be run, or did\nnot reach its end where there "
        "is a limit; 128 + the signal: stopped by it, with a\nreport of what "
        "was seen until then.",
    .examples =
        "  opgraft doctor train.py --steps 10\n"
        "  opgraft doctor --json report.json --no-verify train.py\n"
        "  opgraft doctor --backend openxla train.py\n"
        "  opgraft doctor --suite models.txt --html page.html",
    .options = options,
    .operand = CLI_OPERAND_PYTHON,
    .is_first_operand_last = true,
    .run = doctor_run,
};
