// SPDX-License-Identifier: Apache-2.0
// Nodes that change nothing: copies within one type and layout, and
// arithmetic and logic with a neutral element. Counts the nodes removed.

#include <math.h>

#include "pass/pass.h"
#include "pass/rewrite.h"
#include "pass/uses.h"
#include "scalar/element.h"

static bool is_number(const opgraft_graph *graph, opgraft_value value,
                      int number) {
  const og_value *literal = &graph->values[value];
  if (literal->kind != OG_VALUE_LITERAL) return false;
  return literal->dtype.code == OG_CODE_FLOAT
             ? literal->number.f == number && !signbit(literal->number.f)
             : literal->number.i == number;
}

// Of two operands, the one beside the number; -1 if neither is it.
static opgraft_value beside(const opgraft_graph *graph, const og_node *node,
                            int number) {
  if (is_number(graph, node->in[0], number)) return node->in[1];
  return is_number(graph, node->in[1], number) ? node->in[0] : -1;
}

// The operand that the node's result equals, bit for bit, or -1.
static opgraft_value same_as(const opgraft_graph *graph, const og_node *node) {
  const og_dtype dtype = graph->values[node->out[0]].dtype;
  const bool is_int = og_dtype_class(dtype) == OG_CLASS_I64;
  const bool is_bool = dtype.code == OG_CODE_BOOL;
  switch (node->op) {
    case OG_IR_copy:
      return node->in[0];
    case OG_IR_mul:
      return beside(graph, node, 1);
    // True division has no integer form.
    case OG_IR_div:
      return !is_int && is_number(graph, node->in[1], 1) ? node->in[0] : -1;
    case OG_IR_pow:
      return is_number(graph, node->in[1], 1) ? node->in[0] : -1;
    // -0.0 + 0 is 0.0, so only integers.
    case OG_IR_add:
      return is_int ? beside(graph, node, 0) : -1;
    // x - 0 is x for every float, and -0.0 - -0.0 is 0.0.
    case OG_IR_sub:
      return is_number(graph, node->in[1], 0) ? node->in[0] : -1;
    case OG_IR_bitwise_and:
      return is_bool ? beside(graph, node, 1) : -1;
    case OG_IR_bitwise_or:
      return is_bool ? beside(graph, node, 0) : -1;
    default:
      return -1;
  }
}

static bool same_layout(const og_value *a, const og_value *b) {
  bool same = og_dtype_equal(a->dtype, b->dtype) &&
              og_device_equal(a->device, b->device) &&
              og_value_same_shape(a, b);
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = a->strides[d] == b->strides[d] || a->shape[d] == OG_SIZE_ONE;
  return same;
}

// The last use of anything in the value's storage.
static void roots_last_use(const opgraft_graph *graph, const og_uses *uses,
                           int32_t *out_last) {
  for (int32_t v = 0; v < graph->value_count; ++v) out_last[v] = OG_USE_NEVER;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const opgraft_value root = graph->values[v].root;
    if (uses->last[v] > out_last[root]) out_last[root] = uses->last[v];
  }
}

// A copy must stay where its absence could show: it is an output,
// what it copies is overwritten while it is still read, or the two would be
// written as one.
static bool can_merge(const opgraft_graph *graph, const og_uses *uses,
                      const int32_t *last, opgraft_value copy,
                      opgraft_value from) {
  const opgraft_value root = graph->values[from].root;
  if (graph->values[copy].root != copy || uses->root_is_output[copy])
    return false;
  if (uses->root_write[copy] >= 0) return false;
  return uses->root_write[root] < 0 || last[copy] <= uses->root_write[root];
}

static og_status merge_all(opgraft_graph *graph, const og_uses *uses,
                           const int32_t *last, int32_t *out_changes,
                           opgraft_error *error) {
  og_rewrite rewrite;
  OG_TRY(og_rewrite_init(&rewrite, graph, error));
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_POINTWISE)) continue;
    opgraft_value from = same_as(graph, node);
    if (from < 0) continue;
    from = og_rewrite_get(&rewrite, from);
    if (graph->values[from].kind == OG_VALUE_LITERAL ||
        !same_layout(&graph->values[node->out[0]], &graph->values[from]) ||
        !can_merge(graph, uses, last, node->out[0], from))
      continue;
    og_rewrite_set(&rewrite, node->out[0], from);
    node->is_removed = true;
    ++*out_changes;
  }
  return og_rewrite_apply(&rewrite, error);
}

static og_status noop_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  og_uses uses;
  OG_TRY(og_uses_init(&uses, graph, error));
  int32_t *last = og_alloc(((size_t)graph->value_count + 1) * sizeof *last);
  og_status status = OG_OK;
  if (last == NULL) {
    status = og_graph_no_memory(error);
  } else {
    roots_last_use(graph, &uses, last);
    status = merge_all(graph, &uses, last, out_changes, error);
  }
  og_free(last);
  og_uses_reset(&uses);
  return status;
}

const og_pass og_pass_noop = {
    .name = "noop", .needs = OG_FACT_FUNCTIONAL, .run = noop_run};
