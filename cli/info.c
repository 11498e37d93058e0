// SPDX-License-Identifier: Apache-2.0
// opgraft info: what a bug report needs first.

#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli.h"

#ifndef OPGRAFT_VERSION
#define OPGRAFT_VERSION "unknown"
#endif

static const cli_option options[] = {
    {"json", NULL, "print one JSON object", 0},
    {"no-python", NULL, "do not ask the Python beside the program", 0},
    {"prefix", NULL, "print only what CMAKE_PREFIX_PATH wants", 0},
    {0},
};

typedef struct facts {
  char *system;
  char *machine_isa;
  char *asked_isa;  // OPGRAFT_ISA, or NULL
  const char *isa;
  int processors;
  char *compiler;  // NULL: none
  char *compiler_version;
  char *include;  // NULL: none
  const char *python;
  char *python_facts;  // JSON, or NULL
} facts;

// --- Finding out -------------------------------------------------------------

static char *machine_sets(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  char *bytes = NULL;
  size_t size = 0;
  FILE *to = cli_memory_open(&bytes, &size);
  __builtin_cpu_init();
#define SET(name) \
  if (__builtin_cpu_supports(name)) fprintf(to, " %s", name);
  SET("sse4.2")
  SET("avx")
  SET("avx2")
  SET("fma")
  SET("avx512f")
  SET("avx512bw")
  SET("avx512dq")
  SET("avx512vl")
  SET("avx512vnni")
  SET("avx512bf16")
#undef SET
  fclose(to);
  char *text = cli_format("%s", size > 0 ? bytes + 1 : "none known");
  free(bytes);
  return text;
#else
  return cli_format("not an x86-64 machine");
#endif
}

static int processor_count(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static char *first_line(char *text) {
  if (text != NULL) text[strcspn(text, "\r\n")] = '\0';
  return text;
}

static void compiler_ask(facts *f) {
  char **words = cli_compiler_find(NULL);
  if (words == NULL) return;
  int count = 0;
  while (words[count] != NULL) ++count;
  f->compiler = cli_program_find(words[0]);
  char **argv = cli_alloc((size_t)count + 2, sizeof *argv);
  memcpy(argv, words, (size_t)count * sizeof *argv);
  argv[count] = cli_format("--version");
  if (cli_process_capture(argv, true, &f->compiler_version) == 0)
    first_line(f->compiler_version);
  free(argv[count]);
  free(argv);
  for (int i = 0; i < count; ++i) free(words[i]);
  free(words);
}

// `python -m opgraft.info --json`: torch's version, the ABI symbols that were
// found, the fast path's self-test.
static void python_ask(facts *f) {
  f->python = cli_python();
  if (f->python == NULL) return;
  const char *argv[] = {f->python, "-m", "opgraft.info", "--json", NULL};
  char *text = NULL;
  const int status =
      cli_process_capture((char *const *)(uintptr_t)argv, true, &text);
  cli_node *parsed =
      status == 0 ? cli_json_parse(text, strlen(text), NULL) : NULL;
  if (parsed != NULL && parsed->kind == CLI_MAP)
    f->python_facts = text;
  else
    free(text);
  cli_node_destroy(parsed);
}

// The headers' folder without a word about a missing one: info only reports.
static char *include_ask(void) {
  const char *folder = cli_include_folder();
  return folder != NULL ? cli_format("%s", folder) : NULL;
}

static void facts_gather(facts *f, bool asks_python) {
  struct utsname system;
  *f = (facts){.isa = opgraft_isa(), .processors = processor_count()};
  if (uname(&system) == 0)
    f->system =
        cli_format("%s %s %s", system.sysname, system.release, system.machine);
  f->machine_isa = machine_sets();
  const char *asked = getenv("OPGRAFT_ISA");
  if (asked != NULL && asked[0] != '\0') f->asked_isa = cli_format("%s", asked);
  f->include = include_ask();
  compiler_ask(f);
  if (asks_python) python_ask(f);
}

static void facts_reset(facts *f) {
  free(f->system);
  free(f->machine_isa);
  free(f->asked_isa);
  free(f->compiler);
  free(f->compiler_version);
  free(f->include);
  free(f->python_facts);
}

static bool is_isa_known(const char *name) {
  static const char *const names[] = {"scalar", "avx2", "avx512", "avx512_bf16",
                                      "amx_bf16"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

// --- Printing ----------------------------------------------------------------

static void json_field(const char *name, const char *text) {
  printf(",\n \"%s\": ", name);
  if (text != NULL)
    cli_json_string(stdout, text);
  else
    fputs("null", stdout);
}

static void json_print(const facts *f) {
  printf("{\"version\": \"%s\",\n \"abi_version\": %u", OPGRAFT_VERSION,
         (unsigned)opgraft_abi_version());
  json_field("system", f->system);
  json_field("instruction_sets", f->machine_isa);
  json_field("opgraft_isa", f->asked_isa);
  json_field("isa", f->isa);
  printf(",\n \"processors\": %d", f->processors);
  json_field("compiler", f->compiler);
  json_field("compiler_version", f->compiler_version);
  json_field("include", f->include);
  json_field("python", f->python);
  printf(",\n \"torch_host\": %s}\n",
         f->python_facts != NULL ? f->python_facts : "null");
}

static void line(const char *name, const char *text) {
  printf("%s%-17s%s%s%s\n", cli_paint(stdout, CLI_BOLD), name,
         cli_paint(stdout, CLI_PLAIN), text[0] != '\0' ? " " : "", text);
}

// One entry of the Python side's facts, "a.b" for nested ones.
static void node_print(const cli_node *node, const char *prefix) {
  char *name = prefix[0] != '\0' ? cli_format("%s.%s", prefix, node->key)
                                 : cli_format("%s", node->key);
  if (node->kind == CLI_MAP) {
    for (const cli_node *n = node->first; n != NULL; n = n->next)
      node_print(n, name);
  } else if (node->kind == CLI_LIST) {
    printf("  %-28s%s", name, node->first == NULL ? " none" : "");
    for (const cli_node *n = node->first; n != NULL; n = n->next)
      printf(" %s", n->text != NULL ? n->text : "...");
    putchar('\n');
  } else {
    printf("  %-28s %s\n", name, node->text);
  }
  free(name);
}

static void python_print(const facts *f) {
  if (f->python == NULL) {
    line("python", "none beside the program, in VIRTUAL_ENV or on PATH");
    return;
  }
  line("python", f->python);
  if (f->python_facts == NULL) {
    line("torch host",
         "unknown: `python -m opgraft.info` did not answer; is the package "
         "installed for this Python?");
    return;
  }
  cli_node *parsed =
      cli_json_parse(f->python_facts, strlen(f->python_facts), NULL);
  line("torch host", "");
  for (const cli_node *n = parsed->first; n != NULL; n = n->next)
    node_print(n, "");
  cli_node_destroy(parsed);
}

static void text_print(const facts *f, bool asks_python) {
  char *version = cli_format("%s, ABI version %u", OPGRAFT_VERSION,
                             (unsigned)opgraft_abi_version());
  char *threads = cli_format("%d", f->processors);
  char *isa = cli_format(
      "%s%s%s%s", f->isa, f->asked_isa != NULL ? " (OPGRAFT_ISA=" : "",
      f->asked_isa != NULL ? f->asked_isa : "",
      f->asked_isa == NULL ? ""
      : is_isa_known(f->asked_isa)
          ? ")"
          : ", which is not an instruction set: loading a module fails)");
  line("opgraft", version);
  line("system", f->system != NULL ? f->system : "unknown");
  line("instruction sets", f->machine_isa);
  line("kernels may use", isa);
  line("processors", threads);
  line("compiler", f->compiler != NULL ? f->compiler : "none found");
  if (f->compiler_version != NULL) line("", f->compiler_version);
  line("headers", f->include != NULL ? f->include : "none found");
  if (asks_python) python_print(f);
  free(version);
  free(threads);
  free(isa);
}

// <prefix>/include is where the headers are.
static int prefix_print(void) {
  const char *include = cli_include_folder();
  if (include == NULL) return CLI_FAILED;
  char *prefix = cli_format("%s", include);
  char *slash = strrchr(prefix, '/');
  if (slash != NULL) *slash = '\0';
  char *config =
      cli_format("%s/lib/cmake/opgraft/opgraft-config.cmake", prefix);
  if (cli_is_file(config))
    puts(prefix);
  else
    cli_error(
        "%s is missing: this opgraft runs from its source tree; install "
        "it, or give CMake the build folder as opgraft_DIR",
        config);
  const int result = cli_is_file(config) ? CLI_OK : CLI_FAILED;
  free(config);
  free(prefix);
  return result;
}

static int info_run(const cli_args *args) {
  if (args->operand_count > 0)
    return cli_error("info: takes no operand, found '%s'", args->operands[0]);
  if (cli_has(args, "prefix")) return prefix_print();
  const bool asks_python = !cli_has(args, "no-python");
  facts f;
  facts_gather(&f, asks_python);
  if (cli_has(args, "json"))
    json_print(&f);
  else
    text_print(&f, asks_python);
  facts_reset(&f);
  return CLI_OK;
}

const cli_command cli_command_info = {
    .name = "info",
    .summary = "print versions, instruction sets, compiler and torch",
    .usage = "[--json] [--no-python]",
    .text =
        "Prints what a bug report needs first: the library's and its ABI's "
        "version, what the\nmachine has and what OPGRAFT_ISA leaves of it, "
        "the compiler, and, from the Python\nbeside the program, torch's "
        "version, which of its symbols were found and whether\nthe fast "
        "road passed its self-test.",
    .examples =
        "  opgraft info\n"
        "  opgraft info --json --no-python\n"
        "  cmake -B build -DCMAKE_PREFIX_PATH=\"$(opgraft info "
        "--prefix)\"",
    .options = options,
    .run = info_run,
};
