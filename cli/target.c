// SPDX-License-Identifier: Apache-2.0
// Where a command writes a file: beside its place, which it takes once it is
// whole; or straight into a device or pipe.
//
// Invariants: nothing but a file, or a name that is free, is ever replaced; a
// link stays, and what it names is replaced; until the end, what was there
// stays as it was.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { LINKS_MAX = 40 };

// The file's folder, "." where the path has none; the caller's.
static char *folder_of(const char *path) {
  const char *base = cli_base_name(path);
  if (base == path) return cli_format("%s", ".");
  return cli_strndup(path, (size_t)(base - path));
}

// Follows links, also to a name that is free. NULL for a ring of them.
static char *place_find(const char *path) {
  char *place = cli_format("%s", path);
  for (int links = 0; links < LINKS_MAX; ++links) {
    char to[4096];
    const ssize_t length = readlink(place, to, sizeof to - 1);
    if (length < 0) return place;
    to[length] = '\0';
    char *folder = folder_of(place);
    char *next =
        to[0] == '/' ? cli_format("%s", to) : cli_format("%s/%s", folder, to);
    free(folder);
    free(place);
    place = next;
  }
  free(place);
  return NULL;
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// What is written to one of the program's own streams goes there: a new file
// in the place of a shell's would not be what the shell has open.
static FILE *own_stream(const struct stat *info) {
  struct stat own;
  if (fstat(STDOUT_FILENO, &own) == 0 && is_same(info, &own)) return stdout;
  if (fstat(STDERR_FILENO, &own) == 0 && is_same(info, &own)) return stderr;
  return NULL;
}

// Whether two paths name one file, or one name that is free.
static bool names_same(const char *a, const char *b) {
  struct stat x, y;
  const bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
  if (has_a != has_b) return false;
  if (has_a) return S_ISREG(x.st_mode) && is_same(&x, &y);
  char *first = place_find(a), *second = place_find(b);
  bool same = false;
  if (first != NULL && second != NULL) {
    char *from = folder_of(first), *to = folder_of(second);
    same = strcmp(cli_base_name(first), cli_base_name(second)) == 0 &&
           stat(from, &x) == 0 && stat(to, &y) == 0 && is_same(&x, &y);
    free(from);
    free(to);
  }
  free(first);
  free(second);
  return same;
}

static bool folder_is_there(const char *path) {
  char *place = place_find(path);  // NULL, a ring of links, is told later
  char *folder = folder_of(place != NULL ? place : path);
  const bool is_there = cli_is_folder(folder);
  if (!is_there)
    cli_error("%s: could not create a file: there is no folder %s", path,
              folder);
  free(folder);
  free(place);
  return is_there;
}

static bool output_fits(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return folder_is_there(path);
  const char *found = S_ISDIR(info.st_mode)    ? "a folder"
                      : S_ISBLK(info.st_mode)  ? "a disk or its like"
                      : S_ISSOCK(info.st_mode) ? "a socket"
                                               : NULL;
  if (found == NULL) return true;
  cli_error("%s: is %s, expected the name of a file to write", path, found);
  return false;
}

bool cli_outputs_check(const char *const *outputs, int output_count,
                       const char *const *inputs, int input_count) {
  for (int i = 0; i < output_count; ++i) {
    if (!output_fits(outputs[i])) return false;
    for (int k = 0; k < input_count; ++k) {
      if (!names_same(outputs[i], inputs[k])) continue;
      cli_error(
          "%s: is read and would be overwritten (%s); give the output "
          "another name",
          inputs[k], outputs[i]);
      return false;
    }
    for (int k = 0; k < i; ++k) {
      if (!names_same(outputs[i], outputs[k])) continue;
      cli_error(
          "%s: would be written twice; give each output a name of its "
          "own",
          outputs[i]);
      return false;
    }
  }
  return true;
}

bool cli_target_begin(const char *path, cli_target *out) {
  struct stat info;
  *out = (cli_target){.path = path};
  if (!output_fits(path)) return false;
  if (stat(path, &info) == 0) {
    out->stream = own_stream(&info);
    // A device, a pipe: the whole is copied into it at the end.
    if (out->stream != NULL || !S_ISREG(info.st_mode)) {
      out->temp = cli_temp_create("");
      return out->temp != NULL;
    }
  }
  out->place = place_find(path);
  if (out->place == NULL)
    cli_error("%s: is a link that leads back to itself", path);
  else
    out->temp = cli_temp_beside(out->place);
  if (out->temp != NULL) return true;
  free(out->place);
  return false;
}

// Copies the temporary's bytes into a device or pipe.
static bool bytes_pass(const cli_target *target) {
  enum { BLOCK = 1 << 16 };
  FILE *from = fopen(target->temp, "rbe");
  FILE *to = target->stream;
  if (from == NULL) return false;
  if (to == NULL) {
    const int file = open(target->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    to = file >= 0 ? fdopen(file, "wb") : NULL;
  }
  char *block = cli_alloc(BLOCK, 1);
  bool is_right = to != NULL;
  for (size_t n; is_right && (n = fread(block, 1, BLOCK, from)) > 0;)
    is_right = fwrite(block, 1, n, to) == n;
  is_right = is_right && !ferror(from) && fflush(to) == 0;
  if (to != NULL && to != target->stream)
    is_right = fclose(to) == 0 && is_right;
  const int reason = errno;
  free(block);
  fclose(from);
  errno = reason;
  return is_right;
}

// A temporary is private; a written file is like any other.
static bool place_take(const cli_target *target, mode_t mode) {
  const mode_t mask = umask(0);
  umask(mask);
  return chmod(target->temp, mode & ~mask) == 0 &&
         rename(target->temp, target->place) == 0;
}

bool cli_target_end(cli_target *target, bool is_right, bool is_program) {
  if (is_right) {
    is_right = target->place == NULL
                   ? bytes_pass(target)
                   : place_take(target, is_program ? 0777 : 0666);
    if (!is_right)
      cli_error("%s: could not write: %s", target->path, strerror(errno));
  }
  if (!is_right || target->place == NULL) unlink(target->temp);
  cli_temp_forget(target->temp);
  free(target->place);
  *target = (cli_target){0};
  return is_right;
}

bool cli_file_write(const char *path, const char *bytes, size_t size) {
  cli_target target;
  if (!cli_target_begin(path, &target)) return false;
  FILE *file = fopen(target.temp, "wbe");
  bool is_written = file != NULL && fwrite(bytes, 1, size, file) == size;
  if (file != NULL) is_written = fclose(file) == 0 && is_written;
  if (!is_written) cli_error("%s: could not write: %s", path, strerror(errno));
  return cli_target_end(&target, is_written, false);
}
