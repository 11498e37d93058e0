// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: arguments, messages, files, processes, trees.
//
// The program uses the public headers only. It is one process that runs one
// command and ends, so running out of memory prints a line and exits.

#ifndef OPGRAFT_CLI_CLI_H
#define OPGRAFT_CLI_CLI_H

#include <opgraft/opgraft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CLI_PRINTF(format_index, first) \
  __attribute__((format(printf, format_index, first)))
#else
#define CLI_PRINTF(format_index, first)
#endif

// Exit codes of every command.
enum {
  CLI_OK = 0,
  CLI_FINDINGS = 1,     // it ran, and what it looked at is not right
  CLI_FAILED = 2,       // it could not run: usage, files, environment
  CLI_SIGNALLED = 128,  // + the signal that stopped it
};

// --- Commands and their arguments (options.c) --------------------------------

typedef struct cli_option {
  const char *name;   // "output": --output
  const char *value;  // what stands for its value in help; NULL: a flag
  const char *help;
  char letter;  // 'o': -o; 0: none
} cli_option;

// What completes an operand.
typedef enum cli_operand {
  CLI_OPERAND_NONE,
  CLI_OPERAND_C,       // C files
  CLI_OPERAND_MODULE,  // shared objects and C files
  CLI_OPERAND_GRAPH,
  CLI_OPERAND_INSPECT,  // modules, C files and graphs
  CLI_OPERAND_YAML,
  CLI_OPERAND_PYTHON,
  CLI_OPERAND_EVENTS,
  CLI_OPERAND_COMMAND,
  CLI_OPERAND_SHELL,
} cli_operand;

typedef struct cli_args cli_args;

typedef struct cli_command {
  const char *name;
  const char *summary;        // one line without a full stop
  const char *usage;          // what follows the name
  const char *text;           // plain sentences
  const char *examples;       // lines
  const cli_option *options;  // ended by one without a name; may be NULL
  cli_operand operand;
  bool is_first_operand_last;  // what follows it is not ours: `rest`
  int (*run)(const cli_args *args);
} cli_command;

typedef struct cli_given {
  const cli_option *option;
  const char *value;  // NULL for a flag
} cli_given;

struct cli_args {
  const cli_command *command;
  cli_given *given;  // in the order of the command line
  int given_count;
  const char **operands;
  int operand_count;
  char **rest;  // what follows --, or the operand that is the last
  int rest_count;
};

// Splits a command's arguments. Prints what is wrong and returns false.
bool cli_args_parse(const cli_command *command, int argc, char **argv,
                    cli_args *out_args);
void cli_args_reset(cli_args *args);
bool cli_has(const cli_args *args, const char *option);
// The last value given, or NULL.
const char *cli_value_of(const cli_args *args, const char *option);
// A whole number between `least` and `most`, `fallback` if not given. Prints
// what is wrong and returns false.
bool cli_number_of(const cli_args *args, const char *option, int64_t least,
                   int64_t most, int64_t fallback, int64_t *out_number);
// The one operand of a command that takes one. Prints and returns NULL.
const char *cli_only_operand(const cli_args *args, const char *what);
void cli_help_print(const cli_command *command, FILE *to);
// The commands of commands.def, ended by NULL.
const cli_command *const *cli_commands(void);
const cli_command *cli_command_find(const char *name);
// The nearest of `names` to `name`, NULL if none is near.
const char *cli_nearest(const char *name, const char *const *names, int count);

// --- Messages (output.c) -----------------------------------------------------

typedef enum cli_style {
  CLI_PLAIN,
  CLI_BOLD,
  CLI_DIM,
  CLI_RED,
  CLI_GREEN,
  CLI_YELLOW,
} cli_style;

// The escape sequence that begins a style, "" where colour is not wanted:
// `to` is no terminal, NO_COLOR is set, or TERM is dumb.
const char *cli_paint(FILE *to, cli_style style);
// "opgraft: ..." on stderr. Returns CLI_FAILED, so that it can be returned.
int cli_error(const char *format, ...) CLI_PRINTF(1, 2);
// An error of the library, whose text says all.
int cli_library_error(const opgraft_error *error);
// One line on stderr that is no error.
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

// --- Memory, files and processes (system.c) ----------------------------------

void *cli_alloc(size_t count, size_t size_bytes);  // zeroed; never NULL
void *cli_realloc(void *memory, size_t count, size_t size_bytes);
char *cli_format(const char *format, ...) CLI_PRINTF(1, 2);
char *cli_strndup(const char *text, size_t length);
// A stream into memory, which is there and is the caller's once it is closed.
FILE *cli_memory_open(char **out_bytes, size_t *out_size);

bool cli_is_file(const char *path);
bool cli_is_folder(const char *path);
const char *cli_base_name(const char *path);
// "a/b.c" -> "a/b" + suffix
char *cli_with_suffix(const char *path, const char *suffix);
// The whole of a file, NUL-terminated. Prints what is wrong, returns NULL.
char *cli_file_read(const char *path, size_t *out_size);
// A file that is removed when the program ends, also by a signal. NULL when
// there can be none (printed).
char *cli_temp_create(const char *suffix);
char *cli_temp_beside(const char *path);
void cli_temp_forget(char *path);  // it is no longer ours; frees the name

// Runs a program of PATH and waits; its exit status, 128 + n for signal n,
// and -1 when it could not be started (nothing is printed then).
int cli_process_run(char *const *argv);
// The same for a program that writes to a temporary: it leads its own group,
// and a signal that ends this program ends it first.
int cli_process_write(char *const *argv);
// The same, with its stdout in `out_text` (freed by the caller) and its stderr
// dropped where `is_quiet`.
int cli_process_capture(char *const *argv, bool is_quiet, char **out_text);
// From here on the first SIGINT, SIGTERM or SIGHUP only sets what
// cli_stop_signal gives, and is passed on to the program that runs: as SIGTERM,
// but SIGINT to one under cli_process_run, which may have it from the terminal
// already. The next one ends this program and kills that one.
void cli_stop_watch(void);
// The signal that asked this program to stop, 0 if none did.
int cli_stop_signal(void);
// The path of a program on PATH, freed by the caller; NULL if there is none.
char *cli_program_find(const char *name);

// The folder that holds this program, "" if it cannot be told.
const char *cli_program_folder(void);
// The folder that holds opgraft/op.h, NULL if there is none (printed).
const char *cli_include_folder(void);
// The Python that opgraft's package is installed for: $OPGRAFT_PYTHON, the one
// beside the program, the active environment's, python3 of PATH; NULL if none.
const char *cli_python(void);
// Replaces this process by `python -m module arguments`. Returns only when it
// could not (printed).
int cli_python_exec(const char *module, char *const *arguments, int count);

// --- Output files (target.c) -------------------------------------------------

// A file that is written whole or not at all, also where a signal ends the
// program. A link's target is replaced, not the link; what is no file (a
// device, a pipe, the program's own output) is written into at the end.
typedef struct cli_target {
  const char *path;  // as the user gave it
  char *temp;        // what to write, by this name
  char *place;       // NULL: no file
  FILE *stream;      // this program's own, or NULL
} cli_target;

// Before a command does anything: no output is an input, or one output twice,
// or a folder, a disk or a socket. Prints and returns false.
bool cli_outputs_check(const char *const *outputs, int output_count,
                       const char *const *inputs, int input_count);
// Prints and returns false; then there is nothing to end.
bool cli_target_begin(const char *path, cli_target *out_target);
// The temporary takes its place where it is right, and goes. Prints where that
// fails; false then, and where it is not right.
bool cli_target_end(cli_target *target, bool is_right, bool is_program);
// All of it at once.
bool cli_file_write(const char *path, const char *bytes, size_t size);

// --- Compiling C files (compile.c) -------------------------------------------

typedef struct cli_compile_job {
  const char *const *sources;
  int source_count;
  const char *output;
  const char *compiler;  // NULL: $CC, cc, gcc, clang
  const char *optimize;  // "3"; NULL: 3, or g where is_debug
  char *const *flags;    // added last
  int flag_count;
  bool is_debug;
  bool is_verbose;  // prints the command
  bool is_loaded;   // loads the result before it replaces the output
} cli_compile_job;

// The words of the compiler command, ended by NULL; NULL when none is found.
char **cli_compiler_find(const char *wanted);
// CLI_OK when the output is there, CLI_FINDINGS when the compiler or a
// declaration says no. Prints what is wrong; the old output then stays.
int cli_compile(const cli_compile_job *job);

typedef struct cli_module {
  const char *path;  // as the user gave it
  char *object;      // the shared object: `path`, or what it was built to
  opgraft_module *module;
} cli_module;

// Loads a shared object, or builds a C file to a temporary and loads that.
// Prints what is wrong and returns false.
bool cli_module_open(const char *path, cli_module *out_module);
void cli_module_close(cli_module *module);
// The operator that --op names; its first one where `name` is NULL. Prints.
const opgraft_op *cli_op_find(const opgraft_module *module, const char *name);

// --- Trees: JSON and YAML (json.c, yaml.c) -----------------------------------

typedef enum cli_kind {
  CLI_NULL,
  CLI_BOOL,
  CLI_NUMBER,
  CLI_STRING,
  CLI_LIST,
  CLI_MAP,
} cli_kind;

typedef struct cli_node {
  cli_kind kind;
  bool is_quoted;    // a YAML scalar in quotes
  int32_t line;      // from 1; 0 where it is not known
  const char *key;   // in a map
  const char *text;  // a scalar as it is written
  int32_t count;     // of children
  struct cli_node *first;
  struct cli_node *next;
} cli_node;

// NULL when it is not JSON; out_offset is then where.
cli_node *cli_json_parse(const char *text, size_t length, size_t *out_offset);
// Prints "file:line: ..." and returns NULL when it is not YAML.
cli_node *cli_yaml_read(const char *path);
void cli_node_destroy(cli_node *node);
// A map's entry, NULL if there is none or `map` is not a map.
const cli_node *cli_node_get(const cli_node *map, const char *key);
const cli_node *cli_node_at(const cli_node *list, int32_t index);
const char *cli_node_text(const cli_node *map, const char *key);  // or ""
int64_t cli_node_int(const cli_node *map, const char *key, int64_t fallback);
bool cli_node_true(const cli_node *map, const char *key);
// An operator's declaration; never NULL.
cli_node *cli_op_describe(const opgraft_op *op);

#endif  // OPGRAFT_CLI_CLI_H
