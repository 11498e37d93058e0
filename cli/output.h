// SPDX-License-Identifier: Apache-2.0
// What the program prints: errors, colour, the progress bar, figures.

#ifndef OPGRAFT_CLI_OUTPUT_H
#define OPGRAFT_CLI_OUTPUT_H

#include <opgraft/opgraft.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CLI_PRINTF(format_index, first) \
  __attribute__((format(printf, format_index, first)))
#else
#define CLI_PRINTF(format_index, first)
#endif

typedef enum cli_style {
  CLI_PLAIN,
  CLI_BOLD,
  CLI_DIM,
  CLI_RED,
  CLI_GREEN,
  CLI_YELLOW,
} cli_style;

// The escape sequence that begins a style, "" where there is no colour:
// `to` is not a terminal, NO_COLOR is set, or TERM is dumb.
const char *cli_paint(FILE *to, cli_style style);
// What makes a noun fit its count: "%d dim%s".
static inline const char *cli_plural(long long count) {
  return count == 1 ? "" : "s";
}
// "opgraft: ..." on stderr. Returns CLI_FAILED, so that it can be returned.
int cli_error(const char *format, ...) CLI_PRINTF(1, 2);
// An error of the library, whose text says all.
int cli_library_error(const opgraft_error *error);
// One line on stderr that is not an error.
void cli_note(const char *format, ...) CLI_PRINTF(1, 2);

// A bar on stderr, drawn only on a terminal.
typedef struct cli_progress {
  const char *label;
  int64_t drawn_at_ms;
  bool is_drawn;
} cli_progress;
void cli_progress_set(cli_progress *bar, int64_t done, int64_t total);
void cli_progress_clear(cli_progress *bar);

void cli_json_string(FILE *to, const char *text);
// "12.3 MB", "1.20 ms": three digits and a unit.
void cli_print_bytes(FILE *to, double bytes);
void cli_print_time(FILE *to, double nanoseconds);

#endif  // OPGRAFT_CLI_OUTPUT_H
