// SPDX-License-Identifier: Apache-2.0
// opgraft run --bisect: which pass changes what a graph computes.
//
// The stages are: nothing (no pass, memory not shared, one thread), then each
// pass in its order on top of those before it, then the plan's sharing of
// memory, then threads, then lanes.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_file.h"

enum { STAGES_MAX = 64 };

typedef struct stage {
  const char *name;
  char *disable;   // passes that do not run yet
  uint32_t flags;  // OPGRAFT_HOST_*
  bool has_threads;
} stage;

// What a call left: its outputs, then its inputs, which it may have written.
typedef struct results {
  int32_t count, output_count;
  cli_tensor *tensors;  // memory NULL: none, or an integer
} results;

typedef struct bisection {
  const cli_args *args;
  const char *path;
  cli_inputs inputs;
  opgraft_host limits;
  double tolerance;
  stage stages[STAGES_MAX];
  int stage_count;
} bisection;

// --- Stages ------------------------------------------------------------------

// "cse, dce, reinplace": the passes from `first` on.
static char *passes_from(int32_t first) {
  char *text = cli_format("%s", "");
  for (int32_t i = first; opgraft_pass_name(i) != NULL; ++i) {
    char *longer =
        cli_format("%s%s%s", text, i > first ? ", " : "", opgraft_pass_name(i));
    free(text);
    text = longer;
  }
  return text;
}

static void stage_add(bisection *b, stage added) {
  if (b->stage_count < STAGES_MAX) b->stages[b->stage_count++] = added;
}

static void stages_make(bisection *b) {
  int32_t i = 0;
  stage_add(b, (stage){.name = "no pass",
                       .disable = passes_from(0),
                       .flags = OPGRAFT_HOST_UNSHARED});
  for (; opgraft_pass_name(i) != NULL; ++i)
    stage_add(b, (stage){.name = opgraft_pass_name(i),
                         .disable = passes_from(i + 1),
                         .flags = OPGRAFT_HOST_UNSHARED});
  stage_add(b, (stage){.name = "sharing of memory", .disable = passes_from(i)});
  stage_add(b, (stage){.name = "threads",
                       .disable = passes_from(i),
                       .has_threads = true});
  stage_add(b, (stage){.name = "lanes",
                       .disable = passes_from(i),
                       .flags = OPGRAFT_HOST_LANES_NOW,
                       .has_threads = true});
}

// --- One stage ---------------------------------------------------------------

static void results_reset(results *r) {
  for (int32_t i = 0; i < r->count; ++i) free(r->tensors[i].memory);
  free(r->tensors);
  *r = (results){0};
}

static void results_keep(const bisection *b, const cli_replay *replay,
                         results *out) {
  const int32_t outputs = replay->call.output_count;
  out->output_count = outputs;
  out->count = outputs + b->inputs.count;
  out->tensors = cli_alloc((size_t)out->count, sizeof *out->tensors);
  for (int32_t i = 0; i < outputs; ++i) {
    int64_t number;
    og_tensor tensor;
    if (cli_replay_output(replay, &b->inputs, i, &number, &tensor))
      cli_tensor_copy(&tensor, NULL, &out->tensors[i]);
  }
  for (int32_t i = 0; i < b->inputs.count; ++i)
    if (b->inputs.in[i] != NULL)
      cli_tensor_copy(b->inputs.in[i], NULL, &out->tensors[outputs + i]);
}

static bool executable_run(bisection *b, opgraft_graph *graph,
                           opgraft_executable *executable, results *out) {
  cli_replay replay;
  opgraft_error error;
  if (!cli_inputs_fresh(graph, &b->inputs) ||
      !cli_replay_begin(executable, &b->inputs, &replay))
    return false;
  const og_status status =
      opgraft_call_run(&replay.call, replay.storages, &error);
  if (status == OG_OK)
    results_keep(b, &replay, out);
  else
    cli_library_error(&error);
  cli_replay_end(&replay);
  return status == OG_OK;
}

static bool stage_run(bisection *b, const stage *s, results *out) {
  opgraft_host host = b->limits;
  host.flags = s->flags;
  host.threads = s->has_threads ? 0 : 1;
  *out = (results){0};
  opgraft_graph *graph = cli_graph_open(b->path, b->args);
  if (graph == NULL) return false;
  const opgraft_options options = {.struct_size = sizeof options,
                                   .disable = s->disable};
  opgraft_executable *executable =
      cli_executable_create(graph, &options, &host);
  const bool is_right =
      executable != NULL && executable_run(b, graph, executable, out);
  opgraft_executable_release(executable);
  opgraft_graph_release(graph);
  return is_right;
}

// --- Comparing ---------------------------------------------------------------

// The largest difference of two numbers at one place; NaN equals NaN.
static double difference(const og_tensor *a, const og_tensor *b) {
  const int64_t count = cli_tensor_count(a);
  if (count != cli_tensor_count(b)) return INFINITY;
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = cli_tensor_number(a, i), y = cli_tensor_number(b, i);
    if (x == y || (isnan(x) && isnan(y))) continue;
    const double apart = fabs(x - y);
    most = isnan(apart) ? INFINITY : fmax(most, apart);
  }
  return most;
}

// The first result that is further off than allowed, or -1.
static int32_t results_compare(const bisection *b, const results *wanted,
                               const results *found, double *out_apart) {
  for (int32_t i = 0; i < wanted->count; ++i) {
    const cli_tensor *a = &wanted->tensors[i], *c = &found->tensors[i];
    if (a->memory == NULL && c->memory == NULL) continue;
    *out_apart = a->memory == NULL || c->memory == NULL
                     ? (double)INFINITY
                     : difference(&a->tensor, &c->tensor);
    if (*out_apart > b->tolerance) return i;
  }
  return -1;
}

// "wrong: changes output 0 by 4"
static void change_print(const char *name, const results *r, int32_t result,
                         double apart) {
  const bool is_output = result < r->output_count;
  printf("%s: changes %s %d by %g\n", name,
         is_output ? "output" : "what is written to input",
         (int)(is_output ? result : result - r->output_count), apart);
}

static int stages_compare(bisection *b, const results *wanted) {
  cli_progress bar = {.label = "bisect"};
  for (int i = 1; i < b->stage_count; ++i) {
    const stage *s = &b->stages[i];
    results found;
    double apart = 0;
    cli_progress_set(&bar, i, b->stage_count);
    const bool is_right = stage_run(b, s, &found);
    const int32_t result =
        is_right ? results_compare(b, wanted, &found, &apart) : -1;
    results_reset(&found);
    if (is_right && result < 0) continue;
    cli_progress_clear(&bar);
    if (!is_right)
      printf("%s: the graph fails with it, and runs without\n", s->name);
    else
      change_print(s->name, wanted, result, apart);
    return CLI_FINDINGS;
  }
  cli_progress_clear(&bar);
  printf("no pass changes a result by more than %g\n", b->tolerance);
  return CLI_OK;
}

static bool tolerance_read(const cli_args *args, double *out) {
  const char *text = cli_value_of(args, "tolerance");
  char *end = NULL;
  *out = 0;
  if (text == NULL) return true;
  *out = strtod(text, &end);
  if (end != text && *end == '\0' && *out >= 0) return true;
  cli_error("run: --tolerance is '%s', expected a number from 0", text);
  return false;
}

int cli_bisect(const cli_args *args, const char *path) {
  bisection b = {
      .args = args, .path = path, .limits = {.struct_size = sizeof b.limits}};
  results wanted = {0};
  if (!tolerance_read(args, &b.tolerance) || !cli_limits_read(args, &b.limits))
    return CLI_FAILED;
  opgraft_graph *graph = cli_graph_open(path, args);
  if (graph == NULL) return CLI_FAILED;
  const bool has_inputs = cli_inputs_read(graph, args, &b.inputs);
  opgraft_graph_release(graph);
  if (!has_inputs) return CLI_FAILED;
  b.inputs.max_bytes = b.limits.max_bytes;
  stages_make(&b);
  int result = CLI_FAILED;
  if (stage_run(&b, &b.stages[0], &wanted))
    result = stages_compare(&b, &wanted);
  results_reset(&wanted);
  for (int i = 0; i < b.stage_count; ++i) free(b.stages[i].disable);
  cli_inputs_reset(&b.inputs);
  return result;
}
