// SPDX-License-Identifier: Apache-2.0
// opgraft inspect: what a module declares, and what a call of it would do.

#include <stdlib.h>
#include <string.h>

#include "bind.h"
#include "graph_file.h"
#include "inspect.h"

static const cli_option options[] = {
    {"op", "NAME", "only this operator", 0},
    {"shape", "NAME=SIZES", "an argument; the same as without --shape", 0},
    {"threads", "N", "threads of the call, which its workspace may be for (1)",
     't'},
    {"enum", NULL, "of a module: the enum by which kernels index call->dim", 0},
    {"formula", NULL, "of a module: its formulas, and what is derived", 0},
    {"stub", NULL, "of a module: a .pyi for editors and type checkers", 0},
    {"hosts", NULL, "of a module: which hosts it serves, what each lacks", 0},
    {"why", NULL, "of a call or graph: which kernels run, and why", 0},
    {"json", NULL, "print one JSON object", 0},
    {"dot", NULL, "of a graph: a picture for Graphviz", 0},
    {"html", NULL, "of a graph: its plan as a page", 0},
    {"passes", NULL, "of a graph: as the passes leave it", 0},
    {"fused", NULL, "of a graph: its row programs, and what is in none", 0},
    {"asm", NULL, "of a graph: the machine code of its row programs", 0},
    {"isa", "SET", "of --asm: avx2 or avx512 (the one in use)", 0},
    {"mode", "MODE",
     "of --passes, --why, --html: reduce-overhead, "
     "max-autotune",
     0},
    {"module", "FILE", "of a graph: a module with its operators", 'm'},
    {0},
};

// --- Declarations ------------------------------------------------------------

static void row(const char *name, const char *text) {
  if (text != NULL)
    printf("  %s%-10s%s %s\n", cli_paint(stdout, CLI_DIM), name,
           cli_paint(stdout, CLI_PLAIN), text);
}

static void flags_print(uint32_t flags) {
  static const char *const names[] = {"deterministic", "random",
                                      "side_effect",   "capture_same_shape",
                                      "capture_never", "batch_loop"};
  char text[128] = "";
  size_t length = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (flags >> i & 1u)
      length += (size_t)snprintf(text + length, sizeof text - length, "%s%s",
                                 length > 0 ? ", " : "", names[i]);
  if (length > 0) row("flags", text);
}

static const char *device_name(int32_t device) {
  switch (device) {
    case OG_CPU:
      return "cpu";
    case OG_CUDA:
      return "cuda";
    case OG_ROCM:
      return "rocm";
    case OG_EXT_DEV:
      return "ext";
    default:
      return NULL;
  }
}

// "cpu, f32|bf16, avx2"
static char *kernel_text(const opgraft_kernel_info *kernel) {
  const char *device = device_name(kernel->device);
  char *unnamed = cli_format("device %d", (int)kernel->device);
  char *text = cli_format("%s, %s, %s%s", device != NULL ? device : unnamed,
                          kernel->dtypes != NULL ? kernel->dtypes : "all types",
                          kernel->isa != NULL ? kernel->isa : "any machine",
                          kernel->flags & OPGRAFT_KERNEL_SUPPORTS
                              ? ", if it supports the call"
                              : "");
  free(unnamed);
  return text;
}

static void kernels_print(const opgraft_op *op) {
  opgraft_kernel_info kernel = {.struct_size = sizeof kernel};
  for (int32_t k = 0; opgraft_op_get_kernel(op, k, &kernel) == OG_OK; ++k) {
    char *text = kernel_text(&kernel);
    char *name = cli_format("kernel %d", (int)k);
    row(name, text);
    free(name);
    free(text);
  }
}

static void backward_print(const opgraft_op *op) {
  const og_op *record = opgraft_op_record(op);
  opgraft_grad_info grad = {.struct_size = sizeof grad};
  opgraft_op_get_grad(op, &grad);
  if (record->backward != NULL) {
    row("backward", record->backward);
  } else if (grad.op_name != NULL) {
    char *text = cli_format("%s, derived from the formula", grad.op_name);
    row("backward", text);
    free(text);
  } else {
    row("backward", grad.kind == OPGRAFT_GRAD_NONE
                        ? "none: the formula's is zero"
                        : "none declared: asking for a gradient is an error");
  }
}

// A formula, and of one that is not derived its tangent.
static void formula_print(const opgraft_op *op, bool is_derived) {
  const og_op *record = opgraft_op_record(op);
  opgraft_module *module;
  if (record->row == NULL) return;
  printf("\n%s%s%s\n", cli_paint(stdout, CLI_BOLD), record->schema,
         cli_paint(stdout, CLI_PLAIN));
  row("shape", record->shape);
  row("row", record->row);
  if (is_derived ||
      opgraft_op_derive(op, OPGRAFT_TANGENT, &module, NULL) != OG_OK)
    return;
  formula_print(opgraft_module_op(module, 0), true);
  opgraft_module_release(module);
}

// What runs a formula where the row engine has no vector code.
static void code_print(const opgraft_op *op) {
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_op_get_info(op, &info);
  if (info.flags & OPGRAFT_OP_FORMULA_DERIVED)
    row("runs", info.flags & OPGRAFT_OP_FORMULA_COMPILED
                    ? "vector code; on other machines C, which the module has"
                    : "vector code; on other machines the interpreter: "
                      "`opgraft build` compiles C of formulas in");
}

static void op_print(const opgraft_op *op) {
  const og_op *record = opgraft_op_record(op);
  printf("\n%s%s%s\n", cli_paint(stdout, CLI_BOLD), record->schema,
         cli_paint(stdout, CLI_PLAIN));
  row("doc", record->doc);
  row("shape", record->shape);
  if (record->shape == NULL && record->infer != NULL)
    row("shape", "a callback of its own; shapes are static");
  row("where", record->where);
  row("dtype", record->dtype);
  backward_print(op);
  row("strides", record->strides);
  row("workspace", record->workspace);
  row("inplace", record->inplace);
  row("row", record->row);
  row("reduce", record->reduce);
  row("expect", record->expect);
  row("reference", record->reference);
  flags_print(record->flags);
  kernels_print(op);
  code_print(op);
}

// --- A call ------------------------------------------------------------------

typedef struct outcome {
  og_status status;
  opgraft_error error;
  bool is_matched;  // shapes fit: the kernels can be asked
} outcome;

static outcome call_infer(cli_call *call) {
  outcome result;
  result.status = opgraft_frame_infer(&call->frame, &result.error);
  // No kernel is the only refusal that comes after the shapes were matched.
  const bool has_no_kernel =
      call->frame.kernel == NULL &&
      (result.status == OG_UNSUPPORTED || result.status == OG_DEVICE);
  result.is_matched = result.status == OG_OK || has_no_kernel;
  return result;
}

static void argument_print(const cli_call *call,
                           const opgraft_param_info *param) {
  printf("%s=", param->name);
  if (param->attr >= 0) {
    cli_attr_print(stdout, &call->frame.attr[param->attr]);
    return;
  }
  if (!(param->flags & OPGRAFT_PARAM_LIST)) {
    cli_tensor_print(stdout, call->frame.in[param->tensor]);
    return;
  }
  const og_tensor_list *list = &call->frame.in_list[param->tensor];
  putchar('{');
  for (int64_t i = 0; i < list->count; ++i) {
    fputs(i > 0 ? ", " : "", stdout);
    cli_tensor_print(stdout, list->tensors[i]);
  }
  putchar('}');
}

static void arguments_print(const cli_call *call) {
  opgraft_param_info param = {.struct_size = sizeof param};
  printf("\n%s%s(", cli_paint(stdout, CLI_BOLD),
         opgraft_op_name(call->frame.op));
  for (int32_t p = 0; opgraft_op_get_param(call->frame.op, p, &param) == OG_OK;
       ++p) {
    fputs(p > 0 ? ", " : "", stdout);
    argument_print(call, &param);
  }
  printf(")%s\n", cli_paint(stdout, CLI_PLAIN));
}

static void dims_print(const cli_call *call) {
  static const char *const notes[] = {
      [OPGRAFT_DIM_SIZE] = "",
      [OPGRAFT_DIM_PACK] = " (product of a pack)",
      [OPGRAFT_DIM_VARY] = " (sum over the list)",
      [OPGRAFT_DIM_FOUND] = " (at most)",
  };
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  int32_t d = 0;
  for (; opgraft_op_get_dim(call->frame.op, d, &dim) == OG_OK; ++d) {
    if (d == 0)
      printf("  %s%-10s%s", cli_paint(stdout, CLI_DIM), "dims",
             cli_paint(stdout, CLI_PLAIN));
    printf("%s %s = %lld%s", d > 0 ? "," : "", dim.name,
           (long long)call->frame.dim[d], notes[dim.kind]);
  }
  if (d > 0) putchar('\n');
}

static const char *result_name(const cli_call *call, int32_t fresh) {
  opgraft_result_info result = {.struct_size = sizeof result};
  for (int32_t r = 0;
       opgraft_op_get_result(call->frame.op, r, &result) == OG_OK; ++r)
    if (result.fresh == fresh) return result.name;
  return "";
}

static void result_print(const cli_call *call, int32_t i, FILE *to) {
  const og_tensor_list *list = &call->frame.fresh_list[i];
  const char *name = result_name(call, i);
  if (name[0] != '\0') fprintf(to, "%s: ", name);
  if (list->tensors == NULL) {
    cli_tensor_print(to, &call->frame.fresh[i]);
    return;
  }
  fputc('{', to);
  for (int64_t e = 0; e < list->count; ++e) {
    fputs(e > 0 ? ", " : "", to);
    cli_tensor_print(to, list->tensors[e]);
  }
  fputc('}', to);
}

static void kernel_row(const cli_call *call, int32_t index,
                       const opgraft_kernel_info *kernel, bool is_chosen) {
  opgraft_error reason;
  char *text = kernel_text(kernel);
  const og_status status = opgraft_frame_explain(&call->frame, index, &reason);
  const char *colour = cli_paint(stdout, is_chosen         ? CLI_GREEN
                                         : status == OG_OK ? CLI_DIM
                                                           : CLI_YELLOW);
  printf("  %skernel %-3d%s %s: %s\n", colour, (int)index,
         cli_paint(stdout, CLI_PLAIN), text,
         is_chosen         ? "runs the call"
         : status == OG_OK ? "could run it, but an earlier one does"
                           : reason.text);
  free(text);
}

static int call_print(const cli_call *call, const outcome *result, bool why) {
  arguments_print(call);
  if (!result->is_matched) return cli_library_error(&result->error);
  dims_print(call);
  for (int32_t i = 0; i < call->frame.fresh_count; ++i) {
    printf("  %s%-10s%s ", cli_paint(stdout, CLI_DIM), "result",
           cli_paint(stdout, CLI_PLAIN));
    result_print(call, i, stdout);
    putchar('\n');
  }
  if (call->frame.call.workspace_bytes > 0) {
    char *bytes = cli_format("%zu bytes", call->frame.call.workspace_bytes);
    row("workspace", bytes);
    free(bytes);
  }
  opgraft_kernel_info kernel = {.struct_size = sizeof kernel};
  bool is_found = false;
  for (int32_t k = 0;
       opgraft_op_get_kernel(call->frame.op, k, &kernel) == OG_OK; ++k) {
    opgraft_error reason;
    const bool is_chosen =
        !is_found && result->status == OG_OK &&
        opgraft_frame_explain(&call->frame, k, &reason) == OG_OK;
    is_found |= is_chosen;
    if (why || is_chosen) kernel_row(call, k, &kernel, is_chosen);
  }
  return result->status == OG_OK ? CLI_OK : cli_library_error(&result->error);
}

// --- JSON --------------------------------------------------------------------

static void tensor_json(const og_tensor *tensor) {
  printf("{\"dtype\": \"%s\", \"shape\": [", cli_dtype_name(tensor->dtype));
  for (int32_t i = 0; i < tensor->ndim; ++i)
    printf("%s%lld", i > 0 ? ", " : "", (long long)tensor->shape[i]);
  fputs("], \"strides\": [", stdout);
  for (int32_t i = 0; i < tensor->ndim; ++i)
    printf("%s%lld", i > 0 ? ", " : "", (long long)tensor->strides[i]);
  fputs("]}", stdout);
}

static void results_json(const cli_call *call) {
  for (int32_t i = 0; i < call->frame.fresh_count; ++i) {
    const og_tensor_list *list = &call->frame.fresh_list[i];
    if (i > 0) fputs(", ", stdout);
    if (list->tensors == NULL) {
      tensor_json(&call->frame.fresh[i]);
      continue;
    }
    putchar('[');
    for (int64_t e = 0; e < list->count; ++e) {
      fputs(e > 0 ? ", " : "", stdout);
      tensor_json(list->tensors[e]);
    }
    putchar(']');
  }
}

static void kernels_json(const cli_call *call, const outcome *result) {
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_op_get_info(call->frame.op, &info);
  int32_t chosen = -1;
  fputs("\"kernels\": [", stdout);
  for (int32_t k = 0; k < info.kernel_count; ++k) {
    opgraft_error reason;
    const og_status status = opgraft_frame_explain(&call->frame, k, &reason);
    if (status == OG_OK && chosen < 0 && result->status == OG_OK) chosen = k;
    fputs(k > 0 ? ", " : "", stdout);
    if (status == OG_OK)
      fputs("null", stdout);
    else
      cli_json_string(stdout, reason.text);
  }
  printf("], \"kernel\": ");
  if (chosen < 0)
    fputs("null", stdout);
  else
    printf("%d", (int)chosen);
}

static void call_json(const cli_call *call, const outcome *result) {
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  printf("{\"op\": \"%s\", \"error\": ", opgraft_op_name(call->frame.op));
  if (result->status == OG_OK)
    fputs("null", stdout);
  else
    cli_json_string(stdout, result->error.text);
  if (result->is_matched) {
    fputs(", \"dims\": {", stdout);
    for (int32_t d = 0; opgraft_op_get_dim(call->frame.op, d, &dim) == OG_OK;
         ++d)
      printf("%s\"%s\": %lld", d > 0 ? ", " : "", dim.name,
             (long long)call->frame.dim[d]);
    fputs("}, \"results\": [", stdout);
    results_json(call);
    printf("], \"workspace_bytes\": %zu, ", call->frame.call.workspace_bytes);
    kernels_json(call, result);
  }
  putchar('}');
}

static void op_json(const opgraft_op *op) {
  const size_t length = opgraft_op_describe(op, NULL, 0);
  char *text = cli_alloc(length + 1, 1);
  opgraft_op_describe(op, text, length + 1);
  fputs(text, stdout);
  free(text);
}

// --- The command -------------------------------------------------------------

typedef struct request {
  const opgraft_module *module;
  const opgraft_op *op;  // NULL: all
  cli_call *call;        // NULL: declarations only
  bool is_json;
  bool why;
  bool formula;  // formulas only
} request;

static bool is_wanted(const request *r, int32_t i) {
  return r->op == NULL || opgraft_module_op(r->module, i) == r->op;
}

static int request_json(const request *r) {
  const int32_t count = opgraft_module_op_count(r->module);
  bool is_first = true;
  int status = CLI_OK;
  printf("{\"module\": \"%s\", \"hash\": \"%s\", \"ops\": [",
         opgraft_module_name(r->module), opgraft_module_hash(r->module));
  for (int32_t i = 0; i < count; ++i) {
    if (!is_wanted(r, i)) continue;
    fputs(is_first ? "\n" : ",\n", stdout);
    op_json(opgraft_module_op(r->module, i));
    is_first = false;
  }
  fputs("],\n\"call\": ", stdout);
  if (r->call != NULL) {
    const outcome result = call_infer(r->call);
    call_json(r->call, &result);
    if (result.status != OG_OK) status = CLI_FAILED;
  } else {
    fputs("null", stdout);
  }
  puts("}");
  return status;
}

static int request_text(const request *r) {
  const int32_t count = opgraft_module_op_count(r->module);
  if (r->call == NULL)
    printf("module %s, %d operator%s, sha256 %.16s...\n",
           opgraft_module_name(r->module), (int)count, cli_plural(count),
           opgraft_module_hash(r->module));
  for (int32_t i = 0; r->call == NULL && i < count; ++i) {
    const opgraft_op *op = opgraft_module_op(r->module, i);
    opgraft_grad_info grad = {.struct_size = sizeof grad};
    opgraft_op_get_grad(op, &grad);
    if (!is_wanted(r, i)) continue;
    if (r->formula)
      formula_print(op, grad.kind == OPGRAFT_GRAD_DERIVED);
    else
      op_print(op);
  }
  if (r->call == NULL) return CLI_OK;
  const outcome result = call_infer(r->call);
  return call_print(r->call, &result, r->why);
}

// As C, for the file of the kernels.
static void enums_print(const request *r) {
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  for (int32_t i = 0; i < opgraft_module_op_count(r->module); ++i) {
    const opgraft_op *op = opgraft_module_op(r->module, i);
    if (!is_wanted(r, i) || opgraft_op_get_dim(op, 0, &dim) != OG_OK) continue;
    fputs("enum { ", stdout);
    for (int32_t d = 0; opgraft_op_get_dim(op, d, &dim) == OG_OK; ++d)
      printf("%s%s", d > 0 ? ", " : "", dim.name);
    printf(" };  // %s\n", opgraft_op_name(op));
  }
}

// The arguments of the call: what follows the file, and every --shape.
static const char **bindings_collect(const cli_args *args, int *out_count) {
  const char **all =
      cli_alloc((size_t)(args->operand_count + args->given_count), sizeof *all);
  int count = 0;
  for (int i = 1; i < args->operand_count; ++i)
    all[count++] = args->operands[i];
  for (int i = 0; i < args->given_count; ++i)
    if (strcmp(args->given[i].option->name, "shape") == 0)
      all[count++] = args->given[i].value;
  *out_count = count;
  return all;
}

static int module_inspect(const cli_args *args, const opgraft_module *module) {
  const char *name = cli_value_of(args, "op");
  request r = {.module = module,
               .is_json = cli_has(args, "json"),
               .why = cli_has(args, "why"),
               .formula = cli_has(args, "formula")};
  if (name != NULL && (r.op = cli_op_find(module, name)) == NULL)
    return CLI_FAILED;
  if (cli_has(args, "enum")) {
    enums_print(&r);
    return CLI_OK;
  }
  if (cli_has(args, "stub")) return cli_stub_print(module);
  int64_t threads;
  if (!cli_number_of(args, "threads", 1, 1024, 1, &threads)) return CLI_FAILED;
  int count;
  const char **bindings = bindings_collect(args, &count);
  int result = CLI_FAILED;
  if (count > 0) {
    if (r.op == NULL) r.op = opgraft_module_op(module, 0);
    r.call = cli_call_create(r.op, bindings, count);
    if (r.call != NULL) r.call->frame.call.threads = (int32_t)threads;
  }
  if (r.why && count == 0)
    cli_error("inspect: --why needs the call's arguments, as in x=2,3");
  else if (count == 0 || r.call != NULL)
    result = r.is_json ? request_json(&r) : request_text(&r);
  if (r.call != NULL) cli_call_destroy(r.call);
  free(bindings);
  return result;
}

static int inspect_run(const cli_args *args) {
  static const char *const of_graphs[] = {"dot", "html", "passes", "fused",
                                          "asm", "isa",  "mode"};
  static const char *const of_modules[] = {"hosts", "enum", "formula", "stub"};
  cli_module module;
  if (args->operand_count == 0)
    return cli_error(
        "inspect: no file is given, expected a module, C or graph file; "
        "`opgraft help inspect` shows how");
  if (cli_is_graph(args->operands[0]))
    return cli_graph_inspect(args, args->operands[0]);
  if (args->operand_count > 1)
    for (size_t i = 0; i < sizeof of_modules / sizeof *of_modules; ++i)
      if (cli_has(args, of_modules[i]))
        return cli_error("inspect: --%s is of a module, found %s as well",
                         of_modules[i], args->operands[1]);
  for (size_t i = 0; i < sizeof of_graphs / sizeof *of_graphs; ++i)
    if (cli_has(args, of_graphs[i]))
      return cli_error(
          "inspect: --%s is for graphs, found %s, expected a file *.og",
          of_graphs[i], args->operands[0]);
  if (!cli_module_open(args->operands[0], &module)) return CLI_FAILED;
  const int result =
      cli_has(args, "hosts")
          ? cli_hosts_print(module.object, module.module, cli_has(args, "json"))
          : module_inspect(args, module.module);
  cli_module_close(&module);
  return result;
}

const cli_command cli_command_inspect = {
    .name = "inspect",
    .summary = "print declarations, a call's shapes and kernel, or a graph",
    .usage =
        "FILE [--op NAME] [NAME=VALUE...] [--threads N] [--why] [--json] "
        "[--enum] [--stub] [--hosts] [--formula] [--dot] [--html] "
        "[--passes] "
        "[--fused] "
        "[--asm] "
        "[--isa SET] [--mode MODE]",
    .text =
        "Without arguments: what every operator declares. With arguments of a "
        "call: the dims\nthat the shape rule binds, the results, the workspace "
        "and the kernel; --why says of\nthe other kernels why not. A tensor is "
        "NAME=SIZES or NAME:TYPE[SIZES], a list of them\nNAME='SIZES;SIZES'; "
        "an optional may be the word none; what is left out has its "
        "default.\nWithout "
        "--op the call is of the module's first operator.\n\nOf a graph file "
        "(*.og) "
        "it prints the text, as it is or as the passes leave it\n(--passes), "
        "or a picture (--dot). --html is a page "
        "of its plan at the sizes given: the nodes\nin the order of the run, "
        "who runs each, what it reads, and memory over time beside its\nlower "
        "bound. --fused prints what mode max-autotune fuses, "
        "and why\nthe rest stands alone; --asm the machine code of each row "
        "program, every\ninstruction below the step of the program that it "
        "computes.",
    .examples =
        "  opgraft inspect norms.c\n"
        "  opgraft inspect norms.so --op rms_norm x=2,768 weight=768 "
        "eps=1e-6\n"
        "  opgraft inspect norms.so --stub > norms.pyi\n"
        "  opgraft inspect norms.so x:bf16[2,768] weight:bf16[768] --why\n"
        "  opgraft inspect m.og --dot | dot -Tsvg > m.svg\n"
        "  opgraft inspect m.og --html s0=128 > m.html\n"
        "  opgraft inspect m.og --asm --isa avx512 s0=128",
    .options = options,
    .operand = CLI_OPERAND_INSPECT,
    .run = inspect_run,
};
