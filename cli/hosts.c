// SPDX-License-Identifier: Apache-2.0
// Hosts: their names, what is linked for them, what a module has for each.

#define _GNU_SOURCE
#include "hosts.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_host hosts[] = {
#define HOST(name, title, has_adapter, has_names, features) \
  {#name, title, has_adapter, has_names, features},
#include "hosts/hosts.def"
#undef HOST
};
enum { HOST_COUNT = sizeof hosts / sizeof *hosts };
_Static_assert(sizeof hosts / sizeof *hosts <= (size_t)CLI_HOSTS_MAX,
               "CLI_HOSTS_MAX");

static const cli_host *host_find(const char *name) {
  const char *names[HOST_COUNT];
  for (int i = 0; i < HOST_COUNT; ++i) {
    if (strcmp(hosts[i].name, name) == 0) return &hosts[i];
    names[i] = hosts[i].name;
  }
  const char *near = cli_nearest(name, names, HOST_COUNT);
  char *all = cli_format("%s", names[0]);
  for (int i = 1; i < HOST_COUNT; ++i) {
    char *longer = cli_format("%s, %s", all, names[i]);
    free(all);
    all = longer;
  }
  cli_error("--hosts has '%s', expected some of %s%s%s", name, all,
            near != NULL ? "; did you mean " : "", near != NULL ? near : "");
  free(all);
  return NULL;
}

bool cli_hosts_parse(const char *list,
                     const cli_host *out_hosts[CLI_HOSTS_MAX + 1]) {
  int count = 0;
  out_hosts[0] = NULL;
  for (const char *at = list; at != NULL && *at != '\0';) {
    const size_t length = strcspn(at, ",");
    char *name = cli_strndup(at, length);
    const cli_host *host = host_find(name);
    free(name);
    if (host == NULL) return false;
    bool is_new = true;
    for (int i = 0; i < count; ++i) is_new &= out_hosts[i] != host;
    if (is_new) out_hosts[count++] = host;
    out_hosts[count] = NULL;
    at += length;
    if (*at == ',') ++at;
  }
  if (list == NULL || count > 0) return true;
  cli_error("--hosts is empty, expected names such as torch,jax");
  return false;
}

// --- Linking -----------------------------------------------------------------

char *cli_hosts_library(const char *name) {
  const char *include = cli_include_folder();
  if (include == NULL) return NULL;
  const char *from[] = {cli_program_folder(), include};
  for (int i = 0; i < 2; ++i) {
    char *path = cli_format("%s/../lib/opgraft/hosts/lib%s.a", from[i], name);
    if (cli_is_file(path)) return path;
    free(path);
  }
  cli_error(
      "lib%s.a is neither in %s/../lib/opgraft/hosts nor beside the headers in "
      "%s; install opgraft anew",
      name, cli_program_folder(), include);
  return NULL;
}

static void words_free(char **words) {
  for (char **word = words; *word != NULL; ++word) free(*word);
  free(words);
}

// Adapters are whole, for what a host looks up by name; of the rest what they
// use, and its names stay inside. -Bsymbolic: two modules in one process each
// call their own copy.
char **cli_hosts_link(const cli_host *const *wanted) {
  static const char *const last[] = {
      "-Wl,--exclude-libs,libopgraft_host.a",
      "-Wl,-Bsymbolic",
      "-Wl,--gc-sections",
      "-Wl,--as-needed",
      "-lpthread",
      "-ldl",
  };
  enum { LAST = sizeof last / sizeof *last };
  char **words = cli_alloc(CLI_HOSTS_MAX + LAST + 4, sizeof *words);
  int count = 0;
  bool is_found = true;
  words[count++] = cli_format("-Wl,--whole-archive");
  for (; is_found && *wanted != NULL; ++wanted) {
    if (!(*wanted)->has_adapter) continue;
    char *name = cli_format("opgraft_host_%s", (*wanted)->name);
    words[count] = cli_hosts_library(name);
    is_found = words[count++] != NULL;
    free(name);
  }
  if (is_found && count > 1) {
    words[count++] = cli_format("-Wl,--no-whole-archive");
    words[count] = cli_hosts_library("opgraft_host");
    is_found = words[count++] != NULL;
    for (int i = 0; i < LAST; ++i) words[count++] = cli_format("%s", last[i]);
  } else if (is_found) {  // no adapter at all
    free(words[0]);
    words[0] = NULL;
  }
  if (is_found) return words;
  words_free(words);
  return NULL;
}

// --- What a module serves ----------------------------------------------------

typedef const char *(*limit_fn)(int32_t op);

// Why an operator is not offered; NULL where the module does not serve the
// host at all.
static limit_fn limit_find(void *object, const cli_host *host) {
  char *symbol = cli_format("opgraft_limit_%s", host->name);
  void *address = object != NULL ? dlsym(object, symbol) : NULL;
  limit_fn limit = NULL;
  memcpy(&limit, &address, sizeof limit);
  free(symbol);
  return limit;
}

static void host_print(const cli_host *host, limit_fn limit,
                       const opgraft_module *module) {
  const int32_t count = opgraft_module_op_count(module);
  if (host->has_adapter && limit == NULL) {
    printf("%-14s no: build it with --hosts %s\n", host->title, host->name);
    return;
  }
  int missing = 0;
  for (int32_t i = 0; i < count; ++i)
    missing += limit != NULL && limit(i) != NULL;
  printf("%-14s %d of %d operators: %s\n", host->title, (int)count - missing,
         (int)count, host->features);
  for (int32_t i = 0; missing > 0 && i < count; ++i)
    if (limit(i) != NULL)
      printf("  without %s: %s\n",
             opgraft_op_name(opgraft_module_op(module, i)), limit(i));
}

static void host_json(const cli_host *host, limit_fn limit,
                      const opgraft_module *module) {
  const bool is_served = !host->has_adapter || limit != NULL;
  const int32_t count = opgraft_module_op_count(module);
  bool is_first = true;
  printf("{\"host\": \"%s\", \"served\": %s, \"features\": ", host->name,
         is_served ? "true" : "false");
  cli_json_string(stdout, host->features);
  fputs(", \"missing\": {", stdout);
  for (int32_t i = 0; limit != NULL && i < count; ++i) {
    if (limit(i) == NULL) continue;
    if (!is_first) fputs(", ", stdout);
    cli_json_string(stdout, opgraft_op_name(opgraft_module_op(module, i)));
    fputs(": ", stdout);
    cli_json_string(stdout, limit(i));
    is_first = false;
  }
  fputs("}}", stdout);
}

// NULL, and what is wrong printed, where it could not be loaded.
static void *object_open(const char *path) {
  // A name without a folder is looked for on the system's path.
  char *full = realpath(path, NULL);
  void *object = dlopen(full != NULL ? full : path, RTLD_NOW | RTLD_LOCAL);
  free(full);
  if (object == NULL) cli_error("%s: could not be loaded: %s", path, dlerror());
  return object;
}

const cli_host *cli_hosts_named(const cli_host *const *wanted) {
  for (; wanted != NULL && *wanted != NULL; ++wanted)
    if ((*wanted)->has_names) return *wanted;
  return NULL;
}

typedef size_t (*names_fn)(char *text, size_t size);

// `text` with the names of one host behind it.
static char *names_append(void *object, const cli_host *host, char *text) {
  char *symbol = cli_format("opgraft_names_%s", host->name);
  void *address = dlsym(object, symbol);
  names_fn names = NULL;
  memcpy(&names, &address, sizeof names);
  free(symbol);
  const size_t used = strlen(text), size = names(NULL, 0) + 1;
  char *longer = cli_realloc(text, used + size, 1);
  names(longer + used, size);
  return longer;
}

char *cli_hosts_names(const char *path, const cli_host *const *wanted) {
  void *object = object_open(path);
  if (object == NULL) return NULL;
  char *text = cli_format("// Names by which hosts look operators up.\n");
  for (; *wanted != NULL; ++wanted)
    if ((*wanted)->has_names) text = names_append(object, *wanted, text);
  dlclose(object);
  return text;
}

static void host_note(const cli_host *host, limit_fn limit,
                      const opgraft_module *module) {
  const int32_t count = opgraft_module_op_count(module);
  for (int32_t i = 0; limit != NULL && i < count; ++i)
    if (limit(i) != NULL)
      cli_note("%s: without %s: %s", host->title,
               opgraft_op_name(opgraft_module_op(module, i)), limit(i));
}

bool cli_hosts_note(const char *path, const opgraft_module *module,
                    const cli_host *const *wanted) {
  if (wanted == NULL || *wanted == NULL) return true;
  void *object = object_open(path);
  if (object == NULL) return false;
  for (; *wanted != NULL; ++wanted)
    host_note(*wanted, limit_find(object, *wanted), module);
  dlclose(object);
  return true;
}

int cli_hosts_print(const char *path, const opgraft_module *module,
                    bool is_json) {
  void *object = object_open(path);
  if (object == NULL) return CLI_FAILED;
  if (is_json)
    printf("{\"module\": \"%s\", \"hosts\": [\n", opgraft_module_name(module));
  for (int i = 0; i < HOST_COUNT; ++i) {
    const limit_fn limit = limit_find(object, &hosts[i]);
    if (!is_json) {
      host_print(&hosts[i], limit, module);
      continue;
    }
    host_json(&hosts[i], limit, module);
    fputs(i + 1 < HOST_COUNT ? ",\n" : "]}\n", stdout);
  }
  dlclose(object);
  return CLI_OK;
}
