// SPDX-License-Identifier: Apache-2.0
// The C text of a specification: kernels with their arguments unpacked, then
// the declarations.

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bind.h"
#include "code.h"

// --- Names -------------------------------------------------------------------

static bool is_c_word(const char *name) {
  static const char words[] =
      " auto bool break call case char complex const continue default do "
      "double else enum extern float for goto if inline int long register "
      "restrict return short signed sizeof static struct switch typedef union "
      "unsigned void volatile while ";
  return cli_has_word(words, name);
}

// An argument's name as a C variable.
static char *variable(const char *name) {
  return cli_format("%s%s", name, is_c_word(name) ? "_" : "");
}

// "f.overload" -> "f_overload"; in capitals for enumerators.
static char *op_identifier(const spec_op *op, bool is_upper) {
  char *name = cli_format("%s", opgraft_op_name(op->decl));
  for (char *c = name; *c != '\0'; ++c) {
    if (*c == '.') *c = '_';
    if (is_upper) *c = (char)toupper((unsigned char)*c);
  }
  return name;
}

// The operator's name, the kernel's types and what else tells it apart.
static char *kernel_identifier(const spec_op *op, int32_t index) {
  const spec_kernel *kernel = &op->kernels[index];
  char *bytes = NULL, *name = op_identifier(op, false);
  size_t size;
  FILE *to = cli_memory_open(&bytes, &size);
  fputs(name, to);
  free(name);
  bool is_new = true;
  const char *types = kernel->dtypes != NULL ? kernel->dtypes : "any";
  for (const char *c = types; *c != '\0'; ++c) {
    if (!isalnum((unsigned char)*c)) {
      is_new = true;
      continue;
    }
    if (is_new) fputc('_', to);
    is_new = false;
    fputc(*c, to);
  }
  if (kernel->isa != NULL) fprintf(to, "_%s", kernel->isa);
  if (kernel->device != OG_CPU) fprintf(to, "_device%d", (int)kernel->device);
  fclose(to);
  for (int32_t k = 0; k < index; ++k) {
    char *other = kernel_identifier(op, k);
    const bool is_equal = strcmp(other, bytes) == 0;
    free(other);
    if (!is_equal) continue;
    char *longer = cli_format("%s_%d", bytes, (int)index);
    free(bytes);
    return longer;
  }
  return bytes;
}

// --- Types -------------------------------------------------------------------

typedef struct c_type {
  const char *dtype;
  const char *c;
  const char *accessor;  // og_<accessor>; NULL: a cast of og_data
} c_type;

static const c_type c_types[] = {
    {"f32", "float", "f32"},   {"f64", "double", "f64"},
    {"f16", "og_half", "f16"}, {"bf16", "og_bfloat", "bf16"},
    {"i8", "int8_t", "i8"},    {"i16", "int16_t", "i16"},
    {"i32", "int32_t", "i32"}, {"i64", "int64_t", "i64"},
    {"u8", "uint8_t", "u8"},   {"bool", "uint8_t", "bool"},
    {"u16", "uint16_t", NULL}, {"u32", "uint32_t", NULL},
    {"u64", "uint64_t", NULL}, {"c64", "float", NULL},
    {"c128", "double", NULL},
};
static const c_type any_type = {"", "void", NULL};

static const c_type *c_type_find(const char *dtype, size_t length) {
  for (size_t i = 0; i < sizeof c_types / sizeof *c_types; ++i)
    if (strlen(c_types[i].dtype) == length &&
        memcmp(c_types[i].dtype, dtype, length) == 0)
      return &c_types[i];
  return &any_type;
}

// Entry `index` of a kernel's comma-separated dtypes, if it is one type.
static const c_type *kernel_type(const spec_kernel *kernel, int64_t index) {
  const char *at = kernel->dtypes;
  for (; at != NULL && index > 0; --index) {
    at = strchr(at, ',');
    if (at != NULL) ++at;
  }
  if (at == NULL) return &any_type;
  at += strspn(at, " ");
  return c_type_find(at, strcspn(at, ", "));
}

static const c_type *c_type_of(og_dtype dtype) {
  const char *name = cli_dtype_name(dtype);
  return c_type_find(name, strlen(name));
}

static const c_type *tensor_type(const spec_op *op, const spec_kernel *kernel,
                                 int32_t tensor) {
  opgraft_tensor_info info = {.struct_size = sizeof info};
  opgraft_op_get_tensor(op->decl, tensor, &info);
  if (info.type_variable >= 0) return kernel_type(kernel, info.type_variable);
  return info.dtype_count == 1 ? c_type_of(info.dtypes[0]) : &any_type;
}

static const c_type *result_type(const spec_op *op, const spec_kernel *kernel,
                                 const opgraft_result_info *result) {
  if (result->dtype_from == OPGRAFT_DTYPE_SAME)
    return tensor_type(op, kernel, result->dtype_tensor);
  return result->dtype_from == OPGRAFT_DTYPE_FIXED ? c_type_of(result->dtype)
                                                   : &any_type;
}

// --- Unpacking ---------------------------------------------------------------

// The names of the variables, so that each is used once.
typedef struct names {
  char *name[256];
  int count;
} names;

static const char *names_add(names *all, char *name) {
  for (int i = 0; i < all->count; ++i) {
    if (strcmp(all->name[i], name) != 0) continue;
    char *longer = cli_format("%s_", name);
    free(name);
    return names_add(all, longer);
  }
  return all->name[all->count++] = name;
}

static void pointer_write(const c_type *type, const char *name,
                          const char *from, bool is_const, bool is_optional,
                          FILE *to) {
  const char *prefix = is_const ? "const " : "";
  fprintf(to, "  %s%s *%s = ", prefix, type->c, name);
  if (is_optional) fprintf(to, "%s == NULL ? NULL : ", from);
  if (type->accessor != NULL)
    fprintf(to, "og_%s%s(%s);", type->accessor, is_const ? "" : "_mut", from);
  else if (type == &any_type)
    fprintf(to, "og_data(%s);", from);
  else
    fprintf(to, "(%s%s *)og_data(%s);", prefix, type->c, from);
  if (type->dtype[0] == 'c') fputs("  // real, imaginary, ...", to);
  fputc('\n', to);
}

static void tensor_write(const spec_op *op, const spec_kernel *kernel,
                         const opgraft_param_info *param, names *all,
                         FILE *to) {
  const bool is_mutated = (param->flags & OPGRAFT_PARAM_MUTATED) != 0;
  const char *name = names_add(all, variable(param->name));
  const int32_t at = is_mutated ? param->out : param->tensor;
  if (param->flags & OPGRAFT_PARAM_LIST) {
    fprintf(to, "  const og_tensor_list *%s = &call->%s[%d];\n", name,
            is_mutated ? "out_list" : "in_list", (int)at);
    return;
  }
  char *from = cli_format("call->%s[%d]", is_mutated ? "out" : "in", (int)at);
  pointer_write(tensor_type(op, kernel, param->tensor), name, from, !is_mutated,
                (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0, to);
  free(from);
}

static void attr_write(const opgraft_param_info *param, names *all, FILE *to) {
  static const char *const rows[][2] = {
      [OPGRAFT_TYPE_INT] = {"const int64_t ", ".i"},
      [OPGRAFT_TYPE_SYM_INT] = {"const int64_t ", ".i"},
      [OPGRAFT_TYPE_FLOAT] = {"const double ", ".f"},
      [OPGRAFT_TYPE_BOOL] = {"const int64_t ", ".i"},
      [OPGRAFT_TYPE_STR] = {"const char *", ".s"},
      [OPGRAFT_TYPE_SCALAR] = {NULL, NULL},
      [OPGRAFT_TYPE_SCALAR_TYPE] = {"const og_dtype ", ".dtype"},
      [OPGRAFT_TYPE_DEVICE] = {"const og_device ", ".device"},
  };
  const char *name = names_add(all, variable(param->name));
  const char *const *plain = rows[param->type];
  if (plain[0] != NULL &&
      !(param->flags & (OPGRAFT_PARAM_LIST | OPGRAFT_PARAM_OPTIONAL)))
    fprintf(to, "  %s%s = call->attr[%d]%s;\n", plain[0], name,
            (int)param->attr, plain[1]);
  else  // Lists, Scalars and optionals: what they are stands in `kind`.
    fprintf(to, "  const og_attr *%s = &call->attr[%d];\n", name,
            (int)param->attr);
}

static void result_write(const spec_op *op, const spec_kernel *kernel,
                         const opgraft_op_info *info,
                         const opgraft_result_info *result, names *all,
                         FILE *to) {
  const int at = (int)(info->mutated_count + result->fresh);
  if (result->fresh < 0) return;
  char *wanted = result->name[0] != '\0' ? variable(result->name)
                 : info->fresh_count == 1
                     ? cli_format("out")
                     : cli_format("out%d", (int)result->fresh);
  const char *name = names_add(all, wanted);
  if (result->flags & OPGRAFT_RESULT_LIST) {
    fprintf(to, "  const og_tensor_list *%s = &call->out_list[%d];\n", name,
            at);
    return;
  }
  char *from = cli_format("call->out[%d]", at);
  pointer_write(result_type(op, kernel, result), name, from, false, false, to);
  free(from);
}

static void dims_write(const spec_op *op, names *all, FILE *to) {
  static const char *const notes[] = {
      [OPGRAFT_DIM_SIZE] = "",
      [OPGRAFT_DIM_PACK] = "  // product of its dims",
      [OPGRAFT_DIM_VARY] = "  // sum over the list",
      [OPGRAFT_DIM_FOUND] = "  // at most; say with og_set_dim",
  };
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  char *prefix = op_identifier(op, true);
  for (int32_t d = 0; opgraft_op_get_dim(op->decl, d, &dim) == OG_OK; ++d)
    fprintf(to, "  const int64_t %s = call->dim[%s_%s];%s\n",
            names_add(all, variable(dim.name)), prefix, dim.name,
            notes[dim.kind]);
  free(prefix);
}

// --- Kernels -----------------------------------------------------------------

static void kernel_write(const spec_op *op, int32_t index, FILE *to) {
  const spec_kernel *kernel = &op->kernels[index];
  opgraft_op_info info = {.struct_size = sizeof info};
  opgraft_param_info param = {.struct_size = sizeof param};
  opgraft_result_info result = {.struct_size = sizeof result};
  char *function = kernel_identifier(op, index);
  names all = {0};
  names_add(&all, cli_format("call"));
  fprintf(to, "static og_status %s(const og_call *call) {\n", function);
  opgraft_op_get_info(op->decl, &info);
  for (int32_t p = 0; opgraft_op_get_param(op->decl, p, &param) == OG_OK; ++p) {
    if (param.type == OPGRAFT_TYPE_TENSOR)
      tensor_write(op, kernel, &param, &all, to);
    else
      attr_write(&param, &all, to);
  }
  for (int32_t r = 0; opgraft_op_get_result(op->decl, r, &result) == OG_OK; ++r)
    result_write(op, kernel, &info, &result, &all, to);
  dims_write(op, &all, to);
  if (op->text[SPEC_workspace] != NULL)
    fprintf(to, "  void *%s = call->workspace;  // call->workspace_bytes\n",
            names_add(&all, cli_format("workspace")));
  fputs("\n  // Compute here, and take out what is not used.\n", to);
  for (int i = 1; i < all.count; ++i) fprintf(to, "  (void)%s;\n", all.name[i]);
  fprintf(to,
          "  return og_fail(call, OG_UNSUPPORTED, \"this kernel is not written "
          "yet\");\n}\n\n");
  for (int i = 0; i < all.count; ++i) free(all.name[i]);
  free(function);
}

static const char *device_word(int32_t device) {
  switch (device) {
    case OG_CUDA:
      return "OG_CUDA";
    case OG_ROCM:
      return "OG_ROCM";
    case OG_EXT_DEV:
      return "OG_EXT_DEV";
    default:
      return "OG_CPU";
  }
}

static void c_string(const char *text, FILE *to) {
  fputc('"', to);
  for (const char *c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') fputc('\\', to);
    if (*c == '\n' || *c == '\t' || *c == '\r')
      fputc(' ', to);
    else
      fputc(*c, to);
  }
  fputc('"', to);
}

static void kernel_table_write(const spec_op *op, FILE *to) {
  char *name = op_identifier(op, false);
  fprintf(to, "static const og_kernel %s_kernels[] = {\n", name);
  for (int32_t k = 0; k < op->kernel_count; ++k) {
    const spec_kernel *kernel = &op->kernels[k];
    char *function = kernel_identifier(op, k);
    fprintf(to, "    {.device = %s, ", device_word(kernel->device));
    if (kernel->dtypes != NULL) {
      fputs(".dtypes = ", to);
      c_string(kernel->dtypes, to);
      fputs(", ", to);
    }
    if (kernel->isa != NULL) {
      fputs(".isa = ", to);
      c_string(kernel->isa, to);
      fputs(", ", to);
    }
    fprintf(to, ".run = %s},\n", function);
    free(function);
  }
  fputs("};\n\n", to);
  free(name);
}

static void dim_enum_write(const spec_op *op, FILE *to) {
  opgraft_dim_info dim = {.struct_size = sizeof dim};
  if (op->kernel_count == 0 || opgraft_op_get_dim(op->decl, 0, &dim) != OG_OK)
    return;
  char *prefix = op_identifier(op, true);
  fputs("// Where call->dim has the dims of the shape rule.\nenum {", to);
  for (int32_t d = 0; opgraft_op_get_dim(op->decl, d, &dim) == OG_OK; ++d)
    fprintf(to, "%s%s_%s", d == 0 ? " " : ", ", prefix, dim.name);
  fputs(" };\n\n", to);
  free(prefix);
}

// --- Declarations ------------------------------------------------------------

static void flags_write(uint32_t flags, FILE *to) {
  static const char *const flag_names[] = {
      "OG_DETERMINISTIC",      "OG_RANDOM",        "OG_SIDE_EFFECT",
      "OG_CAPTURE_SAME_SHAPE", "OG_CAPTURE_NEVER", "OG_BATCH_LOOP"};
  const char *before = "        .flags = ";
  for (int i = 0; i < 6; ++i) {
    if (!(flags >> i & 1u)) continue;
    fprintf(to, "%s%s", before, flag_names[i]);
    before = " | ";
  }
  if (flags != 0) fputs(",\n", to);
}

static void declaration_write(const spec_op *op, FILE *to) {
  char *name = op_identifier(op, false);
  fputs("    {\n", to);
  for (int f = 0; f < SPEC_FIELD_COUNT; ++f) {
    if (op->text[f] == NULL) continue;
    if (f == SPEC_shape && op->is_shape_guessed)
      fputs("        // The specification has no shapes: fix this rule.\n", to);
    fprintf(to, "        .%s = ", spec_field_names[f]);
    c_string(op->text[f], to);
    fputs(",\n", to);
  }
  flags_write(op->flags, to);
  if (op->kernel_count > 0)
    fprintf(to, "        .kernels = OG_KERNELS(%s_kernels),\n", name);
  fputs("    },\n", to);
  free(name);
}

void spec_write(const spec *s, FILE *to) {
  fprintf(to,
          "// Operators of %s, first written by `opgraft gen`; now yours to "
          "change.\n\n#include <opgraft/op.h>\n\n",
          cli_base_name(s->path));
  for (int32_t i = 0; i < s->op_count; ++i) {
    const spec_op *op = &s->ops[i];
    dim_enum_write(op, to);
    for (int32_t k = 0; k < op->kernel_count; ++k) kernel_write(op, k, to);
    if (op->kernel_count > 0) kernel_table_write(op, to);
  }
  fputs("static const og_op ops[] = {\n", to);
  for (int32_t i = 0; i < s->op_count; ++i) declaration_write(&s->ops[i], to);
  fprintf(to, "};\nOG_MODULE(%s, ops)\n", s->module);
}
