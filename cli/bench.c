// SPDX-License-Identifier: Apache-2.0
// opgraft bench: what a call of each operator costs.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "measure.h"

static const cli_option options[] = {
    {"op", "NAME", "only this operator", 0},
    {"size", "[DIM=]N", "size of all named dims, or of one; 256, packs 1024",
     0},
    {"reference", "FILE.so",
     "also time the operators of the same names there, in turns", 0},
    {"threads", "N", "threads of parallel loops; one per processor", 0},
    {"time", "MS", "for each line of the report; 300", 0},
    {"json", NULL, "print one JSON object", 0},
    {0},
};

// --- The report --------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct figures {
  double min_ns;
  double median_ns;
  double gb_per_s;  // at the median
} figures;

static figures figures_of(const bench_case *c, case_result *result) {
  const int32_t count = result->block_count;
  qsort(result->block_ns, (size_t)count, sizeof(double), by_value);
  figures f = {.min_ns = result->block_ns[0],
               .median_ns = result->block_ns[count / 2]};
  f.gb_per_s = f.median_ns > 0 ? (double)c->bytes / f.median_ns : 0;
  return f;
}

// Why a case has no figures, NULL if it has them.
static char *case_failure(const bench_case *c, const case_result *result) {
  if (c->sample == NULL) return cli_format("%s", c->error.text);
  if (result->state == CASE_REFUSED) return cli_format("%s", result->text);
  if (result->state != CASE_DIED) return NULL;
  if (result->died_of == SIGALRM)
    return cli_format("%s: one call took longer than %d s",
                      opgraft_op_name(c->op), HANG_SECONDS);
  return cli_format("%s: the kernel crashed (%s); `opgraft check` says more",
                    opgraft_op_name(c->op), strsignal(result->died_of));
}

static void case_text(const bench_case *c, case_result *result) {
  printf("%s%s%s%s", c->is_reference ? "  reference: " : "\n",
         cli_paint(stdout, CLI_BOLD), opgraft_op_name(c->op),
         cli_paint(stdout, CLI_PLAIN));
  if (c->sample != NULL) printf("(%s)", opgraft_sample_text(c->sample));
  putchar('\n');
  char *failure = case_failure(c, result);
  if (failure != NULL) {
    printf("  %s%s%s\n", cli_paint(stdout, CLI_YELLOW), failure,
           cli_paint(stdout, CLI_PLAIN));
    free(failure);
    return;
  }
  const figures f = figures_of(c, result);
  fputs("  min ", stdout);
  cli_print_time(stdout, f.min_ns);
  fputs(", median ", stdout);
  cli_print_time(stdout, f.median_ns);
  printf(", %.3g GB/s of ", f.gb_per_s);
  cli_print_bytes(stdout, (double)c->bytes);
  printf("; kernel: %s\n", c->kernel);
}

static void case_json(const bench_case *c, case_result *result) {
  char *failure = case_failure(c, result);
  printf("{\"op\": \"%s\", \"call\": ", opgraft_op_name(c->op));
  cli_json_string(stdout, c->sample ? opgraft_sample_text(c->sample) : "");
  fputs(", \"kernel\": ", stdout);
  cli_json_string(stdout, c->kernel);
  printf(", \"reference\": %s, \"bytes\": %lld, \"failure\": ",
         c->is_reference ? "true" : "false", (long long)c->bytes);
  if (failure != NULL) {
    cli_json_string(stdout, failure);
    fputs(
        ", \"blocks\": 0, \"min_ns\": null, \"median_ns\": null, "
        "\"gb_per_s\": null}",
        stdout);
  } else {
    const figures f = figures_of(c, result);
    printf(
        "null, \"blocks\": %d, \"min_ns\": %.1f, \"median_ns\": %.1f, "
        "\"gb_per_s\": %.4g}",
        (int)result->block_count, f.min_ns, f.median_ns, f.gb_per_s);
  }
  free(failure);
}

static int bench_report(bench *b, bool is_json) {
  bool has_failed = false;
  if (is_json)
    printf("{\"isa\": \"%s\", \"threads\": %d, \"cases\": [\n", opgraft_isa(),
           (int)b->threads);
  else
    printf(
        "kernels may use %s; %d thread%s; %d blocks of %lld ms each, in "
        "turns\n",
        opgraft_isa(), (int)b->threads, cli_plural(b->threads), BLOCKS,
        (long long)(b->time_ms / BLOCKS));
  for (int32_t i = 0; i < b->count; ++i) {
    case_result *result = &b->found->result[i];
    has_failed |= result->state != CASE_DONE;
    if (!is_json) {
      case_text(&b->cases[i], result);
      continue;
    }
    if (i > 0) fputs(",\n", stdout);
    case_json(&b->cases[i], result);
  }
  if (is_json) puts("\n]}");
  return has_failed ? CLI_FINDINGS : CLI_OK;
}

// --- The command -------------------------------------------------------------

static bool size_read(bench *b, const char *text) {
  const char *equals = strchr(text, '=');
  const char *number = equals != NULL ? equals + 1 : text;
  char *end;
  errno = 0;
  const long long size = strtoll(number, &end, 10);
  if (errno != 0 || end == number || *end != '\0' || size < 1 ||
      size > (1LL << 40)) {
    cli_error("bench: --size is '%s', expected N or DIM=N with N from 1", text);
    return false;
  }
  if (equals == NULL) {
    b->options.size = b->options.pack_size = size;
    return true;
  }
  if (b->options.dim_count == DIMS_MAX) {
    cli_error("bench: more than %d dims with a --size", DIMS_MAX);
    return false;
  }
  b->dim_names[b->options.dim_count] =
      cli_strndup(text, (size_t)(equals - text));
  b->dim_sizes[b->options.dim_count++] = size;
  return true;
}

static bool options_read(bench *b, const cli_args *args) {
  int64_t threads;
  if (!cli_number_of(args, "threads", 1, 1024, 0, &threads) ||
      !cli_number_of(args, "time", 15, 3600000, 300, &b->time_ms))
    return false;
  b->threads = (int32_t)threads;
  b->options = (opgraft_sample_options){.struct_size = sizeof b->options,
                                        .dim_names = b->dim_names,
                                        .dim_sizes = b->dim_sizes};
  // Who names a size means it.
  if (cli_has(args, "size")) b->options.element_limit = (int64_t)1 << 28;
  for (int i = 0; i < args->given_count; ++i)
    if (strcmp(args->given[i].option->name, "size") == 0 &&
        !size_read(b, args->given[i].value))
      return false;
  if (b->threads > 0) return true;
  opgraft_team *team;
  opgraft_error error;
  if (opgraft_team_create(0, &team, &error) != OG_OK) {
    cli_library_error(&error);
    return false;
  }
  b->threads = opgraft_team_threads(team);
  opgraft_team_destroy(team);
  return true;
}

static bool has_dim(const opgraft_op *op, const char *name) {
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  for (int32_t d = 0; opgraft_op_get_dim(op, d, &dim) == OG_OK; ++d)
    if (strcmp(dim.name, name) == 0) return true;
  return false;
}

// A misspelt dim would otherwise be passed over without a word.
static bool dims_check(const bench *b, const opgraft_module *module,
                       const opgraft_op *wanted) {
  for (int32_t i = 0; i < b->options.dim_count; ++i) {
    bool is_found = false;
    for (int32_t o = 0; o < opgraft_module_op_count(module); ++o) {
      const opgraft_op *op = opgraft_module_op(module, o);
      if (wanted == NULL || op == wanted)
        is_found |= has_dim(op, b->dim_names[i]);
    }
    if (is_found) continue;
    cli_error(
        "bench: --size names the dim '%s', which no operator's shape "
        "rule has",
        b->dim_names[i]);
    return false;
  }
  return true;
}

static int module_bench(bench *b, const cli_args *args,
                        const opgraft_module *module,
                        const opgraft_module *reference) {
  const char *name = cli_value_of(args, "op");
  const opgraft_op *wanted = NULL;
  if (name != NULL && (wanted = cli_op_find(module, name)) == NULL)
    return CLI_FAILED;
  if (!dims_check(b, module, wanted)) return CLI_FAILED;
  bench_cases_make(b, module, wanted, reference);
  const size_t bytes =
      sizeof *b->found + (size_t)b->count * sizeof *b->found->result;
  b->found = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b->found == MAP_FAILED)
    return cli_error("bench: not enough memory for %d lines", (int)b->count);
  int result = bench_measure(b);
  if (result == CLI_OK) result = bench_report(b, cli_has(args, "json"));
  munmap(b->found, bytes);
  return result;
}

static int bench_run(const cli_args *args) {
  bench b = {0};
  cli_module module, beside = {0};
  const char *path = cli_only_operand(args, "a module or C file");
  const char *reference = cli_value_of(args, "reference");
  if (path == NULL || !options_read(&b, args)) return CLI_FAILED;
  if (!cli_module_open(path, &module)) return CLI_FAILED;
  const int result = reference != NULL && !cli_module_open(reference, &beside)
                         ? CLI_FAILED
                         : module_bench(&b, args, module.module, beside.module);
  bench_cases_reset(&b);
  for (int32_t i = 0; i < b.options.dim_count; ++i)
    free((void *)(uintptr_t)b.dim_names[i]);
  cli_module_close(&module);
  cli_module_close(&beside);
  return result;
}

const cli_command cli_command_bench = {
    .name = "bench",
    .summary = "time each operator on sampled calls",
    .usage = "FILE.so|FILE.c [OPTIONS]",
    .text =
        "Times calls (matching, inference, choice of the kernel and the kernel "
        "itself) on shapes\nthat the shape rule allows, once for each "
        "combination of types, in a process of their\nown. Blocks of all lines "
        "are run in turns. The bytes of GB/s are those of all\narguments and "
        "results, once each. Exit 1: a line has no figures.",
    .examples =
        "  opgraft bench norms.c\n"
        "  opgraft bench norms.so --op rms_norm --size N=4096 --size "
        "D=768\n"
        "  opgraft bench norms.c --reference norms.so\n"
        "  OPGRAFT_ISA=scalar opgraft bench norms.so --threads 1",
    .options = options,
    .operand = CLI_OPERAND_MODULE,
    .run = bench_run,
};
