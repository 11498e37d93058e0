// SPDX-License-Identifier: Apache-2.0
// Mutation back in place: a result that starts as an operand overwrites it, and
// a value that is written back to an input is computed there. Counts the
// copies saved; those that stay keep their reason.
//
// Invariant: what is overwritten has no reader afterwards, among nodes and
// outputs, through any view.

#include <string.h>

#include "graph/fused.h"
#include "pass/pass.h"
#include "pass/rewrite.h"
#include "pass/uses.h"

typedef struct placer {
  opgraft_graph *graph;
  og_uses uses;
  int32_t *next_in_root;  // values of one root, chained; -1 ends
  int32_t *first_in_root;
  int32_t *write_back;  // by root: the last copy_to on it, or -1
  bool *is_part;        // by value: it came as a part of another result
  int32_t changes;
  opgraft_error *error;
} placer;

static void chain_add(placer *p, opgraft_value value, opgraft_value root) {
  p->next_in_root[value] = p->first_in_root[root];
  p->first_in_root[root] = value;
}

static void chains_fill(placer *p) {
  opgraft_graph *graph = p->graph;
  for (int32_t v = 0; v < graph->value_count; ++v)
    p->first_in_root[v] = p->write_back[v] = -1;
  for (int32_t v = 0; v < graph->value_count; ++v) {
    const og_value *value = &graph->values[v];
    const bool is_gone =
        value->kind == OG_VALUE_RESULT &&
        (value->node < 0 || graph->nodes[value->node].is_removed);
    if (!is_gone) chain_add(p, v, value->root);
  }
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed) continue;
    for (int32_t r = 0; r < node->out_count; ++r)
      if (og_result_is_part(graph, node, r)) p->is_part[node->out[r]] = true;
    if (og_op_is(node, OG_OP_WRITE))
      p->write_back[graph->values[node->in[0]].root] = n;
  }
}

// Whether a node after n, or an output, reads what the root held before n.
static bool is_read_after(const placer *p, opgraft_value root, int32_t n) {
  for (int32_t v = p->first_in_root[root]; v >= 0; v = p->next_in_root[v])
    if (p->uses.born[v] < n && p->uses.last[v] > n) return true;
  return false;
}

static bool same_strides(const og_value *a, const og_value *b) {
  for (int32_t d = 0; d < a->ndim; ++d)
    if (a->strides[d] != b->strides[d] && a->shape[d] != OG_SIZE_ONE)
      return false;
  return true;
}

static bool has_views(const placer *p, opgraft_value value) {
  const opgraft_value first = p->first_in_root[value];
  return first != value || p->next_in_root[first] >= 0;
}

// Moves a root and the views of it to where `target` lies.
static og_status root_move(placer *p, opgraft_value value,
                           opgraft_value target) {
  opgraft_graph *graph = p->graph;
  const opgraft_size shift = graph->values[target].offset;
  const opgraft_value root = graph->values[target].root;
  if (!has_views(p, value))
    graph->values[value].strides = graph->values[target].strides;
  for (int32_t v = p->first_in_root[value], next; v >= 0; v = next) {
    next = p->next_in_root[v];
    OG_TRY(og_size_make(&graph->sizes, OG_SIZE_ADD, graph->values[v].offset,
                        shift, &graph->values[v].offset, p->error));
    graph->values[v].root = root;
    chain_add(p, v, root);
  }
  p->first_in_root[value] = -1;
  p->uses.root_is_output[root] |= p->uses.root_is_output[value];
  ++p->changes;
  return OG_OK;
}

// --- Results that start as an operand ----------------------------------------

// The first node after n that writes to the root, INT32_MAX if none does.
static int32_t next_write(const placer *p, opgraft_value root, int32_t n) {
  const opgraft_graph *graph = p->graph;
  if (p->write_back[root] <= n) return INT32_MAX;
  for (int32_t i = n + 1; i < p->write_back[root]; ++i)
    if (!graph->nodes[i].is_removed &&
        og_op_is(&graph->nodes[i], OG_OP_WRITE) &&
        graph->values[graph->nodes[i].in[0]].root == root)
      return i;
  return p->write_back[root];
}

// Whether a root or a view of it is read after node n.
static bool outlives(const placer *p, opgraft_value root, int32_t n) {
  for (int32_t v = p->first_in_root[root]; v >= 0; v = p->next_in_root[v])
    if (p->uses.last[v] > n) return true;
  return false;
}

// Whether operand i is a part of what result `value` starts as, and written
// too.
static bool is_part(const placer *p, const og_node *node, opgraft_value value,
                    int32_t i) {
  for (int32_t r = 0; r < node->out_count; ++r)
    if (node->out[r] >= 0 && node->update[r] == i + 1 &&
        p->graph->values[node->out[r]].root == value)
      return true;
  return false;
}

// Why result `value` cannot take the place of operand `from`; NULL if it can.
static const char *update_blocked(const placer *p, const og_node *node,
                                  int32_t n, opgraft_value value,
                                  int32_t operand) {
  const opgraft_graph *graph = p->graph;
  const opgraft_value from = node->in[operand];
  const og_value *base = &graph->values[from];
  const og_value *root = &graph->values[base->root];
  if (graph->values[value].root != value)
    return "another node writes the result somewhere else";
  if (root->kind == OG_VALUE_CONSTANT || root->kind == OG_VALUE_LITERAL)
    return "it is a constant";
  if (!og_dtype_equal(base->dtype, graph->values[value].dtype))
    return "its type changes";
  if (!og_device_equal(base->device, graph->values[value].device))
    return "its device changes";
  for (int32_t d = 0; d < base->ndim; ++d)
    if (base->strides[d] == OG_SIZE_ZERO && base->shape[d] != OG_SIZE_ONE)
      return "its elements overlap";
  if (!same_strides(base, &graph->values[value])) {
    if (has_views(p, value)) return "views of the result have another layout";
    if (p->uses.root_is_output[value])
      return "the result is an output of another layout";
  }
  if (root->kind == OG_VALUE_INPUT) {
    if (p->write_back[base->root] < n)
      return "it is an input that the graph does not write back";
    if (p->uses.root_is_output[value])
      return "the result is an output beside the input";
  }
  for (int32_t i = 0; i < node->in_count; ++i)
    if (i != operand && node->in[i] >= 0 &&
        graph->values[node->in[i]].root == base->root &&
        !is_part(p, node, value, i))
      return "the same node also reads it by another argument";
  if (outlives(p, value, next_write(p, base->root, n)))
    return "the result is read after its place is written again";
  return is_read_after(p, base->root, n) ? "its old value is read later" : NULL;
}

static og_status note_reason(placer *p, og_node *node, int32_t r,
                             const char *reason) {
  if (node->clone_reason == NULL) {
    node->clone_reason = og_arena_array(
        &p->graph->arena, (size_t)node->out_count, sizeof *node->clone_reason);
    if (node->clone_reason == NULL) return og_graph_no_memory(p->error);
  }
  node->clone_reason[r] = reason;
  return OG_OK;
}

// Parts that moved with their base are where their operands were.
static void parts_follow(placer *p, const og_node *node, opgraft_value root) {
  og_value *values = p->graph->values;
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0 || node->update[r] == 0) continue;
    const og_value *operand = &values[node->in[node->update[r] - 1]];
    if (values[node->out[r]].root == root && operand->root == root)
      values[node->out[r]].offset = operand->offset;
  }
}

static og_status updates_place(placer *p, int32_t n) {
  og_node *node = &p->graph->nodes[n];
  for (int32_t r = 0; node->update != NULL && r < node->out_count; ++r) {
    if (node->out[r] < 0 || node->update[r] == 0 || p->is_part[node->out[r]])
      continue;
    const int32_t operand = node->update[r] - 1;
    const char *reason = update_blocked(p, node, n, node->out[r], operand);
    if (reason != NULL)
      OG_TRY(note_reason(p, node, r, reason));
    else
      OG_TRY(root_move(p, node->out[r], node->in[operand]));
    if (reason == NULL)
      parts_follow(p, node, p->graph->values[node->out[r]].root);
  }
  return OG_OK;
}

// --- Values that are written back to an input --------------------------------

static bool is_elementwise(const opgraft_graph *graph, const og_node *node) {
  bool is = og_op_is(node, OG_OP_POINTWISE);
  if (node->op == OG_IR_fused) og_fused_check(graph, node, &is, NULL);
  return is;
}

// Whether the node may write to `target` while it reads its operands.
static bool reads_elementwise(const placer *p, const og_node *node,
                              opgraft_value target) {
  const opgraft_graph *graph = p->graph;
  const og_value *to = &graph->values[target];
  const bool is_pointwise = is_elementwise(graph, node);
  for (int32_t i = 0; i < node->in_count; ++i) {
    if (node->in[i] < 0) continue;
    const og_value *operand = &graph->values[node->in[i]];
    if (operand->root != to->root) continue;
    if (!is_pointwise || !og_value_same_place(operand, to)) return false;
  }
  return true;
}

static bool can_compute_there(const placer *p, int32_t n,
                              const og_node *write) {
  const opgraft_graph *graph = p->graph;
  const opgraft_value target = write->in[0], source = write->in[1];
  const og_value *to = &graph->values[target];
  const og_value *from = &graph->values[source];
  if (from->kind != OG_VALUE_RESULT || from->root != source ||
      p->uses.root_is_output[source] || p->write_back[to->root] != n ||
      p->uses.root_write[to->root] != n || p->uses.root_write[source] >= 0)
    return false;
  if (graph->values[to->root].kind != OG_VALUE_INPUT ||
      !og_dtype_equal(to->dtype, from->dtype) ||
      !og_device_equal(to->device, from->device) ||
      !og_value_same_shape(to, from))
    return false;
  const og_node *producer = &graph->nodes[from->node];
  // Other operators' kernels, and how they round, depend on the layout.
  if (!same_strides(to, from) &&
      (has_views(p, source) || !is_elementwise(graph, producer)))
    return false;
  if (producer->update != NULL && producer->update[from->result] > 0)
    return false;
  return reads_elementwise(p, producer, target) &&
         !is_read_after(p, to->root, from->node);
}

static og_status write_place(placer *p, int32_t n, og_rewrite *rewrite) {
  opgraft_graph *graph = p->graph;
  og_node *node = &graph->nodes[n];
  const opgraft_value target = node->in[0], source = node->in[1];
  const bool moves = can_compute_there(p, n, node);
  if (moves) OG_TRY(root_move(p, source, target));
  if (graph->values[source].root != graph->values[target].root ||
      !og_value_same_place(&graph->values[source], &graph->values[target]))
    return OG_OK;
  og_rewrite_set(rewrite, node->out[0], source);
  node->is_removed = true;
  p->changes += !moves;
  return OG_OK;
}

static og_status place_all(placer *p) {
  og_rewrite rewrite;
  chains_fill(p);
  for (int32_t n = 0; n < p->graph->node_count; ++n)
    if (!p->graph->nodes[n].is_removed) OG_TRY(updates_place(p, n));
  OG_TRY(og_rewrite_init(&rewrite, p->graph, p->error));
  og_status status = OG_OK;
  for (int32_t n = 0; n < p->graph->node_count && status == OG_OK; ++n)
    if (!p->graph->nodes[n].is_removed &&
        og_op_is(&p->graph->nodes[n], OG_OP_WRITE))
      status = write_place(p, n, &rewrite);
  if (status != OG_OK) {
    og_free(rewrite.to);
    return status;
  }
  return og_rewrite_apply(&rewrite, p->error);
}

static og_status reinplace_run(opgraft_graph *graph, int32_t *out_changes,
                               opgraft_error *error) {
  placer p = {.graph = graph, .error = error};
  const size_t count = (size_t)graph->value_count + 1;
  OG_TRY(og_uses_init(&p.uses, graph, error));
  int32_t *memory = og_alloc_zeroed(count, 3 * sizeof *memory);
  p.is_part = og_alloc_zeroed(count, sizeof *p.is_part);
  og_status status;
  if (memory == NULL || p.is_part == NULL) {
    status = og_graph_no_memory(error);
  } else {
    p.next_in_root = memory;
    p.first_in_root = memory + count;
    p.write_back = memory + 2 * count;
    status = place_all(&p);
  }
  *out_changes = p.changes;
  og_free(memory);
  og_free(p.is_part);
  og_uses_reset(&p.uses);
  return status;
}

const og_pass og_pass_reinplace = {.name = "reinplace",
                                   .needs = OG_FACT_FUNCTIONAL,
                                   .breaks = OG_FACT_FUNCTIONAL,
                                   .run = reinplace_run};
