// SPDX-License-Identifier: Apache-2.0
// opgraft check: runs the verifier, and PyTorch's own tests where asked.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <opgraft/check.h>
#include <opgraft/info.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "reference.h"

static const cli_option options[] = {
    {"json", NULL, "print the report as JSON", 0},
    {"host", "torch",
     "also run PyTorch's opcheck and gradcheck, and compare "
     "eager with compiled",
     0},
    {"op", "NAME", "check only this operator", 0},
    {"seed", "N", "sample other calls; equal seeds sample equal calls", 0},
    {"calls", "N", "calls sampled per operator; 40", 0},
    {"limit", "SECONDS", "processor time for one operator's calls; 30", 0},
    {"reference", "FILE[:FUNCTION]",
     "a module whose operators of the same names are "
     "right, or a Python file whose functions are (torch or numpy)",
     0},
    {"call", "N", "only sampled call N, as a finding's `again` line has it", 0},
    {"as-shown", "STEPS", "with --call: made smaller as the finding was", 0},
    {"probe", "NAME", "only this probe beside the plain run", 0},
    {"no-fork", NULL,
     "with --call: run it in this process, without limits, for a debugger", 0},
    {"device", "DRIVER.so",
     "check the kernels for this driver's device, in its memory, against the "
     "CPU's",
     0},
    {"device-options", "WORDS", "the driver's own: seed=1,races=1", 0},
    {"verbose", NULL, "list what was covered as well", 'v'},
    {0},
};

typedef struct state {
  cli_progress bar;
  const char *object;  // the module's file
  const void *base;    // where its copy is mapped; NULL: it has no kernel
} state;

static void on_progress(void *user, const char *op, int32_t done,
                        int32_t total) {
  state *s = user;
  s->bar.label = op;
  cli_progress_set(&s->bar, done, total);
}

static void on_write(void *user, const char *text, size_t length) {
  cli_progress_clear(&((state *)user)->bar);
  fwrite(text, 1, length, stdout);
}

static int32_t on_stop(void *user) {
  (void)user;
  return cli_stop_signal() != 0;
}

// "rms_norm_f32\nFILE:24 (discriminator 3)\n", of inlined functions the inner
// ones first: the first that is not op.h's own.
static bool line_read(const char *text, char *out_line, size_t size) {
  while (text != NULL) {
    const char *line = strchr(text, '\n');
    const char *colon = line != NULL ? strchr(line, ':') : NULL;
    if (colon == NULL || colon[1] == '?') return false;
    snprintf(out_line, size, "%.*s in %.*s", (int)strcspn(line + 1, " \n"),
             line + 1, (int)(line - text), text);
    if (strncmp(out_line, "op.h:", 5) != 0) return true;
    text = strchr(line + 1, '\n');
    if (text != NULL) ++text;
  }
  return false;
}

// By binutils' addr2line, of what `opgraft build -g` left.
static int32_t on_locate(void *user, const void *code, char *out_line,
                         size_t size) {
  const state *s = user;
  Dl_info at;
  if (dladdr(code, &at) == 0 || at.dli_fbase != s->base) return 0;
  char *offset = cli_format(
      "0x%zx", (size_t)((const char *)code - (const char *)at.dli_fbase));
  const char *const argv[] = {"addr2line", "-s",      "-f",   "-i",
                              "-e",        s->object, offset, NULL};
  char *text = NULL;
  const int status =
      cli_process_capture((char *const *)(uintptr_t)argv, true, &text);
  const bool is_known = status == 0 && line_read(text, out_line, size);
  free(offset);
  free(text);
  return is_known;
}

// --call and --as-shown as the library needs them: "17", "17:3,0".
static bool call_read(const cli_args *args, char *text, size_t size,
                      opgraft_check_options *out_options) {
  const char *steps = cli_value_of(args, "as-shown");
  int64_t call;
  if (!cli_number_of(args, "call", 0, INT32_MAX - 1, -1, &call)) return false;
  if (call < 0) {
    if (steps == NULL && !cli_has(args, "no-fork")) return true;
    cli_error("check: --%s needs --call",
              steps != NULL ? "as-shown" : "no-fork");
    return false;
  }
  snprintf(text, size, "%lld%s%s", (long long)call, steps != NULL ? ":" : "",
           steps != NULL ? steps : "");
  out_options->call = text;
  return true;
}

static bool options_read(const cli_args *args,
                         opgraft_check_options *out_options) {
  int64_t seed, calls, limit;
  const char *host = cli_value_of(args, "host");
  *out_options = (opgraft_check_options){
      .struct_size = sizeof *out_options,
      .format = cli_has(args, "json") ? OPGRAFT_CHECK_JSON : OPGRAFT_CHECK_TEXT,
      .is_verbose = cli_has(args, "verbose"),
      .op = cli_value_of(args, "op"),
      .probe = cli_value_of(args, "probe"),
      .device = cli_value_of(args, "device"),
      .device_options = cli_value_of(args, "device-options"),
      .is_inline = cli_has(args, "no-fork"),
  };
  if (host != NULL && strcmp(host, "torch") != 0) {
    cli_error("check: --host is '%s', expected torch", host);
    return false;
  }
  if (out_options->device_options != NULL && out_options->device == NULL) {
    cli_error("check: --device-options needs --device");
    return false;
  }
  if (!cli_number_of(args, "seed", 0, INT64_MAX, 0, &seed) ||
      !cli_number_of(args, "calls", 1, 100000, 0, &calls) ||
      !cli_number_of(args, "limit", 1, 86400, 0, &limit))
    return false;
  out_options->seed = (uint64_t)seed;
  out_options->calls = (int32_t)calls;
  out_options->operator_limit_ms = (int32_t)(limit * 1000);
  return true;
}

// --- The core's own verifier -------------------------------------------------

static const void *base_of(const opgraft_module *module) {
  Dl_info at;
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const og_op *record = opgraft_op_record(opgraft_module_op(module, i));
    if (record->kernel_count > 0 && dladdr(record->kernels, &at) != 0)
      return at.dli_fbase;
  }
  return NULL;
}

static int core_check(const opgraft_module *module,
                      const opgraft_check_options *wanted, const char *object) {
  state s = {
      .bar = {.label = "check"}, .object = object, .base = base_of(module)};
  const opgraft_check_sink sink = {
      .struct_size = sizeof sink,
      .user = &s,
      .progress = on_progress,
      .write = on_write,
      .is_stopped = on_stop,
      .locate = on_locate,
  };
  int32_t findings = 0;
  opgraft_error error;
  const og_status status =
      opgraft_check(module, wanted, &sink, &findings, &error);
  cli_progress_clear(&s.bar);
  if (status != OG_OK) return cli_library_error(&error);
  return findings > 0 ? CLI_FINDINGS : CLI_OK;
}

// --- PyTorch's ---------------------------------------------------------------

// `python -m opgraft.check_torch FILE.so [--json] [--op NAME] [--seed N]
// [--limit S]`: prints its report, ends with 0, 1 or 2 as this command does.
static int torch_check(const cli_args *args, const char *object) {
  static const char *const passed[] = {"op", "seed", "limit"};
  const char *python = cli_python();
  if (python == NULL)
    return cli_error(
        "check: --host torch needs a Python with opgraft and "
        "torch; none is beside the program or on PATH");
  const char *argv[16] = {python, "-m", "opgraft.check_torch", object};
  int count = 4;
  if (cli_has(args, "json")) argv[count++] = "--json";
  for (size_t i = 0; i < sizeof passed / sizeof *passed; ++i) {
    static const char *const names[] = {"--op", "--seed", "--limit"};
    if (cli_value_of(args, passed[i]) == NULL) continue;
    argv[count++] = names[i];
    argv[count++] = cli_value_of(args, passed[i]);
  }
  char *report = NULL;
  const int status =
      cli_process_capture((char *const *)(uintptr_t)argv, false, &report);
  const bool has_report = report != NULL && report[0] != '\0';
  fputs(has_report ? report : cli_has(args, "json") ? "null" : "", stdout);
  free(report);
  // Python itself ends with 1 when a module is missing or breaks.
  if (status == CLI_OK || (status == CLI_FINDINGS && has_report)) return status;
  if (cli_stop_signal() != 0) return CLI_FINDINGS;  // main says which signal
  if (status != CLI_FAILED)
    cli_error(
        "check: `%s -m opgraft.check_torch` gave no report and ended "
        "with status %d; its messages stand above",
        python, status);
  return CLI_FAILED;
}

static int both_check(const cli_args *args, const opgraft_module *module,
                      const opgraft_check_options *wanted, const char *object) {
  const bool is_json = cli_has(args, "json");
  if (!cli_has(args, "host")) return core_check(module, wanted, object);
  if (is_json) fputs("{\"core\": ", stdout);
  const int core = core_check(module, wanted, object);
  if (is_json) fputs(",\n\"torch\": ", stdout);
  fflush(stdout);
  const bool is_over = core == CLI_FAILED || cli_stop_signal() != 0;
  if (is_over && is_json) fputs("null", stdout);
  const int torch = is_over ? core : torch_check(args, object);
  if (is_json) fputs("}\n", stdout);
  return core > torch ? core : torch;
}

// Up to the dot of an overload.
static bool is_overload_of(const char *name, const char *other) {
  const size_t length = strcspn(name, ".");
  return length == strcspn(other, ".") && strncmp(name, other, length) == 0;
}

static const char *backward_name(const opgraft_op *op) {
  opgraft_grad_info grad = {.struct_size = sizeof grad};
  opgraft_op_get_grad(op, &grad);
  return grad.kind == OPGRAFT_GRAD_OPERATOR ? grad.op_name : NULL;
}

static bool is_backward_of(const opgraft_op *forward, const opgraft_op *op) {
  const char *name = backward_name(forward);
  return name != NULL && strcmp(name, opgraft_op_name(op)) == 0;
}

// What another operator has as its backward operator has no function in a
// reference that is one function. Of two that are each other's, both have.
static bool is_backward(const opgraft_module *module, const opgraft_op *op) {
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const opgraft_op *other = opgraft_module_op(module, i);
    if (is_backward_of(other, op) && !is_backward_of(op, other)) return true;
  }
  return false;
}

// One function is the reference of one operator.
static bool one_operator(const opgraft_module *module, const char *path) {
  const char *first = NULL;
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    const opgraft_op *op = opgraft_module_op(module, i);
    const char *name = opgraft_op_name(op);
    if (is_backward(module, op)) continue;
    if (first == NULL) first = name;
    if (is_overload_of(name, first)) continue;
    cli_error(
        "check: --reference %s is one function, but the module has "
        "several operators (%s, %s); say with --op which one it is the "
        "reference of",
        path, first, name);
    return false;
  }
  return true;
}

typedef struct one_function {
  cli_reference *reference;
  const opgraft_module *module;  // that is checked; NULL: one operator of it
} one_function;

static int32_t one_function_compute(void *user,
                                    const opgraft_reference_call *call) {
  const one_function *f = user;
  return f->module != NULL && is_backward(f->module, call->op)
             ? 0
             : cli_reference_compute(f->reference, call);
}

// A Python file as the reference: the functions whose values are right.
static int python_run(const cli_args *args, const cli_module *subject,
                      opgraft_check_options *wanted, const char *path) {
  cli_reference reference;
  one_function function = {.reference = &reference};
  if (cli_has_reference_function(path) && wanted->op == NULL) {
    if (!one_operator(subject->module, path)) return CLI_FAILED;
    function.module = subject->module;
  }
  if (!cli_reference_open(path, &reference)) return CLI_FAILED;
  wanted->compute = one_function_compute;
  wanted->compute_state = &function;
  const int result = both_check(args, subject->module, wanted, subject->object);
  cli_reference_close(&reference);
  return result;
}

// With --reference: the module whose values are right.
static int compare_run(const cli_args *args, const cli_module *subject,
                       opgraft_check_options *wanted) {
  const char *path = cli_value_of(args, "reference");
  cli_module reference = {0};
  if (wanted->op != NULL && cli_op_find(subject->module, wanted->op) == NULL)
    return CLI_FAILED;
  if (path != NULL && cli_is_python_reference(path))
    return python_run(args, subject, wanted, path);
  if (path != NULL && !cli_module_open(path, &reference)) return CLI_FAILED;
  wanted->reference = reference.module;
  const int result = both_check(args, subject->module, wanted, subject->object);
  cli_module_close(&reference);
  return result;
}

static int check_run(const cli_args *args) {
  opgraft_check_options wanted;
  cli_module subject;
  char call[320];
  const char *path = cli_only_operand(args, "a module or C file");
  if (path == NULL || !options_read(args, &wanted) ||
      !call_read(args, call, sizeof call, &wanted))
    return CLI_FAILED;
  wanted.subject = path;
  wanted.reference_name = cli_value_of(args, "reference");
  if (!cli_module_open(path, &subject)) return CLI_FAILED;
  cli_stop_watch();
  const int result = compare_run(args, &subject, &wanted);
  cli_module_close(&subject);
  const int stopped = cli_stop_signal();
  return stopped != 0 ? CLI_SIGNALLED + stopped : result;
}

const cli_command cli_command_check = {
    .name = "check",
    .summary = "prove a module's operators right, or say what is wrong",
    .usage = "FILE.so|FILE.c [OPTIONS]",
    .text =
        "Runs every operator on sampled shapes, types and layouts, each "
        "call in a process of\nits own with guarded memory, and names what "
        "is wrong with the smallest call that\nshows it. No framework is "
        "needed; --host torch adds PyTorch's own tests.\nExit 0: clean, 1: "
        "findings, 2: could not run, 130: stopped by Ctrl-C (128 + "
        "the\nsignal), with what was found until then.",
    .examples =
        "  opgraft check norms.c\n"
        "  opgraft check norms.so --op rms_norm --seed 7\n"
        "  opgraft check norms.so --host torch --json > report.json",
    .options = options,
    .operand = CLI_OPERAND_MODULE,
    .run = check_run,
};
