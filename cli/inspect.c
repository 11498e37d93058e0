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
    {"why", NULL, "say of every kernel why it runs the call or does not", 0},
    {"json", NULL, "print one JSON object", 0},
    {"dot", NULL, "of a graph: a picture for Graphviz", 0},
    {"passes", NULL, "of a graph: as the passes leave it", 0},
    {"module", "FILE", "of a graph: a module with its operators", 'm'},
    {0},
};

// --- Declarations ------------------------------------------------------------

static void row(const char *name, const char *text) {
  if (text != NULL)
    printf("  %s%-10s%s %s\n", cli_paint(stdout, CLI_DIM), name,
           cli_paint(stdout, CLI_PLAIN), text);
}

static void flags_print(const cli_node *decl) {
  const cli_node *flags = cli_node_get(decl, "flags");
  if (flags == NULL || flags->first == NULL) return;
  char *text = cli_format("%s", "");
  for (const cli_node *n = flags->first; n != NULL; n = n->next) {
    char *longer = cli_format("%s%s%s", text, text[0] ? ", " : "", n->text);
    free(text);
    text = longer;
  }
  row("flags", text);
  free(text);
}

// "cpu, f32|bf16, avx2"
static char *kernel_text(const cli_node *kernel) {
  const char *device = cli_node_text(kernel, "device");
  const char *dtypes = cli_node_text(kernel, "dtypes");
  const char *isa = cli_node_text(kernel, "isa");
  const int64_t code = cli_node_int(kernel, "device_code", 0);
  char *unnamed = cli_format("device %lld", (long long)code);
  char *text = cli_format(
      "%s, %s, %s%s", device[0] ? device : unnamed,
      dtypes[0] ? dtypes : "all types", isa[0] ? isa : "any machine",
      cli_node_true(kernel, "has_supports") ? ", if it supports the call" : "");
  free(unnamed);
  return text;
}

static void kernels_print(const cli_node *decl) {
  const cli_node *kernels = cli_node_get(decl, "kernels");
  int index = 0;
  for (const cli_node *k = kernels != NULL ? kernels->first : NULL; k != NULL;
       k = k->next, ++index) {
    char *text = kernel_text(k);
    char *name = cli_format("kernel %d", index);
    row(name, text);
    free(name);
    free(text);
  }
}

static void op_print(const opgraft_op *op) {
  const og_op *record = opgraft_op_record(op);
  cli_node *decl = cli_op_describe(op);
  printf("\n%s%s%s\n", cli_paint(stdout, CLI_BOLD), record->schema,
         cli_paint(stdout, CLI_PLAIN));
  row("doc", record->doc);
  row("shape", record->shape);
  if (record->shape == NULL && record->infer != NULL)
    row("shape", "a callback of its own; shapes are static");
  row("where", record->where);
  row("dtype", record->dtype);
  row("backward", record->backward != NULL
                      ? record->backward
                      : "none declared: asking for a gradient is an error");
  row("strides", record->strides);
  row("workspace", record->workspace);
  row("inplace", record->inplace);
  row("pointwise", record->pointwise);
  row("reduce", record->reduce);
  row("expect", record->expect);
  flags_print(decl);
  kernels_print(decl);
  cli_node_destroy(decl);
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

static void arguments_print(const cli_call *call) {
  const cli_node *params = cli_node_get(call->decl, "params");
  printf("\n%s%s(", cli_paint(stdout, CLI_BOLD),
         opgraft_op_name(call->frame.op));
  for (const cli_node *p = params->first; p != NULL; p = p->next) {
    const int64_t t = cli_node_int(p, "tensor", -1);
    printf("%s%s=", p == params->first ? "" : ", ", cli_node_text(p, "name"));
    if (t < 0) {
      cli_attr_print(stdout, &call->frame.attr[cli_node_int(p, "attr", 0)]);
    } else if (!cli_node_true(p, "list")) {
      cli_tensor_print(stdout, call->frame.in[t]);
    } else {
      const og_tensor_list *list = &call->frame.in_list[t];
      putchar('{');
      for (int64_t i = 0; i < list->count; ++i) {
        fputs(i > 0 ? ", " : "", stdout);
        cli_tensor_print(stdout, list->tensors[i]);
      }
      putchar('}');
    }
  }
  printf(")%s\n", cli_paint(stdout, CLI_PLAIN));
}

static void dims_print(const cli_call *call) {
  const cli_node *dims = cli_node_get(call->decl, "dims");
  if (dims == NULL || dims->first == NULL) return;
  printf("  %s%-10s%s", cli_paint(stdout, CLI_DIM), "dims",
         cli_paint(stdout, CLI_PLAIN));
  int index = 0;
  for (const cli_node *d = dims->first; d != NULL; d = d->next, ++index) {
    const char *kind = cli_node_text(d, "kind");
    const char *note = strcmp(kind, "pack") == 0    ? " (product of a pack)"
                       : strcmp(kind, "vary") == 0  ? " (sum over the list)"
                       : strcmp(kind, "found") == 0 ? " (at most)"
                                                    : "";
    printf("%s %s = %lld%s", index > 0 ? "," : "", cli_node_text(d, "name"),
           (long long)call->frame.dim[index], note);
  }
  putchar('\n');
}

static const char *result_name(const cli_call *call, int32_t fresh) {
  const cli_node *results = cli_node_get(call->decl, "results");
  for (const cli_node *r = results->first; r != NULL; r = r->next)
    if (cli_node_int(r, "fresh", -1) == fresh) return cli_node_text(r, "name");
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
                       const cli_node *kernel, bool is_chosen) {
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
  const cli_node *kernels = cli_node_get(call->decl, "kernels");
  bool is_found = false;
  int32_t index = 0;
  for (const cli_node *k = kernels->first; k != NULL; k = k->next, ++index) {
    opgraft_error reason;
    const bool is_chosen =
        !is_found && result->status == OG_OK &&
        opgraft_frame_explain(&call->frame, index, &reason) == OG_OK;
    is_found |= is_chosen;
    if (why || is_chosen) kernel_row(call, index, k, is_chosen);
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
  const int32_t count = cli_node_get(call->decl, "kernels")->count;
  int32_t chosen = -1;
  fputs("\"kernels\": [", stdout);
  for (int32_t k = 0; k < count; ++k) {
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
  const cli_node *dims = cli_node_get(call->decl, "dims");
  printf("{\"op\": \"%s\", \"error\": ", opgraft_op_name(call->frame.op));
  if (result->status == OG_OK)
    fputs("null", stdout);
  else
    cli_json_string(stdout, result->error.text);
  if (result->is_matched) {
    fputs(", \"dims\": {", stdout);
    int index = 0;
    for (const cli_node *d = dims->first; d != NULL; d = d->next, ++index)
      printf("%s\"%s\": %lld", index > 0 ? ", " : "", cli_node_text(d, "name"),
             (long long)call->frame.dim[index]);
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
           opgraft_module_name(r->module), (int)count, count == 1 ? "" : "s",
           opgraft_module_hash(r->module));
  for (int32_t i = 0; r->call == NULL && i < count; ++i)
    if (is_wanted(r, i)) op_print(opgraft_module_op(r->module, i));
  if (r->call == NULL) return CLI_OK;
  const outcome result = call_infer(r->call);
  return call_print(r->call, &result, r->why);
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
               .why = cli_has(args, "why")};
  if (name != NULL && (r.op = cli_op_find(module, name)) == NULL)
    return CLI_FAILED;
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
    cli_error("inspect: --why wants the call's arguments, as in x=2,3");
  else if (count == 0 || r.call != NULL)
    result = r.is_json ? request_json(&r) : request_text(&r);
  if (r.call != NULL) cli_call_destroy(r.call);
  free(bindings);
  return result;
}

static int inspect_run(const cli_args *args) {
  cli_module module;
  if (args->operand_count == 0)
    return cli_error(
        "inspect: wanted a module, C or graph file; `opgraft help "
        "inspect` shows how");
  if (cli_is_graph(args->operands[0]))
    return cli_graph_inspect(args, args->operands[0]);
  if (cli_has(args, "dot") || cli_has(args, "passes"))
    return cli_error(
        "inspect: --dot and --passes are for graphs (*.og), %s "
        "is none",
        args->operands[0]);
  if (!cli_module_open(args->operands[0], &module)) return CLI_FAILED;
  const int result = module_inspect(args, module.module);
  cli_module_close(&module);
  return result;
}

const cli_command cli_command_inspect = {
    .name = "inspect",
    .summary = "print declarations, a call's shapes and kernel, or a graph",
    .usage =
        "FILE [--op NAME] [NAME=VALUE...] [--threads N] [--why] [--json] "
        "[--dot] [--passes]",
    .text =
        "Without arguments: what every operator declares. With arguments of a "
        "call: the dims\nthat the shape rule binds, the results, the workspace "
        "and the kernel; --why says of\nthe other kernels why not. A tensor is "
        "NAME=SIZES or NAME:TYPE[SIZES], a list of them\nNAME='SIZES;SIZES'; "
        "an optional may be none; what is left out has its default.\nWithout "
        "--op the call is of the module's first operator.\n\nOf a graph file "
        "(*.og) "
        "it prints the text, as it is or as the passes leave it\n(--passes), "
        "or "
        "a picture (--dot).",
    .examples =
        "  opgraft inspect norms.c\n"
        "  opgraft inspect norms.so --op rms_norm x=2,768 weight=768 "
        "eps=1e-6\n"
        "  opgraft inspect norms.so x:bf16[2,768] weight:bf16[768] --why\n"
        "  opgraft inspect m.og --dot | dot -Tsvg > m.svg",
    .options = options,
    .operand = CLI_OPERAND_INSPECT,
    .run = inspect_run,
};
