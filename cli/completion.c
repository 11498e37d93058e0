// SPDX-License-Identifier: Apache-2.0
// opgraft completion: what a shell needs to complete our command lines, made
// from the same tables as the help.

#include <stdlib.h>
#include <string.h>

#include "cli.h"

// The pattern of an operand's files, NULL where it is not a file.
static const char *file_pattern(cli_operand operand) {
  static const char *const patterns[] = {
      [CLI_OPERAND_C] = "c",           [CLI_OPERAND_MODULE] = "so|c",
      [CLI_OPERAND_GRAPH] = "og",      [CLI_OPERAND_INSPECT] = "so|c|og",
      [CLI_OPERAND_YAML] = "yaml|yml", [CLI_OPERAND_GEN] = "yaml|yml|so|c",
      [CLI_OPERAND_PYTHON] = "py",     [CLI_OPERAND_EVENTS] = "events",
      [CLI_OPERAND_SHELL] = NULL,
  };
  return patterns[operand];
}

// The words of an operand that is one of a few, separated by blanks.
static char *operand_words(const cli_command *const *commands,
                           cli_operand operand) {
  if (operand == CLI_OPERAND_SHELL) return cli_format("bash zsh fish");
  char *words = cli_format("%s", "");
  if (operand != CLI_OPERAND_COMMAND) return words;
  for (const cli_command *const *c = commands; *c != NULL; ++c) {
    char *longer = cli_format("%s%s%s", words, words[0] ? " " : "", (*c)->name);
    free(words);
    words = longer;
  }
  return words;
}

// --- bash --------------------------------------------------------------------

static void bash_case(const cli_command *const *commands,
                      const cli_command *command) {
  const char *pattern = file_pattern(command->operand);
  char *words = operand_words(commands, command->operand);
  printf("    %s)\n      options=\"--help", command->name);
  for (const cli_option *o = command->options; o && o->name; ++o)
    printf(" --%s", o->name);
  printf("\"\n      words=\"%s\"\n      files=\"%s\" ;;\n", words,
         pattern != NULL ? pattern : "");
  free(words);
}

static void bash_print(const cli_command *const *commands) {
  char *words = operand_words(commands, CLI_OPERAND_COMMAND);
  printf(
      "# opgraft completion bash > ~/.local/share/bash-completion/completions/"
      "opgraft\n"
      "_opgraft() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} options words files file\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"%s --help --version\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      words);
  for (const cli_command *const *c = commands; *c != NULL; ++c)
    bash_case(commands, *c);
  fputs(
      "    *) return ;;\n"
      "  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  while IFS= read -r file; do\n"
      "    if [ -d \"$file\" ]; then COMPREPLY+=(\"$file/\")\n"
      "    elif [ -z \"$files\" ] || [[ $file =~ \\.($files)$ ]]; then\n"
      "      [ -z \"$words\" ] && COMPREPLY+=(\"$file\")\n"
      "    fi\n"
      "  done < <([ -z \"$words\" ] && compgen -f -- \"$current\")\n"
      "}\n"
      "complete -o filenames -F _opgraft opgraft\n",
      stdout);
  free(words);
}

// --- zsh ---------------------------------------------------------------------

// Within '...[...]': a quote would end the word, a bracket the text.
static void zsh_text(const char *text) {
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c == '\'')
      fputs("'\\''", stdout);
    else if (strchr("[]:", *c) != NULL)
      printf("\\%c", *c);
    else
      putchar(*c);
  }
}

static void zsh_option(const cli_option *option) {
  // A value's own files are the useful guess for every option that has one.
  const char *value = option->value != NULL ? ":value:_files" : "";
  printf("        '*--%s%s[", option->name, option->value ? "=" : "");
  zsh_text(option->help);
  printf("]%s' \\\n", value);
  if (option->letter == 0) return;
  printf("        '*-%c%s[", option->letter, option->value ? "+" : "");
  zsh_text(option->help);
  printf("]%s' \\\n", value);
}

static void zsh_case(const cli_command *const *commands,
                     const cli_command *command) {
  const char *pattern = file_pattern(command->operand);
  char *words = operand_words(commands, command->operand);
  printf("    %s)\n      _arguments \\\n", command->name);
  for (const cli_option *o = command->options; o && o->name; ++o) zsh_option(o);
  fputs("        '(-h --help)'{-h,--help}'[print help]' \\\n", stdout);
  // One pattern in brackets would be taken for a glob qualifier.
  const bool is_one = pattern != NULL && strchr(pattern, '|') == NULL;
  if (pattern != NULL)
    printf("        '*:file:_files -g \"*.%s%s%s\"' ;;\n", is_one ? "" : "(",
           pattern, is_one ? "" : ")");
  else
    printf("        '*:word:(%s)' ;;\n", words);
  free(words);
}

static void zsh_print(const cli_command *const *commands) {
  fputs(
      "#compdef opgraft\n"
      "# opgraft completion zsh > a folder of $fpath, as _opgraft\n"
      "_opgraft() {\n"
      "  local curcontext=$curcontext state line\n"
      "  local -A opt_args\n"
      "  local -a commands\n"
      "  commands=(\n",
      stdout);
  for (const cli_command *const *c = commands; *c != NULL; ++c) {
    printf("    '%s:", (*c)->name);
    zsh_text((*c)->summary);
    puts("'");
  }
  // With *:: zsh looks at the words of the command's own arguments.
  fputs(
      "  )\n"
      "  _arguments -C '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands; return ;;\n"
      "    argument) ;;\n"
      "    *) return ;;\n"
      "  esac\n"
      "  case $line[1] in\n",
      stdout);
  for (const cli_command *const *c = commands; *c != NULL; ++c)
    zsh_case(commands, *c);
  fputs("  esac\n}\n_opgraft \"$@\"\n", stdout);
}

// --- fish --------------------------------------------------------------------

static void fish_text(const char *text) {
  putchar('\'');
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c == '\'' || *c == '\\') putchar('\\');
    putchar(*c);
  }
  putchar('\'');
}

static void fish_command(const cli_command *const *commands,
                         const cli_command *command) {
  char *words = operand_words(commands, command->operand);
  printf("complete -c opgraft -n __fish_use_subcommand -f -a %s -d ",
         command->name);
  fish_text(command->summary);
  putchar('\n');
  for (const cli_option *o = command->options; o && o->name; ++o) {
    printf("complete -c opgraft -n '__fish_seen_subcommand_from %s' -l %s",
           command->name, o->name);
    if (o->letter != 0) printf(" -s %c", o->letter);
    fputs(o->value != NULL ? " -r -d " : " -d ", stdout);
    fish_text(o->help);
    putchar('\n');
  }
  if (words[0] != '\0')
    printf(
        "complete -c opgraft -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
        command->name, words);
  free(words);
}

static void fish_print(const cli_command *const *commands) {
  puts("# opgraft completion fish > ~/.config/fish/completions/opgraft.fish");
  for (const cli_command *const *c = commands; *c != NULL; ++c)
    fish_command(commands, *c);
  puts("complete -c opgraft -s h -l help -d 'print help'");
}

static int completion_run(const cli_args *args) {
  const char *shell = cli_only_operand(args, "bash, zsh or fish");
  if (shell == NULL) return CLI_FAILED;
  if (strcmp(shell, "bash") == 0)
    bash_print(args->commands);
  else if (strcmp(shell, "zsh") == 0)
    zsh_print(args->commands);
  else if (strcmp(shell, "fish") == 0)
    fish_print(args->commands);
  else
    return cli_error(
        "completion: the shell is '%s', expected bash, zsh or fish", shell);
  return CLI_OK;
}

const cli_command cli_command_completion = {
    .name = "completion",
    .summary = "print completions for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .text = "Prints a script that completes commands, options and files.",
    .examples =
        "  source <(opgraft completion bash)\n"
        "  opgraft completion zsh > ~/.zfunc/_opgraft\n"
        "  opgraft completion fish > ~/.config/fish/completions/opgraft.fish",
    .operand = CLI_OPERAND_SHELL,
    .run = completion_run,
};
