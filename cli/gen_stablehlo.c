// SPDX-License-Identifier: Apache-2.0
// A call of an operator as StableHLO text, with XLA's typed FFI: hosts/jax
// reads what is written here.

#include "gen_stablehlo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A tensor that is a buffer of the call.
typedef struct buffer {
  const og_tensor *tensor;
  int32_t operand;  // that this result is, written; or -1
} buffer;

enum { BUFFER_MAX = 256 };

typedef struct buffers {
  buffer all[BUFFER_MAX];
  int32_t count;
  bool is_full;
} buffers;

typedef struct lowered {
  const char *module;
  const opgraft_frame *frame;
  const opgraft_op *op;
  opgraft_op_info info;
  buffers operands;
  buffers results;
  bool is_plain;        // every tensor of the schema is one buffer
  int64_t entry_count;  // of all lists
} lowered;

static bool is_list(const opgraft_param_info *param) {
  return (param->flags & OPGRAFT_PARAM_LIST) != 0;
}

static opgraft_param_info param_of(const opgraft_op *op, int32_t index) {
  opgraft_param_info param = {.struct_size = sizeof param};
  opgraft_op_get_param(op, index, &param);
  return param;
}

// --- Which buffers there are -------------------------------------------------

static void buffer_add(buffers *to, const og_tensor *tensor, int32_t operand) {
  if (to->count == BUFFER_MAX)
    to->is_full = true;
  else
    to->all[to->count++] = (buffer){tensor, operand};
}

// One tensor of the call, absent where it is NULL.
static void tensor_add(lowered *l, const og_tensor *tensor, bool is_written) {
  if (tensor == NULL) {
    l->is_plain = false;
    return;
  }
  if (is_written) buffer_add(&l->results, tensor, l->operands.count);
  buffer_add(&l->operands, tensor, -1);
}

static void results_find(lowered *l) {
  for (int32_t i = 0; i < l->info.result_count; ++i) {
    opgraft_result_info result = {.struct_size = sizeof result};
    opgraft_op_get_result(l->op, i, &result);
    if (result.fresh < 0) continue;
    if ((result.flags & OPGRAFT_RESULT_LIST) == 0) {
      buffer_add(&l->results, &l->frame->fresh[result.fresh], -1);
      continue;
    }
    const og_tensor_list *list = &l->frame->fresh_list[result.fresh];
    for (int64_t k = 0; k < list->count; ++k)
      buffer_add(&l->results, list->tensors[k], -1);
  }
}

static void buffers_find(lowered *l) {
  l->is_plain = true;
  results_find(l);
  for (int32_t i = 0; i < l->info.param_count; ++i) {
    const opgraft_param_info param = param_of(l->op, i);
    const bool is_written = (param.flags & OPGRAFT_PARAM_MUTATED) != 0;
    if (param.tensor < 0) continue;
    if (!is_list(&param)) {
      tensor_add(l, l->frame->in[param.tensor], is_written);
      continue;
    }
    const og_tensor_list *list = &l->frame->in_list[param.tensor];
    l->is_plain = false;
    l->entry_count += list->count;
    for (int64_t k = 0; k < list->count; ++k)
      tensor_add(l, list->tensors[k], is_written);
  }
}

// --- Words of MLIR -----------------------------------------------------------

static void type_print(FILE *to, const og_tensor *tensor) {
  static const char *const complex[] = {"complex<f32>", "complex<f64>"};
  fputs("tensor<", to);
  for (int32_t i = 0; i < tensor->ndim; ++i)
    fprintf(to, "%lldx", (long long)tensor->shape[i]);
  const og_dtype dtype = tensor->dtype;
  if (dtype.code == OG_CODE_COMPLEX)
    fputs(complex[dtype.bits == 128], to);
  else if (dtype.code == OG_CODE_BOOL)
    fputs("i1", to);
  else if (dtype.code == OG_CODE_F8E4M3)
    fputs("f8E4M3FN", to);
  else if (dtype.code == OG_CODE_F8E5M2)
    fputs("f8E5M2", to);
  else
    fprintf(to, "%s%d",
            dtype.code == OG_CODE_FLOAT    ? "f"
            : dtype.code == OG_CODE_BFLOAT ? "bf"
            : dtype.code == OG_CODE_UINT   ? "ui"
                                           : "i",
            dtype.bits);
  fputc('>', to);
}

static void types_print(FILE *to, const buffers *all, const char *open,
                        const char *close) {
  fputs(open, to);
  for (int32_t i = 0; i < all->count; ++i) {
    if (i > 0) fputs(", ", to);
    type_print(to, all->all[i].tensor);
  }
  fputs(close, to);
}

static void string_print(FILE *to, const char *text, int64_t count) {
  fputc('"', to);
  for (int64_t i = 0; i < count; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c < ' ' || c == '"' || c == '\\' || c == 127)
      fprintf(to, "\\%02X", c);
    else
      fputc(c, to);
  }
  fputc('"', to);
}

// The shortest that reads as the same number; what is not finite by its bits.
static void float_print(FILE *to, double value) {
  if (!isfinite(value)) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    fprintf(to, "0x%016llX", (unsigned long long)bits);
    return;
  }
  char text[40];
  for (int digits = 1; digits < 18; ++digits) {
    snprintf(text, sizeof text, "%.*e", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  fputs(text, to);
}

static void layouts_print(FILE *to, const char *name, const buffers *all) {
  fprintf(to, ",\n      %s = [", name);
  for (int32_t i = 0; i < all->count; ++i) {
    const int32_t ndim = all->all[i].tensor->ndim;
    fprintf(to, "%sdense<", i > 0 ? ", " : "");
    if (ndim > 0) fputc('[', to);
    for (int32_t d = ndim; d-- > 0;)
      fprintf(to, "%d%s", (int)d, d > 0 ? ", " : "]");
    fprintf(to, "> : tensor<%dxindex>", (int)ndim);
  }
  fputc(']', to);
}

// --- Attributes --------------------------------------------------------------

static void ints_print(FILE *to, const int64_t *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    fprintf(to, "%s%lld", i > 0 ? ", " : "dense<[", (long long)values[i]);
  fprintf(to, "]> : tensor<%lldxi64>", (long long)count);
}

static void floats_print(FILE *to, const double *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    fputs(i > 0 ? ", " : "dense<[", to);
    float_print(to, values[i]);
  }
  fprintf(to, "]> : tensor<%lldxf64>", (long long)count);
}

// Each text ends with a newline.
static void strings_print(FILE *to, const og_attr *value) {
  char *text = NULL;
  size_t size;
  FILE *joined = cli_memory_open(&text, &size);
  for (int64_t i = 0; i < value->count; ++i)
    fprintf(joined, "%s\n", value->strs[i]);
  fclose(joined);
  string_print(to, text, (int64_t)size);
  free(text);
}

static void number_print(FILE *to, int64_t number, bool is_truth) {
  if (is_truth)
    fputs(number != 0 ? "true" : "false", to);
  else
    fprintf(to, "%lld : i64", (long long)number);
}

// `type`: the argument's, since a bool may arrive as a number.
static void value_print(FILE *to, const og_attr *value, int32_t type) {
  switch (value->kind) {
    case OG_ATTR_FLOAT:
      float_print(to, value->f);
      fputs(" : f64", to);
      break;
    case OG_ATTR_COMPLEX:
      floats_print(to, (const double[]){value->f, value->imag}, 2);
      break;
    case OG_ATTR_STR:
      string_print(to, value->s, value->count);
      break;
    case OG_ATTR_DTYPE: {
      const char *name = cli_dtype_name(value->dtype);
      string_print(to, name, (int64_t)strlen(name));
      break;
    }
    case OG_ATTR_FLOATS:
      floats_print(to, value->floats, value->count);
      break;
    case OG_ATTR_STRS:
      strings_print(to, value);
      break;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
      ints_print(to, value->ints, value->count);
      break;
    default:
      number_print(to, value->i,
                   value->kind == OG_ATTR_BOOL || type == OPGRAFT_TYPE_BOOL);
  }
}

static bool is_list_kind(int32_t kind) {
  return kind == OG_ATTR_INTS || kind == OG_ATTR_FLOATS ||
         kind == OG_ATTR_BOOLS || kind == OG_ATTR_STRS;
}

static void attr_print(FILE *to, const opgraft_param_info *param,
                       const og_attr *value, const char **before) {
  if (value->kind == OG_ATTR_NONE) {
    if (param->default_value.kind == OG_ATTR_NONE) return;
    fprintf(to, "%s%s.none = true", *before, param->name);
  } else if (is_list_kind(value->kind) && value->count == 0) {
    fprintf(to, "%s%s.empty = true", *before, param->name);
  } else {
    fprintf(to, "%s%s = ", *before, param->name);
    value_print(to, value, param->type);
  }
  *before = ", ";
}

// Which tensors the buffers are, where that is not all in order.
static void given_print(FILE *to, const lowered *l, const char **before) {
  int64_t flags[OPGRAFT_ARG_MAX + BUFFER_MAX];
  int32_t count = 0;
  if (l->is_plain) return;
  for (int32_t i = 0; i < l->info.param_count; ++i) {
    const opgraft_param_info param = param_of(l->op, i);
    if (param.tensor < 0) continue;
    const og_tensor_list *list = &l->frame->in_list[param.tensor];
    flags[count++] =
        is_list(&param) ? list->count : l->frame->in[param.tensor] != NULL;
    for (int64_t k = 0; is_list(&param) && k < list->count; ++k)
      flags[count++] = list->tensors[k] != NULL;
  }
  fprintf(to, "%sopgraft.given = ", *before);
  ints_print(to, flags, count);
  *before = ", ";
}

static void config_print(FILE *to, const lowered *l) {
  const char *before = "";
  fputs(",\n      backend_config = {", to);
  given_print(to, l, &before);
  for (int32_t i = 0; i < l->info.param_count; ++i) {
    const opgraft_param_info param = param_of(l->op, i);
    if (param.attr >= 0)
      attr_print(to, &param, &l->frame->attr[param.attr], &before);
  }
  fputc('}', to);
}

static void aliases_print(FILE *to, const buffers *results) {
  const char *before = ",\n      output_operand_aliases = [";
  for (int32_t i = 0; i < results->count; ++i) {
    if (results->all[i].operand < 0) continue;
    fprintf(to, "%s#stablehlo.output_operand_alias<output_tuple_indices = [",
            before);
    if (results->count > 1) fprintf(to, "%d", (int)i);
    fprintf(to, "], operand_index = %d, operand_tuple_indices = []>",
            (int)results->all[i].operand);
    before = ", ";
  }
  if (before[1] == ' ') fputc(']', to);
}

// --- The text ----------------------------------------------------------------

static void call_print(FILE *to, const lowered *l) {
  const int32_t count = l->results.count;
  fputs("    ", to);
  if (count > 0) fprintf(to, "%%0%s", count > 1 ? ":" : " = ");
  if (count > 1) fprintf(to, "%d = ", (int)count);
  fprintf(to, "stablehlo.custom_call @\"%s.%s\"(", l->module, l->info.name);
  for (int32_t i = 0; i < l->operands.count; ++i)
    fprintf(to, "%s%%arg%d", i > 0 ? ", " : "", (int)i);
  fputs(") {\n      api_version = 4 : i32", to);
  config_print(to, l);
  if ((opgraft_op_record(l->op)->flags & (OG_SIDE_EFFECT | OG_RANDOM)) != 0)
    fputs(",\n      has_side_effect = true", to);
  layouts_print(to, "operand_layouts", &l->operands);
  layouts_print(to, "result_layouts", &l->results);
  aliases_print(to, &l->results);
  types_print(to, &l->operands, "\n    } : (", ") -> ");
  types_print(to, &l->results, count != 1 ? "(" : "",
              count != 1 ? ")\n" : "\n");
}

static void return_print(FILE *to, const lowered *l) {
  const int32_t count = l->results.count;
  fputs("    return", to);
  for (int32_t i = 0; i < count; ++i) {
    fprintf(to, "%s%%0", i > 0 ? ", " : " ");
    if (count > 1) fprintf(to, "#%d", (int)i);
  }
  if (count > 0) types_print(to, &l->results, " : ", "");
  fputc('\n', to);
}

static void module_print(FILE *to, const lowered *l) {
  fprintf(to, "// %s\nmodule {\n  func.func public @main(",
          opgraft_op_record(l->op)->schema);
  for (int32_t i = 0; i < l->operands.count; ++i) {
    fprintf(to, "%s%%arg%d: ", i > 0 ? ", " : "", (int)i);
    type_print(to, l->operands.all[i].tensor);
  }
  types_print(to, &l->results, ") -> (", ") {\n");
  call_print(to, l);
  return_print(to, l);
  fputs("  }\n}\n", to);
}

// What JAX lacks too; prints.
static bool is_possible(const lowered *l) {
  if ((l->info.flags & OPGRAFT_OP_DATA_DEPENDENT) != 0) {
    cli_error(
        "%s: the kernel finds a result's size, expected a size that the "
        "call's shapes give",
        l->info.name);
    return false;
  }
  for (int32_t i = 0; i < l->info.param_count; ++i) {
    const opgraft_param_info param = param_of(l->op, i);
    if (param.type != OPGRAFT_TYPE_DEVICE) continue;
    cli_error("%s: attribute %s is a device, for which XLA has no kind",
              l->info.name, param.name);
    return false;
  }
  if (!l->operands.is_full && !l->results.is_full &&
      l->entry_count <= BUFFER_MAX)
    return true;
  cli_error("%s: the call has more than %d tensors", l->info.name, BUFFER_MAX);
  return false;
}

bool cli_gen_stablehlo(const char *module, cli_call *call, FILE *to) {
  opgraft_error error = {0};
  if (opgraft_frame_infer(&call->frame, &error) != OG_OK) {
    cli_library_error(&error);
    return false;
  }
  lowered l = {.module = module,
               .frame = &call->frame,
               .op = call->frame.op,
               .info = {.struct_size = sizeof l.info}};
  opgraft_op_get_info(l.op, &l.info);
  buffers_find(&l);
  if (!is_possible(&l)) return false;
  module_print(to, &l);
  return true;
}
