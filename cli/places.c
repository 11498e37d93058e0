// SPDX-License-Identifier: Apache-2.0
// Where the program's own things are: its folder, the headers, its Python.
//
// The program may stand in an installation's bin, in a virtual environment
// whose package holds the headers, or in a build folder of the source tree; so
// everything is looked for from where it stands.

#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const char *cli_program_folder(void) {
  static char folder[4096];
  if (folder[0] != '\0') return folder;
  const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
  if (length <= 0) return "";
  folder[length] = '\0';
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *slash = '\0';
  return folder;
}

// --- Headers -----------------------------------------------------------------

// Takes `folder`; returns it if it holds the headers, else frees it.
static char *if_headers(char *folder) {
  char *header = cli_format("%s/opgraft/op.h", folder);
  const bool is_there = cli_is_file(header);
  free(header);
  if (is_there) return folder;
  free(folder);
  return NULL;
}

static char *package_headers(void) {
  char *pattern = cli_format("%s/../lib/python3*/site-packages/opgraft/include",
                             cli_program_folder());
  glob_t found;
  char *folder = NULL;
  if (glob(pattern, 0, NULL, &found) == 0) {
    for (size_t i = 0; folder == NULL && i < found.gl_pathc; ++i)
      folder = if_headers(cli_format("%s", found.gl_pathv[i]));
    globfree(&found);
  }
  free(pattern);
  return folder;
}

// A build folder's cache says where its source tree is.
static char *source_of_build(const char *folder) {
  static const char key[] = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  char *path = cli_format("%s/CMakeCache.txt", folder);
  char *source = NULL;
  size_t size;
  char *text = cli_is_file(path) ? cli_file_read(path, &size) : NULL;
  const char *at = text != NULL ? strstr(text, key) : NULL;
  if (at != NULL) {
    at += sizeof key - 1;
    source = cli_format("%.*s", (int)strcspn(at, "\r\n"), at);
  }
  free(text);
  free(path);
  return source;
}

// Up from the program: <prefix>/include, the source tree's include, or the
// source tree that a build folder names.
static char *ancestor_headers(void) {
  enum { LEVELS = 4 };
  char *at = cli_format("%s", cli_program_folder());
  char *found = NULL;
  for (int i = 0; found == NULL && at[0] != '\0' && i < LEVELS; ++i) {
    found = if_headers(cli_format("%s/include", at));
    char *source = found == NULL ? source_of_build(at) : NULL;
    if (source != NULL) found = if_headers(cli_format("%s/include", source));
    free(source);
    char *slash = strrchr(at, '/');
    if (slash != NULL) *slash = '\0';
  }
  free(at);
  return found;
}

const char *cli_include_folder(void) {
  static char *folder;
  if (folder != NULL) return folder;
  const char *wanted = getenv("OPGRAFT_INCLUDE");
  if (wanted != NULL && wanted[0] != '\0') {
    folder = if_headers(cli_format("%s", wanted));
    if (folder == NULL)
      cli_error(
          "OPGRAFT_INCLUDE is '%s', which has no opgraft/op.h; set it "
          "to the folder that holds opgraft/, or unset it",
          wanted);
    return folder;
  }
  folder = package_headers();
  if (folder == NULL) folder = ancestor_headers();
  // Without the .. that it was looked for with.
  char *plain = folder != NULL ? realpath(folder, NULL) : NULL;
  if (plain != NULL) {
    free(folder);
    folder = plain;
  }
  if (folder == NULL)
    cli_error(
        "no opgraft/op.h beside %s, in its Python's package or above "
        "it; install opgraft, or set OPGRAFT_INCLUDE to the folder that "
        "holds opgraft/",
        cli_program_folder());
  return folder;
}

// --- Python ------------------------------------------------------------------

// Takes `path`; returns it if it can be run, else frees it.
static char *if_program(char *path) {
  if (cli_is_file(path) && access(path, X_OK) == 0) return path;
  free(path);
  return NULL;
}

static char *python_of(const char *folder) {
  char *path = if_program(cli_format("%s/python3", folder));
  return path != NULL ? path : if_program(cli_format("%s/python", folder));
}

const char *cli_python(void) {
  static char *path;
  if (path != NULL) return path;
  const char *wanted = getenv("OPGRAFT_PYTHON");
  if (wanted != NULL && wanted[0] != '\0')
    return path = cli_program_find(wanted);
  path = python_of(cli_program_folder());
  const char *environment = getenv("VIRTUAL_ENV");
  if (path == NULL && environment != NULL) {
    char *folder = cli_format("%s/bin", environment);
    path = python_of(folder);
    free(folder);
  }
  if (path == NULL) path = cli_program_find("python3");
  return path;
}

int cli_python_exec(const char *module, char *const *arguments, int count) {
  const char *python = cli_python();
  if (python == NULL)
    return cli_error(
        "no Python beside %s nor on PATH; install opgraft's "
        "package, or set OPGRAFT_PYTHON",
        cli_program_folder());
  char **argv = cli_alloc((size_t)count + 4, sizeof *argv);
  argv[0] = cli_format("%s", python);
  argv[1] = cli_format("-m");
  argv[2] = cli_format("%s", module);
  for (int i = 0; i < count; ++i) argv[i + 3] = arguments[i];
  fflush(NULL);
  execv(argv[0], argv);
  const int reason = errno;
  for (int i = 0; i < 3; ++i) free(argv[i]);
  free(argv);
  return cli_error("%s: could not be started: %s", python, strerror(reason));
}
