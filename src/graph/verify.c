// SPDX-License-Identifier: Apache-2.0
// Checks what every pass relies on (graph.h, Invariants).

#include "graph/verify.h"

#include <string.h>

#include "graph/fused.h"
#include "graph/graph.h"

typedef struct verifier {
  const opgraft_graph *graph;
  opgraft_error *error;
  int32_t node;         // being looked at; node_count for the outputs
  int32_t *born;        // by value: the node that wrote what it names, or -1
  int32_t *last_write;  // by root: the last node that wrote to it, or -1
  bool *is_defined;
  bool is_elementwise;  // the node: element i of a result needs element i only
} verifier;

static og_status wrong(const verifier *v, const char *what) {
  const opgraft_graph *graph = v->graph;
  const bool is_node = v->node >= 0 && v->node < graph->node_count;
  const og_node *node = is_node ? &graph->nodes[v->node] : NULL;
  const char *name = node != NULL ? og_node_name(node) : "the outputs";
  return og_error_set(v->error, graph->is_text ? OG_INVALID : OG_INTERNAL, name,
                      NULL, "graph %s, node %d, %s%s: %s", graph->name,
                      (int)v->node, name,
                      og_node_source(node, &(og_source){{0}}), what);
}

// Where only the place is meant the value may be gone.
static og_status check_read(const verifier *v, opgraft_value id,
                            bool is_value) {
  if (id < -1 || id >= v->graph->value_count)
    return wrong(v, "an operand is not a value of the graph");
  if (id < 0 || v->graph->values[id].kind == OG_VALUE_LITERAL) return OG_OK;
  if (!v->is_defined[id]) return wrong(v, "an operand is not defined yet");
  if (!is_value) return OG_OK;
  if (v->born[id] < v->last_write[v->graph->values[id].root])
    return wrong(v,
                 "an operand was overwritten by an earlier node; read what "
                 "that node returns");
  return OG_OK;
}

static og_status check_counts(const verifier *v, const og_node *node) {
  if (node->op < 0 || node->op >= OG_IR_COUNT)
    return wrong(v, "its operator is not in the table");
  const og_op_info *info = &og_ops[node->op];
  if (node->in_count < info->in_min ||
      (info->in_max >= 0 && node->in_count > info->in_max))
    return wrong(v, "it has too few or too many operands");
  if (info->out_count >= 0 && node->out_count != info->out_count)
    return wrong(v, "it has too few or too many results");
  if (node->is_as_recorded && node->origin == NULL)
    return wrong(v, "it is as recorded, but has no record");
  if ((info->flags & OG_OP_FOREIGN) != 0 && !node->is_as_recorded)
    return wrong(v, "a foreign node is not as recorded");
  // The first operand says what the others are; a fallback's may be None.
  const bool needs_first = (info->flags & OG_OP_FOREIGN) == 0;
  for (int32_t i = 0; needs_first && i < node->in_count; ++i)
    if (node->in[i] < 0 && (i == 0 || (info->flags & OG_OP_POINTWISE) != 0))
      return wrong(v, "an operand that it needs is missing");
  for (int32_t r = 0; info->out_count == 1 && r < 1; ++r)
    if (node->out[r] < 0) return wrong(v, "its only result is missing");
  return OG_OK;
}

// The operand whose storage a result takes, or -1.
static int32_t overwritten(const verifier *v, const og_node *node, int32_t r) {
  const opgraft_value id = node->out[r];
  if (id < 0 || v->graph->values[id].root == id) return -1;
  const uint32_t flags = og_ops[node->op].flags;
  if ((flags & (OG_OP_VIEW | OG_OP_WRITE)) != 0) return 0;
  if (og_result_is_part(v->graph, node, r)) return -2;
  if (node->update != NULL && node->update[r] > 0) return node->update[r] - 1;
  return -2;  // a part, or placed in a storage by a pass: any root
}

static og_status check_place(const verifier *v, const og_node *node, int32_t r,
                             int32_t operand) {
  const og_value *values = v->graph->values;
  const og_value *result = &values[node->out[r]];
  const opgraft_value base = node->in[operand];
  if (base < 0 || values[base].root != result->root)
    return wrong(v, "a result is not in the storage of its operand");
  if (!og_op_is(node, OG_OP_VIEW) &&
      !og_value_same_place(&values[base], result))
    return wrong(v, "a result written in place differs in shape or place");
  if (!og_dtype_equal(values[base].dtype, result->dtype))
    return wrong(v, "a result in its operand's storage has another type");
  return OG_OK;
}

// Whether the node says that a result in this storage starts as operand i.
static bool is_updated(const verifier *v, const og_node *node, int32_t i,
                       opgraft_value root) {
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] == i + 1 && node->out[r] >= 0 &&
        v->graph->values[node->out[r]].root == root)
      return true;
  return false;
}

// What a node overwrites it reads element by element, each where it writes it,
// or as what the result starts as; copy_to copies first.
static og_status check_overwrite(const verifier *v, const og_node *node,
                                 int32_t r) {
  const og_value *values = v->graph->values;
  const og_value *result = &values[node->out[r]];
  for (int32_t i = 0; i < node->in_count; ++i) {
    const opgraft_value id = node->in[i];
    if (id < 0 || values[id].root != result->root ||
        is_updated(v, node, i, result->root))
      continue;
    if (!v->is_elementwise || !og_value_same_place(&values[id], result))
      return wrong(v, "it overwrites the storage of an operand that it reads");
  }
  if (og_op_is(node, OG_OP_FOREIGN)) return OG_OK;
  for (int32_t i = 0; i < r; ++i)
    if (node->out[i] >= 0 && values[node->out[i]].root == result->root)
      return wrong(v, "two of its results are in one storage");
  return OG_OK;
}

// A result that is in another value's storage, which it overwrites.
static og_status check_storage(verifier *v, const og_node *node, int32_t r) {
  const og_value *result = &v->graph->values[node->out[r]];
  const og_value *root = &v->graph->values[result->root];
  if (root->kind == OG_VALUE_CONSTANT)
    return wrong(v, "it overwrites a constant");
  // What starts as nothing of it keeps no other result alive.
  if (root->kind == OG_VALUE_RESULT && overwritten(v, node, r) < 0 &&
      !og_result_is_part(v->graph, node, r))
    return wrong(v, "it overwrites a result that it does not start as");
  if (v->graph->is_text && !og_dtype_equal(root->dtype, result->dtype))
    return wrong(v, "a result in another value's storage has another type");
  if (!og_op_is(node, OG_OP_WRITE)) OG_TRY(check_overwrite(v, node, r));
  v->last_write[result->root] = v->node;
  return OG_OK;
}

static og_status check_result(verifier *v, const og_node *node, int32_t r) {
  const opgraft_value id = node->out[r];
  if (id == -1) return OG_OK;
  if (id < 0 || id >= v->graph->value_count)
    return wrong(v, "a result is not a value of the graph");
  const og_value *value = &v->graph->values[id];
  if (value->kind != OG_VALUE_RESULT || v->is_defined[id] ||
      value->node != v->node || value->result != r)
    return wrong(v, "a result is defined twice");
  const int32_t operand = overwritten(v, node, r);
  if (og_op_is(node, OG_OP_WRITE) && value->root == id)
    return wrong(v, "it must be in the storage of its first operand");
  if (og_op_is(node, OG_OP_VIEW) && value->root == id)
    return wrong(v, "a view is not in the storage of its operand");
  if (operand >= 0) OG_TRY(check_place(v, node, r, operand));
  // What moves a root to another storage, or lends it one, relies on it.
  if (value->root == id && value->offset != OG_SIZE_ZERO)
    return wrong(v, "a result does not begin its own storage");
  if (value->root != id && !v->is_defined[value->root])
    return wrong(v, "a result is in a storage that does not exist yet");
  if (v->graph->values[value->root].kind == OG_VALUE_LITERAL ||
      v->graph->values[value->root].root != value->root)
    return wrong(v, "a result's storage is not a root");
  v->is_defined[id] = true;
  if (og_op_is(node, OG_OP_VIEW)) {
    v->born[id] = v->born[node->in[0]];
  } else {
    v->born[id] = v->node;
    if (value->root != id) return check_storage(v, node, r);
  }
  return OG_OK;
}

static og_status check_args(const verifier *v, const og_node *node,
                            const opgraft_arg *args, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (args[i].kind == OPGRAFT_ARG_VALUE &&
        (args[i].value < 0 || args[i].value >= node->in_count))
      return wrong(v, "an argument names no operand");
    if (args[i].kind == OPGRAFT_ARG_SIZE &&
        (args[i].size < 0 || args[i].size >= v->graph->sizes.count))
      return wrong(v, "an argument names no size");
    if (args[i].kind == OPGRAFT_ARG_LIST)
      OG_TRY(check_args(v, node, args[i].list, args[i].count));
  }
  return OG_OK;
}

// Whether a value may be read by a node whose work is on another device: a
// number, or a tensor without dims on the CPU, which a pointwise node takes as
// one.
static bool is_number(const og_node *node, const og_value *value) {
  return value->kind == OG_VALUE_LITERAL ||
         (og_op_is(node, OG_OP_POINTWISE) && value->ndim == 0 &&
          og_device_equal(value->device, og_cpu));
}

// A node's tensors are on one device, except what moves them between devices,
// and what a host or a module runs, which checks its own.
static og_status check_devices(const verifier *v, const og_node *node) {
  const og_value *values = v->graph->values;
  const og_value *first = NULL;
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) continue;
    const og_value *result = &values[node->out[r]];
    if (!og_device_equal(result->device, values[result->root].device))
      return wrong(v, "a result and its storage are on two devices");
    if (first == NULL) first = result;
    if (!og_device_equal(result->device, first->device) &&
        !og_op_is(node, OG_OP_FOREIGN))
      return wrong(v, "its results are on two devices");
  }
  if (first == NULL || og_op_is(node, OG_OP_FOREIGN) ||
      node->op == OG_IR_copy || node->op == OG_IR_copy_to)
    return OG_OK;
  for (int32_t i = 0; i < node->in_count; ++i)
    if (node->in[i] >= 0 && !is_number(node, &values[node->in[i]]) &&
        !og_device_equal(values[node->in[i]].device, first->device))
      return wrong(v,
                   "an operand and a result are on two devices; copy the "
                   "operand to the result's device first");
  return OG_OK;
}

// What the node's program and shapes must be.
static og_status check_program(verifier *v, const og_node *node) {
  v->is_elementwise = og_op_is(node, OG_OP_POINTWISE);
  if (node->op != OG_IR_fused) return OG_OK;
  opgraft_error found = {0};
  const og_status status =
      og_fused_check(v->graph, node, &v->is_elementwise, &found);
  if (status == OG_OK) return OG_OK;
  return status == OG_MEMORY ? og_graph_no_memory(v->error)
                             : wrong(v, found.text);
}

static og_status check_node(verifier *v, const og_node *node) {
  OG_TRY(check_counts(v, node));
  for (int32_t i = 0; i < node->in_count; ++i)
    OG_TRY(check_read(v, node->in[i], i > 0 || !og_op_is(node, OG_OP_WRITE)));
  if (node->is_as_recorded)
    OG_TRY(check_args(v, node, node->origin->args, node->origin->arg_count));
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r)
    if (node->update[r] > 0 && node->out[r] >= 0) {
      const og_value *values = v->graph->values;
      const opgraft_value base = node->in[node->update[r] - 1];
      if (base < 0 ||
          !og_value_same_shape(&values[base], &values[node->out[r]]))
        return wrong(v, "a result that starts as an operand has its shape");
    }
  OG_TRY(check_program(v, node));
  for (int32_t r = 0; r < node->out_count; ++r)
    OG_TRY(check_result(v, node, r));
  return check_devices(v, node);
}

static og_status check_graph(verifier *v) {
  const opgraft_graph *graph = v->graph;
  for (int32_t i = 0; i < graph->value_count; ++i) {
    const og_value *value = &graph->values[i];
    v->born[i] = v->last_write[i] = -1;
    v->is_defined[i] = value->kind != OG_VALUE_RESULT;
  }
  for (v->node = 0; v->node < graph->node_count; ++v->node)
    if (!graph->nodes[v->node].is_removed)
      OG_TRY(check_node(v, &graph->nodes[v->node]));
  for (int32_t i = 0; i < graph->output_count; ++i)
    OG_TRY(check_read(v, graph->outputs[i].value, true));
  return OG_OK;
}

og_status og_graph_verify(const opgraft_graph *graph, opgraft_error *error) {
  const size_t count = (size_t)graph->value_count + 1;
  int32_t *born = og_alloc_zeroed(count, 2 * sizeof *born);
  bool *is_defined = og_alloc_zeroed(count, sizeof *is_defined);
  og_status status;
  if (born == NULL || is_defined == NULL) {
    status = og_graph_no_memory(error);
  } else {
    verifier v = {.graph = graph,
                  .error = error,
                  .born = born,
                  .last_write = born + count,
                  .is_defined = is_defined};
    status = check_graph(&v);
  }
  og_free(born);
  og_free(is_defined);
  return status;
}
