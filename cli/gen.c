// SPDX-License-Identifier: Apache-2.0
// opgraft gen: a YAML specification into a C file with the declarations and
// kernels to be written, or a module into declarations for another compiler.

#include <stdlib.h>
#include <string.h>

#include "bind.h"
#include "gen_ge.h"
#include "gen_stablehlo.h"
#include "spec/code.h"
#include "spec/read.h"

static const cli_option options[] = {
    {"output", "FILE.c", "what to write; else standard output", 'o'},
    {"target", "NAME", "ge, stablehlo or c: what to write of a module", 0},
    {"op", "NAME", "of stablehlo: the operator; else the first one", 0},
    {"force", NULL, "overwrite the output if it is there", 'f'},
    {0},
};

// --- Asking the library ------------------------------------------------------

// Stands for the kernels that are not written yet; it is never called.
static og_status no_kernel(const og_call *call) {
  return og_fail(call, OG_UNSUPPORTED, "not written yet");
}

static og_op record_of(const spec_op *op, og_kernel *kernels,
                       bool has_backward) {
  og_op record = {
      .schema = op->text[SPEC_schema],
      .shape = op->text[SPEC_shape],
      .where = op->text[SPEC_where],
      .dtype = op->text[SPEC_dtype],
      .backward = has_backward ? op->text[SPEC_backward] : NULL,
      .workspace = op->text[SPEC_workspace],
      .strides = op->text[SPEC_strides],
      .inplace = op->text[SPEC_inplace],
      .row = op->text[SPEC_row],
      .reduce = op->text[SPEC_reduce],
      .doc = op->text[SPEC_doc],
      .expect = op->text[SPEC_expect],
      .reference = op->text[SPEC_reference],
      .kernels = kernels,
      .kernel_count = (uint32_t)op->kernel_count,
      .kernel_size = sizeof(og_kernel),
      .flags = op->flags,
  };
  for (int32_t k = 0; k < op->kernel_count; ++k)
    kernels[k] = (og_kernel){.device = op->kernels[k].device,
                             .dtypes = op->kernels[k].dtypes,
                             .isa = op->kernels[k].isa,
                             .run = no_kernel};
  return record;
}

// The line of the field that an error is about.
static int32_t error_line(const spec_op *op, const opgraft_error *error) {
  // "kernels" or "kernels[1].dtypes"
  if (strncmp(error->argument, "kernels", 7) == 0 && op->kernel_count > 0) {
    const char *bracket = strchr(error->argument, '[');
    const long index = bracket != NULL ? strtol(bracket + 1, NULL, 10) : 0;
    return op->kernels[index < op->kernel_count ? index : 0].line;
  }
  for (int f = 0; f < SPEC_FIELD_COUNT; ++f)
    if (op->text_line[f] > 0 &&
        strcmp(error->argument, spec_field_names[f]) == 0)
      return op->text_line[f];
  return op->line;
}

static og_module module_of(const spec *s, const og_op *records, int32_t count) {
  return (og_module){
      .struct_size = sizeof(og_module),
      .abi_version = OG_ABI_VERSION,
      .name = s->module,
      .ops = records,
      .op_count = (uint32_t)count,
      .op_size = sizeof(og_op),
  };
}

// One operator by itself, so that an error is surely about it. Its backward
// operator is looked at later, when all are there.
static bool op_check(const spec *s, spec_op *op) {
  opgraft_error error = {0};
  spec_op_forget(op);
  op->record = cli_alloc(
      1, sizeof *op->record + (size_t)op->kernel_count * sizeof(og_kernel));
  op->record->op = record_of(op, op->record->kernels, false);
  op->record->module = module_of(s, &op->record->op, 1);
  opgraft_module_wrap(&op->record->module, &op->module, &error);
  if (op->module == NULL)
    return spec_error(s, error_line(op, &error), "%s", error.text);
  op->decl = opgraft_module_op(op->module, 0);
  return true;
}

// --- Kernels that the specification leaves open ------------------------------

// One for each type where there is one choice to make, else one for all.
static void kernels_complete(spec_op *op) {
  enum { KERNELS_MAX = 4 };
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_tensor_info tensor = {.struct_size = sizeof tensor};
  opgraft_op_get_info(op->decl, &info);
  for (int32_t t = 0; opgraft_op_get_tensor(op->decl, t, &tensor) == OG_OK; ++t)
    if (tensor.type_variable >= 0) break;
  op->kernel_count = 0;
  if (info.type_variable_count != 1 || tensor.dtype_count > KERNELS_MAX) {
    spec_kernel_add(op)->line = op->line;
    return;
  }
  for (int32_t i = 0; i < tensor.dtype_count; ++i) {
    spec_kernel *kernel = spec_kernel_add(op);
    kernel->dtypes = cli_format("%s", cli_dtype_name(tensor.dtypes[i]));
    kernel->line = op->line;
  }
}

static bool op_complete(const spec *s, spec_op *op) {
  if (op->kernel_count > 0 || op->text[SPEC_row] != NULL)
    return op_check(s, op);
  // Without a dtype rule the kernels say the types; f32 is a beginning.
  spec_kernel *kernel = spec_kernel_add(op);
  kernel->line = op->line;
  if (op->text[SPEC_dtype] == NULL) kernel->dtypes = cli_format("f32");
  if (!op_check(s, op)) return false;
  if (op->text[SPEC_dtype] != NULL) kernels_complete(op);
  return op_check(s, op);
}

static bool all_check(const spec *s) {
  og_op *records = cli_alloc((size_t)s->op_count, sizeof *records);
  og_kernel **kernels = cli_alloc((size_t)s->op_count, sizeof *kernels);
  for (int32_t i = 0; i < s->op_count; ++i) {
    kernels[i] = cli_alloc((size_t)s->ops[i].kernel_count, sizeof **kernels);
    records[i] = record_of(&s->ops[i], kernels[i], true);
  }
  opgraft_error error = {0};
  const og_module all = module_of(s, records, s->op_count);
  opgraft_module *module = NULL;
  opgraft_module_wrap(&all, &module, &error);
  if (module != NULL) {
    opgraft_module_release(module);
  } else {
    const spec_op *wrong = &s->ops[0];
    for (int32_t i = 0; i < s->op_count; ++i)
      if (strcmp(opgraft_op_name(s->ops[i].decl), error.op) == 0)
        wrong = &s->ops[i];
    spec_error(s, error_line(wrong, &error), "%s", error.text);
  }
  for (int32_t i = 0; i < s->op_count; ++i) free(kernels[i]);
  free(kernels);
  free(records);
  return module != NULL;
}

// Loads the declarations without a kernel, so that the library's own reader
// says what is wrong with them, and completes the kernels. Prints.
static bool spec_check(spec *s) {
  for (int32_t i = 0; i < s->op_count; ++i)
    if (!op_complete(s, &s->ops[i])) return false;
  return all_check(s);
}

// --- The command -------------------------------------------------------------

static int spec_output(const spec *s, const char *path) {
  if (path == NULL) {
    spec_write(s, stdout);
    return CLI_OK;
  }
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  spec_write(s, to);
  fclose(to);
  const bool is_written = cli_file_write(path, bytes, size);
  free(bytes);
  if (is_written)
    cli_note("%s: %d operator%s; fill in the kernels, then `opgraft check %s`",
             path, (int)s->op_count, cli_plural(s->op_count), path);
  return is_written ? CLI_OK : CLI_FAILED;
}

// For a compiler of graphs, from what a module declares.

static int ge_run(const cli_args *args, const opgraft_module *module) {
  const char *stem = cli_value_of(args, "output");
  if (args->operand_count > 1)
    return cli_error("gen: --target ge takes one module, found %s as well",
                     args->operands[1]);
  if (stem == NULL)
    return cli_error(
        "gen: --target ge writes three files, and no -o is given; with -o OUT "
        "they are OUT.h, OUT.py and OUT.cc");
  char *header = cli_format("%s.h", stem);
  char *converters = cli_format("%s.py", stem);
  char *shapes = cli_format("%s.cc", stem);
  const char *outputs[] = {header, converters, shapes};
  const int result = cli_outputs_check(outputs, 3, args->operands, 1)
                         ? cli_gen_ge(module, header, converters, shapes)
                         : CLI_FAILED;
  free(shapes);
  free(header);
  free(converters);
  return result;
}

static int stablehlo_run(const cli_args *args, const opgraft_module *module) {
  const opgraft_op *op = cli_op_find(module, cli_value_of(args, "op"));
  const char *output = cli_value_of(args, "output");
  if (op == NULL ||
      (output != NULL && !cli_outputs_check(&output, 1, args->operands, 1)))
    return CLI_FAILED;
  cli_call *call =
      cli_call_create(op, args->operands + 1, args->operand_count - 1);
  if (call == NULL) return CLI_FAILED;
  char *bytes = NULL;
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  bool is_right = cli_gen_stablehlo(opgraft_module_name(module), call, to);
  fclose(to);
  cli_call_destroy(call);
  if (is_right && output != NULL)
    is_right = cli_file_write(output, bytes, size);
  else if (is_right)
    fwrite(bytes, 1, size, stdout);
  free(bytes);
  return is_right ? CLI_OK : CLI_FAILED;
}

// Its formulas, for a build of the author's own.
static int c_run(const cli_args *args, const opgraft_module *module) {
  const char *output = cli_value_of(args, "output");
  if (args->operand_count > 1)
    return cli_error("gen: --target c takes one module, found %s as well",
                     args->operands[1]);
  if (output != NULL && !cli_outputs_check(&output, 1, args->operands, 1))
    return CLI_FAILED;
  char *text = cli_formulas_code(module);
  bool is_right = text[0] != '\0';
  if (!is_right)
    cli_error("gen: %s has no formulas in f32, bf16 or f16, expected a row",
              args->operands[0]);
  else if (output != NULL)
    is_right = cli_file_write(output, text, strlen(text));
  else
    fputs(text, stdout);
  free(text);
  return is_right ? CLI_OK : CLI_FAILED;
}

static int target_run(const cli_args *args, const char *target) {
  static const struct {
    const char *name;
    int (*run)(const cli_args *args, const opgraft_module *module);
  } targets[] = {{"ge", ge_run}, {"stablehlo", stablehlo_run}, {"c", c_run}};
  size_t k = 0;
  while (k < 3 && strcmp(target, targets[k].name) != 0) ++k;
  if (k == 3)
    return cli_error("gen: --target is '%s', expected ge, stablehlo or c",
                     target);
  if (args->operand_count == 0)
    return cli_error(
        "gen: no file is given, expected a module or a C file; `opgraft help "
        "gen` shows how");
  cli_module module;
  if (!cli_module_open(args->operands[0], &module)) return CLI_FAILED;
  const int result = targets[k].run(args, module.module);
  cli_module_close(&module);
  return result;
}

static int gen_run(const cli_args *args) {
  const char *target = cli_value_of(args, "target");
  if (target != NULL) return target_run(args, target);
  const char *path = cli_only_operand(args, "a YAML file");
  const char *output = cli_value_of(args, "output");
  if (path == NULL) return CLI_FAILED;
  if (output != NULL && !cli_outputs_check(&output, 1, &path, 1))
    return CLI_FAILED;
  if (output != NULL && cli_is_file(output) && !cli_has(args, "force"))
    return cli_error(
        "%s: is there already, perhaps with your kernels; give "
        "another name, or --force",
        output);
  spec s;
  if (!spec_read(path, &s)) return CLI_FAILED;
  const int result = spec_check(&s) ? spec_output(&s, output) : CLI_FAILED;
  spec_reset(&s);
  return result;
}

const cli_command cli_command_gen = {
    .name = "gen",
    .summary = "write the C file of operators that a YAML file specifies",
    .usage = "SPEC.yaml [-o FILE.c] | --target NAME MODULE [ARG=VALUE...]",
    .text =
        "Writes declarations and kernel skeletons that compile; each kernel "
        "has its arguments\nunpacked and fails until it is written. The "
        "specification has the fields of og_op\n(schema, shape, where, dtype, "
        "backward, workspace, strides, inplace, row,\nreduce, doc, "
        "expect, "
        "flags, kernels), or op_name, op_type, input_desc, output_desc and\n"
        "attr_desc as operator plugins have them; then shape, dtype, where, "
        "backward, doc and expect\nmay stand beside those. See docs/cli.md.\n\n"
        "--target ge takes a module or a C file and writes what Ascend's graph "
        "engine needs of\nits operators: REG_OP prototypes (OUT.h for -o OUT), "
        "TorchAir's converters\n(OUT.py), and types and shapes of results "
        "(OUT.cc). --target stablehlo writes one "
        "call as StableHLO text; its arguments follow\nthe file, as in x=2,3 "
        "weight:bf16[3] eps=1e-6. --target c writes the formulas of a module "
        "as C, which\n`opgraft build` compiles by itself: for CMake and cross "
        "builds, with -ffp-contract=off.",
    .examples =
        "  opgraft gen norms.yaml -o norms.c\n"
        "  opgraft gen norms.yaml | less\n"
        "  opgraft gen --target ge norms.c -o norms_ge\n"
        "  opgraft gen --target stablehlo norms.c --op rms_norm x=4,8 "
        "weight=8\n"
        "  opgraft gen --target c softcap.c -o softcap_formulas.c",
    .options = options,
    .operand = CLI_OPERAND_GEN,
    .run = gen_run,
};
