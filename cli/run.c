// SPDX-License-Identifier: Apache-2.0
// opgraft run: a graph file on inputs from .npy files, without a host.

#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "clock.h"
#include "graph_file.h"

static const cli_option options[] = {
    {"in", "[NAME=]FILE", "an input's .npy file, or NAME=NUMBER", 'i'},
    {"out", "FILE", "the next output's .npy file", 'o'},
    {"module", "FILE", "a module (or C file) with operators of the graph", 'm'},
    {"threads", "N", "threads to use (as many as the machine has)", 't'},
    {"lanes", "N", "run independent parts at once in up to N lanes; 1: never",
     0},
    {"repeat", "N", "run N times (1) and print the time of a call", 'n'},
    {"profile", NULL, "print the nodes by time, with source lines", 0},
    {"top", "N", "lines of the profile (20); 0: all", 0},
    {"plain", NULL,
     "run the graph as its text says: no pass, no plan, no shared memory", 0},
    {"max-bytes", "N", "most memory for a call (3/4 of the machine's)", 0},
    {"max-work", "N", "most operations of a call, roughly (10^13)", 0},
    {"choose", "FILE", "which kernel runs which node, as --rules writes it", 0},
    {"rules", "FILE", "write which kernel ran which node, and why; -: print it",
     0},
    {"mode", "MODE", "max-autotune (fused loops), or reduce-overhead", 0},
    {"precision", "TYPE", "of contractions: f32, bf16; int8, int4 (weights)",
     0},
    {"disable", "PASSES", "leave out these passes, as in cse,reinplace", 0},
    {"bisect", NULL, "name the first pass that changes the results", 0},
    {"tolerance", "X", "largest difference that --bisect lets pass (0)", 0},
    {"json", NULL, "print one JSON object", 0},
    {0},
};

typedef struct job {
  const cli_args *args;
  const char *path;
  opgraft_graph *graph;
  opgraft_executable *executable;
  opgraft_host host;
  cli_inputs inputs;
  cli_replay replay;
  opgraft_plain *plain;  // of --plain, else NULL
  int32_t output_count;
  const char **output_names;  // as the file has them: passes replace values
  int64_t repeat, top;
  uint32_t mode;     // OPGRAFT_OPTION_*
  int64_t *call_ns;  // by call
  int64_t *step_ns;  // by step, all calls together; NULL without --profile
} job;

// --- Outputs -----------------------------------------------------------------

static void output_begin(const job *j, int32_t index) {
  const char *name = j->output_names[index];
  printf("output %d", (int)index);
  if (name != NULL) printf(" (%s)", name);
  fputs(": ", stdout);
}

static void output_describe(const og_tensor *tensor) {
  const int64_t count = cli_tensor_count(tensor);
  int64_t unordered = 0;
  double least = INFINITY, most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double number = cli_tensor_number(tensor, i);
    unordered += isnan(number) != 0;
    if (isnan(number)) continue;
    least = fmin(least, number);
    most = fmax(most, number);
    sum += number;
  }
  cli_tensor_print(stdout, tensor);
  if (count == 1)
    printf(" = %g", cli_tensor_number(tensor, 0));
  else if (count > unordered)
    printf(", least %g, mean %g, most %g", least,
           sum / (double)(count - unordered), most);
  if (unordered > 0 && count > 1) printf(", %lld nan", (long long)unordered);
  putchar('\n');
}

static bool output_get(const job *j, int32_t index, int64_t *number,
                       og_tensor *out) {
  return j->plain != NULL
             ? cli_plain_output(j->plain, index, number, out)
             : cli_replay_output(&j->replay, &j->inputs, index, number, out);
}

static void on_npy(void *user, const char *bytes, size_t length) {
  fwrite(bytes, 1, length, user);
}

static bool npy_write(const char *path, const og_tensor *tensor) {
  cli_target target;
  opgraft_error error;
  if (!cli_target_begin(path, &target)) return false;
  FILE *to = fopen(target.temp, "wbe");
  bool is_right = to != NULL;
  const og_status status =
      is_right ? opgraft_npy_print(tensor, on_npy, to, &error) : OG_IO;
  if (to != NULL) {
    is_right = !ferror(to);
    is_right = fclose(to) == 0 && is_right;
  }
  if (!is_right) cli_error("%s: could not write: %s", path, strerror(errno));
  if (is_right && status != OG_OK) cli_error("%s: %s", path, error.text);
  return cli_target_end(&target, is_right && status == OG_OK, false);
}

// The files that --out names, in order; the others are described.
static bool outputs_give(const job *j) {
  const int32_t count = j->output_count;
  int32_t index = 0;
  for (int i = 0; i < j->args->given_count; ++i) {
    int64_t number;
    og_tensor tensor;
    if (strcmp(j->args->given[i].option->name, "out") != 0) continue;
    const char *path = j->args->given[i].value;
    if (index == count) {
      cli_error("run: --out %s is one too many: the graph has %d output%s",
                path, (int)count, cli_plural(count));
      return false;
    }
    if (!output_get(j, index, &number, &tensor)) {
      cli_error("run: output %d has no tensor, so nothing can be written to %s",
                (int)index, path);
      return false;
    }
    if (!npy_write(path, &tensor)) return false;
    ++index;
  }
  for (; index < count && !cli_has(j->args, "json"); ++index) {
    int64_t number;
    og_tensor tensor;
    output_begin(j, index);
    if (output_get(j, index, &number, &tensor))
      output_describe(&tensor);
    else
      puts("none");
  }
  return true;
}

// --- Times -------------------------------------------------------------------

static int by_number(const void *x, const void *y) {
  const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

static void times_print(job *j) {
  qsort(j->call_ns, (size_t)j->repeat, sizeof *j->call_ns, by_number);
  printf("%lld call%s: least ", (long long)j->repeat, cli_plural(j->repeat));
  cli_print_time(stdout, (double)j->call_ns[0]);
  fputs(", median ", stdout);
  cli_print_time(stdout, (double)j->call_ns[j->repeat / 2]);
  putchar('\n');
}

typedef struct row {
  opgraft_step step;
  int64_t time_ns;
} row;

static int by_time(const void *x, const void *y) {
  const row *a = x, *b = y;
  return (a->time_ns < b->time_ns) - (a->time_ns > b->time_ns);
}

static row *rows_make(const job *j, int32_t *out_count, int64_t *out_total) {
  const opgraft_call *call = &j->replay.call;
  *out_count = opgraft_call_step_count(call);
  *out_total = 0;
  row *rows = cli_alloc((size_t)*out_count, sizeof *rows);
  for (int32_t i = 0; i < *out_count; ++i) {
    rows[i].step.struct_size = sizeof rows[i].step;
    opgraft_call_step(call, i, &rows[i].step, NULL);
    rows[i].time_ns = j->step_ns[i];
    *out_total += j->step_ns[i];
  }
  qsort(rows, (size_t)*out_count, sizeof *rows, by_time);
  return rows;
}

static void row_print(const row *r, int64_t repeat, int64_t total) {
  const double mean = (double)r->time_ns / (double)repeat;
  const double share =
      total > 0 ? 100.0 * (double)r->time_ns / (double)total : 0;
  printf("%10.1f %6.1f %8.2f  %-24s", mean / 1000, share,
         mean > 0 ? (double)r->step.bytes / mean : 0, r->step.name);
  if (r->step.result != NULL)
    printf(" %%%-12s", r->step.result);
  else
    printf(" %-13s", "");
  if (r->step.file != NULL) printf(" %s", r->step.file);
  if (r->step.line > 0) printf(":%d", (int)r->step.line);
  putchar('\n');
}

static void profile_print(const job *j) {
  int32_t count;
  int64_t total, rest = 0;
  row *rows = rows_make(j, &count, &total);
  const int32_t shown = j->top > 0 && j->top < count ? (int32_t)j->top : count;
  printf("%s%10s %6s %8s  %-24s %-13s %s%s\n", cli_paint(stdout, CLI_BOLD),
         "us a call", "%", "GB/s", "node", "result", "source",
         cli_paint(stdout, CLI_PLAIN));
  for (int32_t i = 0; i < shown; ++i) row_print(&rows[i], j->repeat, total);
  for (int32_t i = shown; i < count; ++i) rest += rows[i].time_ns;
  if (shown < count)
    printf("%10.1f %6.1f %8s  %d more\n",
           (double)rest / (double)j->repeat / 1000,
           total > 0 ? 100.0 * (double)rest / (double)total : 0, "",
           (int)(count - shown));
  free(rows);
}

static void profile_json(const job *j) {
  int32_t count;
  int64_t total;
  row *rows = rows_make(j, &count, &total);
  fputs(", \"steps\": [", stdout);
  for (int32_t i = 0; i < count; ++i) {
    const opgraft_step *step = &rows[i].step;
    printf("%s\n{\"name\": ", i > 0 ? "," : "");
    cli_json_string(stdout, step->name);
    fputs(", \"result\": ", stdout);
    cli_json_string(stdout, step->result != NULL ? step->result : "");
    fputs(", \"file\": ", stdout);
    cli_json_string(stdout, step->file != NULL ? step->file : "");
    printf(", \"line\": %d, \"bytes\": %lld, \"time_ns\": %.1f}",
           (int)step->line, (long long)step->bytes,
           (double)rows[i].time_ns / (double)j->repeat);
  }
  fputs("]", stdout);
  free(rows);
}

static void json_print(job *j) {
  qsort(j->call_ns, (size_t)j->repeat, sizeof *j->call_ns, by_number);
  printf("{\"calls\": %lld, \"min_ns\": %lld, \"median_ns\": %lld, \"stats\": ",
         (long long)j->repeat, (long long)j->call_ns[0],
         (long long)j->call_ns[j->repeat / 2]);
  const size_t length = opgraft_executable_describe(j->executable, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  opgraft_executable_describe(j->executable, text, length + 1);
  fputs(text, stdout);
  free(text);
  if (j->step_ns != NULL) profile_json(j);
  puts("}");
}

// --- Running -----------------------------------------------------------------

static bool call_once(job *j, int64_t index) {
  opgraft_error error;
  const int64_t begun = cli_now_ns();
  const og_status status =
      j->step_ns != NULL
          ? opgraft_call_profile(&j->replay.call, j->replay.storages,
                                 j->step_ns, &error)
          : opgraft_call_run(&j->replay.call, j->replay.storages, &error);
  j->call_ns[index] = cli_now_ns() - begun;
  if (status != OG_OK) cli_library_error(&error);
  return status == OG_OK;
}

// The outputs are those of the first call: a graph may write to its inputs.
static bool calls_run(job *j) {
  cli_progress bar = {.label = "run"};
  if (!call_once(j, 0) || !outputs_give(j)) return false;
  if (j->repeat > 1 && j->step_ns != NULL)  // the first call warmed up
    memset(
        j->step_ns, 0,
        (size_t)opgraft_call_step_count(&j->replay.call) * sizeof *j->step_ns);
  bool is_right = true;
  for (int64_t i = j->repeat > 1 ? 0 : 1; is_right && i < j->repeat; ++i) {
    is_right = call_once(j, i);
    cli_progress_set(&bar, i, j->repeat);
  }
  cli_progress_clear(&bar);
  return is_right;
}

// What int8 or int4 has done to the weights.
static void precision_say(const job *j) {
  const char *name = cli_value_of(j->args, "precision");
  if (name == NULL || strncmp(name, "int", 3) != 0) return;
  cli_node *tree = cli_described(j->executable);
  const long long count = cli_node_int(tree, "quantised_weights", 0);
  cli_note("%s: %lld weight%s, off by %.3f %% at most", name, count,
           count == 1 ? "" : "s",
           100 * strtod(cli_node_get(tree, "quantised_error")->text, NULL));
  cli_node_destroy(tree);
}

static int job_report(job *j) {
  precision_say(j);
  if (cli_has(j->args, "json")) {
    json_print(j);
    return CLI_OK;
  }
  if (j->repeat > 1 || j->step_ns != NULL) times_print(j);
  if (j->step_ns != NULL) profile_print(j);
  return CLI_OK;
}

static int job_run(job *j) {
  if (!cli_inputs_read(j->graph, j->args, &j->inputs)) return CLI_FAILED;
  j->inputs.max_bytes = j->host.max_bytes;
  int result = CLI_FAILED;
  if (cli_inputs_fresh(j->graph, &j->inputs) &&
      cli_replay_begin(j->executable, &j->inputs, &j->replay)) {
    j->call_ns = cli_alloc((size_t)j->repeat, sizeof *j->call_ns);
    if (cli_has(j->args, "profile"))
      j->step_ns = cli_alloc((size_t)opgraft_call_step_count(&j->replay.call),
                             sizeof *j->step_ns);
    if (calls_run(j)) result = job_report(j);
    cli_replay_end(&j->replay);
  }
  cli_inputs_reset(&j->inputs);
  free(j->call_ns);
  free(j->step_ns);
  return result;
}

static int plain_run(job *j) {
  static const char *const others[] = {
      "repeat", "profile", "json",  "disable", "threads",
      "lanes",  "choose",  "rules", "mode",    "precision"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    if (cli_has(j->args, others[i]))
      return cli_error("run: --plain and --%s exclude each other", others[i]);
  if (!cli_inputs_read(j->graph, j->args, &j->inputs)) return CLI_FAILED;
  j->plain = cli_plain_run(j->graph, &j->inputs, &j->host);
  const bool is_right = j->plain != NULL && outputs_give(j);
  opgraft_plain_destroy(j->plain);
  cli_inputs_reset(&j->inputs);
  return is_right ? CLI_OK : CLI_FAILED;
}

static bool rules_write(const job *j, const char *path) {
  char *text = cli_rules_text(j->executable);
  const bool is_written = strcmp(path, "-") == 0
                              ? fputs(text, stdout) >= 0
                              : cli_file_write(path, text, strlen(text));
  free(text);
  return is_written;
}

static int planned_run(job *j) {
  const char *choose = cli_value_of(j->args, "choose");
  const char *rules = cli_value_of(j->args, "rules");
  char *text = NULL;
  size_t size;
  if (choose != NULL && (text = cli_file_read(choose, &size)) == NULL)
    return CLI_FAILED;
  if (text != NULL && strlen(text) != size) {
    free(text);
    return cli_error("%s: holds a byte 0, expected a text file", choose);
  }
  j->host.rules = text;
  const opgraft_options wanted = {.struct_size = sizeof wanted,
                                  .flags = j->mode,
                                  .disable = cli_value_of(j->args, "disable")};
  j->executable = cli_executable_create(j->graph, &wanted, &j->host);
  int result = j->executable != NULL ? job_run(j) : CLI_FAILED;
  if (result == CLI_OK && rules != NULL && !rules_write(j, rules))
    result = CLI_FAILED;
  opgraft_executable_release(j->executable);
  free(text);
  return result;
}

// What --in says behind its name, if it has one: a file, or a number.
static const char *input_path(const char *text) {
  struct stat info;
  const char *equals = strchr(text, '=');
  return equals != NULL && stat(text, &info) != 0 ? equals + 1 : text;
}

static bool outputs_check(const job *j) {
  const size_t count = (size_t)j->args->given_count;
  const char **in = cli_alloc(count + 1, sizeof *in);
  const char **out = cli_alloc(count + 1, sizeof *out);
  int in_count = 0, out_count = 0;
  in[in_count++] = j->path;
  for (size_t i = 0; i < count; ++i) {
    const cli_given *given = &j->args->given[i];
    if (strcmp(given->option->name, "out") == 0 ||
        (strcmp(given->option->name, "rules") == 0 &&
         strcmp(given->value, "-") != 0))
      out[out_count++] = given->value;
    if (strcmp(given->option->name, "in") == 0)
      in[in_count++] = input_path(given->value);
    if (strcmp(given->option->name, "module") == 0 ||
        strcmp(given->option->name, "choose") == 0)
      in[in_count++] = given->value;
  }
  const bool fits = cli_outputs_check(out, out_count, in, in_count);
  free(in);
  free(out);
  return fits;
}

static int run_run(const cli_args *args) {
  job j = {.args = args};
  int64_t threads, lanes;
  j.path = cli_only_operand(args, "a graph file");
  if (j.path == NULL) return CLI_FAILED;
  if (cli_has(args, "bisect")) return cli_bisect(args, j.path);
  if (!cli_mode_read(args, "max-autotune", &j.mode) ||
      !cli_number_of(args, "threads", 1, 1024, 0, &threads) ||
      !cli_number_of(args, "lanes", 1, 1024, 0, &lanes) ||
      !cli_number_of(args, "repeat", 1, 1000000, 1, &j.repeat) ||
      !cli_number_of(args, "top", 0, 1000000, 20, &j.top))
    return CLI_FAILED;
  j.host = (opgraft_host){.struct_size = sizeof j.host,
                          .log = cli_say,
                          .threads = (int32_t)threads,
                          .lanes = (int32_t)lanes};
  if (!cli_limits_read(args, &j.host) || !outputs_check(&j)) return CLI_FAILED;
  j.graph = cli_graph_open(j.path, args);
  if (j.graph == NULL) return CLI_FAILED;
  j.output_count = opgraft_graph_output_count(j.graph);
  j.output_names =
      cli_alloc((size_t)j.output_count + 1, sizeof *j.output_names);
  for (int32_t i = 0; i < j.output_count; ++i)
    j.output_names[i] = opgraft_graph_output_name(j.graph, i);
  const int result = cli_has(args, "plain") ? plain_run(&j) : planned_run(&j);
  free(j.output_names);
  opgraft_graph_release(j.graph);
  return result;
}

const cli_command cli_command_run = {
    .name = "run",
    .summary = "run a graph file on .npy inputs, without a framework",
    .usage = "FILE.og [--in X.npy]... [--out Y.npy]... [--profile] [--bisect]",
    .text =
        "Runs a graph that opgraft.export wrote, or that somebody wrote as "
        "text, in plain C.\nInputs are taken in order or by name; outputs "
        "without a file are summed up in a line.\nWith --repeat the outputs "
        "are those of the first call, and the times those of all\nbut an "
        "extra first one. A graph with operators that only a framework has is "
        "an error\nthat names them.\n\n--plain runs it slowly, as its text "
        "says: "
        "what every other run is compared with.\nA graph that needs more than "
        "--max-bytes or --max-work is refused before it runs.\n\n--bisect "
        "runs the graph without any "
        "pass and without sharing memory, then adds\none pass after the other "
        "(and last the plan's sharing, and threads), and names the\nfirst "
        "that changes a result by more than --tolerance, or that fails.",
    .examples =
        "  opgraft run m.og --in x.npy --out y.npy\n"
        "  opgraft run m.og --in mask=m.npy --in n=7 --repeat 100 --profile\n"
        "  opgraft run m.og --in x.npy --bisect",
    .options = options,
    .operand = CLI_OPERAND_GRAPH,
    .run = run_run,
};
