// SPDX-License-Identifier: Apache-2.0
// Constants: a tensor that one number fills is read as that number, a size
// that is known becomes one, and so does a comparison that holds for all that
// an iota counts; `where` with a known condition is a copy, and attention needs
// no mask that masks nothing. Counts the operands changed.

#include <string.h>

#include "graph/op.h"
#include "pass/pass.h"
#include "scalar/element.h"

// The literal that fills this value, through views; -1 if none does.
static opgraft_value fill_find(const opgraft_graph *graph,
                               opgraft_value value) {
  const og_node *node = NULL;
  while (value >= 0 && graph->values[value].node >= 0) {
    node = &graph->nodes[graph->values[value].node];
    if (!og_op_is(node, OG_OP_VIEW)) break;
    value = node->in[0];
    node = NULL;
  }
  if (node == NULL || node->op != OG_IR_copy ||
      graph->values[value].root != value ||
      og_dtype_class(graph->values[value].dtype) == OG_CLASS_NONE)
    return -1;
  const opgraft_value from = node->in[0];
  return graph->values[from].kind == OG_VALUE_LITERAL ? from : -1;
}

static og_status operands_fold(opgraft_graph *graph, og_node *node,
                               int32_t *changes, opgraft_error *error) {
  for (int32_t i = 0; i < node->in_count; ++i) {
    const opgraft_value literal = fill_find(graph, node->in[i]);
    if (literal < 0) continue;
    OG_TRY(og_graph_literal_as(graph, literal, graph->values[node->in[i]].dtype,
                               &node->in[i], error));
    ++*changes;
  }
  return OG_OK;
}

// The node becomes copy(from).
static og_status copy_make(opgraft_graph *graph, og_node *node,
                           opgraft_value from, int32_t *changes,
                           opgraft_error *error) {
  opgraft_value *in = og_arena_alloc(&graph->arena, sizeof *in);
  if (in == NULL) return og_graph_no_memory(error);
  *in = from;
  node->in = in;
  node->in_count = 1;
  node->op = OG_IR_copy;
  node->attrs = NULL;
  node->is_as_recorded = false;
  ++*changes;
  return OG_OK;
}

// size(value=3) is copy(3).
static og_status size_fold(opgraft_graph *graph, og_node *node,
                           int32_t *changes, opgraft_error *error) {
  const opgraft_arg *attr = og_node_attr(node, 0);
  int64_t number = attr->i;
  opgraft_value literal;
  if (attr->kind == OPGRAFT_ARG_SIZE) {
    if (!og_size_get(&graph->sizes, attr->size, &number)) return OG_OK;
  } else if (attr->kind != OPGRAFT_ARG_INT) {
    return OG_OK;
  }
  OG_TRY(og_graph_literal_int(graph, number, &literal, error));
  return copy_make(graph, node, literal, changes, error);
}

// --- Comparisons

typedef struct range {
  int64_t least, most;
} range;

enum { MOST_START = 1 << 30, MOST_STEP = 1 << 20 };

// An attribute that is a known integer of moderate size, so that no sum of them
// wraps.
static bool small_int(const opgraft_graph *graph, const opgraft_arg *attr,
                      int64_t otherwise, int64_t most, int64_t *out) {
  *out = otherwise;
  if (attr->kind == OPGRAFT_ARG_INT)
    *out = attr->i;
  else if (attr->kind == OPGRAFT_ARG_SIZE) {
    if (!og_size_get(&graph->sizes, attr->size, out)) return false;
  } else if (attr->kind != OPGRAFT_ARG_NONE) {
    return false;
  }
  return *out >= -most && *out <= most;
}

// What the elements of a literal or of an iota, through views, lie between.
// An iota of unknown length has no last element; it counts in i64, which it
// cannot leave.
static bool range_find(const opgraft_graph *graph, opgraft_value value,
                       range *out) {
  const og_value *of = &graph->values[value];
  if (of->kind == OG_VALUE_LITERAL) {
    *out = (range){of->number.i, of->number.i};
    return of->dtype.code == OG_CODE_INT;
  }
  while (of->node >= 0 && og_op_is(&graph->nodes[of->node], OG_OP_VIEW))
    of = &graph->values[graph->nodes[of->node].in[0]];
  if (of->node < 0 || graph->nodes[of->node].op != OG_IR_iota ||
      of->root != of - graph->values || of->dtype.code != OG_CODE_INT ||
      of->dtype.bits != 64)
    return false;
  const og_node *node = &graph->nodes[of->node];
  int64_t start, step, count;
  if (!small_int(graph, og_node_attr(node, 0), 0, MOST_START, &start) ||
      !small_int(graph, og_node_attr(node, 1), 1, MOST_STEP, &step))
    return false;
  int64_t last = step < 0 ? INT64_MIN : INT64_MAX;
  if (og_size_get(&graph->sizes, of->shape[0], &count)) {
    if (count <= 0 || count > INT64_C(1) << 40) return false;
    last = start + (count - 1) * step;
  }
  *out = step < 0 ? (range){last, start} : (range){start, last};
  return true;
}

// Whether a op b is the same for all of their elements, and what it is.
static bool is_decided(int32_t op, range a, range b, bool *out_is_true) {
  const bool is_less = a.most < b.least, is_most = a.most <= b.least;
  const bool is_more = a.least > b.most, is_least = a.least >= b.most;
  const bool is_equal = is_most && is_least;  // one number each
  if (op == OG_IR_lt || op == OG_IR_ge) {
    *out_is_true = (op == OG_IR_lt) == is_less;
    return is_less || is_least;
  }
  if (op == OG_IR_le || op == OG_IR_gt) {
    *out_is_true = (op == OG_IR_le) == is_most;
    return is_most || is_more;
  }
  *out_is_true = (op == OG_IR_eq) == is_equal;
  return is_equal || is_less || is_more;
}

static og_status compare_fold(opgraft_graph *graph, og_node *node,
                              int32_t *changes, opgraft_error *error) {
  range a, b;
  bool is_true;
  opgraft_value literal;
  if (!range_find(graph, node->in[0], &a) ||
      !range_find(graph, node->in[1], &b) ||
      !is_decided(node->op, a, b, &is_true))
    return OG_OK;
  OG_TRY(og_graph_literal_bool(graph, is_true, &literal, error));
  return copy_make(graph, node, literal, changes, error);
}

static og_status where_fold(opgraft_graph *graph, og_node *node,
                            int32_t *changes, opgraft_error *error) {
  const og_value *condition = &graph->values[node->in[0]];
  if (condition->kind != OG_VALUE_LITERAL ||
      condition->dtype.code != OG_CODE_BOOL)
    return OG_OK;
  return copy_make(graph, node, node->in[condition->number.i != 0 ? 1 : 2],
                   changes, error);
}

// --- Attention

static og_status mask_fold(opgraft_graph *graph, og_node *node,
                           int32_t *changes, opgraft_error *error) {
  const int32_t at = node->op == OG_IR_attention ? 3 : 6;
  const opgraft_value fill = fill_find(graph, node->in[at]);
  if (fill < 0) return OG_OK;
  opgraft_value literal;
  OG_TRY(og_graph_literal_as(graph, fill, graph->values[node->in[at]].dtype,
                             &literal, error));
  const og_value *stored = &graph->values[literal];
  if (stored->dtype.code == OG_CODE_BOOL    ? stored->number.i == 0
      : stored->dtype.code == OG_CODE_FLOAT ? stored->number.f != 0
                                            : true)
    return OG_OK;
  node->in[at] = -1;
  node->is_as_recorded = false;
  ++*changes;
  return OG_OK;
}

static og_status node_fold(opgraft_graph *graph, og_node *node,
                           int32_t *changes, opgraft_error *error) {
  switch (node->op) {
    case OG_IR_size:
      return size_fold(graph, node, changes, error);
    case OG_IR_attention:
    case OG_IR_attention_backward:
      return mask_fold(graph, node, changes, error);
    case OG_IR_lt:
    case OG_IR_le:
    case OG_IR_gt:
    case OG_IR_ge:
    case OG_IR_eq:
    case OG_IR_ne:
      return compare_fold(graph, node, changes, error);
    default:
      break;
  }
  if (!og_ops[node->op].converts) return OG_OK;
  OG_TRY(operands_fold(graph, node, changes, error));
  return node->op == OG_IR_where ? where_fold(graph, node, changes, error)
                                 : OG_OK;
}

static og_status fold_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (!node->is_removed) OG_TRY(node_fold(graph, node, out_changes, error));
  }
  return OG_OK;
}

const og_pass og_pass_fold = {
    .name = "fold", .needs = OG_FACT_FUNCTIONAL, .run = fold_run};
