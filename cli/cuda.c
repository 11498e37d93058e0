// SPDX-License-Identifier: Apache-2.0
// CUDA code into C files: flattened source, or what nvcc makes of it.

#define _GNU_SOURCE
#include "cuda.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static bool ends_in(const char *path, const char *suffix) {
  const char *dot = strrchr(cli_base_name(path), '.');
  return dot != NULL && strcmp(dot, suffix) == 0;
}

bool cli_is_cuda(const char *path) {
  return ends_in(path, ".cu") || ends_in(path, ".ptx") ||
         ends_in(path, ".cubin") || ends_in(path, ".fatbin");
}

// --- Source without includes -------------------------------------------------

enum { INCLUDES_MAX = 256 };

typedef struct flat {
  FILE *to;
  const char *include;  // the folder of opgraft's headers
  char *seen[INCLUDES_MAX];
  int seen_count;
} flat;

// The name between the marks of an #include line, the caller's; NULL: another
// line.
static char *include_name(const char *line, size_t length) {
  const char *end = line + length, *at = line;
  while (at < end && (*at == ' ' || *at == '\t')) ++at;
  if (at == end || *at++ != '#') return NULL;
  while (at < end && (*at == ' ' || *at == '\t')) ++at;
  if (end - at < 7 || strncmp(at, "include", 7) != 0) return NULL;
  at += 7;
  while (at < end && (*at == ' ' || *at == '\t')) ++at;
  if (at == end || (*at != '"' && *at != '<')) return NULL;
  const char *close =
      memchr(at + 1, *at == '"' ? '"' : '>', (size_t)(end - at - 1));
  return close == NULL ? NULL : cli_strndup(at + 1, (size_t)(close - at - 1));
}

// Beside `from`, or among opgraft's headers; the caller's, NULL: elsewhere.
static char *include_find(const flat *f, const char *from, const char *name) {
  const size_t folder = (size_t)(cli_base_name(from) - from);
  char *path = cli_format("%.*s%s", (int)folder, from, name);
  if (!cli_is_file(path)) {
    free(path);
    path = cli_format("%s/%s", f->include, name);
  }
  char *real = cli_is_file(path) ? realpath(path, NULL) : NULL;
  free(path);
  return real;
}

// Whether the file is seen for the first time. Takes over `path`.
static bool seen_add(flat *f, char *path) {
  for (int i = 0; i < f->seen_count; ++i)
    if (strcmp(f->seen[i], path) == 0) {
      free(path);
      return false;
    }
  if (f->seen_count == INCLUDES_MAX) {
    free(path);
    return false;
  }
  f->seen[f->seen_count++] = path;
  return true;
}

// Each file once: it has a guard, or would not compile.
static bool file_flatten(flat *f, const char *path) {
  size_t size = 0;
  char *text = cli_file_read(path, &size);
  if (text == NULL) return false;
  bool is_right = true;
  for (const char *line = text; is_right && *line != '\0';) {
    const size_t length = strcspn(line, "\n");
    char *name = include_name(line, length);
    char *found = name != NULL ? include_find(f, path, name) : NULL;
    if (found == NULL)
      fprintf(f->to, "%.*s\n", (int)length, line);
    else if (seen_add(f, found))
      is_right = file_flatten(f, found);
    free(name);
    line += length;
    if (*line == '\n') ++line;
  }
  free(text);
  return is_right;
}

static bool source_flatten(const char *path, const char *to) {
  flat f = {.to = fopen(to, "w"), .include = cli_include_folder()};
  if (f.to == NULL) {
    cli_error("%s: could not write: %s", to, strerror(errno));
    return false;
  }
  bool is_right = f.include != NULL && file_flatten(&f, path);
  if (fclose(f.to) != 0) {
    cli_error("%s: could not write: %s", to, strerror(errno));
    is_right = false;
  }
  for (int i = 0; i < f.seen_count; ++i) free(f.seen[i]);
  return is_right;
}

// --- nvcc --------------------------------------------------------------------

// Words of `nvcc` may hold an -arch or -gencode of the user's.
static char *nvcc_command(const char *nvcc) {
  const bool has_arch =
      strstr(nvcc, "-arch") != NULL || strstr(nvcc, "-gencode") != NULL;
  return cli_format(
      "exec %s%s -fatbin -std=c++17 -O3 -I\"$1\" \"$2\" -o \"$3\"", nvcc,
      has_arch ? "" : " -arch=all-major");
}

static bool nvcc_run(const char *path, const char *nvcc, const char *to,
                     bool is_verbose) {
  const char *include = cli_include_folder();
  if (include == NULL) return false;
  char *command = nvcc_command(nvcc);
  char shell[] = "sh", flag[] = "-c";
  char *argv[] = {shell,
                  flag,
                  command,
                  shell,
                  (char *)(size_t)include,
                  (char *)(size_t)path,
                  (char *)(size_t)to,
                  NULL};
  if (is_verbose) fprintf(stderr, "%s\n", command);
  const int status = cli_process_write(argv);
  if (status != 0)
    cli_error("%s: '%s' ended with status %d; its messages stand above", path,
              nvcc, status);
  free(command);
  return status == 0;
}

// --- The C file --------------------------------------------------------------

static char *stem_of(const char *path) {
  const char *base = cli_base_name(path);
  char *stem = cli_strndup(base, strcspn(base, "."));
  bool is_name = isalpha((unsigned char)stem[0]) || stem[0] == '_';
  for (const char *c = stem; *c != '\0'; ++c)
    is_name &= isalnum((unsigned char)*c) || *c == '_';
  if (is_name) return stem;
  cli_error(
      "%s: the name before the dot becomes og_cuda_code_NAME, expected "
      "letters, "
      "digits and '_' that begin with no digit; rename the file",
      path);
  free(stem);
  return NULL;
}

static bool embed_write(const char *path, const char *stem, const char *data,
                        const char *to) {
  char *full = realpath(data, NULL);
  FILE *file = full != NULL ? fopen(to, "w") : NULL;
  bool is_written = file != NULL;
  if (is_written) {
    fprintf(file, "#include <opgraft/cuda.h>\nOG_CUDA_EMBED(%s, ", stem);
    cli_json_string(file, cli_base_name(path));
    fputs(", ", file);
    cli_json_string(file, full);
    fputs(");\n", file);
    is_written = fclose(file) == 0;
  }
  if (!is_written) cli_error("%s: could not write: %s", to, strerror(errno));
  free(full);
  return is_written;
}

bool cli_cuda_embed(const char *path, const char *nvcc, bool is_verbose,
                    cli_cuda_files *out_files) {
  *out_files = (cli_cuda_files){.source = cli_temp_create(".c")};
  char *stem = stem_of(path);
  bool is_made = stem != NULL && out_files->source != NULL;
  if (is_made && ends_in(path, ".cu")) {
    out_files->data = cli_temp_create(".cu");
    is_made = out_files->data != NULL &&
              (nvcc != NULL ? nvcc_run(path, nvcc, out_files->data, is_verbose)
                            : source_flatten(path, out_files->data));
  }
  const char *data = out_files->data != NULL ? out_files->data : path;
  is_made = is_made && embed_write(path, stem, data, out_files->source);
  free(stem);
  return is_made;
}

char **cli_cuda_link(void) {
  static const char *const last[] = {"-Wl,--exclude-libs,libopgraft_cuda.a",
                                     "-Wl,--as-needed", "-lpthread", "-ldl"};
  enum { LAST = sizeof last / sizeof *last };
  char *library = cli_hosts_library("opgraft_cuda");
  if (library == NULL) return NULL;
  char **words = cli_alloc(LAST + 2, sizeof *words);
  words[0] = library;
  for (int i = 0; i < LAST; ++i) words[i + 1] = cli_format("%s", last[i]);
  return words;
}
