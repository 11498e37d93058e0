// SPDX-License-Identifier: Apache-2.0
// What races found, for this process and in a file for later ones.
//
// Invariants: `lock` guards the table. A file is read and written whole, and
// writers of one file take turns by a lock on a file beside it; who cannot make
// that lock writes without, and may lose what another adds meanwhile. Nobody
// waits for the lock of a file while holding `lock`.

#define _GNU_SOURCE
#include "exec/choose/tuned.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/text.h"
#include "exec/choose/rules.h"

// A writer holds the lock for the time of a small file.
enum { TURN_WAIT_NS = 1000000000 };

static const char heading[] = "# opgraft tune 1, ";

typedef struct result {
  char *node, *found;  // "addmm ...", "packed  # ..."
  og_candidate by;
  bool is_new;  // not in the file
} result;

typedef struct table {
  result *results;
  int32_t count, capacity;
} table;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table known;
static char *loaded;  // the path of the file that was read

// --- Tables ------------------------------------------------------------------

static result *table_find(const table *of, const char *node) {
  for (int32_t i = 0; i < of->count; ++i)
    if (strcmp(of->results[i].node, node) == 0) return &of->results[i];
  return NULL;
}

static char *copy_of(const char *text, size_t length) {
  char *copy = og_alloc(length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

static bool room_make(table *of) {
  if (of->count < of->capacity) return true;
  const int32_t capacity = of->capacity > 0 ? 2 * of->capacity : 32;
  result *results = og_realloc(of->results, (size_t)capacity * sizeof *results);
  if (results == NULL) return false;
  of->results = results;
  of->capacity = capacity;
  return true;
}

// A node that is there gets the new result. False without memory.
static bool table_put(table *of, const char *node, const char *found,
                      og_candidate by, bool is_new) {
  result *at = table_find(of, node);
  char *own = copy_of(found, strlen(found));
  if (own == NULL) return false;
  if (at != NULL) {
    og_free(at->found);
    at->found = own;
    at->by = by;
    return true;
  }
  char *key = room_make(of) ? copy_of(node, strlen(node)) : NULL;
  if (key == NULL) {
    og_free(own);
    return false;
  }
  of->results[of->count++] = (result){key, own, by, is_new};
  return true;
}

static void table_reset(table *of) {
  for (int32_t i = 0; i < of->count; ++i) {
    og_free(of->results[i].node);
    og_free(of->results[i].found);
  }
  og_free(of->results);
  *of = (table){0};
}

// --- Reading -----------------------------------------------------------------

static og_status damaged(const char *path, int32_t line, const char *what,
                         opgraft_error *error) {
  return og_error_set(error, OG_INVALID, NULL, NULL, "%s, line %d: %s", path,
                      (int)line, what);
}

// "node: kernel  # times", cut up.
static bool line_read(char *line, table *out) {
  og_candidate by;
  char *colon = strrchr(line, ':');
  if (colon == NULL || colon[1] != ' ') return false;
  *colon = '\0';
  char *found = colon + 2;
  const size_t length = strcspn(found, " ");
  const char kept = found[length];
  found[length] = '\0';
  const bool is_right =
      og_candidate_find(found, &by) && by != OG_BY_PLAIN && *line != '\0';
  found[length] = kept;
  return is_right && table_put(out, line, found, by, false);
}

// The first line names version and processor, the last one counts the others.
static og_status heading_check(const char *path, const char *line,
                               opgraft_error *error) {
  char machine[OG_MACHINE_NAME];
  og_machine_name(machine);
  if (line == NULL || strncmp(line, heading, sizeof heading - 1) != 0)
    return damaged(path, 1, "it is not a file of tuned kernels, version 1",
                   error);
  if (strcmp(line + sizeof heading - 1, machine) == 0) return OG_OK;
  return og_error_set(error, OG_INVALID, NULL, NULL,
                      "%s, line 1: it is of processor %.64s, this one is %s",
                      path, line + sizeof heading - 1, machine);
}

static og_status text_read(const char *path, char *text, table *out,
                           opgraft_error *error) {
  char *rest = NULL, *line = strtok_r(text, "\n", &rest);
  long long count = -1;
  int32_t number = 1;
  OG_TRY(heading_check(path, line, error));
  while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
    ++number;
    if (count >= 0)
      return damaged(path, number, "it goes on behind its end", error);
    if (strncmp(line, "# end ", 6) == 0)
      count = strtoll(line + 6, NULL, 10);
    else if (!line_read(line, out))
      return damaged(path, number, "it is not a result", error);
  }
  return count == out->count
             ? OG_OK
             : damaged(path, number, "its end is missing", error);
}

static bool is_missing(const char *path) {
  struct stat info;
  return stat(path, &info) != 0 && errno == ENOENT;
}

// A missing file is an empty one. What was read before an error stays.
static og_status file_read(const char *path, table *out, opgraft_error *error) {
  og_mapping file;
  if (is_missing(path)) return OG_OK;
  OG_TRY(og_file_map(path, &file, error));
  char *text = copy_of(file.bytes, file.size_bytes);
  const bool is_text =
      text != NULL && memchr(text, '\0', file.size_bytes) == NULL;
  const og_status status = text == NULL ? og_graph_no_memory(error)
                           : is_text
                               ? text_read(path, text, out, error)
                               : damaged(path, 1, "it is not text", error);
  og_free(text);
  og_file_unmap(&file);
  return status;
}

// --- Writing -----------------------------------------------------------------

static bool folders_make(const char *path) {
  char *folder = copy_of(path, strlen(path));
  bool is_made = folder != NULL;
  for (char *at = folder; is_made && (at = strchr(at + 1, '/')) != NULL;) {
    *at = '\0';
    is_made = mkdir(folder, 0777) == 0 || errno == EEXIST;
    *at = '/';
  }
  og_free(folder);
  return is_made;
}

static og_status file_write(const char *path, const table *of,
                            opgraft_error *error) {
  char machine[OG_MACHINE_NAME];
  og_file_out out;
  og_machine_name(machine);
  OG_TRY(og_file_begin(path, &out, error));
  fprintf(out.stream, "%s%s\n", heading, machine);
  for (int32_t i = 0; i < of->count; ++i)
    fprintf(out.stream, "%s: %s\n", of->results[i].node, of->results[i].found);
  fprintf(out.stream, "# end %d\n", (int)of->count);
  return og_file_end(&out, OG_OK, error);
}

// -1 where there is none: who cannot make it writes without. OG_BUSY where
// another process keeps it, which may be stopped, or when a signal comes.
static og_status turn_begin(const char *path, int *out_file,
                            opgraft_error *error) {
  static const struct timespec pause = {.tv_nsec = 10000000};
  const int64_t end_ns = og_now_ns() + TURN_WAIT_NS;
  og_text beside = {0};
  og_text_add(&beside, path);
  og_text_add(&beside, ".lock");
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  const int file = beside.failed ? -1 : open(beside.data, flags, 0666);
  og_text_reset(&beside);
  *out_file = file;
  while (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return OG_OK;
    if (og_now_ns() < end_ns && nanosleep(&pause, NULL) == 0) continue;
    close(file);
    return og_error_set(error, OG_BUSY, NULL, NULL,
                        "%s: another process holds %s.lock; what was timed is "
                        "not written to the file",
                        path, path);
  }
  return OG_OK;
}

static bool table_join(table *to, const table *from) {
  bool is_whole = true;
  for (int32_t i = 0; i < from->count; ++i) {
    const result *at = &from->results[i];
    is_whole &= table_put(to, at->node, at->found, at->by, false);
  }
  return is_whole;
}

static og_status table_add_to(const table *from, const char *path,
                              opgraft_error *error) {
  table whole = {0};
  int turn;
  if (!folders_make(path))
    return og_error_set(error, OG_IO, NULL, NULL,
                        "%s: its folder could not be made: %s", path,
                        strerror(errno));
  OG_TRY(turn_begin(path, &turn, error));
  og_status status = file_read(path, &whole, error);
  if (status == OG_INVALID) {  // damaged, or another processor's: written anew
    table_reset(&whole);
    status = OG_OK;
  }
  if (status == OG_OK && !table_join(&whole, from))
    status = og_graph_no_memory(error);
  if (status == OG_OK) status = file_write(path, &whole, error);
  if (turn >= 0) close(turn);
  table_reset(&whole);
  return status;
}

// --- Of the process ----------------------------------------------------------

static bool is_loaded(const char *path) {
  return loaded != NULL && strcmp(loaded, path) == 0;
}

bool og_tuned_load(const char *path, opgraft_error *error) {
  table found = {0};
  if (path == NULL) return true;
  pthread_mutex_lock(&lock);
  bool is_right = true;
  if (!is_loaded(path)) {
    og_free(loaded);
    loaded = copy_of(path, strlen(path));
    is_right = file_read(path, &found, error) == OG_OK;
    // What this process measured itself counts more.
    for (int32_t i = 0; is_right && i < found.count; ++i) {
      const result *at = &found.results[i];
      if (table_find(&known, at->node) == NULL)
        table_put(&known, at->node, at->found, at->by, false);
    }
  }
  pthread_mutex_unlock(&lock);
  table_reset(&found);
  return is_right;
}

bool og_tuned_find(const char *node, og_candidate *out) {
  pthread_mutex_lock(&lock);
  const result *at = table_find(&known, node);
  if (at != NULL) *out = at->by;
  pthread_mutex_unlock(&lock);
  return at != NULL;
}

void og_tuned_add(const char *node, const char *found, og_candidate *by) {
  pthread_mutex_lock(&lock);
  const result *at = table_find(&known, node);
  if (at != NULL)
    *by = at->by;
  else
    table_put(&known, node, found, *by, true);
  pthread_mutex_unlock(&lock);
}

og_status og_tuned_write(const char *path, opgraft_error *error) {
  table added = {0};
  bool is_whole = true;
  pthread_mutex_lock(&lock);
  for (int32_t i = 0; i < known.count; ++i) {
    result *at = &known.results[i];
    if (path != NULL && at->is_new)
      is_whole &= table_put(&added, at->node, at->found, at->by, false);
    at->is_new = at->is_new && path == NULL;
  }
  pthread_mutex_unlock(&lock);
  og_status status = is_whole ? OG_OK : og_graph_no_memory(error);
  if (status == OG_OK && added.count > 0)
    status = table_add_to(&added, path, error);
  table_reset(&added);
  return status;
}

void og_tuned_forget(void) {
  pthread_mutex_lock(&lock);
  table_reset(&known);
  og_free(loaded);
  loaded = NULL;
  pthread_mutex_unlock(&lock);
}

// --- Public ------------------------------------------------------------------

size_t opgraft_tune_path(char *buffer, size_t size) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char machine[OG_MACHINE_NAME];
  og_machine_name(machine);
  if (size > 0) buffer[0] = '\0';
  // A relative one is to be ignored, the XDG specification says.
  const bool has_cache = cache != NULL && cache[0] == '/';
  if (!has_cache && (home == NULL || home[0] != '/')) return 0;
  const int length =
      snprintf(buffer, size, "%s%s/opgraft/tune-%s.txt",
               has_cache ? cache : home, has_cache ? "" : "/.cache", machine);
  return length > 0 ? (size_t)length : 0;
}

og_status opgraft_tune_read(const char *path,
                            void (*line)(void *context, const char *node,
                                         const char *found),
                            void *context, opgraft_error *error) {
  table found = {0};
  const og_status status = file_read(path, &found, error);
  for (int32_t i = 0; status == OG_OK && i < found.count; ++i)
    line(context, found.results[i].node, found.results[i].found);
  table_reset(&found);
  return status;
}

og_status opgraft_tune_merge(const char *from, const char *to,
                             opgraft_error *error) {
  table added = {0};
  og_status status = is_missing(from)
                         ? og_error_set(error, OG_IO, NULL, NULL,
                                        "%s: there is no such file", from)
                         : file_read(from, &added, error);
  if (status == OG_OK) status = table_add_to(&added, to, error);
  table_reset(&added);
  return status;
}
