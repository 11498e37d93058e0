// SPDX-License-Identifier: Apache-2.0
// Operators for Ascend's graph engine: a REG_OP prototype in C++ and TorchAir's
// converter in Python, from one declaration.
//
// A tensor is an input, the others are attributes; of one that may be None a
// second attribute, has_NAME, says whether it was given. A tensor that the
// operator writes is an output of the same name besides, which GE takes as a
// reference. Outputs stand in this order: what is written, then what is new.

#include "gen_ge.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"
#include "cli.h"
#include "gen_ge_infer.h"

// --- Words of GE -------------------------------------------------------------

static const struct {
  const char *name;
  const char *ge;
} types[] = {
    {"f32", "DT_FLOAT"},  {"f64", "DT_DOUBLE"},    {"f16", "DT_FLOAT16"},
    {"bf16", "DT_BF16"},  {"i8", "DT_INT8"},       {"i16", "DT_INT16"},
    {"i32", "DT_INT32"},  {"i64", "DT_INT64"},     {"u8", "DT_UINT8"},
    {"u16", "DT_UINT16"}, {"u32", "DT_UINT32"},    {"u64", "DT_UINT64"},
    {"bool", "DT_BOOL"},  {"c64", "DT_COMPLEX64"}, {"c128", "DT_COMPLEX128"},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

typedef struct attr_words {
  const char *ge;       // of REG_OP
  const char *attr;     // a class of torchair.ge.attr
  const char *hint;     // in Python
  const char *ge_none;  // what stands where it is None
  const char *none;     // that in Python
} attr_words;

static const attr_words scalar_words[] = {
    [OPGRAFT_TYPE_INT] = {"Int", "Int", "int", "0", "0"},
    [OPGRAFT_TYPE_SYM_INT] = {"Int", "Int", "int", "0", "0"},
    [OPGRAFT_TYPE_FLOAT] = {"Float", "Float", "float", "0.0", "0.0"},
    [OPGRAFT_TYPE_BOOL] = {"Bool", "Bool", "bool", "false", "False"},
    [OPGRAFT_TYPE_STR] = {"String", "Str", "str", "\"\"", "\"\""},
    [OPGRAFT_TYPE_DEVICE] = {0},
};
static const attr_words list_words[] = {
    [OPGRAFT_TYPE_INT] = {"ListInt", "ListInt", "list[int]", "{}", "[]"},
    [OPGRAFT_TYPE_SYM_INT] = {"ListInt", "ListInt", "list[int]", "{}", "[]"},
    [OPGRAFT_TYPE_FLOAT] = {"ListFloat", "ListFloat", "list[float]", "{}",
                            "[]"},
    [OPGRAFT_TYPE_BOOL] = {"ListBool", "ListBool", "list[bool]", "{}", "[]"},
    [OPGRAFT_TYPE_STR] = {"ListString", "ListStr", "list[str]", "{}", "[]"},
    [OPGRAFT_TYPE_DEVICE] = {0},
};

// NULL where GE has no such attribute.
static const attr_words *words_of(const opgraft_param_info *param) {
  if (param->type < 0 || param->type > OPGRAFT_TYPE_DEVICE) return NULL;
  const attr_words *words = (param->flags & OPGRAFT_PARAM_LIST) != 0
                                ? &list_words[param->type]
                                : &scalar_words[param->type];
  return words->ge != NULL ? words : NULL;
}

// --- An operator -------------------------------------------------------------

typedef struct output {
  char *name;
  int32_t param;   // that it is, written; or -1
  int32_t result;  // of the schema, where it is new
} output;

typedef struct ge_op {
  const opgraft_op *op;
  opgraft_op_info info;
  opgraft_param_info *params;
  output *outputs;
  int32_t output_count;
  char *type;  // its name in GE
} ge_op;

static bool is_tensor(const opgraft_param_info *param) {
  return param->tensor >= 0;
}

static bool is_optional(const opgraft_param_info *param) {
  return (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0;
}

// "paged_cache", "append.list" -> "PagedCacheAppend_List": GE has one room for
// all names.
static char *type_name(const char *module, const char *op) {
  char *joined = cli_format("%s_%s", module, op);
  char *to = joined;
  bool is_first = true;
  for (const char *from = joined; *from != '\0'; ++from) {
    if (*from == '_') {
      is_first = true;
      continue;
    }
    if (*from == '.')
      *to++ = '_';
    else
      *to++ = (char)(is_first ? toupper((unsigned char)*from) : *from);
    is_first = *from == '.';
  }
  *to = '\0';
  return joined;
}

static bool is_taken(const ge_op *g, const char *name) {
  for (int32_t i = 0; i < g->info.param_count; ++i)
    if (strcmp(g->params[i].name, name) == 0) return true;
  for (int32_t i = 0; i < g->output_count; ++i)
    if (strcmp(g->outputs[i].name, name) == 0) return true;
  return false;
}

// The schema's name, or y, y1, ...; never that of an input, since GE would
// write there.
static char *fresh_name(const ge_op *g, const char *wanted) {
  char *name = cli_format("%s", wanted[0] != '\0' ? wanted : "y");
  for (int i = 1; is_taken(g, name); ++i) {
    free(name);
    name = cli_format("%s%d", wanted[0] != '\0' ? wanted : "y", i);
  }
  return name;
}

static void output_add(ge_op *g, char *name, int32_t param, int32_t result) {
  g->outputs =
      cli_realloc(g->outputs, (size_t)g->output_count + 1, sizeof *g->outputs);
  g->outputs[g->output_count++] = (output){name, param, result};
}

static void outputs_find(ge_op *g) {
  for (int32_t i = 0; i < g->info.param_count; ++i)
    if ((g->params[i].flags & OPGRAFT_PARAM_MUTATED) != 0)
      output_add(g, cli_format("%s", g->params[i].name), i, -1);
  for (int32_t i = 0; i < g->info.result_count; ++i) {
    opgraft_result_info result = {.struct_size = sizeof result};
    opgraft_op_get_result(g->op, i, &result);
    if (result.param < 0) output_add(g, fresh_name(g, result.name), -1, i);
  }
}

static void ge_op_reset(ge_op *g) {
  for (int32_t i = 0; i < g->output_count; ++i) free(g->outputs[i].name);
  free(g->outputs);
  free(g->params);
  free(g->type);
}

static ge_op ge_op_of(const opgraft_module *module, int32_t index) {
  ge_op g = {.op = opgraft_module_op(module, index),
             .info = {.struct_size = sizeof g.info}};
  opgraft_op_get_info(g.op, &g.info);
  g.params = cli_alloc((size_t)g.info.param_count + 1, sizeof *g.params);
  for (int32_t i = 0; i < g.info.param_count; ++i) {
    g.params[i].struct_size = sizeof g.params[i];
    opgraft_op_get_param(g.op, i, &g.params[i]);
  }
  g.type = type_name(opgraft_module_name(module), g.info.name);
  outputs_find(&g);
  return g;
}

// --- What GE cannot have -----------------------------------------------------

// Words that a parameter of the converter cannot be: Python's, and two that it
// has already.
static const char taken_words[] =
    " False None True and as assert async await break class continue def del "
    "elif else except finally for from global if import in is lambda nonlocal "
    "not or pass raise return try while with yield meta_outputs _ge ";

static bool is_finite_default(const opgraft_param_info *param) {
  const og_attr *value = &param->default_value;
  if (param->type != OPGRAFT_TYPE_FLOAT || value->kind == OG_ATTR_NONE)
    return true;
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) return isfinite(value->f);
  for (int64_t i = 0; i < value->count; ++i)
    if (!isfinite(value->floats[i])) return false;
  return true;
}

static char *param_limit(const opgraft_param_info *param) {
  if (cli_has_word(taken_words, param->name))
    return cli_format("argument %s has a name that a converter cannot have",
                      param->name);
  if (is_tensor(param)) {
    if ((param->flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL) != 0)
      return cli_format(
          "argument %s is a list in which a tensor may be missing",
          param->name);
    if ((param->flags & OPGRAFT_PARAM_LIST) != 0 &&
        (param->flags & OPGRAFT_PARAM_MUTATED) != 0)
      return cli_format("argument %s is a list of tensors that is written",
                        param->name);
    return NULL;
  }
  if (words_of(param) == NULL)
    return cli_format("attribute %s is a %s, for which GE has no kind",
                      param->name, opgraft_type_name(param->type));
  if (!is_finite_default(param))
    return cli_format("attribute %s has a default that is not finite",
                      param->name);
  return NULL;
}

// The attribute that says whether another was given has a name of its own.
static bool is_flag_taken(const ge_op *g, const opgraft_param_info *param) {
  char *flag = cli_format("has_%s", param->name);
  const bool is_found =
      !is_tensor(param) && is_optional(param) && is_taken(g, flag);
  free(flag);
  return is_found;
}

// Why GE cannot have the operator, the caller's; NULL: it can.
static char *limit_of(const ge_op *g) {
  for (int32_t i = 0; i < g->info.param_count; ++i) {
    char *limit = param_limit(&g->params[i]);
    if (limit == NULL && is_flag_taken(g, &g->params[i]))
      limit =
          cli_format("attribute %s may be None, and has_%s is there already",
                     g->params[i].name, g->params[i].name);
    if (limit != NULL) return limit;
  }
  for (int32_t i = 0; i < g->info.result_count; ++i) {
    opgraft_result_info result = {.struct_size = sizeof result};
    opgraft_op_get_result(g->op, i, &result);
    if (result.type != OPGRAFT_TYPE_TENSOR)
      return cli_format("result %d is a number", (int)i);
    if ((result.flags & OPGRAFT_RESULT_LIST) != 0)
      return cli_format("result %d is a list of tensors", (int)i);
  }
  return NULL;
}

// --- The prototype -----------------------------------------------------------

typedef struct type_set {
  bool has[TYPE_COUNT];
} type_set;

static void set_add(type_set *set, og_dtype dtype) {
  for (int i = 0; i < TYPE_COUNT; ++i)
    set->has[i] |= strcmp(types[i].name, cli_dtype_name(dtype)) == 0;
}

static void set_add_tensor(type_set *set, const ge_op *g, int32_t tensor) {
  opgraft_tensor_info info = {.struct_size = sizeof info};
  if (opgraft_op_get_tensor(g->op, tensor, &info) != OG_OK) return;
  for (int32_t i = 0; i < info.dtype_count; ++i) set_add(set, info.dtypes[i]);
}

static type_set set_of_result(const ge_op *g, int32_t index) {
  type_set set = {{false}};
  opgraft_result_info result = {.struct_size = sizeof result};
  opgraft_op_get_result(g->op, index, &result);
  if (result.dtype_from == OPGRAFT_DTYPE_FIXED) set_add(&set, result.dtype);
  if (result.dtype_from == OPGRAFT_DTYPE_SAME)
    set_add_tensor(&set, g, result.dtype_tensor);
  // Promotion gives one of the types that its tensors have.
  for (int32_t i = 0; i < result.promoted_count; ++i)
    if (is_tensor(&g->params[result.promoted[i]]))
      set_add_tensor(&set, g, g->params[result.promoted[i]].tensor);
  return set;
}

static void set_print(FILE *to, const type_set *set) {
  const char *before = "TensorType({";
  for (int i = 0; i < TYPE_COUNT; ++i) {
    if (!set->has[i]) continue;
    fprintf(to, "%s%s", before, types[i].ge);
    before = ", ";
  }
  fputs(before[0] == 'T' ? "TensorType::ALL()" : "})", to);
}

// A C++ and a Python number alike.
static void float_print(FILE *to, double value) {
  char text[40];
  snprintf(text, sizeof text, "%.*g", DBL_DIG, value);
  if (strtod(text, NULL) != value)
    snprintf(text, sizeof text, "%.*g", DBL_DIG + 2, value);
  fprintf(to, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
}

typedef struct syntax {
  const char *open, *close, *yes, *no;
} syntax;

static const syntax cpp = {"{", "}", "true", "false"};
static const syntax python = {"[", "]", "True", "False"};

static void entry_print(FILE *to, const opgraft_param_info *param, int64_t i,
                        const syntax *form) {
  const og_attr *value = &param->default_value;
  const bool is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  if (param->type == OPGRAFT_TYPE_FLOAT) {
    float_print(to, is_list ? value->floats[i] : value->f);
  } else if (param->type == OPGRAFT_TYPE_STR) {
    cli_json_string(to, is_list ? value->strs[i] : value->s);
  } else {
    const int64_t number = is_list ? value->ints[i] : value->i;
    if (param->type == OPGRAFT_TYPE_BOOL)
      fputs(number != 0 ? form->yes : form->no, to);
    else
      fprintf(to, "%lld", (long long)number);
  }
}

static void default_print(FILE *to, const opgraft_param_info *param,
                          const syntax *form) {
  if ((param->flags & OPGRAFT_PARAM_LIST) == 0) {
    entry_print(to, param, 0, form);
    return;
  }
  fputs(form->open, to);
  for (int64_t i = 0; i < param->default_value.count; ++i) {
    if (i > 0) fputs(", ", to);
    entry_print(to, param, i, form);
  }
  fputs(form->close, to);
}

static void input_print(FILE *to, const ge_op *g,
                        const opgraft_param_info *param) {
  type_set set = {{false}};
  set_add_tensor(&set, g, param->tensor);
  const char *kind = (param->flags & OPGRAFT_PARAM_LIST) != 0 ? "DYNAMIC_INPUT"
                     : (param->flags & OPGRAFT_PARAM_OPTIONAL) != 0
                         ? "OPTIONAL_INPUT"
                         : "INPUT";
  fprintf(to, "    .%s(%s, ", kind, param->name);
  set_print(to, &set);
  fputs(")\n", to);
}

static void output_print(FILE *to, const ge_op *g, const output *out) {
  type_set set = {{false}};
  if (out->param >= 0)
    set_add_tensor(&set, g, g->params[out->param].tensor);
  else
    set = set_of_result(g, out->result);
  fprintf(to, "    .OUTPUT(%s, ", out->name);
  set_print(to, &set);
  fputs(")\n", to);
}

static void attr_print(FILE *to, const opgraft_param_info *param) {
  const attr_words *words = words_of(param);
  if ((param->flags & OPGRAFT_PARAM_DEFAULT) == 0) {
    fprintf(to, "    .REQUIRED_ATTR(%s, %s)\n", param->name, words->ge);
    if (is_optional(param))
      fprintf(to, "    .REQUIRED_ATTR(has_%s, Bool)\n", param->name);
    return;
  }
  const bool is_none = param->default_value.kind == OG_ATTR_NONE;
  fprintf(to, "    .ATTR(%s, %s, ", param->name, words->ge);
  if (is_none)
    fputs(words->ge_none, to);
  else
    default_print(to, param, &cpp);
  fputs(")\n", to);
  if (is_optional(param))
    fprintf(to, "    .ATTR(has_%s, Bool, %s)\n", param->name,
            is_none ? cpp.no : cpp.yes);
}

static void prototype_print(FILE *to, const ge_op *g) {
  fprintf(to, "\n// %s\nREG_OP(%s)\n", opgraft_op_record(g->op)->schema,
          g->type);
  for (int32_t i = 0; i < g->info.param_count; ++i)
    if (is_tensor(&g->params[i])) input_print(to, g, &g->params[i]);
  for (int32_t i = 0; i < g->output_count; ++i)
    output_print(to, g, &g->outputs[i]);
  for (int32_t i = 0; i < g->info.param_count; ++i)
    if (!is_tensor(&g->params[i])) attr_print(to, &g->params[i]);
  fprintf(to, "    .OP_END_FACTORY_REG(%s)\n", g->type);
}

// --- The converter -----------------------------------------------------------

static void hint_print(FILE *to, const opgraft_param_info *param) {
  const bool is_list = (param->flags & OPGRAFT_PARAM_LIST) != 0;
  fputs(!is_tensor(param) ? words_of(param)->hint
        : is_list         ? "list[Tensor]"
                          : "Tensor",
        to);
  if (is_optional(param)) fputs(" | None", to);
}

static void signature_print(FILE *to, const ge_op *g) {
  bool is_keyword = false;
  for (int32_t i = 0; i < g->info.param_count; ++i) {
    const opgraft_param_info *param = &g->params[i];
    if ((param->flags & OPGRAFT_PARAM_KEYWORD_ONLY) != 0 && !is_keyword) {
      fputs("    *,\n", to);
      is_keyword = true;
    }
    fprintf(to, "    %s: ", param->name);
    hint_print(to, param);
    if ((param->flags & OPGRAFT_PARAM_DEFAULT) != 0) {
      fputs(" = ", to);
      if (param->default_value.kind == OG_ATTR_NONE)
        fputs("None", to);
      else
        default_print(to, param, &python);
    }
    fputs(",\n", to);
  }
  // TorchAir gives the results' types and shapes by this name.
  fprintf(to, "%s    meta_outputs: Any = None,\n",
          is_keyword ? "" : "    *,\n");
}

// Of the node: what is new; of the functional form, which writes into copies,
// then what is written.
static int32_t result_count(const ge_op *g, bool is_functional) {
  return is_functional ? g->output_count
                       : g->output_count - g->info.mutated_count;
}

static void return_print(FILE *to, const ge_op *g, bool is_functional) {
  const int32_t count = result_count(g, is_functional);
  for (int32_t i = 0; i < count; ++i) {
    fputs(i > 0 ? ", made" : "    return made", to);
    if (g->output_count > 1)
      fprintf(to, "[%d]", (int)((i + g->info.mutated_count) % g->output_count));
  }
  if (count > 0) fputc('\n', to);
}

// The attribute of a node, from the converter's parameter.
static void value_print(FILE *to, const opgraft_param_info *param) {
  const attr_words *words = words_of(param);
  const char *name = param->name;
  if (is_optional(param))
    fprintf(to,
            "\"%s\": _ge.attr.%s(%s if %s is None else %s), "
            "\"has_%s\": _ge.attr.Bool(%s is not None)",
            name, words->attr, words->none, name, name, name, name);
  else
    fprintf(to, "\"%s\": _ge.attr.%s(%s)", name, words->attr, name);
}

static void call_print(FILE *to, const ge_op *g, bool is_functional) {
  const char *before = "";
  fprintf(to, "    %s_ge.custom_op(\n        \"%s\",\n        inputs={",
          result_count(g, is_functional) > 0 ? "made = " : "", g->type);
  for (int32_t i = 0; i < g->info.param_count; ++i) {
    const opgraft_param_info *param = &g->params[i];
    if (!is_tensor(param)) continue;
    const bool is_copied =
        is_functional && (param->flags & OPGRAFT_PARAM_MUTATED) != 0;
    fprintf(to, "%s\"%s\": %s%s%s", before, param->name,
            is_copied ? "_ge.TensorMove(" : "", param->name,
            is_copied ? ")" : "");
    before = ", ";
  }
  fputs("},\n        outputs=[", to);
  for (int32_t i = 0; i < g->output_count; ++i)
    fprintf(to, "%s\"%s\"", i > 0 ? ", " : "", g->outputs[i].name);
  fputs("],\n        attrs={", to);
  before = "";
  for (int32_t i = 0; i < g->info.param_count; ++i) {
    const opgraft_param_info *param = &g->params[i];
    if (is_tensor(param)) continue;
    fputs(before, to);
    value_print(to, param);
    before = ", ";
  }
  fputs("},\n    )\n", to);
}

// `functional`: what makes the name that of the functional form, or "".
static void converter_print(FILE *to, const char *module, const ge_op *g,
                            const char *functional) {
  const opgraft_op_info *info = &g->info;
  const bool has_overload = info->overload[0] != '\0';
  fprintf(to,
          "\n\n@torchair.register_fx_node_ge_converter(torch.ops.%s.%s%s.%s)\n"
          "def convert_%s%s%s%s(\n",
          module, info->base_name, functional,
          has_overload ? info->overload : "default", info->base_name,
          functional, has_overload ? "_" : "", info->overload);
  signature_print(to, g);
  fprintf(to, ") -> Any:\n    r\"\"\"%s\"\"\"\n",
          opgraft_op_record(g->op)->schema);
  call_print(to, g, functional[0] != '\0');
  return_print(to, g, functional[0] != '\0');
}

static void converters_print(FILE *to, const char *module, const ge_op *g) {
  const size_t length = strlen(g->info.base_name);
  converter_print(to, module, g, "");
  if (g->info.mutated_count > 0)
    converter_print(
        to, module, g,
        g->info.base_name[length - 1] == '_' ? "functional" : "_functional");
}

// --- What is written ---------------------------------------------------------

// TorchAir leaves a copy in front of an operator that writes, unless a table of
// its own says which outputs are which inputs.
static const char written_text[] =
    "}\n\n\n"
    "def _tell_written() -> None:\n"
    "    from torchair._ge_concrete_graph import graph_pass\n\n"
    "    others = graph_pass._get_output_to_input_ref_idx\n\n"
    "    def found(op: Any) -> dict[int, int]:\n"
    "        if op.type not in _WRITTEN:\n"
    "            return others(op)\n"
    "        inputs = [desc.name for desc in op.input_desc]\n"
    "        return {i: inputs.index(name)\n"
    "                for i, name in enumerate(_WRITTEN[op.type])}\n\n"
    "    graph_pass._get_output_to_input_ref_idx = found\n\n\n"
    "try:\n"
    "    _tell_written()\n"
    "except (ImportError, AttributeError):\n"
    "    pass  # a TorchAir without this table: copies stay\n";

// The function that GE calls, and its registration.
static void infer_print(FILE *to, const ge_op *g) {
  fprintf(to,
          "\nstatic graphStatus Infer%s(Operator &op) {\n"
          "  return infer(op, \"%s\", {",
          g->type, g->info.name);
  for (int32_t i = 0; i < g->output_count; ++i)
    fprintf(to, "%s\"%s\"",
            i == g->info.mutated_count ? "}, {"
            : i > 0                    ? ", "
                                       : "",
            g->outputs[i].name);
  fprintf(to, "%s});\n}\nCOMMON_INFER_FUNC_REG(%s, Infer%s);\n",
          g->output_count == g->info.mutated_count ? "}, {" : "", g->type,
          g->type);
}

static void infer_begin(FILE *to, const char *module, const char *header) {
  fprintf(to,
          "// Types and shapes of the operators of %s for Ascend's graph "
          "engine, made by\n// `opgraft gen --target ge`. Build it into the "
          "plugin that has the prototypes, with\n// opgraft's headers and "
          "library and -DOPGRAFT_MODULE='\"/path/of/%s.so\"'.\n\n"
          "#include <algorithm>\n#include <cstdio>\n#include <cstring>\n"
          "#include <deque>\n#include <string>\n#include <vector>\n\n"
          "#include <opgraft/info.h>\n#include <opgraft/opgraft.h>\n\n"
          "#include \"%s\"\n\n#ifndef OPGRAFT_MODULE\n"
          "#define OPGRAFT_MODULE \"%s.so\"\n#endif\n\n"
          "static const struct {\n  ge::DataType ge;\n  og_dtype own;\n} "
          "types[] = {\n",
          module, module, cli_base_name(header), module);
  for (int i = 0; i < TYPE_COUNT; ++i) {
    og_dtype own;
    cli_dtype_parse(types[i].name, strlen(types[i].name), &own);
    fprintf(to, "    {ge::%s, {%d, %d, 1}},\n", types[i].ge, (int)own.code,
            (int)own.bits);
  }
  fputs("};\n\n", to);
  for (const char *const *part = cli_ge_infer_text; *part != NULL; ++part)
    fputs(*part, to);
}

static void written_print(FILE *to, const ge_op *g, bool *is_begun) {
  if (g->info.mutated_count == 0) return;
  if (!*is_begun)
    fputs(
        "\n\n# The first outputs are these inputs, written in place.\n"
        "_WRITTEN = {\n",
        to);
  *is_begun = true;
  fprintf(to, "    \"%s\": [", g->type);
  for (int32_t i = 0; i < g->info.mutated_count; ++i)
    fprintf(to, "%s\"%s\"", i > 0 ? ", " : "", g->outputs[i].name);
  fputs("],\n", to);
}

// --- Both files --------------------------------------------------------------

typedef struct text {
  char *bytes;
  size_t size;
  FILE *to;
} text;

static void begin(text *header, text *converters, text *shapes,
                  const char *module, const char *header_path) {
  shapes->to = cli_memory_open(&shapes->bytes, &shapes->size);
  infer_begin(shapes->to, module, header_path);
  header->to = cli_memory_open(&header->bytes, &header->size);
  converters->to = cli_memory_open(&converters->bytes, &converters->size);
  fprintf(
      header->to,
      "// Prototypes of the operators of %s for Ascend's graph engine, made "
      "by\n// `opgraft gen --target ge` from their declarations.\n\n"
      "#pragma once\n\n#include \"graph/operator_reg.h\"\n\nnamespace ge "
      "{\n",
      module);
  fprintf(converters->to,
          "\"\"\"TorchAir's converters of the operators of %s, made by\n"
          "`opgraft gen --target ge` from their declarations.\n\n"
          "The operators are to be loaded before this file is imported.\n"
          "\"\"\"\n\nfrom __future__ import annotations\n\n"
          "from typing import Any\n\nimport torch\nimport torchair\n"
          "from torchair import ge as _ge\nfrom torchair.ge import Tensor\n",
          module);
}

static int32_t all_print(const opgraft_module *module, FILE *header,
                         FILE *converters, FILE *shapes) {
  int32_t written = 0;
  bool is_begun = false;
  text table = {0};
  table.to = cli_memory_open(&table.bytes, &table.size);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i) {
    ge_op g = ge_op_of(module, i);
    char *limit = limit_of(&g);
    if (limit != NULL) {
      cli_note("GE: without %s: %s", g.info.name, limit);
    } else {
      prototype_print(header, &g);
      infer_print(shapes, &g);
      converters_print(converters, opgraft_module_name(module), &g);
      written_print(table.to, &g, &is_begun);
      ++written;
    }
    free(limit);
    ge_op_reset(&g);
  }
  fclose(table.to);
  if (is_begun) fprintf(converters, "%s%s", table.bytes, written_text);
  free(table.bytes);
  return written;
}

int cli_gen_ge(const opgraft_module *module, const char *header_path,
               const char *converters_path, const char *shapes_path) {
  text header, converters, shapes;
  begin(&header, &converters, &shapes, opgraft_module_name(module),
        header_path);
  const int32_t count = all_print(module, header.to, converters.to, shapes.to);
  fputs("\n}  // namespace ge\n", header.to);
  fputs("\n}  // namespace ge\n", shapes.to);
  fclose(header.to);
  fclose(shapes.to);
  fclose(converters.to);
  if (count == 0)
    cli_error("%s: GE can have none of its operators; the notes say why",
              opgraft_module_name(module));
  const bool is_right =
      count > 0 && cli_file_write(header_path, header.bytes, header.size) &&
      cli_file_write(converters_path, converters.bytes, converters.size) &&
      cli_file_write(shapes_path, shapes.bytes, shapes.size);
  if (is_right)
    cli_note("%s, %s, %s: %d operator%s", header_path, converters_path,
             shapes_path, (int)count, cli_plural(count));
  free(shapes.bytes);
  free(header.bytes);
  free(converters.bytes);
  return is_right ? CLI_OK : CLI_FAILED;
}
