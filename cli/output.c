// SPDX-License-Identifier: Apache-2.0
// What the program prints: errors, colour, the progress bar, figures.

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "clock.h"

static bool has_colour(FILE *to) {
  const char *no_color = getenv("NO_COLOR");
  const char *term = getenv("TERM");
  if (no_color != NULL && no_color[0] != '\0') return false;
  if (term == NULL || strcmp(term, "dumb") == 0) return false;
  return isatty(fileno(to)) != 0;
}

const char *cli_paint(FILE *to, cli_style style) {
  static const char *const sequences[] = {
      [CLI_PLAIN] = "\033[0m",  [CLI_BOLD] = "\033[1m",
      [CLI_DIM] = "\033[2m",    [CLI_RED] = "\033[1;31m",
      [CLI_GREEN] = "\033[32m", [CLI_YELLOW] = "\033[33m",
  };
  return has_colour(to) ? sequences[style] : "";
}

int cli_error(const char *format, ...) {
  va_list arguments;
  fflush(stdout);
  fprintf(stderr, "%sopgraft:%s ", cli_paint(stderr, CLI_RED),
          cli_paint(stderr, CLI_PLAIN));
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  return CLI_FAILED;
}

int cli_library_error(const opgraft_error *error) {
  return cli_error("%s", error->text);
}

void cli_note(const char *format, ...) {
  va_list arguments;
  fflush(stdout);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

// --- The progress bar --------------------------------------------------------

void cli_progress_set(cli_progress *bar, int64_t done, int64_t total) {
  enum { WIDTH = 30 };
  static const char full[] = "##############################";
  static const char rest[] = "..............................";
  const int64_t now = cli_now_ms();
  if (total <= 0 || isatty(STDERR_FILENO) == 0) return;
  // Often enough to move, seldom enough to cost nothing.
  if (bar->is_drawn && now - bar->drawn_at_ms < 80 && done < total) return;
  const int filled = (int)(done * WIDTH / total);
  fprintf(stderr, "\r%s [%.*s%.*s] %lld/%lld\033[K", bar->label, filled, full,
          WIDTH - filled, rest, (long long)done, (long long)total);
  fflush(stderr);
  bar->drawn_at_ms = now;
  bar->is_drawn = true;
}

void cli_progress_clear(cli_progress *bar) {
  if (bar->is_drawn) fputs("\r\033[K", stderr);
  bar->is_drawn = false;
}

// --- Figures -----------------------------------------------------------------

static void print_scaled(FILE *to, double value, double step,
                         const char *const *units, int count) {
  int unit = 0;
  while (unit + 1 < count && value >= step) {
    value /= step;
    ++unit;
  }
  const int digits = value >= 100 || unit == 0 ? 0 : value >= 10 ? 1 : 2;
  fprintf(to, "%.*f %s", digits, value, units[unit]);
}

void cli_print_bytes(FILE *to, double bytes) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  print_scaled(to, bytes, 1000, units, 5);
}

void cli_print_time(FILE *to, double nanoseconds) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  print_scaled(to, nanoseconds, 1000, units, 4);
}

void cli_json_string(FILE *to, const char *text) {
  fputc('"', to);
  for (const unsigned char *c = (const unsigned char *)text; *c; ++c) {
    if (*c == '"' || *c == '\\')
      fprintf(to, "\\%c", *c);
    else if (*c < 0x20)
      fprintf(to, "\\u%04x", *c);
    else
      fputc(*c, to);
  }
  fputc('"', to);
}
