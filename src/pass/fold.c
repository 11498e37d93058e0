// SPDX-License-Identifier: Apache-2.0
// Constants: a tensor that one number fills is read as that number, and a
// size that is known becomes one. Counts the operands changed.

#include <string.h>

#include "graph/element.h"
#include "graph/op.h"
#include "pass/pass.h"

// The literal after it was stored as the tensor's type.
static og_status literal_as(opgraft_graph *graph, opgraft_value literal,
                            og_dtype dtype, opgraft_value *out,
                            opgraft_error *error) {
  const og_value *value = &graph->values[literal];
  char element[8] = {0};
  if (value->dtype.code == OG_CODE_FLOAT)
    og_element_set_double(dtype, element, value->number.f);
  else
    og_element_set_int(dtype, element, value->number.i);
  if (og_dtype_class(dtype) != OG_CLASS_I64)
    return og_graph_literal_float(graph, og_element_double(dtype, element), out,
                                  error);
  if (dtype.code == OG_CODE_BOOL)
    return og_graph_literal_bool(graph, element[0] != 0, out, error);
  return og_graph_literal_int(graph, og_element_int(dtype, element), out,
                              error);
}

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
    OG_TRY(literal_as(graph, literal, graph->values[node->in[i]].dtype,
                      &node->in[i], error));
    ++*changes;
  }
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
  opgraft_value *in = og_arena_alloc(&graph->arena, sizeof *in);
  if (in == NULL) return og_graph_no_memory(error);
  *in = literal;
  node->in = in;
  node->in_count = 1;
  node->op = OG_IR_copy;
  node->attrs = NULL;
  node->is_as_recorded = false;
  ++*changes;
  return OG_OK;
}

static og_status fold_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    if (node->op == OG_IR_size)
      OG_TRY(size_fold(graph, node, out_changes, error));
    else if (og_ops[node->op].converts)
      OG_TRY(operands_fold(graph, node, out_changes, error));
  }
  return OG_OK;
}

const og_pass og_pass_fold = {
    .name = "fold", .needs = OG_FACT_FUNCTIONAL, .run = fold_run};
