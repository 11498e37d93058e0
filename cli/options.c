// SPDX-License-Identifier: Apache-2.0
// Command lines: options, help, and what was probably meant.

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_option help_option = {"help", NULL, "print this", 'h'};

// --- What was probably meant -------------------------------------------------

// Levenshtein's distance over the first 31 characters.
static int distance(const char *a, const char *b) {
  enum { LONGEST = 32 };
  int row[LONGEST];
  const int a_length = (int)strnlen(a, LONGEST - 1);
  const int b_length = (int)strnlen(b, LONGEST - 1);
  for (int j = 0; j <= b_length; ++j) row[j] = j;
  for (int i = 1; i <= a_length; ++i) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= b_length; ++j) {
      const int above = row[j];
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best) best = above + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = above;
      row[j] = best;
    }
  }
  return row[b_length];
}

const char *cli_nearest(const char *name, const char *const *names, int count) {
  const size_t length = strlen(name);
  const char *best = NULL;
  int best_distance = length < 4 ? 2 : 3;  // nearer than this
  for (int i = 0; i < count; ++i) {
    // The beginning of a word is nearer than any misspelling.
    if (length >= 2 && strncmp(name, names[i], length) == 0) return names[i];
    const int found = distance(name, names[i]);
    if (found >= best_distance) continue;
    best = names[i];
    best_distance = found;
  }
  return best;
}

// --- Parsing -----------------------------------------------------------------

static const cli_option *option_by_letter(const cli_command *command,
                                          char letter) {
  if (letter == help_option.letter) return &help_option;
  for (const cli_option *o = command->options; o && o->name; ++o)
    if (o->letter != 0 && o->letter == letter) return o;
  return NULL;
}

static const cli_option *option_by_name(const cli_command *command,
                                        const char *name, size_t length) {
  if (length == 4 && memcmp(name, "help", 4) == 0) return &help_option;
  for (const cli_option *o = command->options; o && o->name; ++o)
    if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
      return o;
  return NULL;
}

static void unknown_option(const cli_command *command, const char *name,
                           size_t length) {
  const char *names[64] = {"help"};
  int count = 1;
  for (const cli_option *o = command->options; o && o->name && count < 64; ++o)
    names[count++] = o->name;
  char *wanted = cli_strndup(name, length);
  const char *near = cli_nearest(wanted, names, count);
  if (near != NULL)
    cli_error("%s: no option --%s; did you mean --%s?", command->name, wanted,
              near);
  else
    cli_error("%s: no option --%s; `opgraft help %s` lists them", command->name,
              wanted, command->name);
  free(wanted);
}

typedef struct cursor {
  int argc;
  char **argv;
  int at;
} cursor;

// Adds one option; `attached` is the value that its own word carries, or NULL.
static bool option_add(cli_args *args, const cli_option *option,
                       const char *attached, cursor *words) {
  if (option->value == NULL && attached != NULL) {
    cli_error("%s: --%s takes no value, found '%s'", args->command->name,
              option->name, attached);
    return false;
  }
  if (option->value != NULL && attached == NULL) {
    if (words->at + 1 >= words->argc) {
      cli_error("%s: --%s needs %s after it", args->command->name, option->name,
                option->value);
      return false;
    }
    attached = words->argv[++words->at];
  }
  args->given[args->given_count++] = (cli_given){option, attached};
  return true;
}

static bool long_option(cli_args *args, cursor *words) {
  const char *name = words->argv[words->at] + 2;
  const char *equals = strchr(name, '=');
  const size_t length = equals ? (size_t)(equals - name) : strlen(name);
  const cli_option *option = option_by_name(args->command, name, length);
  if (option == NULL) {
    unknown_option(args->command, name, length);
    return false;
  }
  return option_add(args, option, equals ? equals + 1 : NULL, words);
}

static bool short_option(cli_args *args, cursor *words) {
  const char *word = words->argv[words->at];
  const cli_option *option = option_by_letter(args->command, word[1]);
  if (option == NULL) {
    cli_error("%s: no option %.2s; `opgraft help %s` lists them",
              args->command->name, word, args->command->name);
    return false;
  }
  return option_add(args, option, word[2] != '\0' ? word + 2 : NULL, words);
}

bool cli_args_parse(const cli_command *const *commands,
                    const cli_command *command, int argc, char **argv,
                    cli_args *out_args) {
  *out_args = (cli_args){.commands = commands, .command = command};
  out_args->given = cli_alloc((size_t)argc + 1, sizeof *out_args->given);
  out_args->operands = cli_alloc((size_t)argc + 1, sizeof(char *));
  cursor words = {argc, argv, 0};
  bool is_right = true;
  for (; is_right && words.at < argc; ++words.at) {
    const char *word = argv[words.at];
    const bool is_past =
        command->is_first_operand_last && out_args->operand_count > 0;
    if (is_past || strcmp(word, "--") == 0) {
      const int skipped = is_past ? 0 : 1;
      out_args->rest = argv + words.at + skipped;
      out_args->rest_count = argc - words.at - skipped;
      break;
    }
    if (word[0] == '-' && word[1] == '-')
      is_right = long_option(out_args, &words);
    else if (word[0] == '-' && isalpha((unsigned char)word[1]))
      is_right = short_option(out_args, &words);
    else
      out_args->operands[out_args->operand_count++] = word;
  }
  if (!is_right) cli_args_reset(out_args);
  return is_right;
}

void cli_args_reset(cli_args *args) {
  free(args->given);
  free(args->operands);
  *args = (cli_args){0};
}

// --- Asking ------------------------------------------------------------------

static const cli_given *given_find(const cli_args *args, const char *option) {
  for (int i = args->given_count - 1; i >= 0; --i)
    if (strcmp(args->given[i].option->name, option) == 0)
      return &args->given[i];
  return NULL;
}

bool cli_has(const cli_args *args, const char *option) {
  return given_find(args, option) != NULL;
}

const char *cli_value_of(const cli_args *args, const char *option) {
  const cli_given *given = given_find(args, option);
  return given != NULL ? given->value : NULL;
}

bool cli_number_of(const cli_args *args, const char *option, int64_t least,
                   int64_t most, int64_t fallback, int64_t *out_number) {
  const char *text = cli_value_of(args, option);
  *out_number = fallback;
  if (text == NULL) return true;
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || number < least ||
      number > most) {
    cli_error("%s: --%s is '%s', expected a whole number from %lld to %lld",
              args->command->name, option, text, (long long)least,
              (long long)most);
    return false;
  }
  *out_number = number;
  return true;
}

const char *cli_only_operand(const cli_args *args, const char *what) {
  if (args->operand_count == 1) return args->operands[0];
  if (args->operand_count == 0)
    cli_error("%s: expected %s; `opgraft help %s` shows how",
              args->command->name, what, args->command->name);
  else
    cli_error("%s: expected %s and no more, found %d: '%s' and '%s'",
              args->command->name, what, args->operand_count, args->operands[0],
              args->operands[1]);
  return NULL;
}

// --- Help --------------------------------------------------------------------

static void option_print(const cli_option *option, FILE *to) {
  char *left =
      cli_format("--%s%s%s", option->name, option->value != NULL ? " " : "",
                 option->value != NULL ? option->value : "");
  if (option->letter != 0)
    fprintf(to, "  -%c, %-20s %s\n", option->letter, left, option->help);
  else
    fprintf(to, "      %-20s %s\n", left, option->help);
  free(left);
}

void cli_overview_print(const cli_command *const *commands, FILE *to) {
  const char *bold = cli_paint(to, CLI_BOLD);
  const char *plain = cli_paint(to, CLI_PLAIN);
  fprintf(to,
          "%susage:%s opgraft COMMAND [ARGUMENTS]\n\n"
          "One C file becomes a PyTorch operator, and is proved right.\n\n",
          bold, plain);
  for (const cli_command *const *c = commands; *c != NULL; ++c)
    fprintf(to, "  %s%-11s%s %s\n", bold, (*c)->name, plain, (*c)->summary);
  fputs(
      "\n`opgraft help COMMAND` explains one; `opgraft --version` says which "
      "this is.\n"
      "OPGRAFT_ISA=scalar|avx2|avx512 lowers what kernels may use, "
      "OPGRAFT_LOG=1 says what\nwas decided and why, NO_COLOR turns colour "
      "off.\n",
      to);
}

void cli_help_print(const cli_command *command, FILE *to) {
  const char *bold = cli_paint(to, CLI_BOLD);
  const char *plain = cli_paint(to, CLI_PLAIN);
  fprintf(to, "%susage:%s opgraft %s %s\n\n%s\n\n%soptions:%s\n", bold, plain,
          command->name, command->usage, command->text, bold, plain);
  for (const cli_option *o = command->options; o && o->name; ++o)
    option_print(o, to);
  option_print(&help_option, to);
  fprintf(to, "\n%sexamples:%s\n%s\n", bold, plain, command->examples);
}

const cli_command *cli_command_find(const cli_command *const *commands,
                                    const char *name) {
  for (int i = 0; commands[i] != NULL; ++i)
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  return NULL;
}
