// SPDX-License-Identifier: Apache-2.0
// Halves of a row that change places, as rotary embeddings do it:
// cat(-x[.., h:], x[.., :h]) is a view of x with dims [.., 2, h] times a sign.
// The pointwise nodes around it work on such rows too, so that all of it can be
// one row program. Counts the concatenations.
//
// A node is *split* where its result [.., 2h] is computed as [.., 2, h]; a view
// gives its other readers what they expect. Readers of a split result are
// split, and makers that only split nodes read.

#include <string.h>

#include "graph/op.h"
#include "pass/pass.h"
#include "pass/rebuild.h"
#include "pass/uses.h"
#include "scalar/element.h"

typedef struct halver {
  opgraft_graph *graph;
  opgraft_error *error;
  og_arena memory;
  og_uses uses;
  opgraft_size *half;    // by node: the size of a half; -1: it is not split
  opgraft_value *wide;   // by value: the [.., 2, h] result it is a view of; -1
  int32_t *split_reads;  // by value: reads by split nodes
  int32_t old_values;    // there were before
  og_rebuild list;
} halver;

// --- What can be split -------------------------------------------------------

// One operand of a concatenation: a view, or what neg makes of one.
typedef struct part {
  opgraft_value view, start;
  bool is_negative;
} part;

static part part_of(const opgraft_graph *graph, opgraft_value v) {
  part p = {.view = v};
  const og_node *maker = og_maker_of(graph, v);
  if (maker != NULL && maker->op == OG_IR_neg) {
    p.is_negative = true;
    p.view = maker->in[0];
  }
  p.start = p.view;
  for (maker = og_maker_of(graph, p.start);
       maker != NULL && og_op_is(maker, OG_OP_VIEW);
       maker = og_maker_of(graph, p.start))
    p.start = maker->in[0];
  return p;
}

static bool is_single(og_dtype dtype) {
  return og_dtype_class(dtype) == OG_CLASS_F32;
}

static bool same_layout(const og_value *a, const og_value *b) {
  bool same = og_value_same_shape(a, b) && a->root == b->root &&
              og_dtype_equal(a->dtype, b->dtype);
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->strides[d] == b->strides[d];
  return same;
}

// Whether the node's one result may be split into what a view joins again.
static bool is_whole(const halver *h, const og_node *node) {
  if (node->out_count != 1 || node->update != NULL) return false;
  const og_value *y = &h->graph->values[node->out[0]];
  return y->root == node->out[0] && y->ndim > 0 && y->ndim < OPGRAFT_RANK_MAX &&
         is_single(y->dtype) && og_device_equal(y->device, og_cpu) &&
         og_value_is_dense(h->graph, y);
}

// Whether a concatenation is along the last dim.
static bool joins_last(const opgraft_graph *graph, const og_node *node,
                       int32_t ndim) {
  const opgraft_arg *attr = og_node_attr(node, 0);
  int64_t dim = attr->i;
  if (attr->kind == OPGRAFT_ARG_SIZE) {
    if (!og_size_get(&graph->sizes, attr->size, &dim)) return false;
  } else if (attr->kind != OPGRAFT_ARG_INT) {
    return false;
  }
  return dim == -1 || dim == ndim - 1;
}

static bool is_rotation(const halver *h, const og_node *node) {
  const opgraft_graph *graph = h->graph;
  if (node->op != OG_IR_cat || node->in_count != 2 || !is_whole(h, node))
    return false;
  const og_value *y = &graph->values[node->out[0]];
  const part a = part_of(graph, node->in[0]), b = part_of(graph, node->in[1]);
  const og_value *first = &graph->values[a.view],
                 *second = &graph->values[b.view];
  return joins_last(graph, node, y->ndim) && a.view != b.view &&
         a.start == b.start && first->ndim == y->ndim &&
         og_dtype_equal(first->dtype, y->dtype) && same_layout(first, second) &&
         first->shape[y->ndim - 1] != OG_SIZE_ONE &&
         first->strides[y->ndim - 1] == OG_SIZE_ONE;
}

static bool is_narrow(const og_value *v) {
  return v->kind == OG_VALUE_LITERAL || v->ndim == 0 ||
         v->shape[v->ndim - 1] == OG_SIZE_ONE;
}

static bool can_split(const halver *h, const og_node *node) {
  const og_value *values = h->graph->values;
  if (!og_op_is(node, OG_OP_POINTWISE) || node->in_count == 0 ||
      !is_whole(h, node))
    return false;
  const og_value *y = &values[node->out[0]];
  if (is_narrow(y)) return false;  // it is one element for both halves
  for (int32_t i = 0; i < node->in_count; ++i) {
    const og_value *x = &values[node->in[i]];
    if (!is_narrow(x) && x->shape[x->ndim - 1] != y->shape[y->ndim - 1])
      return false;
  }
  return true;
}

// --- Which nodes are split ---------------------------------------------------

static void split_add(halver *h, int32_t n, opgraft_size half) {
  const og_node *node = &h->graph->nodes[n];
  h->half[n] = half;
  // A rotation reads a view of its own, not these.
  if (node->op == OG_IR_cat) return;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0) ++h->split_reads[node->in[i]];
}

// The half of an operand of the result's shape that a split node makes, -1.
static opgraft_size half_of_operands(const halver *h, const og_node *node) {
  const opgraft_graph *graph = h->graph;
  const og_value *y = &graph->values[node->out[0]];
  for (int32_t i = 0; i < node->in_count; ++i) {
    const og_value *x = &graph->values[node->in[i]];
    if (x->kind == OG_VALUE_RESULT && x->node >= 0 && h->half[x->node] >= 0 &&
        og_value_same_shape(x, y))
      return h->half[x->node];
  }
  return -1;
}

// The half of the readers, where all are split; else -1.
static opgraft_size half_of_readers(const halver *h, int32_t n) {
  const opgraft_graph *graph = h->graph;
  const opgraft_value v = graph->nodes[n].out[0];
  if (h->uses.count[v] == 0 || h->uses.count[v] != h->split_reads[v]) return -1;
  for (int32_t r = n + 1; r < graph->node_count; ++r)
    for (int32_t i = 0; h->half[r] >= 0 && i < graph->nodes[r].in_count; ++i)
      if (graph->nodes[r].in[i] == v) return h->half[r];
  return -1;
}

static bool splits_find(halver *h) {
  const opgraft_graph *graph = h->graph;
  bool grows = false;
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || !is_rotation(h, node)) continue;
    const og_value *x = &graph->values[node->in[0]];
    split_add(h, n, x->shape[x->ndim - 1]);
    grows = true;
  }
  const bool has_any = grows;
  while (grows) {
    grows = false;
    for (int32_t n = 0; n < graph->node_count; ++n) {
      const og_node *node = &graph->nodes[n];
      if (node->is_removed || h->half[n] >= 0 || !can_split(h, node)) continue;
      opgraft_size half = half_of_operands(h, node);
      if (half < 0) half = half_of_readers(h, n);
      if (half < 0) continue;
      split_add(h, n, half);
      grows = true;
    }
  }
  return has_any;
}

// --- New nodes ---------------------------------------------------------------

// A layout with the last dim as [2, half].
static og_status layout_split(halver *h, const og_value *v, opgraft_size half,
                              og_view_layout *out) {
  og_sizes *sizes = &h->graph->sizes;
  const int32_t last = v->ndim - 1;
  const opgraft_size stride = v->strides[last];
  out->ndim = v->ndim + 1;
  out->offset = v->offset;
  for (int32_t d = 0; d < last; ++d) {
    out->shape[d] = v->shape[d];
    out->strides[d] = v->strides[d];
  }
  out->shape[last + 1] = half;
  out->strides[last + 1] = stride;
  out->strides[last] = half;
  OG_TRY(og_size_const(sizes, 2, &out->shape[last], h->error));
  if (stride == OG_SIZE_ONE) return OG_OK;
  return og_size_make(sizes, OG_SIZE_MUL, stride, half, &out->strides[last],
                      h->error);
}

// A new dim of 1 before the last: the operand's other dims stay where the
// result's are.
static void layout_narrow(const og_value *v, og_view_layout *out) {
  const int32_t last = v->ndim - 1;
  out->ndim = v->ndim + 1;
  out->offset = v->offset;
  memcpy(out->shape, v->shape, (size_t)v->ndim * sizeof *out->shape);
  memcpy(out->strides, v->strides, (size_t)v->ndim * sizeof *out->strides);
  out->shape[last + 1] = OG_SIZE_ONE;
  out->strides[last + 1] = OG_SIZE_ONE;
}

// --- Splitting ---------------------------------------------------------------

// A split result in place of `old`, which becomes a view of it.
static og_status result_make(halver *h, opgraft_value old, opgraft_size half,
                             opgraft_value *out) {
  og_view_layout l;
  const og_value value = h->graph->values[old];
  OG_TRY(layout_split(h, &value, half, &l));
  OG_TRY(og_graph_add_value(h->graph, OG_VALUE_RESULT, value.dtype,
                            value.device, l.ndim, l.shape, NULL, out,
                            h->error));
  h->wide[old] = *out;
  for (int32_t v = 0; v < h->old_values; ++v)
    if (h->graph->values[v].root == old) h->graph->values[v].root = *out;
  return OG_OK;
}

static og_status view_back(halver *h, const og_node *like, opgraft_value old) {
  const bool is_read = h->uses.count[old] > h->split_reads[old];
  const opgraft_value wide = h->wide[old];
  if (!is_read) return OG_OK;
  return og_rebuild_node(&h->list, like, OG_IR_view, &wide, 1, &old, 1, NULL,
                         0);
}

static og_status operand_split(halver *h, const og_node *node, opgraft_value v,
                               opgraft_size half, opgraft_value *out) {
  og_view_layout l;
  const og_value value = h->graph->values[v];
  *out = v;
  const og_value *wide = v < h->old_values && h->wide[v] >= 0
                             ? &h->graph->values[h->wide[v]]
                             : NULL;
  if (wide != NULL && wide->shape[wide->ndim - 1] == half) {
    *out = h->wide[v];
    return OG_OK;
  }
  if (value.kind == OG_VALUE_LITERAL || value.ndim == 0 ||
      (value.ndim == 1 && is_narrow(&value)))
    return OG_OK;
  if (is_narrow(&value))
    layout_narrow(&value, &l);
  else
    OG_TRY(layout_split(h, &value, half, &l));
  return og_rebuild_view(&h->list, node, v, &l, out);
}

static og_status pointwise_split(halver *h, int32_t n) {
  og_node node = h->graph->nodes[n];
  const opgraft_size half = h->half[n];
  const opgraft_value old = node.out[0];
  opgraft_value *list =
      og_arena_array(&h->graph->arena, (size_t)node.in_count + 1, sizeof *list);
  if (list == NULL) return og_graph_no_memory(h->error);
  for (int32_t i = 0; i < node.in_count; ++i)
    OG_TRY(operand_split(h, &node, node.in[i], half, &list[i + 1]));
  OG_TRY(result_make(h, old, half, &list[0]));
  node.in = list + 1;
  node.out = list;
  node.is_as_recorded = false;
  OG_TRY(og_rebuild_put(&h->list, &node));
  return view_back(h, &node, old);
}

// -1 and 1 for the halves, or 1 and -1, as [2, 1].
static og_status signs_make(halver *h, const og_node *node, og_dtype dtype,
                            bool first_is_negative, opgraft_value *out) {
  og_view_layout l = {.ndim = 2, .offset = OG_SIZE_ZERO};
  opgraft_value signs;
  const int64_t begin = first_is_negative ? -1 : 1;
  const opgraft_arg attrs[] = {
      {.kind = OPGRAFT_ARG_INT, .i = begin},
      {.kind = OPGRAFT_ARG_INT, .i = -2 * begin},
  };
  OG_TRY(og_size_const(&h->graph->sizes, 2, &l.shape[0], h->error));
  l.shape[1] = l.strides[0] = l.strides[1] = OG_SIZE_ONE;
  OG_TRY(og_graph_add_value(h->graph, OG_VALUE_RESULT, dtype, og_cpu, 1,
                            l.shape, NULL, &signs, h->error));
  OG_TRY(og_rebuild_node(&h->list, node, OG_IR_iota, NULL, 0, &signs, 1, attrs,
                         2));
  return og_rebuild_view(&h->list, node, signs, &l, out);
}

static og_status factor_make(halver *h, const og_node *node, og_dtype dtype,
                             const part *a, const part *b, opgraft_value *out) {
  if (a->is_negative == b->is_negative)
    return og_graph_literal_int(h->graph, a->is_negative ? -1 : 1, out,
                                h->error);
  return signs_make(h, node, dtype, a->is_negative, out);
}

static og_status rotation_split(halver *h, int32_t n) {
  const og_node node = h->graph->nodes[n];
  const opgraft_value old = node.out[0];
  const part a = part_of(h->graph, node.in[0]);
  const part b = part_of(h->graph, node.in[1]);
  const og_value first = h->graph->values[a.view];
  const og_value second = h->graph->values[b.view];
  og_view_layout l;
  opgraft_value in[2], out;
  OG_TRY(layout_split(h, &first, h->half[n], &l));
  OG_TRY(og_size_make(&h->graph->sizes, OG_SIZE_SUB, second.offset,
                      first.offset, &l.strides[first.ndim - 1], h->error));
  OG_TRY(og_rebuild_view(&h->list, &node, a.view, &l, &in[0]));
  OG_TRY(factor_make(h, &node, first.dtype, &a, &b, &in[1]));
  OG_TRY(result_make(h, old, h->half[n], &out));
  OG_TRY(og_rebuild_node(&h->list, &node, OG_IR_mul, in, 2, &out, 1, NULL, 0));
  return view_back(h, &node, old);
}

static og_status nodes_split(halver *h, int32_t *out_changes) {
  for (int32_t n = 0; n < h->graph->node_count; ++n) {
    const og_node *node = &h->graph->nodes[n];
    if (h->half[n] < 0) {
      OG_TRY(og_rebuild_put(&h->list, node));
    } else if (node->op == OG_IR_cat) {
      OG_TRY(rotation_split(h, n));
      ++*out_changes;
    } else {
      OG_TRY(pointwise_split(h, n));
    }
  }
  return OG_OK;
}

static void nodes_replace(halver *h) {
  for (int32_t v = 0; v < h->old_values; ++v)
    if (h->wide[v] >= 0) h->graph->values[v].node = -1;
  og_rebuild_finish(&h->list);
}

static og_status halver_init(halver *h) {
  const size_t nodes = (size_t)h->graph->node_count + 1;
  const size_t values = (size_t)h->graph->value_count + 1;
  h->old_values = h->graph->value_count;
  h->half = og_arena_array(&h->memory, nodes, sizeof *h->half);
  h->wide = og_arena_array(&h->memory, values, sizeof *h->wide);
  h->split_reads = og_arena_array(&h->memory, values, sizeof *h->split_reads);
  if (h->half == NULL || h->wide == NULL || h->split_reads == NULL)
    return og_graph_no_memory(h->error);
  memset(h->half, 0xff, nodes * sizeof *h->half);
  memset(h->wide, 0xff, values * sizeof *h->wide);
  return og_uses_init(&h->uses, h->graph, h->error);
}

static og_status halves_run(opgraft_graph *graph, int32_t *out_changes,
                            opgraft_error *error) {
  halver h = {
      .graph = graph, .error = error, .list = {.graph = graph, .error = error}};
  if ((graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0) return OG_OK;
  og_status status = halver_init(&h);
  if (status == OG_OK && splits_find(&h)) {
    status = nodes_split(&h, out_changes);
    if (status == OG_OK) nodes_replace(&h);
  }
  og_rebuild_reset(&h.list);
  og_uses_reset(&h.uses);
  og_arena_destroy(&h.memory);
  return status;
}

const og_pass og_pass_halves = {
    .name = "halves", .needs = OG_FACT_FUNCTIONAL, .run = halves_run};
