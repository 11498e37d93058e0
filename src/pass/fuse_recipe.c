// SPDX-License-Identifier: Apache-2.0
// What each node is in a row program, or why it is nothing in one.

#include <stdio.h>
#include <string.h>

#include "device/driver.h"
#include "graph/fused.h"
#include "graph/op.h"
#include "loop/loop.h"
#include "pass/fuse.h"
#include "scalar/element.h"

#define OG_FUSE(op, rule, otherwise, statements) \
  [OG_IR_##op] = {statements, otherwise, OG_FUSE_##rule},
const og_fuse_row og_fuse_rows[OG_IR_COUNT] = {
#include "pass/fuse.def"
};
#undef OG_FUSE

bool og_fuse_is_read(const og_fuser *f, opgraft_value v) {
  return v >= 0 &&
         (f->is_output[v] || f->first_reader[v] < f->first_reader[v + 1]);
}

// --- Types -------------------------------------------------------------------

static bool is_single(og_dtype dtype) {
  return og_dtype_class(dtype) == OG_CLASS_F32;
}

static bool is_bool(og_dtype dtype) { return dtype.code == OG_CODE_BOOL; }

static bool is_int(og_dtype dtype) {
  return og_dtype_class(dtype) == OG_CLASS_I64 && !is_bool(dtype);
}

// Whether a node computes in f32, or in integers that are all bools: row
// programs compute in f32, where a bool is 0 or 1.
static const char *class_wrong(const og_fuser *f, const og_node *node) {
  const og_value *values = f->graph->values;
  bool has_float = false, has_int = false;
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const og_value *value = &values[node->in[i]];
    has_float |= value->dtype.code == OG_CODE_FLOAT || is_single(value->dtype);
    has_int |= value->kind != OG_VALUE_LITERAL && is_int(value->dtype);
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (!og_fuse_is_read(f, node->out[r])) continue;
    const og_dtype dtype = values[node->out[r]].dtype;
    // A bool that is the result's type is computed as an integer.
    if (is_bool(dtype) && og_ops[node->op].converts)
      return "it computes with integers";
    has_float |= og_ops[node->op].converts && is_single(dtype);
  }
  return has_int && !has_float && node->op != OG_IR_copy
             ? "it computes with integers"
             : NULL;
}

// The CPU, and devices that run functions of ours.
static bool runs_programs(og_device device) {
  if (og_device_equal(device, og_cpu)) return true;
  const opgraft_driver *driver = opgraft_driver_find(device.type);
  return driver != NULL && og_driver_runs_c(driver);
}

static bool is_reduction(int32_t op) {
  return op == OG_IR_sum || op == OG_IR_mean || op == OG_IR_amax ||
         op == OG_IR_amin || op == OG_IR_var || op == OG_IR_var_mean;
}

// Softmax, norms and their gradients take and give floats, in results that
// nobody reads too.
static bool is_of_floats(const opgraft_graph *graph, const og_node *node) {
  const og_value *values = graph->values;
  if (og_op_is(node, OG_OP_POINTWISE) || is_reduction(node->op)) return true;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 && !is_single(values[node->in[i]].dtype)) return false;
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0 && !is_single(values[node->out[r]].dtype))
      return false;
  return true;
}

static const char *types_wrong(const og_fuser *f, const og_node *node) {
  const og_value *values = f->graph->values;
  const og_device device = values[node->out[0]].device;
  if (!runs_programs(device)) return "its device runs no programs of ours";
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const og_value *value = &values[node->in[i]];
    if (value->kind == OG_VALUE_LITERAL) continue;
    if (!is_single(value->dtype) && !is_bool(value->dtype) &&
        !is_int(value->dtype))
      return "an operand's type is not computed with in f32";
    if (!og_device_equal(value->device, device))
      return "an operand is on another device";
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (!og_fuse_is_read(f, node->out[r])) continue;
    const og_dtype dtype = values[node->out[r]].dtype;
    if (!is_single(dtype) && !is_bool(dtype))
      return "a result's type is not f32, bf16, f16 or bool";
  }
  if (node->op == OG_IR_fused) return NULL;
  return is_of_floats(f->graph, node) ? class_wrong(f, node)
                                      : "an operand or a result is not a float";
}

// bf16 and f16 are kept in f32 between the nodes of a program, as long as no
// node asks for a narrower type than it reads.
static bool is_narrowed(const og_fuser *f, const og_node *node, int32_t r) {
  const og_value *values = f->graph->values;
  const og_dtype to = values[node->out[r]].dtype;
  bool is_narrower = false;
  for (int32_t i = 0; i < node->in_count; ++i) {
    const og_value *value = &values[node->in[i]];
    is_narrower |= value->kind != OG_VALUE_LITERAL && !is_bool(value->dtype) &&
                   !og_dtype_equal(value->dtype, to);
  }
  return is_narrower && is_single(to) && to.bits < 32;
}

// --- Shapes ------------------------------------------------------------------

static const char *operand_wrong(const og_recipe *recipe,
                                 const og_value *value) {
  if (value->ndim > recipe->ndim)
    return "an operand has more dims than the rows";
  for (int32_t d = 0; d < value->ndim; ++d)
    if (value->shape[d] != OG_SIZE_ONE &&
        value->shape[d] != recipe->shape[recipe->ndim - value->ndim + d])
      return "an operand does not broadcast to the rows";
  return NULL;
}

static bool has_rows(const og_recipe *recipe) {
  const int32_t last = recipe->ndim - 1;
  return recipe->ndim > 0 &&
         (recipe->shape[last] == OG_SIZE_ONE || recipe->strides == NULL ||
          recipe->strides[last] == OG_SIZE_ONE);
}

static const char *layout_wrong(const og_fuser *f, const og_node *node,
                                const og_recipe *recipe) {
  if (recipe->reduces && !has_rows(recipe))
    return "its rows are not in one run";
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const og_value *value = &f->graph->values[node->in[i]];
    if (value->kind == OG_VALUE_LITERAL) continue;
    const char *reason = operand_wrong(recipe, value);
    if (reason != NULL) return reason;
  }
  return NULL;
}

static bool same_shape(const og_recipe *recipe, const og_value *value) {
  bool same = value->ndim == recipe->ndim;
  for (int32_t d = 0; same && d < value->ndim; ++d)
    same = value->shape[d] == recipe->shape[d];
  return same;
}

static void shape_from(og_recipe *recipe, const og_value *value) {
  recipe->ndim = value->ndim;
  recipe->shape = value->shape;
  recipe->strides = NULL;
}

static void strides_find(const og_fuser *f, const og_node *node,
                         og_recipe *recipe) {
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) continue;
    const og_value *value = &f->graph->values[node->out[r]];
    if (recipe->strides == NULL && same_shape(recipe, value))
      recipe->strides = value->strides;
  }
}

// --- Pointwise ---------------------------------------------------------------

static const char *expression_text(const og_fuser *f, const og_node *node) {
  static const char *const texts[] = {
#define OG_OP(id, in_min, in_max, outs, flags, attrs, plain, fast)
#define OG_PW(id, arity, flags, rule, classes, expression) \
  [OG_IR_##id] = "y0 = " #expression,
#include "graph/ops.def"
#undef OG_OP
#undef OG_PW
  };
  const og_value *values = f->graph->values;
  const bool is_test = is_bool(values[node->out[0]].dtype) &&
                       !is_bool(values[node->in[0]].dtype);
  if (node->op == OG_IR_copy && is_test) return "y0 = a != 0";
  return texts[node->op];
}

static const char *expression_wrong(int32_t op) {
  og_scalar_code code = {.count = 0};
  if (og_op_parse(op, &code, NULL) != OG_OK)
    return "its expression is longer than a row program's may be";
  for (int32_t i = 0; i < code.count; ++i)
    if (og_scalar_arity(code.code[i].op) > 0 && !og_loop_has(code.code[i].op))
      return "row programs lack a function that it calls";
  return NULL;
}

static void pointwise_find(og_fuser *f, const og_node *node, og_recipe *out) {
  const og_value *y = &f->graph->values[node->out[0]];
  out->reason = types_wrong(f, node);
  if (out->reason != NULL) return;
  if ((og_ops[node->op].classes & OG_CLASSES_FLOAT) == 0) {
    out->reason = "it computes with integers";
    return;
  }
  out->reason = expression_wrong(node->op);
  shape_from(out, y);
  out->strides = y->strides;
  out->narrows = is_narrowed(f, node, 0);
  if (out->reason == NULL) out->reason = layout_wrong(f, node, out);
  if (out->reason == NULL) out->text = expression_text(f, node);
}

// --- Rows of fuse.def --------------------------------------------------------

bool og_fuse_number(const og_fuser *f, const opgraft_arg *attr, double *out) {
  int64_t whole = attr->i;
  *out = attr->f;
  if (attr->kind == OPGRAFT_ARG_FLOAT) return true;
  if (attr->kind == OPGRAFT_ARG_SIZE) {
    if (!og_size_get(&f->graph->sizes, attr->size, &whole)) return false;
  } else if (attr->kind != OPGRAFT_ARG_INT && attr->kind != OPGRAFT_ARG_BOOL) {
    return false;
  }
  *out = (double)whole;
  return true;
}

static const char *dims_wrong(const og_fuser *f, const og_node *node,
                              const og_fuse_row *row, int32_t ndim) {
  double number;
  const opgraft_arg *attr = og_node_attr(node, 0);
  if (ndim == 0) return "it has no row";
  if (row->dims == OG_FUSE_RANK)
    return attr->kind == OPGRAFT_ARG_NONE ||
                   (og_fuse_number(f, attr, &number) && number == 1)
               ? NULL
               : "it normalises more than the last dim";
  const bool is_list = attr->kind == OPGRAFT_ARG_LIST;
  // No list, or an empty one, is all dims.
  if (attr->kind == OPGRAFT_ARG_NONE || (is_list && attr->count == 0))
    return ndim == 1 ? NULL : "it works on more than the last dim";
  if (is_list && attr->count != 1) return "it works on more than the last dim";
  if (is_list) attr = attr->list;
  return og_fuse_number(f, attr, &number) &&
                 (number == -1 || number == ndim - 1)
             ? NULL
             : "it works on another dim than the last";
}

// Whether the statements give result r.
static bool has_result(const char *text, int32_t r) {
  char name[16];
  snprintf(name, sizeof name, "y%d = ", (int)r);
  return strstr(text, name) != NULL;
}

// Whether result r is one element a row.
static bool is_of_rows(const og_node *node, int32_t r) {
  return is_reduction(node->op) || (node->op == OG_IR_layer_norm && r > 0);
}

// Whether a result has the shape of `a`, or that without its last dim, which
// may be left out.
static bool has_shape(const og_value *result, const og_value *a, bool of_rows) {
  const bool keeps = result->ndim == a->ndim;
  if (!keeps && !(of_rows && result->ndim == a->ndim - 1)) return false;
  for (int32_t d = 0; d + of_rows < a->ndim; ++d)
    if (result->shape[d] != a->shape[d]) return false;
  return !of_rows || !keeps || result->shape[a->ndim - 1] == OG_SIZE_ONE;
}

// What the plain kernel refuses is not fused: what a graph means may not depend
// on the mode.
static const char *results_wrong(const og_fuser *f, const og_node *node,
                                 const og_fuse_row *row) {
  const og_value *values = f->graph->values, *a = &values[node->in[0]];
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (og_fuse_is_read(f, node->out[r]) && !has_result(row->text, r))
      return "a result is a sum over rows";
    if (node->out[r] >= 0 && has_result(row->text, r) &&
        !has_shape(&values[node->out[r]], a, is_of_rows(node, r)))
      return "a result has another shape than the operator gives";
  }
  return NULL;
}

static const char *attrs_wrong(const og_fuser *f, const og_node *node) {
  size_t length;
  double number;
  for (int32_t a = 1; og_op_attr_name(node->op, a, &length) != NULL; ++a) {
    const opgraft_arg *attr = og_node_attr(node, a);
    if (attr->kind != OPGRAFT_ARG_NONE && !og_fuse_number(f, attr, &number))
      return "an attribute depends on sizes that vary";
  }
  return NULL;
}

// The largest of nothing is an error; the row may be empty, for all that is
// known here.
static bool needs_elements(const og_fuser *f, const og_node *node,
                           const og_value *a) {
  int64_t width = 0;
  return (node->op == OG_IR_amax || node->op == OG_IR_amin) &&
         !(a->ndim > 0 &&
           og_size_get(&f->graph->sizes, a->shape[a->ndim - 1], &width) &&
           width > 0);
}

static void row_find(og_fuser *f, const og_node *node, const og_fuse_row *row,
                     og_recipe *out) {
  if (node->in_count == 0 || node->in[0] < 0) return;
  const og_value *a = &f->graph->values[node->in[0]];
  if (a->kind == OG_VALUE_LITERAL) return;
  shape_from(out, a);
  strides_find(f, node, out);
  out->reduces = true;
  out->needs_elements = needs_elements(f, node, a);
  out->defaults = row->defaults;
  out->reason = types_wrong(f, node);
  if (out->reason == NULL) out->reason = dims_wrong(f, node, row, a->ndim);
  if (out->reason == NULL) out->reason = results_wrong(f, node, row);
  if (out->reason == NULL) out->reason = attrs_wrong(f, node);
  if (out->reason == NULL) out->reason = layout_wrong(f, node, out);
  if (out->reason == NULL) out->text = row->text;
}

// --- Row programs ------------------------------------------------------------

static bool is_truth(const og_scalar_program *expression) {
  const int32_t op = expression->code[expression->count - 1].op;
  return (op >= OG_SCALAR_eq && op <= OG_SCALAR_ge) || op == OG_SCALAR_not ||
         op == OG_SCALAR_and || op == OG_SCALAR_or;
}

// Whether a result in memory is another number than the program has.
static bool program_narrows(const og_fuser *f, const og_node *node,
                            const og_loop_program *program) {
  bool narrows = false;
  for (int32_t s = 0; s < program->statement_count; ++s) {
    const og_loop_statement *statement = &program->statements[s];
    const int32_t r = statement->output;
    if (r < 0 || !og_fuse_is_read(f, node->out[r])) continue;
    narrows |= is_bool(f->graph->values[node->out[r]].dtype)
                   ? !is_truth(&statement->expression)
                   : is_narrowed(f, node, r);
  }
  return narrows;
}

// What is a program already, as that of a formula.
static og_status program_find(og_fuser *f, const og_node *node,
                              og_recipe *out) {
  og_fused meaning;
  og_text text = {0};
  OG_TRY(og_fused_read(f->graph, node, &f->memory, &meaning, f->error));
  opgraft_size *shape =
      og_arena_array(&f->memory, OPGRAFT_RANK_MAX, sizeof *shape);
  og_loop_write(&meaning.program, &text);
  const char *own =
      text.failed ? NULL : og_arena_strndup(&f->memory, text.data, text.length);
  og_text_reset(&text);
  if (shape == NULL || own == NULL) return og_graph_no_memory(f->error);
  memcpy(shape, meaning.shape, sizeof meaning.shape);
  out->ndim = meaning.ndim;
  out->shape = shape;
  strides_find(f, node, out);
  out->reduces = meaning.needs_rows;
  out->needs_elements = meaning.needs_elements;
  out->narrows = program_narrows(f, node, &meaning.program);
  out->reason = types_wrong(f, node);
  if (out->reason == NULL) out->reason = layout_wrong(f, node, out);
  if (out->reason == NULL) out->text = own;
  return OG_OK;
}

og_status og_fuse_recipes(og_fuser *f) {
  opgraft_graph *graph = f->graph;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    og_recipe *out = &f->recipes[n];
    if (node->is_removed) continue;
    if (og_op_is(node, OG_OP_POINTWISE))
      pointwise_find(f, node, out);
    else if (node->op == OG_IR_fused)
      OG_TRY(program_find(f, node, out));
    else if (og_fuse_rows[node->op].text != NULL)
      row_find(f, node, &og_fuse_rows[node->op], out);
    if (out->reason != NULL) node->unfused_reason = out->reason;
  }
  return OG_OK;
}
