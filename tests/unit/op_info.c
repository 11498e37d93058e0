// SPDX-License-Identifier: Apache-2.0
// The declaration as structs, held against the tables that it is copied from
// and against the JSON: those of every module that the build makes, and of
// declarations that together have one of each kind.

#include <dirent.h>
#include <opgraft/graph.h>
#include <opgraft/info.h>
#include <stdlib.h>

#include "base/text.h"
#include "module/module.h"
#include "unit/test.h"

// --- The structs as the JSON has them ----------------------------------------

static const char *word(bool is_true) { return is_true ? "true" : "false"; }

static void position_put(og_text *out, int32_t position) {
  if (position < 0)
    og_text_add(out, "null");
  else
    og_text_addf(out, "%d", (int)position);
}

// No text of these declarations holds what JSON escapes, but for a quote.
static void string_put(og_text *out, const char *text) {
  if (text == NULL) {
    og_text_add(out, "null");
    return;
  }
  og_text_add(out, "\"");
  for (const char *c = text; *c != '\0'; ++c)
    og_text_addf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  og_text_add(out, "\"");
}

static void double_put(og_text *out, double value) {
  const bool is_finite = value - value == 0;
  if (!is_finite) og_text_add(out, "{\"float\": \"");
  og_text_add_double(out, value);
  if (!is_finite) og_text_add(out, "\"}");
}

static void entries_put(og_text *out, const og_attr *attr) {
  og_text_add(out, "[");
  for (int64_t i = 0; i < attr->count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    if (attr->kind == OG_ATTR_FLOATS)
      double_put(out, attr->floats[i]);
    else if (attr->kind == OG_ATTR_STRS)
      string_put(out, attr->strs[i]);
    else if (attr->kind == OG_ATTR_BOOLS)
      og_text_add(out, word(attr->ints[i] != 0));
    else
      og_text_addf(out, "%lld", (long long)attr->ints[i]);
  }
  og_text_add(out, "]");
}

static void default_put(og_text *out, const og_attr *attr) {
  switch (attr->kind) {
    case OG_ATTR_NONE:
      og_text_add(out, "null");
      break;
    case OG_ATTR_INT:
      og_text_addf(out, "%lld", (long long)attr->i);
      break;
    case OG_ATTR_FLOAT:
      double_put(out, attr->f);
      break;
    case OG_ATTR_BOOL:
      og_text_add(out, word(attr->i != 0));
      break;
    case OG_ATTR_STR:
      string_put(out, attr->s);
      break;
    case OG_ATTR_DTYPE:
      og_text_addf(out, "{\"dtype\": \"%s\"}", og_dtype_name(attr->dtype));
      break;
    case OG_ATTR_DEVICE:
      og_text_addf(out, "{\"device\": \"%s\", \"id\": %d}",
                   attr->device.type == OG_CPU ? "cpu" : "cuda",
                   (int)attr->device.id);
      break;
    default:
      entries_put(out, attr);
  }
}

static void param_put(og_text *out, const opgraft_param_info *p) {
  const char alias[2] = {(char)p->alias_set, '\0'};
  og_text_add(out, "{\"name\": ");
  string_put(out, p->name);
  og_text_addf(
      out,
      ", \"type\": \"%s\", \"list\": %s, \"list_size\": %d, \"optional\": %s, "
      "\"element_optional\": %s, \"kwonly\": %s, \"mutated\": %s, \"alias\": ",
      opgraft_type_name(p->type), word(p->flags & OPGRAFT_PARAM_LIST),
      (int)p->list_size, word(p->flags & OPGRAFT_PARAM_OPTIONAL),
      word(p->flags & OPGRAFT_PARAM_ELEMENT_OPTIONAL),
      word(p->flags & OPGRAFT_PARAM_KEYWORD_ONLY),
      word(p->flags & OPGRAFT_PARAM_MUTATED));
  string_put(out, p->alias_set != 0 ? alias : NULL);
  og_text_addf(out, ", \"has_default\": %s, \"default\": ",
               word(p->flags & OPGRAFT_PARAM_DEFAULT));
  default_put(out, &p->default_value);
  og_text_add(out, ", \"tensor\": ");
  position_put(out, p->tensor);
  og_text_add(out, ", \"attr\": ");
  position_put(out, p->attr);
  og_text_add(out, ", \"out\": ");
  position_put(out, p->out);
  og_text_add(out, "}");
}

static void dtypes_put(og_text *out, const opgraft_tensor_info *t) {
  og_text_add(out, "{\"allowed\": [");
  for (int32_t i = 0; i < t->dtype_count; ++i)
    og_text_addf(out, "%s\"%s\"", i > 0 ? ", " : "",
                 og_dtype_name(t->dtypes[i]));
  og_text_add(out, "], \"same_as\": ");
  position_put(out, t->same_as);
  og_text_add(out, ", \"variable\": ");
  position_put(out, t->type_variable);
  og_text_add(out, "}");
}

// Without the expression of a number, which the structs do not have.
static void result_put(og_text *out, const opgraft_result_info *r) {
  og_text_add(out, "{\"name\": ");
  string_put(out, r->name);
  og_text_addf(out, ", \"type\": \"%s\", \"list\": %s, \"alias\": ",
               opgraft_type_name(r->type),
               word(r->flags & OPGRAFT_RESULT_LIST));
  position_put(out, r->param);
  og_text_add(out, ", \"fresh\": ");
  position_put(out, r->fresh);
  og_text_addf(out, ", \"value\": %s",
               r->type == OPGRAFT_TYPE_TENSOR ? "null}" : "[");
}

static void dtype_rule_put(og_text *out, const opgraft_result_info *r) {
  switch (r->dtype_from) {
    case OPGRAFT_DTYPE_FIXED:
      og_text_addf(out, "{\"kind\": \"fixed\", \"dtype\": \"%s\"}",
                   og_dtype_name(r->dtype));
      break;
    case OPGRAFT_DTYPE_SAME:
      og_text_addf(out, "{\"kind\": \"same\", \"tensor\": %d}",
                   (int)r->dtype_tensor);
      break;
    case OPGRAFT_DTYPE_PROMOTE:
      og_text_add(out, "{\"kind\": \"promote\", \"params\": [");
      for (int32_t i = 0; i < r->promoted_count; ++i)
        og_text_addf(out, "%s%d", i > 0 ? ", " : "", (int)r->promoted[i]);
      og_text_add(out, "]}");
      break;
    default:
      og_text_addf(out, "{\"kind\": \"attr\", \"attr\": %d, \"tensor\": ",
                   (int)r->dtype_attr);
      position_put(out, r->dtype_tensor);
      og_text_add(out, "}");
  }
}

static void dim_put(og_text *out, const opgraft_dim_info *d) {
  static const char *const kinds[] = {"size", "pack", "vary", "found"};
  og_text_addf(
      out, "{\"name\": \"%s\", \"kind\": \"%s\", \"always_bound\": %s}",
      d->name, kinds[d->kind], word(d->flags & OPGRAFT_DIM_ALWAYS_BOUND));
}

static void grad_put(og_text *out, const opgraft_grad_info *g) {
  static const char *const kinds[] = {"missing", "none", "operator", "derived"};
  static const char *const sources[][2] = {{"grad", "result"},
                                           {"param", "param"},
                                           {"result", "result"},
                                           {"needs", "param"}};
  og_text_addf(out, "\"grad\": {\"kind\": \"%s\", \"op\": ", kinds[g->kind]);
  string_put(out, g->op_name);
  og_text_add(out, ", \"args\": [");
  for (int32_t i = 0; i < g->arg_count; ++i)
    og_text_addf(out, "%s{\"source\": \"%s\", \"%s\": %d}", i > 0 ? ", " : "",
                 sources[g->args[i].source][0], sources[g->args[i].source][1],
                 (int)g->args[i].index);
  og_text_add(out, "], \"targets\": [");
  for (int32_t i = 0; i < g->target_count; ++i)
    og_text_addf(out, "%s%d", i > 0 ? ", " : "", (int)g->targets[i]);
  og_text_add(out, "]}, ");
}

static void kernel_put(og_text *out, const opgraft_kernel_info *k) {
  const char *device = k->device == OG_CPU       ? "cpu"
                       : k->device == OG_CUDA    ? "cuda"
                       : k->device == OG_ROCM    ? "rocm"
                       : k->device == OG_EXT_DEV ? "ext"
                                                 : NULL;
  og_text_add(out, "{\"device\": ");
  string_put(out, device);
  og_text_addf(out, ", \"device_code\": %d, \"dtypes\": ", (int)k->device);
  string_put(out, k->dtypes);
  og_text_add(out, ", \"isa\": ");
  string_put(out, k->isa);
  og_text_addf(out, ", \"has_supports\": %s}",
               word(k->flags & OPGRAFT_KERNEL_SUPPORTS));
}

// --- One operator ------------------------------------------------------------

// What was met, by kind: a comparison of what never comes proves nothing.
static struct {
  int32_t op_flags;
  int32_t param_flags;
  int32_t types;
  int32_t defaults;
  int32_t dtype_rules;
  int32_t dim_kinds;
  int32_t grad_kinds;
  int32_t grad_sources;
  int32_t strides;
} met;

// The description holds `text` from `after` on; it is emptied.
static void described(const char *json, const char *after, og_text *text) {
  const char *from = json != NULL ? strstr(json, after) : NULL;
  if (!CHECK(!text->failed) || !CHECK(from != NULL)) {
    og_text_reset(text);
    return;
  }
  CHECK_STR(strstr(from, text->data) != NULL ? text->data : from, text->data);
  og_text_reset(text);
}

static void params_check(const opgraft_op *op, const opgraft_op_info *info,
                         const char *json) {
  og_text text = {0};
  int32_t counts[3] = {0};
  og_text_add(&text, "\"params\": [");
  for (int32_t i = 0; i < info->param_count; ++i) {
    const og_param *from = &op->decl->params[i];
    opgraft_param_info p = {.struct_size = sizeof p};
    CHECK_EQ(opgraft_op_get_param(op, i, &p), OG_OK);
    CHECK(p.name == from->name);
    CHECK_EQ(p.type, from->type);
    CHECK_EQ(p.tensor >= 0, p.type == OPGRAFT_TYPE_TENSOR);
    CHECK_EQ(p.tensor >= 0 ? p.tensor : p.attr, from->index);
    CHECK_EQ(p.tensor >= 0 ? p.tensor : p.attr, counts[p.tensor < 0]++);
    CHECK_EQ(p.out, p.flags & OPGRAFT_PARAM_MUTATED ? counts[2]++ : -1);
    CHECK(memcmp(&p.default_value, &from->default_value, sizeof(og_attr)) == 0);
    CHECK((p.flags & OPGRAFT_PARAM_DEFAULT) != 0 ||
          p.default_value.kind == OG_ATTR_NONE);
    met.param_flags |= (int32_t)p.flags;
    met.types |= 1 << p.type;
    if (p.flags & OPGRAFT_PARAM_DEFAULT)
      met.defaults |= 1 << p.default_value.kind;
    if (i > 0) og_text_add(&text, ", ");
    param_put(&text, &p);
  }
  og_text_add(&text, "], \"results\"");
  described(json, "\"params\"", &text);
  CHECK_EQ(counts[0], info->tensor_count);
  CHECK_EQ(counts[1], info->attr_count);
  CHECK_EQ(counts[2], info->mutated_count);
}

static void tensors_check(const opgraft_op *op, const opgraft_op_info *info,
                          const char *json) {
  static const char *const words[] = {"contiguous", "any", "last"};
  og_text text = {0}, strides = {0};
  og_text_add(&text, "\"types\": [");
  og_text_add(&strides, "\"strides\": [");
  for (int32_t i = 0; i < info->tensor_count; ++i) {
    opgraft_tensor_info t = {.struct_size = sizeof t};
    opgraft_param_info p = {.struct_size = sizeof p};
    CHECK_EQ(opgraft_op_get_tensor(op, i, &t), OG_OK);
    CHECK_EQ(opgraft_op_get_param(op, t.param, &p), OG_OK);
    CHECK_EQ(p.tensor, i);
    CHECK_EQ(t.same_as, op->decl->types[i].same_as);
    CHECK(t.dtype_count > 0);
    met.strides |= 1 << t.strides;
    og_text_addf(&strides, "%s\"%s\"", i > 0 ? ", " : "", words[t.strides]);
    if (i > 0) og_text_add(&text, ", ");
    dtypes_put(&text, &t);
  }
  og_text_addf(&text, "], \"type_variable_count\": %d, ",
               (int)info->type_variable_count);
  og_text_add(&strides, "], ");
  described(json, "\"types\"", &text);
  described(json, "\"strides\"", &strides);
}

static void results_check(const opgraft_op *op, const opgraft_op_info *info,
                          const char *json) {
  og_text rules = {0};
  int32_t fresh = 0;
  og_text_add(&rules, "\"out_types\": [");
  for (int32_t i = 0; i < info->result_count; ++i) {
    og_text text = {0};
    opgraft_result_info r = {.struct_size = sizeof r};
    CHECK_EQ(opgraft_op_get_result(op, i, &r), OG_OK);
    CHECK(r.name == op->decl->results[i].name);
    result_put(&text, &r);
    described(json, "\"results\"", &text);
    met.dtype_rules |= 1 << r.dtype_from;
    CHECK_EQ(r.dtype_from != OPGRAFT_DTYPE_NONE, r.fresh >= 0);
    if (r.fresh < 0) continue;
    CHECK_EQ(r.fresh, fresh);
    if (fresh++ > 0) og_text_add(&rules, ", ");
    dtype_rule_put(&rules, &r);
  }
  og_text_add(&rules, "], ");
  described(json, "\"out_types\"", &rules);
  CHECK_EQ(fresh, info->fresh_count);
}

static void dims_check(const opgraft_op *op, const opgraft_op_info *info,
                       const char *json) {
  og_text text = {0};
  og_text_add(&text, "\"dims\": [");
  for (int32_t i = 0; i < info->dim_count; ++i) {
    opgraft_dim_info d = {.struct_size = sizeof d};
    CHECK_EQ(opgraft_op_get_dim(op, i, &d), OG_OK);
    CHECK(d.name == op->decl->dims[i].name);
    met.dim_kinds |= 1 << d.kind;
    if (i > 0) og_text_add(&text, ", ");
    dim_put(&text, &d);
  }
  og_text_add(&text, "], \"patterns\"");
  described(json, "\"dims\"", &text);
}

static void grad_check(const opgraft_op *op, const char *json) {
  og_text text = {0};
  opgraft_grad_info g = {.struct_size = sizeof g};
  CHECK_EQ(opgraft_op_get_grad(op, &g), OG_OK);
  CHECK(g.args == op->decl->grad.args && g.targets == op->decl->grad.targets);
  CHECK_EQ(g.kind >= OPGRAFT_GRAD_OPERATOR, g.op_name != NULL);
  met.grad_kinds |= 1 << g.kind;
  for (int32_t i = 0; i < g.arg_count; ++i)
    met.grad_sources |= 1 << g.args[i].source;
  grad_put(&text, &g);
  described(json, "\"grad\"", &text);
}

static void kernels_check(const opgraft_op *op, const opgraft_op_info *info,
                          const char *json) {
  og_text text = {0};
  og_text_add(&text, "\"kernels\": [");
  for (int32_t i = 0; i < info->kernel_count; ++i) {
    opgraft_kernel_info k = {.struct_size = sizeof k};
    CHECK_EQ(opgraft_op_get_kernel(op, i, &k), OG_OK);
    if (i > 0) og_text_add(&text, ", ");
    kernel_put(&text, &k);
  }
  og_text_add(&text, "]}");
  described(json, "\"kernels\"", &text);
}

static void names_check(const opgraft_op_info *info, const char *json) {
  og_text text = {0};
  og_text_addf(&text,
               "{\"name\": \"%s\", \"base_name\": \"%s\", \"overload\": \"%s\"",
               info->name, info->base_name, info->overload);
  described(json, "{\"name\"", &text);
  og_text_add(&text, "\"inplace\": ");
  position_put(&text, info->inplace_param);
  og_text_add(&text, ", ");
  described(json, "\"inplace\"", &text);
  og_text_addf(&text,
               "\"has_lists\": %s, \"has_data_dependent_result\": %s, "
               "\"is_formula_derived\": %s, ",
               word(info->flags & OPGRAFT_OP_LISTS),
               word(info->flags & OPGRAFT_OP_DATA_DEPENDENT),
               word(info->flags & OPGRAFT_OP_FORMULA_DERIVED));
  described(json, "\"has_lists\"", &text);
  og_text_addf(&text, "\"is_derived\": %s, ",
               word(info->flags & OPGRAFT_OP_DERIVED));
  described(json, "\"is_derived\"", &text);
  CHECK_EQ((info->flags & OPGRAFT_OP_SHAPE_CALLBACK) != 0,
           strstr(json, "{\"kind\": \"callback\"") != NULL);
  met.op_flags |= (int32_t)info->flags;
}

static void op_check(const opgraft_op *op) {
  opgraft_op_info info = {.struct_size = sizeof info};
  const size_t length = opgraft_op_describe(op, NULL, 0);
  char *json = og_alloc(length + 1);
  if (!CHECK(json != NULL) || !CHECK(length > 0)) {
    og_free(json);
    return;
  }
  opgraft_op_describe(op, json, length + 1);
  CHECK_EQ(opgraft_op_get_info(op, &info), OG_OK);
  CHECK(info.name == op->decl->name);
  names_check(&info, json);
  params_check(op, &info, json);
  tensors_check(op, &info, json);
  results_check(op, &info, json);
  dims_check(op, &info, json);
  grad_check(op, json);
  kernels_check(op, &info, json);
  og_free(json);
}

// --- Every module of the build -----------------------------------------------

static int32_t modules_check(const char *folder) {
  int32_t op_count = 0;
  DIR *dir = opendir(folder);
  if (!CHECK(dir != NULL)) return 0;
  for (const struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
    char path[1024];
    opgraft_module *module = NULL;
    opgraft_error error;
    const char *end = strrchr(d->d_name, '.');
    if (end == NULL || strcmp(end, ".so") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    // Some test modules are wrong on purpose.
    if (opgraft_module_load(path, &module, &error) != OG_OK) continue;
    for (int32_t i = 0; i < opgraft_module_op_count(module); ++i, ++op_count)
      op_check(opgraft_module_op(module, i));
    opgraft_module_release(module);
  }
  closedir(dir);
  return op_count;
}

TEST(modules_of_the_build) {
  CHECK(modules_check(TEST_MODULE_DIR) >= 10);
  CHECK(modules_check(TEST_OPS_DIR) >= 40);
}

// --- One of each kind --------------------------------------------------------

static og_status nothing(const og_call *call) {
  (void)call;
  return OG_OK;
}

static int32_t takes_it(const og_call *call) {
  (void)call;
  return 1;
}

static og_status no_sizes(const og_infer_call *call) {
  call->ndim[0] = 0;
  return OG_OK;
}

static const og_kernel all_types[] = {{.device = OG_CPU, .run = nothing}};
static const og_kernel two_types[] = {
    {.device = OG_CPU, .dtypes = "f32", .isa = "avx2", .run = nothing},
    {.device = OG_CPU, .dtypes = "f32|f64", .run = nothing},
    {.device = OG_EXT_DEV, .supports = takes_it, .run = nothing}};

static const og_op ops[] = {
    {.schema = "defaults(Tensor x, Tensor? y=None, int i=-3, SymInt s=4, float "
               "f=1e-6, float g=inf, bool b=True, str t=\"a\\\"b\", Scalar "
               "c=2, Scalar d=0.5, Scalar e=False, ScalarType u=bfloat16, "
               "Device v=\"cuda:1\", int[] l=[1, -2], int[2] m=7, float[] "
               "n=[0.25, inf], bool[] o=[True, False], str[] p=[\"q\", \"r\"], "
               "int[]? w=None, ScalarType? z=None, *, int? k=None) -> Tensor",
     .shape = "x[*N], y?[D] -> [*N]",
     .dtype = "x: f32|f64, y: x -> x",
     .backward = "none",
     .strides = "x: any, y: last",
     .inplace = "x",
     .doc = "One default of each type.",
     .kernels = OG_KERNELS(two_types)},
    {.schema = "lists.of(Tensor[] xs, Tensor?[] ys, Tensor(a!) z, Tensor(b!)[] "
               "zs) -> (Tensor[] made, Tensor(a!), int count)",
     .shape = "xs[][*A, V~], ys[][*A], z[*A], zs[][*A] -> {i < len(xs): [*A]}, "
              "= len(xs)",
     .dtype = "xs: f32, ys: f32, z: f32, zs: f32 -> f32",
     .kernels = OG_KERNELS(all_types)},
    {.schema = "found(Tensor x, Scalar s, ScalarType? t=None) -> (Tensor y, "
               "Tensor p, Tensor q)",
     .shape = "x[N] -> [K <= N], [N], [N]",
     .dtype = "x: f32|i64 -> x, promote(x, s), t or x",
     .backward = "found_backward(grad_y, x, y, needs(x)) -> x",
     .kernels = OG_KERNELS(all_types)},
    {.schema = "found_backward(Tensor g, Tensor x, Tensor y, bool n) -> Tensor",
     .shape = "g[K], x[N], y[K] -> [N]",
     .dtype = "g: f32|i64, x: g, y: g -> g",
     .kernels = OG_KERNELS(all_types)},
    {.schema = "called_back(Tensor x) -> Tensor",
     .infer = no_sizes,
     .dtype = "x: f32 -> i64",
     .kernels = OG_KERNELS(all_types)},
    {.schema = "written(Tensor x, Tensor y) -> Tensor",
     .row = "x * y",
     .dtype = "x: f32, y: f32 -> f32"},
};
static const og_module record = {.struct_size = sizeof record,
                                 .abi_version = OG_ABI_VERSION,
                                 .name = "kinds",
                                 .ops = ops,
                                 .op_count = sizeof ops / sizeof *ops,
                                 .op_size = sizeof(og_op)};

static opgraft_module *kinds_load(void) {
  opgraft_module *module = NULL;
  opgraft_error error;
  if (!CHECK(opgraft_module_wrap(&record, &module, &error) == OG_OK) &&
      test_now.fault < 0)
    printf("%s\n", error.text);
  return module;
}

// C of the formulas, whole and cut.
static void code_check(const opgraft_module *module) {
  const size_t length = opgraft_module_print_code(module, NULL, 0);
  char *text = malloc(length + 1), few[9];
  if (length > 0 && CHECK(text != NULL)) {
    CHECK_EQ(opgraft_module_print_code(module, text, length + 1), length);
    CHECK(strstr(text, "og_formula_codes opgraft_formula_codes = {") != NULL);
    CHECK_EQ(opgraft_module_print_code(module, few, sizeof few), length);
    CHECK_STR(few, "#include");
  }
  free(text);
}

TEST(one_of_each_kind) {
  opgraft_module *module = kinds_load();
  if (module == NULL) return;
  memset(&met, 0, sizeof met);
  for (int32_t i = 0; i < opgraft_module_op_count(module); ++i)
    op_check(opgraft_module_op(module, i));
  code_check(module);
  CHECK_EQ(met.op_flags, OPGRAFT_OP_LISTS | OPGRAFT_OP_DATA_DEPENDENT |
                             OPGRAFT_OP_SHAPE_CALLBACK |
                             OPGRAFT_OP_FORMULA_DERIVED | OPGRAFT_OP_DERIVED);
  CHECK_EQ(met.param_flags, 2 * OPGRAFT_PARAM_DEFAULT - 1);
  CHECK_EQ(met.types, (1 << (OPGRAFT_TYPE_DEVICE + 1)) - 1);
  // No schema can write a complex number.
  CHECK_EQ(met.defaults,
           ((1 << (OG_ATTR_STRS + 1)) - 1) & ~(1 << OG_ATTR_COMPLEX));
  CHECK_EQ(met.dtype_rules, (1 << (OPGRAFT_DTYPE_ATTR + 1)) - 1);
  CHECK_EQ(met.dim_kinds, (1 << (OPGRAFT_DIM_FOUND + 1)) - 1);
  CHECK_EQ(met.grad_kinds, (1 << (OPGRAFT_GRAD_DERIVED + 1)) - 1);
  CHECK_EQ(met.grad_sources, (1 << (OPGRAFT_GRAD_NEEDS + 1)) - 1);
  CHECK_EQ(met.strides, (1 << (OPGRAFT_STRIDES_LAST + 1)) - 1);
  opgraft_module_release(module);
}

TEST(what_a_declaration_says) {
  opgraft_module *module = kinds_load();
  opgraft_op_info op = {.struct_size = sizeof op};
  opgraft_param_info p = {.struct_size = sizeof p};
  opgraft_result_info r = {.struct_size = sizeof r};
  opgraft_kernel_info k = {.struct_size = sizeof k};
  if (module == NULL) return;
  const opgraft_op *defaults = opgraft_module_find_op(module, "defaults");
  const opgraft_op *lists = opgraft_module_find_op(module, "lists.of");
  CHECK_EQ(opgraft_op_get_info(lists, &op), OG_OK);
  CHECK_STR(op.name, "lists.of");
  CHECK_STR(op.base_name, "lists");
  CHECK_STR(op.overload, "of");
  CHECK_EQ(op.mutated_count, 2);
  CHECK_EQ(opgraft_op_get_param(lists, 3, &p), OG_OK);
  CHECK_EQ(p.alias_set, 'b');
  CHECK_EQ(p.out, 1);
  CHECK_EQ(p.flags, OPGRAFT_PARAM_LIST | OPGRAFT_PARAM_MUTATED);
  CHECK_EQ(opgraft_op_get_result(lists, 1, &r), OG_OK);
  CHECK_EQ(r.param, 2);
  CHECK_EQ(r.fresh, -1);
  CHECK_EQ(opgraft_op_get_param(defaults, 12, &p), OG_OK);
  CHECK_STR(p.name, "v");
  CHECK_EQ(p.default_value.device.type, OG_CUDA);
  CHECK_EQ(p.default_value.device.id, 1);
  CHECK_EQ(opgraft_op_get_param(defaults, 14, &p), OG_OK);
  CHECK_EQ(p.list_size, 2);
  CHECK_EQ(p.default_value.count, 2);
  CHECK_EQ(p.default_value.ints[1], 7);
  CHECK_EQ(opgraft_op_get_kernel(defaults, 2, &k), OG_OK);
  CHECK_EQ(k.device, OG_EXT_DEV);
  CHECK_EQ(k.flags, OPGRAFT_KERNEL_SUPPORTS);
  CHECK_STR(opgraft_type_name(OPGRAFT_TYPE_SCALAR_TYPE), "ScalarType");
  CHECK(opgraft_type_name(OPGRAFT_TYPE_DEVICE + 1) == NULL);
  CHECK(opgraft_type_name(-1) == NULL);
  opgraft_module_release(module);
}

// --- Callers of other sizes --------------------------------------------------

typedef struct getter {
  size_t bytes;
  og_status (*get)(const opgraft_op *op, int32_t index, void *out_info);
  int32_t count;  // of positions in `defaults`; 0: it takes none
} getter;

#define GETTER(name, has_index)                                      \
  static og_status get_##name(const opgraft_op *op, int32_t index,   \
                              void *out_info) {                      \
    (void)index;                                                     \
    return opgraft_op_get_##name(op has_index,                       \
                                 (opgraft_##name##_info *)out_info); \
  }
#define INDEX , index
#define NO_INDEX
GETTER(param, INDEX)
GETTER(tensor, INDEX)
GETTER(result, INDEX)
GETTER(dim, INDEX)
GETTER(kernel, INDEX)
GETTER(grad, NO_INDEX)
static og_status get_op(const opgraft_op *op, int32_t index, void *out_info) {
  (void)index;
  return opgraft_op_get_info(op, (opgraft_op_info *)out_info);
}

#define FILLED(type, get, count) \
  { sizeof(type), get, count }
static const getter getters[] = {
    FILLED(opgraft_op_info, get_op, 0),
    FILLED(opgraft_param_info, get_param, 21),
    FILLED(opgraft_tensor_info, get_tensor, 2),
    FILLED(opgraft_result_info, get_result, 1),
    FILLED(opgraft_dim_info, get_dim, 2),
    FILLED(opgraft_grad_info, get_grad, 0),
    FILLED(opgraft_kernel_info, get_kernel, 3),
};
enum { GETTER_COUNT = sizeof getters / sizeof *getters, ROOM = 512 };

typedef union room {
  unsigned char bytes[ROOM];
  uint32_t struct_size;
  int64_t aligned;
} room;

static void room_fill(room *r, uint32_t struct_size) {
  memset(r, 0xa5, sizeof *r);
  r->struct_size = struct_size;
}

// A caller of any size gets the bytes that it shares with the library, zeros in
// what only it knows, keeps its struct_size, and finds the memory behind that
// as it was.
TEST(older_and_newer_callers) {
  opgraft_module *module = kinds_load();
  if (module == NULL) return;
  const opgraft_op *op = opgraft_module_find_op(module, "defaults");
  for (int32_t g = 0; g < GETTER_COUNT; ++g) {
    const size_t ours = getters[g].bytes;
    room whole;
    room_fill(&whole, (uint32_t)ours);
    CHECK_EQ(getters[g].get(op, 0, &whole), OG_OK);
    for (size_t theirs = 0; theirs <= ours + 40; ++theirs) {
      const size_t both = theirs < ours ? theirs : ours;
      room found, untouched;
      room_fill(&found, (uint32_t)theirs);
      untouched = found;
      if (theirs < 8) {
        CHECK_EQ(getters[g].get(op, 0, &found), OG_INVALID);
        CHECK(memcmp(&found, &untouched, sizeof found) == 0);
        continue;
      }
      CHECK_EQ(getters[g].get(op, 0, &found), OG_OK);
      CHECK_EQ(found.struct_size, theirs);
      CHECK(memcmp(found.bytes + 4, whole.bytes + 4, both - 4) == 0);
      for (size_t b = both; b < theirs; ++b) CHECK_EQ(found.bytes[b], 0);
      CHECK(memcmp(found.bytes + theirs, untouched.bytes + theirs,
                   ROOM - theirs) == 0);
    }
  }
  opgraft_module_release(module);
}

TEST(positions_that_are_not_there) {
  opgraft_module *module = kinds_load();
  if (module == NULL) return;
  const opgraft_op *op = opgraft_module_find_op(module, "defaults");
  for (int32_t g = 0; g < GETTER_COUNT; ++g) {
    const int32_t wrong[] = {-1, getters[g].count, INT32_MAX, INT32_MIN};
    room found, untouched;
    room_fill(&found, (uint32_t)getters[g].bytes);
    untouched = found;
    if (getters[g].count == 0) continue;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
      CHECK_EQ(getters[g].get(op, wrong[i], &found), OG_INVALID);
      CHECK(memcmp(&found, &untouched, sizeof found) == 0);
    }
    CHECK_EQ(getters[g].get(op, getters[g].count - 1, &found), OG_OK);
  }
  opgraft_module_release(module);
}

TEST_MAIN("op_info", CASE_NO_FAULTS(modules_of_the_build),
          CASE(one_of_each_kind), CASE(what_a_declaration_says),
          CASE(older_and_newer_callers), CASE(positions_that_are_not_there))
