// SPDX-License-Identifier: Apache-2.0
// Formulas of modules as row programs of the graph: numbers become constants,
// and operands that lack dims views that have them as 1.

#include "import/formula.h"

#include <math.h>
#include <string.h>

#include "decl/formula.h"
#include "module/module.h"

typedef struct placed {
  og_value value;  // as the space sees it; of a position: without a node
  opgraft_size shape[OPGRAFT_RANK_MAX], strides[OPGRAFT_RANK_MAX];
  bool is_view;
} placed;

typedef struct importer {
  opgraft_graph *graph;
  const og_node *node;
  const og_decl *decl;
  const struct og_formula *f;
  opgraft_error *error;
  og_call call;  // of types alone
  og_tensor types[OPGRAFT_ARG_MAX + OPGRAFT_OUT_MAX];
  const og_tensor *in[OPGRAFT_ARG_MAX];
  og_tensor *out[OPGRAFT_OUT_MAX];
  og_attr attr[OPGRAFT_ATTR_MAX];
  opgraft_value operand[OPGRAFT_ARG_MAX];  // by tensor argument; -1: absent
  uint32_t given;
  double numbers[OG_LOOP_INPUTS_MAX];
  int32_t rank;
  const opgraft_size *space;
  placed placed[OG_LOOP_INPUTS_MAX];
  const opgraft_size *strides;  // of the results that have all dims; or NULL
} importer;

// --- The call ----------------------------------------------------------------

static const char *number_read(const importer *m, const opgraft_arg *arg,
                               const og_param *param, og_attr *out) {
  opgraft_arg own = {.kind = OPGRAFT_ARG_NONE};
  *out = (og_attr){.kind = OG_ATTR_NONE};
  if (arg == NULL) {
    *out = param->default_value;
    return NULL;
  }
  own = *arg;
  if (own.kind == OPGRAFT_ARG_SIZE) {
    own.kind = OPGRAFT_ARG_INT;
    if (!og_size_get(&m->graph->sizes, arg->size, &own.i))
      return "a number of its formula depends on sizes that vary";
  }
  if (own.kind == OPGRAFT_ARG_FLOAT)
    *out = (og_attr){.kind = OG_ATTR_FLOAT, .f = own.f};
  else if (own.kind != OPGRAFT_ARG_INT && own.kind != OPGRAFT_ARG_BOOL)
    return own.kind == OPGRAFT_ARG_NONE ? NULL : "an argument is not a number";
  else if (param->type == OG_TYPE_FLOAT)
    *out = (og_attr){.kind = OG_ATTR_FLOAT, .f = (double)own.i};
  else
    *out = (og_attr){.kind = OG_ATTR_INT, .i = own.i};
  return NULL;
}

static void type_set(const importer *m, opgraft_value v, og_tensor *out) {
  *out = (og_tensor){.dtype = m->graph->values[v].dtype};
}

static const char *call_read(importer *m) {
  const og_decl *decl = m->decl;
  const og_node *node = m->node;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    const opgraft_arg *arg = og_origin_arg(node->origin, param->name, p);
    if (param->type == OG_TYPE_TENSOR) {
      m->operand[param->index] = arg != NULL && arg->kind == OPGRAFT_ARG_VALUE
                                     ? node->in[arg->value]
                                     : -1;
    } else if (!param->is_list) {
      const char *reason = number_read(m, arg, param, &m->attr[param->index]);
      if (reason != NULL) return reason;
    }
  }
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (m->operand[t] < 0) continue;
    type_set(m, m->operand[t], &m->types[t]);
    m->in[t] = &m->types[t];
  }
  for (int32_t r = 0; r < node->out_count; ++r) {
    m->out[r] = &m->types[OPGRAFT_ARG_MAX + r];
    type_set(m, node->out[r], m->out[r]);
  }
  m->call = (og_call){.in = m->in, .out = m->out, .attr = m->attr};
  return NULL;
}

static const char *inputs_read(importer *m) {
  bool has_tensor = false;
  for (int32_t i = 0; i < m->f->input_count; ++i) {
    const og_formula_input *input = &m->f->inputs[i];
    m->given |= (uint32_t)input->is_position << i;
    if (input->is_position) continue;
    const og_attr *attr = &m->attr[input->index];
    if (input->is_tensor) {
      m->given |= (uint32_t)(m->operand[input->index] >= 0) << i;
      has_tensor |= m->operand[input->index] >= 0;
      continue;
    }
    m->given |= (uint32_t)(attr->kind != OG_ATTR_NONE) << i;
    m->numbers[i] = attr->kind == OG_ATTR_FLOAT ? attr->f : (double)attr->i;
    if (isnan(m->numbers[i])) return "a number of its formula is NaN";
  }
  return has_tensor ? NULL : "it reads no tensor";
}

static const char *class_wrong(const importer *m) {
  og_class class;
  const char *reason;
  if (og_formula_class(m->f, &m->call, &class, &reason) != OG_OK) return reason;
  return class == OG_CLASS_F32   ? NULL
         : class == OG_CLASS_F64 ? "its formula computes in f64"
                                 : "its formula computes in integers";
}

// --- The space ---------------------------------------------------------------

static opgraft_value space_of(const importer *m) {
  return m->f->space < 0 ? m->node->out[0] : m->operand[m->f->space];
}

static bool is_operand(const importer *m, int32_t i) {
  const og_formula_input *input = &m->f->inputs[i];
  return (input->is_tensor || input->is_position) && (m->given >> i & 1);
}

// 0, 1, ... as [D], or as [R, 1].
static const char *position_place(const importer *m, int32_t i, placed *out) {
  const int32_t behind = m->f->inputs[i].index == OG_FORMULA_ROW ? 1 : 0;
  int64_t count;
  if (m->rank <= behind) return "its rows have no places";
  if (!og_size_get(&m->graph->sizes, m->space[m->rank - 1 - behind], &count))
    return "it asks for places along a dim that varies";
  if (count > 1 << 24) return "it asks for places beyond 2^24";
  out->shape[0] = m->space[m->rank - 1 - behind];
  out->shape[1] = out->strides[0] = out->strides[1] = OG_SIZE_ONE;
  out->value = (og_value){.dtype = {OG_CODE_FLOAT, 32, 1},
                          .device = og_cpu,
                          .ndim = 1 + behind,
                          .shape = out->shape,
                          .strides = out->strides,
                          .offset = OG_SIZE_ZERO};
  out->is_view = behind > 0;
  return NULL;
}

// An operand in the space: dims that it lacks, but for leading ones, are 1.
static void operand_place(const importer *m, int32_t i, placed *out) {
  const struct og_formula *f = m->f;
  const int32_t tensor = f->inputs[i].index;
  const og_value *v = &m->graph->values[m->operand[tensor]];
  const og_formula_place *place = &f->in[tensor];
  const int32_t of_pack = m->rank - (f->item_count - 1);
  int32_t own = v->ndim - 1, first = m->rank;
  out->value = *v;
  if (f->broadcasts) return;
  for (int32_t k = f->item_count - 1, d = m->rank - 1; k >= 0; --k)
    for (int32_t n = f->pack == k ? of_pack : 1; n > 0; --n, --d) {
      const bool has = ((place->items | place->ones) >> k & 1) && own >= 0;
      out->shape[d] = has ? v->shape[own] : OG_SIZE_ONE;
      out->strides[d] = has ? v->strides[own] : OG_SIZE_ONE;
      own -= has;
      if (has) first = d;
    }
  out->is_view = m->rank - first != v->ndim;
  out->value.ndim = m->rank - first;
  out->value.shape = out->shape + first;
  out->value.strides = out->strides + first;
}

// A half of an operand's last dim.
static const char *half_place(const importer *m, int32_t i, placed *out) {
  og_sizes *sizes = &m->graph->sizes;
  const og_formula_part part = m->f->inputs[i].part;
  const int32_t row = m->rank - 1;
  int64_t half, all;
  if (part == OG_FORMULA_EVEN || part == OG_FORMULA_ODD)
    return "its rows are not in one run";
  if (out->strides[row] != OG_SIZE_ONE ||
      !og_size_get(sizes, m->space[row], &half) ||
      !og_size_get(sizes, out->shape[row], &all) || all != 2 * half)
    return "an operand's sizes are not known to be twice the rows'";
  out->is_view = true;
  out->shape[row] = m->space[row];
  if (part == OG_FORMULA_SECOND &&
      og_size_make(sizes, OG_SIZE_ADD, out->value.offset, m->space[row],
                   &out->value.offset, NULL) != OG_OK)
    return "its sizes overflow";
  return NULL;
}

static bool fits(const importer *m, const og_value *v) {
  if (v->ndim > m->rank) return false;
  for (int32_t d = 0; d < v->ndim; ++d)
    if (v->shape[d] != OG_SIZE_ONE &&
        v->shape[d] != m->space[m->rank - v->ndim + d])
      return false;
  return true;
}

// All dims, or all but the row's, which may be 1.
static bool result_fits(const importer *m, const og_value *v, bool *out_all) {
  bool same = v->ndim == m->rank || v->ndim + 1 == m->rank;
  for (int32_t d = 0; same && d + 1 < m->rank; ++d)
    same = v->shape[d] == m->space[d];
  *out_all = same && v->ndim == m->rank &&
             (m->rank == 0 || v->shape[m->rank - 1] == m->space[m->rank - 1]);
  return *out_all ||
         (same && (v->ndim < m->rank || v->shape[m->rank - 1] == OG_SIZE_ONE));
}

static bool same_strides(const importer *m, const opgraft_size *a,
                         const opgraft_size *b) {
  for (int32_t d = 0; d < m->rank; ++d)
    if (a[d] != b[d] && m->space[d] != OG_SIZE_ONE) return false;
  return true;
}

static const char *space_wrong(importer *m) {
  const og_value *space = &m->graph->values[space_of(m)];
  m->rank = space->ndim;
  m->space = space->shape;
  if (m->rank == 0 && m->f->needs_rows) return "it has no row";
  for (int32_t i = 0; i < m->f->input_count; ++i) {
    if (!is_operand(m, i)) continue;
    const char *reason = NULL;
    if (m->f->inputs[i].is_position)
      reason = position_place(m, i, &m->placed[i]);
    else
      operand_place(m, i, &m->placed[i]);
    if (m->f->inputs[i].part != OG_FORMULA_WHOLE)
      reason = half_place(m, i, &m->placed[i]);
    if (reason != NULL) return reason;
    if (!fits(m, &m->placed[i].value))
      return "an operand's sizes are not known to be the rows'";
  }
  for (int32_t r = 0; r < m->node->out_count; ++r) {
    const og_value *v = &m->graph->values[m->node->out[r]];
    bool is_whole;
    if (!result_fits(m, v, &is_whole))
      return "a result's sizes are not known to be the rows'";
    if (!is_whole) continue;
    if (m->strides != NULL && !same_strides(m, m->strides, v->strides))
      return "its results have different layouts";
    m->strides = v->strides;
  }
  return NULL;
}

// --- The layout --------------------------------------------------------------

// The dim along which programs run.
static int32_t fast_dim(const importer *m) {
  int32_t d = m->rank - 1;
  while (!m->f->needs_rows && d >= 0 &&
         (m->space[d] == OG_SIZE_ONE || m->strides[d] != OG_SIZE_ONE))
    --d;
  return d;
}

static bool is_run(const importer *m, int32_t fast, const og_value *v) {
  const int32_t own = fast - (m->rank - v->ndim);
  return own < 0 || v->shape[own] == OG_SIZE_ONE ||
         v->strides[own] == OG_SIZE_ONE || v->strides[own] == OG_SIZE_ZERO;
}

static const char *layout_wrong(const importer *m) {
  static const char *const reason = "its rows are not in one run";
  const int32_t fast = fast_dim(m);
  if (fast < 0) return NULL;
  if (m->strides != NULL && m->space[fast] != OG_SIZE_ONE &&
      m->strides[fast] != OG_SIZE_ONE)
    return reason;
  for (int32_t i = 0; i < m->f->input_count; ++i)
    if (is_operand(m, i) && !is_run(m, fast, &m->placed[i].value))
      return reason;
  return NULL;
}

static const char *devices_wrong(const importer *m) {
  for (int32_t i = 0; i < m->node->in_count + m->node->out_count; ++i) {
    const opgraft_value v = og_node_value(m->node, i);
    if (v >= 0 && !og_device_equal(m->graph->values[v].device, og_cpu))
      return "it is on a device";
  }
  return NULL;
}

static const char *formula_wrong(importer *m) {
  const bool is_wide = m->f->wide_out != 0 ||
                       (m->f->space >= 0 && (m->f->wide_in >> m->f->space & 1));
  const char *reason = m->f->sums != 0         ? "it sums over rows"
                       : m->f->index_count > 0 ? "an index chooses its rows"
                       : is_wide ? "it joins or reduces parts of rows"
                       : m->f->output_count > m->f->result_count
                           ? "it checks values"
                           : devices_wrong(m);
  if (reason == NULL) reason = call_read(m);
  if (reason == NULL) reason = inputs_read(m);
  if (reason == NULL) reason = class_wrong(m);
  if (reason == NULL) reason = space_wrong(m);
  return reason != NULL ? reason : layout_wrong(m);
}

// --- The new nodes -----------------------------------------------------------

static og_status text_write(const importer *m, opgraft_arg *out) {
  og_dtype types[OG_LOOP_INPUTS_MAX];
  const og_formula_choice choice = {
      .given = m->given, .numbers = m->numbers, .types = types};
  for (int32_t i = 0; i < m->f->input_count; ++i) {
    const og_tensor *t = og_formula_tensor(m->f, &m->call, i);
    types[i] = t != NULL ? t->dtype : (og_dtype){OG_CODE_FLOAT, 32, 1};
  }
  og_arena memory = {0};
  og_loop_program program;
  og_text text = {0};
  const bool is_made = og_formula_program(m->f, &choice, &memory, &program);
  if (is_made) og_loop_write(&program, &text);
  *out = (opgraft_arg){.kind = OPGRAFT_ARG_STR};
  if (is_made && !text.failed)
    out->s = og_arena_strndup(&m->graph->arena, text.data, text.length);
  og_text_reset(&text);
  og_arena_destroy(&memory);
  return out->s != NULL ? OG_OK : og_graph_no_memory(m->error);
}

static og_status view_append(const importer *m, opgraft_value of,
                             const placed *at, opgraft_value *out) {
  opgraft_graph *graph = m->graph;
  int32_t node;
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, at->value.dtype,
                            at->value.device, at->value.ndim, at->value.shape,
                            at->value.strides, out, m->error));
  graph->values[*out].root = graph->values[of].root;
  graph->values[*out].offset = at->value.offset;
  return og_graph_append(graph, OG_IR_view, &of, 1, out, 1, NULL, &node,
                         m->error);
}

static og_status positions_append(const importer *m, const placed *at,
                                  opgraft_value *out) {
  const opgraft_arg attrs[2] = {{.kind = OPGRAFT_ARG_INT, .i = 0},
                                {.kind = OPGRAFT_ARG_INT, .i = 1}};
  int32_t node;
  OG_TRY(og_graph_add_value(m->graph, OG_VALUE_RESULT, at->value.dtype, og_cpu,
                            1, at->shape, NULL, out, m->error));
  return og_graph_append(m->graph, OG_IR_iota, NULL, 0, out, 1, attrs, &node,
                         m->error);
}

// Moves what was appended from `first` on before node n.
static og_status nodes_move(const importer *m, int32_t n, int32_t first) {
  opgraft_graph *graph = m->graph;
  const size_t count = (size_t)(graph->node_count - first);
  og_node *moved = og_alloc((count + 1) * sizeof *moved);
  if (moved == NULL) return og_graph_no_memory(m->error);
  memcpy(moved, graph->nodes + first, count * sizeof *moved);
  memmove(graph->nodes + n + count, graph->nodes + n,
          (size_t)(first - n) * sizeof *moved);
  memcpy(graph->nodes + n, moved, count * sizeof *moved);
  og_free(moved);
  for (int32_t k = n; k < graph->node_count; ++k)
    for (int32_t r = 0; r < graph->nodes[k].out_count; ++r)
      if (graph->nodes[k].out[r] >= 0)
        graph->values[graph->nodes[k].out[r]].node = k;
  return OG_OK;
}

// The largest of nothing is an error; the row may be empty, for all that is
// known here.
static bool needs_elements(const importer *m) {
  int64_t width = 0;
  return m->f->has_extreme &&
         !(og_size_get(&m->graph->sizes, m->space[m->rank - 1], &width) &&
           width > 0);
}

static og_status program_make(importer *m, int32_t n, int32_t *out_added) {
  opgraft_graph *graph = m->graph;
  const int32_t first = graph->node_count;
  opgraft_value in[OG_LOOP_INPUTS_MAX];
  int32_t count = 0;
  opgraft_arg *attrs = og_arena_array(&graph->arena, 2, sizeof *attrs);
  opgraft_value *own =
      og_arena_array(&graph->arena, OG_LOOP_INPUTS_MAX, sizeof *own);
  if (attrs == NULL || own == NULL) return og_graph_no_memory(m->error);
  OG_TRY(text_write(m, &attrs[0]));
  if (needs_elements(m))
    attrs[1] = (opgraft_arg){.kind = OPGRAFT_ARG_BOOL, .i = true};
  for (int32_t i = 0; i < m->f->input_count; ++i) {
    if (!is_operand(m, i)) continue;
    opgraft_value v = -1;
    if (m->f->inputs[i].is_position)
      OG_TRY(positions_append(m, &m->placed[i], &v));
    else
      v = m->operand[m->f->inputs[i].index];
    in[count] = v;
    if (m->placed[i].is_view)
      OG_TRY(view_append(m, v, &m->placed[i], &in[count]));
    ++count;
  }
  memcpy(own, in, (size_t)count * sizeof *own);
  *out_added = graph->node_count - first;
  og_node *node = &graph->nodes[n];
  node->op = OG_IR_fused;
  node->in = own;
  node->in_count = count;
  node->attrs = attrs;
  node->is_as_recorded = false;
  node->member_count = 1;
  return *out_added > 0 ? nodes_move(m, n, first) : OG_OK;
}

static bool is_formula(const og_node *node) {
  const opgraft_op *op = node->origin != NULL ? node->origin->module_op : NULL;
  if (!og_op_is(node, OG_OP_FOREIGN) || op == NULL ||
      !op->decl->is_formula_derived || node->flags != 0 ||
      op->decl->mutated_count != 0 || node->update != NULL ||
      node->out_count != op->decl->fresh_count)
    return false;
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] < 0) return false;
  return true;
}

og_status og_import_formula(opgraft_graph *graph, int32_t n, int32_t *out_added,
                            opgraft_error *error) {
  og_node *node = &graph->nodes[n];
  *out_added = 0;
  if (!is_formula(node)) return OG_OK;
  og_arena memory = {0};
  importer *m = og_arena_alloc(&memory, sizeof *m);
  og_status status = OG_OK;
  if (m == NULL) {
    status = og_graph_no_memory(error);
  } else {
    memset(m, 0, sizeof *m);
    m->graph = graph;
    m->node = node;
    m->decl = node->origin->module_op->decl;
    m->f = m->decl->formula;
    m->error = error;
    node->unfused_reason = formula_wrong(m);
    if (node->unfused_reason == NULL) status = program_make(m, n, out_added);
  }
  og_arena_destroy(&memory);
  return status;
}
