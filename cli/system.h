// SPDX-License-Identifier: Apache-2.0
// Memory, files and processes.

#ifndef OPGRAFT_CLI_SYSTEM_H
#define OPGRAFT_CLI_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output.h"

// Zeroed. These end the program where memory is short.
void *cli_alloc(size_t count, size_t size_bytes);
void *cli_realloc(void *memory, size_t count, size_t size_bytes);
char *cli_format(const char *format, ...) CLI_PRINTF(1, 2);
char *cli_strndup(const char *text, size_t length);
// A stream into memory, which the caller frees once the stream is closed.
FILE *cli_memory_open(char **out_bytes, size_t *out_size);

// Whether a word is one of a list in which each has a blank on either side.
bool cli_has_word(const char *words, const char *word);

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

#endif  // OPGRAFT_CLI_SYSTEM_H
