// SPDX-License-Identifier: Apache-2.0
// C files into shared objects, with whichever compiler there is.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <opgraft/device.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <opgraft/graph.h>

#include "cli.h"
#include "declared.h"

typedef struct words {
  char **word;
  int count;
  int capacity;
} words;

static void words_add(words *list, char *word) {
  if (list->count + 1 >= list->capacity) {
    list->capacity = list->capacity * 2 + 16;
    list->word =
        cli_realloc(list->word, (size_t)list->capacity, sizeof(char *));
  }
  list->word[list->count++] = word;
  list->word[list->count] = NULL;
}

static void words_copy(words *list, const char *word) {
  words_add(list, cli_format("%s", word));
}

static void words_reset(words *list) {
  for (int i = 0; i < list->count; ++i) free(list->word[i]);
  free(list->word);
}

// "ccache gcc" is two words.
static void words_split(words *list, const char *text) {
  for (;;) {
    text += strspn(text, " \t");
    const size_t length = strcspn(text, " \t");
    if (length == 0) return;
    words_add(list, cli_strndup(text, length));
    text += length;
  }
}

// --- The compiler ------------------------------------------------------------

static bool command_exists(const char *command) {
  words list = {0};
  words_split(&list, command);
  char *path = list.count > 0 ? cli_program_find(list.word[0]) : NULL;
  const bool is_there = path != NULL;
  free(path);
  words_reset(&list);
  return is_there;
}

char **cli_compiler_find(const char *wanted) {
  static const char *const usual[] = {"cc", "gcc", "clang"};
  const char *found = wanted;
  if (found == NULL) {
    found = getenv("CC");
    if (found != NULL && found[strspn(found, " \t")] == '\0') found = NULL;
  }
  if (found != NULL && !command_exists(found)) return NULL;
  for (int i = 0; found == NULL && i < 3; ++i)
    if (command_exists(usual[i])) found = usual[i];
  if (found == NULL) return NULL;
  words list = {0};
  words_split(&list, found);
  return list.word;
}

static int no_compiler(const char *wanted) {
  const char *cc = getenv("CC");
  if (wanted != NULL)
    return cli_error(
        "--cc is '%s', which is not a program on PATH; name a C "
        "compiler",
        wanted);
  if (cc != NULL && cc[strspn(cc, " \t")] != '\0')
    return cli_error(
        "CC is '%s', which is not a program on PATH; unset it or "
        "name a C compiler",
        cc);
  return cli_error(
      "no C compiler: neither cc, gcc nor clang is on PATH; "
      "install one (on Debian: apt install gcc) or set CC");
}

// Words to link with, of which the list is freed; false where it is NULL: what
// is missing has been printed.
static bool link_add(char **link, words *list) {
  if (link == NULL) return false;
  for (char **word = link; *word != NULL; ++word) words_add(list, *word);
  free(link);
  return true;
}

// One run of the compiler: files into an object, or into the module.
typedef struct step {
  const char *const *inputs;
  int input_count;
  const char *output;
  bool is_linked;
} step;

static bool command_make(const cli_compile_job *job, const step *run,
                         words *list) {
  static const char *const always[] = {
      "-fvisibility=hidden", "-ffp-contract=fast", "-Wall", "-Wextra"};
  const char *include = cli_include_folder();
  if (include == NULL) return false;
  char **compiler = cli_compiler_find(job->compiler);
  if (compiler == NULL) {
    no_compiler(job->compiler);
    return false;
  }
  for (char **word = compiler; *word != NULL; ++word) words_add(list, *word);
  free(compiler);
  words_copy(list, "-std=c11");
  words_copy(list, "-fPIC");
  words_copy(list, run->is_linked ? "-shared" : "-c");
  for (size_t i = 0; i < sizeof always / sizeof *always; ++i)
    words_copy(list, always[i]);
  const char *level = job->optimize;
  if (level == NULL) level = job->is_debug ? "0" : "3";
  words_add(list, cli_format("-O%s", level));
  if (job->is_debug) words_copy(list, "-g");
  words_add(list, cli_format("-I%s", include));
  for (int i = 0; i < run->input_count; ++i) words_copy(list, run->inputs[i]);
  words_copy(list, "-o");
  words_copy(list, run->output);
  for (int i = 0; i < job->flag_count; ++i) words_copy(list, job->flags[i]);
  if (!run->is_linked) return true;
  if ((job->hosts != NULL && !link_add(cli_hosts_link(job->hosts), list)) ||
      (job->has_cuda && !link_add(cli_cuda_link(), list)))
    return false;
  words_copy(list, "-lm");
  return true;
}

static void command_print(const words *list) {
  for (int i = 0; i < list->count; ++i)
    fprintf(stderr, "%s%s", i > 0 ? " " : "", list->word[i]);
  fputc('\n', stderr);
}

// Flags with which compilers may link a constructor that sets flush-to-zero.
static void fast_math_warn(const words *list) {
  static const char *const flags[] = {
      "-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-mdaz-ftz"};
  for (int i = 0; i < list->count; ++i)
    for (size_t k = 0; k < sizeof flags / sizeof *flags; ++k)
      if (strcmp(list->word[i], flags[k]) == 0)
        cli_note(
            "warning: %s may link in a constructor that sets flush-to-zero at "
            "load; opgraft puts that back, other hosts may not; drop the flag, "
            "or name the parts that you need, such as -fno-math-errno",
            flags[k]);
}

static bool source_check(const char *path) {
  const char *dot = strrchr(cli_base_name(path), '.');
  if (cli_is_folder(path)) {
    cli_error("%s: is a folder, expected a C file", path);
    return false;
  }
  if (access(path, R_OK) != 0) {
    cli_error("%s: could not open: %s", path, strerror(errno));
    return false;
  }
  if (dot != NULL && strcmp(dot, ".c") == 0) return true;
  if (cli_is_cuda(path)) return true;
  cli_error(
      "%s: expected a C file, whose name ends in .c, or CUDA code: .cu, "
      ".ptx, .cubin or .fatbin",
      path);
  return false;
}

// Loads `object`; what is wrong with it is said of `path`, or of the sources
// that it was made from. Prints.
static opgraft_module *object_load(const char *object, const char *path,
                                   const char *const *sources, int count) {
  opgraft_module *module = NULL;
  opgraft_error error;
  if (opgraft_module_load(object, &module, &error) == OG_OK) return module;
  // A temporary's name means nothing to the author.
  const size_t length = strlen(object);
  if (strncmp(error.text, object, length) == 0)
    cli_error("%s%s", path, error.text + length);
  else
    cli_declared_error(sources, count, &error);
  return NULL;
}

// Whether the file is a device's driver, which is not opened; says so of
// `path`, unless that is NULL.
static bool driver_note(const char *object, const char *path) {
  typedef const og_device_driver *(*query_fn)(uint32_t max_abi);
  void *file = dlopen(object, RTLD_NOW | RTLD_LOCAL);
  void *symbol = file != NULL ? dlsym(file, "opgraft_device") : NULL;
  query_fn query;
  memcpy(&query, &symbol, sizeof query);
  const og_device_driver *driver =
      symbol != NULL ? query(OG_DEVICE_ABI_VERSION) : NULL;
  if (driver != NULL && path != NULL)
    cli_note("%s: driver of device %s; opgraft.load_device(\"%s\") opens it",
             path, driver->name, path);
  if (file != NULL) dlclose(file);
  return driver != NULL;
}

// A wrong declaration is found before the output's place is taken.
static int result_check(const cli_compile_job *job, const char *temp) {
  if (!job->is_loaded || driver_note(temp, job->output)) return CLI_OK;
  opgraft_module *module =
      object_load(temp, job->output, job->sources, job->source_count);
  if (module == NULL) return CLI_FINDINGS;
  const int count = opgraft_module_op_count(module);
  cli_note("%s: module %s, %d operator%s", job->output,
           opgraft_module_name(module), count, cli_plural(count));
  const bool is_noted = cli_hosts_note(temp, module, job->hosts);
  opgraft_module_release(module);
  return is_noted ? CLI_OK : CLI_FINDINGS;
}

static int step_run(const cli_compile_job *job, const step *run) {
  words list = {0};
  int result = CLI_FAILED;
  if (command_make(job, run, &list)) {
    if (job->is_verbose) command_print(&list);
    if (run->inputs == job->sources) fast_math_warn(&list);
    const int status = cli_process_write(list.word);
    result = status == 0 ? CLI_OK : status < 0 ? CLI_FAILED : CLI_FINDINGS;
    if (status != 0)
      cli_error("%s: %s ended with status %d; its messages stand above",
                job->sources[0], list.word[0], status);
  }
  words_reset(&list);
  return result;
}

// --- Formulas ----------------------------------------------------------------

static char *temp_add(words *temps, const char *suffix) {
  char *path = cli_temp_create(suffix);
  if (path != NULL) words_add(temps, path);
  return path;
}

static void temps_drop(words *temps) {
  for (int i = 0; i < temps->count; ++i) {
    unlink(temps->word[i]);
    cli_temp_forget(temps->word[i]);
  }
  free(temps->word);
}

char *cli_formulas_code(const opgraft_module *module) {
  const size_t length = opgraft_module_print_code(module, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  text[0] = '\0';
  opgraft_module_print_code(module, text, length + 1);
  return text;
}

// The C of a module's formulas as an object; NULL where there are none, or,
// with *result, no object. The author's flags are for the author's loops.
static const char *formulas_compile(const cli_compile_job *job,
                                    const char *linked, words *temps,
                                    int *result) {
  static char contract[] = "-ffp-contract=off", quiet[] = "-w";
  static char *const flags[] = {contract, quiet};
  if (!job->is_loaded || driver_note(linked, NULL)) return NULL;
  opgraft_module *module =
      object_load(linked, job->output, job->sources, job->source_count);
  if (module == NULL) {
    *result = CLI_FINDINGS;
    return NULL;
  }
  char *text = cli_formulas_code(module);
  opgraft_module_release(module);
  const char *source = text[0] != '\0' ? temp_add(temps, ".c") : NULL;
  const char *object = source != NULL ? temp_add(temps, ".o") : NULL;
  const bool is_written =
      object != NULL && cli_file_write(source, text, strlen(text));
  if (text[0] != '\0' && !is_written) *result = CLI_FAILED;
  free(text);
  if (!is_written) return NULL;
  cli_compile_job own = *job;
  own.sources = &source;
  own.source_count = 1;
  own.flags = flags;
  own.flag_count = sizeof flags / sizeof *flags;
  const step run = {&source, 1, object, false};
  *result = step_run(&own, &run);
  return *result == CLI_OK ? object : NULL;
}

// Links once to read the formulas, and again with them.
static int plain_run(const cli_compile_job *job, const char *output) {
  const step whole = {job->sources, job->source_count, output, true};
  words temps = {0};
  int result = step_run(job, &whole);
  const char *object =
      result == CLI_OK ? formulas_compile(job, output, &temps, &result) : NULL;
  if (object != NULL) {
    const char **inputs =
        cli_alloc((size_t)job->source_count + 1, sizeof *inputs);
    for (int i = 0; i < job->source_count; ++i) inputs[i] = job->sources[i];
    inputs[job->source_count] = object;
    const step again = {inputs, job->source_count + 1, output, true};
    result = step_run(job, &again);
    free(inputs);
  }
  temps_drop(&temps);
  return result;
}

// --- Modules with names for hosts --------------------------------------------

static int objects_make(const cli_compile_job *job, words *temps) {
  for (int i = 0; i < job->source_count; ++i) {
    char *object = temp_add(temps, ".o");
    if (object == NULL) return CLI_FAILED;
    const step run = {job->sources + i, 1, object, false};
    const int result = step_run(job, &run);
    if (result != CLI_OK) return result;
  }
  return CLI_OK;
}

static bool names_write(const cli_compile_job *job, const char *module,
                        const char *path) {
  char *text = cli_hosts_names(module, job->hosts);
  FILE *file = text != NULL ? fopen(path, "w") : NULL;
  bool is_written = file != NULL && fputs(text, file) >= 0;
  if (file != NULL) is_written &= fclose(file) == 0;
  if (text != NULL && !is_written)
    cli_error("%s: could not write: %s", path, strerror(errno));
  free(text);
  return is_written;
}

// The names follow from declarations, which are read from the module without
// the names.
static int named_link(const cli_compile_job *job, const char *output,
                      words *temps) {
  int result = objects_make(job, temps);
  const int objects = temps->count;
  char *source = temp_add(temps, ".c"), *plain = temp_add(temps, ".so");
  if (source == NULL || plain == NULL) return CLI_FAILED;
  const char *const *inputs = (const char *const *)temps->word;
  const step first = {inputs, objects, plain, true};
  if (result == CLI_OK) result = step_run(job, &first);
  if (result != CLI_OK) return result;
  words own = {0};
  const char *code = formulas_compile(job, plain, &own, &result);
  if (result == CLI_OK && !names_write(job, plain, source)) result = CLI_FAILED;
  if (result == CLI_OK) {
    const char **all = cli_alloc((size_t)objects + 2, sizeof *all);
    for (int i = 0; i <= objects; ++i) all[i] = inputs[i];
    all[objects + 1] = code;
    const step second = {all, objects + (code != NULL ? 2 : 1), output, true};
    result = step_run(job, &second);
    free(all);
  }
  temps_drop(&own);
  return result;
}

static int named_run(const cli_compile_job *job, const char *output) {
  words temps = {0};
  if (!job->is_loaded)
    return cli_error(
        "build: --no-load with --hosts %s: the names that %s looks up are made "
        "from the loaded file; leave out one of the two",
        cli_hosts_named(job->hosts)->name, cli_hosts_named(job->hosts)->title);
  const int result = named_link(job, output, &temps);
  temps_drop(&temps);
  return result;
}

static int compiler_run(const cli_compile_job *job, const char *output) {
  const int result = cli_hosts_named(job->hosts) != NULL
                         ? named_run(job, output)
                         : plain_run(job, output);
  if (result != CLI_OK) return result;
  opgraft_error error;
  if (opgraft_module_seal(output, &error) != OG_OK)
    return cli_library_error(&error);
  return result_check(job, output);
}

// The sources with a C file in place of each that is CUDA code. Their own names
// stand in `job`, for messages.
static int sources_run(const cli_compile_job *job, const char *output) {
  words temps = {0};
  int result = CLI_OK;
  const char **sources = cli_alloc((size_t)job->source_count, sizeof *sources);
  cli_compile_job made = *job;
  for (int i = 0; i < job->source_count && result == CLI_OK; ++i) {
    sources[i] = job->sources[i];
    if (!cli_is_cuda(sources[i])) continue;
    cli_cuda_files files;
    if (!cli_cuda_embed(sources[i], job->nvcc, job->is_verbose, &files))
      result = CLI_FINDINGS;
    if (files.source != NULL) words_add(&temps, files.source);
    if (files.data != NULL) words_add(&temps, files.data);
    sources[i] = files.source;
    made.has_cuda = true;
  }
  made.sources = sources;
  if (result == CLI_OK) result = compiler_run(&made, output);
  temps_drop(&temps);
  free(sources);
  return result;
}

int cli_compile(const cli_compile_job *job) {
  cli_target target;
  for (int i = 0; i < job->source_count; ++i)
    if (!source_check(job->sources[i])) return CLI_FAILED;
  if (!cli_outputs_check(&job->output, 1, job->sources, job->source_count) ||
      !cli_target_begin(job->output, &target))
    return CLI_FAILED;
  const int result = sources_run(job, target.temp);
  const bool is_placed = cli_target_end(&target, result == CLI_OK, true);
  return result == CLI_OK && !is_placed ? CLI_FAILED : result;
}

// --- Modules -----------------------------------------------------------------

// What CMake built of a file of the operator library, which links more than a
// file of its own. NULL: `path` is another file, or this program was not built
// beside it.
static char *library_object(const char *path, const char *dot) {
  const char *name = cli_base_name(path);
  const char *include = cli_include_folder();
  char *here = realpath(path, NULL);
  char *own = cli_format("%s/../ops/%s", include != NULL ? include : "", name);
  char *there = realpath(own, NULL);
  char *object = cli_format("%s/../modules/%.*s.so", cli_program_folder(),
                            (int)(dot - name), name);
  if (here == NULL || there == NULL || strcmp(here, there) != 0 ||
      !cli_is_file(object)) {
    free(object);
    object = NULL;
  }
  free(there);
  free(own);
  free(here);
  return object;
}

static bool is_newer(const char *path, const char *than) {
  struct stat a, b;
  return stat(path, &a) == 0 && stat(than, &b) == 0 && a.st_mtime > b.st_mtime;
}

static bool is_c_file(const char *path) {
  const char *dot = strrchr(cli_base_name(path), '.');
  return dot != NULL && strcmp(dot, ".c") == 0;
}

// The shared object of `path`: itself, or what a C file was built to.
static char *object_make(const char *path, bool *out_is_temp) {
  *out_is_temp = false;
  if (!is_c_file(path)) return cli_format("%s", path);
  char *built = library_object(path, strrchr(path, '.'));
  if (built != NULL && is_newer(path, built)) {
    cli_error("%s: is newer than %s; build the operator library", path, built);
    free(built);
    return NULL;
  }
  if (built != NULL) return built;
  *out_is_temp = true;
  char *output = cli_temp_create(".so");
  if (output == NULL) return NULL;
  const cli_compile_job job = {
      .sources = &path, .source_count = 1, .output = output};
  if (cli_compile(&job) == CLI_OK) return output;
  unlink(output);
  cli_temp_forget(output);
  return NULL;
}

void cli_module_close(cli_module *module) {
  if (module->module != NULL) opgraft_module_release(module->module);
  if (module->is_temp) unlink(module->object);
  if (module->object != NULL) cli_temp_forget(module->object);
  *module = (cli_module){0};
}

bool cli_module_open(const char *path, cli_module *out_module) {
  *out_module = (cli_module){.path = path};
  out_module->object = object_make(path, &out_module->is_temp);
  if (out_module->object == NULL) return false;
  out_module->module =
      object_load(out_module->object, path, &path, is_c_file(path));
  if (out_module->module != NULL) return true;
  cli_module_close(out_module);
  return false;
}

const opgraft_op *cli_op_find(const opgraft_module *module, const char *name) {
  if (name == NULL) return opgraft_module_op(module, 0);
  const opgraft_op *op = opgraft_module_find_op(module, name);
  if (op != NULL) return op;
  const int count = opgraft_module_op_count(module);
  const char **names = cli_alloc((size_t)count, sizeof *names);
  for (int i = 0; i < count; ++i)
    names[i] = opgraft_op_name(opgraft_module_op(module, i));
  const char *near = cli_nearest(name, names, count);
  cli_error("--op is '%s', which %s does not declare; %s %s", name,
            opgraft_module_name(module),
            near != NULL ? "did you mean" : "its first is",
            near != NULL ? near : names[0]);
  free(names);
  return NULL;
}
