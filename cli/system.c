// SPDX-License-Identifier: Apache-2.0
// Memory, files and processes.
//
// Invariants: temp_paths holds every temporary that is still there, so that
// the end of the program and a signal can remove them.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

extern char **environ;

// --- Memory ------------------------------------------------------------------

static void out_of_memory(void) {
  fputs("opgraft: not enough memory\n", stderr);
  exit(CLI_FAILED);
}

void *cli_alloc(size_t count, size_t size_bytes) {
  void *memory = calloc(count > 0 ? count : 1, size_bytes > 0 ? size_bytes : 1);
  if (memory == NULL) out_of_memory();
  return memory;
}

void *cli_realloc(void *memory, size_t count, size_t size_bytes) {
  void *larger = reallocarray(memory, count, size_bytes);
  if (larger == NULL) out_of_memory();
  return larger;
}

char *cli_strndup(const char *text, size_t length) {
  char *copy = cli_alloc(length + 1, 1);
  memcpy(copy, text, length);
  return copy;
}

char *cli_format(const char *format, ...) {
  va_list arguments;
  char *text = NULL;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) out_of_memory();
  va_end(arguments);
  return text;
}

FILE *cli_memory_open(char **out_bytes, size_t *out_size) {
  FILE *stream = open_memstream(out_bytes, out_size);
  if (stream == NULL) out_of_memory();
  return stream;
}

// --- Names -------------------------------------------------------------------

bool cli_has_word(const char *words, const char *word) {
  char *wanted = cli_format(" %s ", word);
  const bool is_found = strstr(words, wanted) != NULL;
  free(wanted);
  return is_found;
}

bool cli_is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool cli_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const char *cli_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

char *cli_with_suffix(const char *path, const char *suffix) {
  const char *dot = strrchr(cli_base_name(path), '.');
  const size_t kept = dot != NULL ? (size_t)(dot - path) : strlen(path);
  return cli_format("%.*s%s", (int)kept, path, suffix);
}

// --- Temporaries -------------------------------------------------------------

enum { TEMP_MAX = 256 };
static char *volatile temp_paths[TEMP_MAX];
static pid_t temp_owner;

static void temp_remove_all(void) {
  // A forked child ends too, and must leave its parent's files alone.
  if (getpid() != temp_owner) return;
  for (int i = 0; i < TEMP_MAX; ++i)
    if (temp_paths[i] != NULL) unlink(temp_paths[i]);
}

// A program that writes to a temporary, and leads its own group; 0: none.
static volatile pid_t writer;

// The writer goes first: what it made after its file was removed would stay.
static void temp_on_signal(int signal_number) {
  if (writer > 0) {
    kill(-writer, SIGKILL);
    waitpid(writer, NULL, 0);
  }
  temp_remove_all();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static bool temp_add(char *path) {
  if (temp_owner == 0) {
    temp_owner = getpid();
    atexit(temp_remove_all);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
      if (signal(signals[i], temp_on_signal) == SIG_IGN)
        signal(signals[i], SIG_IGN);
  }
  for (int i = 0; i < TEMP_MAX; ++i) {
    if (temp_paths[i] != NULL) continue;
    temp_paths[i] = path;
    return true;
  }
  return false;
}

void cli_temp_forget(char *path) {
  for (int i = 0; i < TEMP_MAX; ++i)
    if (temp_paths[i] == path) temp_paths[i] = NULL;
  free(path);
}

// No signal comes between a file, or a process, and the note of it.
static void signals_block(sigset_t *before) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
    sigaddset(&set, signals[i]);
  sigprocmask(SIG_BLOCK, &set, before);
}

// `pattern` ends in XXXXXX and `suffix_length` more characters; errors name
// `place`.
static char *temp_make(char *pattern, int suffix_length, const char *place) {
  sigset_t before;
  signals_block(&before);
  const int file = mkstemps(pattern, suffix_length);
  const int reason = errno;
  const bool is_noted = file >= 0 && temp_add(pattern);
  if (file >= 0 && !is_noted) unlink(pattern);
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (file < 0) {
    cli_error("%s: could not create a file: %s", place, strerror(reason));
    free(pattern);
    return NULL;
  }
  close(file);
  if (!is_noted) {
    free(pattern);
    cli_error("more than %d files at once; give fewer", TEMP_MAX);
    return NULL;
  }
  return pattern;
}

char *cli_temp_create(const char *suffix) {
  const char *folder = getenv("TMPDIR");
  if (folder == NULL || folder[0] == '\0') folder = "/tmp";
  return temp_make(cli_format("%s/opgraft-XXXXXX%s", folder, suffix),
                   (int)strlen(suffix), folder);
}

char *cli_temp_beside(const char *path) {
  return temp_make(cli_format("%s.XXXXXX", path), 0, path);
}

// --- Reading and writing -----------------------------------------------------

// A file's bytes may come from a pipe, whose size nobody knows beforehand.
static char *stream_read(FILE *from, size_t *out_size) {
  size_t size = 0, capacity = 4096;
  char *bytes = cli_alloc(capacity, 1);
  for (;;) {
    size += fread(bytes + size, 1, capacity - size - 1, from);
    if (size + 1 < capacity) break;
    capacity *= 2;
    bytes = cli_realloc(bytes, capacity, 1);
  }
  bytes[size] = '\0';
  *out_size = size;
  return bytes;
}

char *cli_file_read(const char *path, size_t *out_size) {
  if (cli_is_folder(path)) {
    cli_error("%s: is a folder, expected a file", path);
    return NULL;
  }
  FILE *file = fopen(path, "rbe");
  if (file == NULL) {
    cli_error("%s: could not open: %s", path, strerror(errno));
    return NULL;
  }
  char *bytes = stream_read(file, out_size);
  if (ferror(file)) {
    cli_error("%s: could not read: %s", path, strerror(errno));
    free(bytes);
    bytes = NULL;
  }
  fclose(file);
  return bytes;
}

// --- Processes ---------------------------------------------------------------

static volatile sig_atomic_t stop_signal;
static volatile pid_t running;               // 0: none
static volatile sig_atomic_t is_foreground;  // `running` handles SIGINT itself

static void child_stop(int signal_number) {
  const bool is_interrupt = signal_number == SIGINT && is_foreground;
  kill(running, is_interrupt ? SIGINT : SIGTERM);
}

static void stop_on_signal(int signal_number, siginfo_t *info, void *context) {
  (void)context;
  const bool is_second = stop_signal != 0;
  // What a terminal sends, a foreground child has been sent too.
  const bool is_sent =
      is_foreground && signal_number == SIGINT && info->si_code > 0;
  stop_signal = signal_number;
  if (running > 0 && is_second) kill(running, SIGKILL);
  if (running > 0 && !is_second && !is_sent) child_stop(signal_number);
  if (is_second) temp_on_signal(signal_number);
}

void cli_stop_watch(void) {
  struct sigaction action = {.sa_flags = SA_RESTART | SA_SIGINFO}, before;
  action.sa_sigaction = stop_on_signal;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
    if (sigaction(signals[i], NULL, &before) == 0 &&
        before.sa_handler != SIG_IGN)
      sigaction(signals[i], &action, NULL);
}

int cli_stop_signal(void) { return stop_signal; }

static int process_wait(pid_t child) {
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

// A program under the watch of stop_on_signal from when it runs.
static int watched_wait(pid_t child) {
  const int status = process_wait(child);
  running = 0;
  return status;
}

static void watch_begin(pid_t child, bool is_in_foreground) {
  is_foreground = is_in_foreground;
  running = child;
  if (stop_signal != 0) child_stop(stop_signal);
}

int cli_process_run(char *const *argv) {
  pid_t child;
  fflush(NULL);
  if (posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) != 0) return -1;
  watch_begin(child, true);
  return watched_wait(child);
}

int cli_process_write(char *const *argv) {
  pid_t child = 0;
  posix_spawnattr_t own_group;
  sigset_t before;
  fflush(NULL);
  posix_spawnattr_init(&own_group);
  signals_block(&before);
  posix_spawnattr_setflags(&own_group,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&own_group, &before);
  const int failed =
      posix_spawnp(&child, argv[0], NULL, &own_group, argv, environ);
  if (failed == 0) writer = child;
  sigprocmask(SIG_SETMASK, &before, NULL);
  posix_spawnattr_destroy(&own_group);
  const int status = failed == 0 ? process_wait(child) : -1;
  writer = 0;
  return status;
}

int cli_process_capture(char *const *argv, bool is_quiet, char **out_text) {
  int ends[2];
  pid_t child;
  posix_spawn_file_actions_t actions;
  *out_text = NULL;
  fflush(NULL);
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (is_quiet)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  const int failed =
      posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *from = fdopen(ends[0], "rb");
  if (from == NULL) out_of_memory();
  if (failed == 0) {
    size_t size;
    watch_begin(child, false);
    *out_text = stream_read(from, &size);
  }
  fclose(from);
  return failed == 0 ? watched_wait(child) : -1;
}

static char *program_in(const char *folder, size_t length, const char *name) {
  char *path =
      cli_format("%.*s%s%s", (int)length, folder, length > 0 ? "/" : "", name);
  if (cli_is_file(path) && access(path, X_OK) == 0) return path;
  free(path);
  return NULL;
}

char *cli_program_find(const char *name) {
  if (strchr(name, '/') != NULL) return program_in("", 0, name);
  const char *at = getenv("PATH");
  while (at != NULL && *at != '\0') {
    const size_t length = strcspn(at, ":");
    char *path = length > 0 ? program_in(at, length, name) : NULL;
    if (path != NULL) return path;
    at += length + (at[length] == ':');
  }
  return NULL;
}
