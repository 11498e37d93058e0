// SPDX-License-Identifier: Apache-2.0
// Common subexpressions: a node that repeats an earlier one is replaced by it.
// Counts the nodes removed.

#include <string.h>

#include "graph/op.h"
#include "pass/pass.h"
#include "pass/rewrite.h"
#include "pass/uses.h"

typedef struct table {
  int32_t *slots;  // nodes, -1 is empty
  uint32_t mask;
} table;

static uint64_t mix(uint64_t hash, uint64_t bits) {
  hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint64_t arg_hash(uint64_t hash, const opgraft_arg *arg) {
  hash = mix(hash, (uint64_t)arg->kind << 32 | (uint32_t)arg->count);
  if (arg->kind == OPGRAFT_ARG_LIST) {
    for (int32_t i = 0; i < arg->count; ++i)
      hash = arg_hash(hash, &arg->list[i]);
  } else if (arg->kind == OPGRAFT_ARG_STR || arg->kind == OPGRAFT_ARG_OTHER) {
    for (const char *at = arg->s; *at != '\0'; ++at)
      hash = mix(hash, (unsigned char)*at);
  } else if (arg->kind == OPGRAFT_ARG_INT || arg->kind == OPGRAFT_ARG_BOOL) {
    hash = mix(hash, (uint64_t)arg->i);
  } else if (arg->kind == OPGRAFT_ARG_SIZE || arg->kind == OPGRAFT_ARG_VALUE) {
    hash = mix(hash, (uint64_t)arg->value);
  }
  return hash;
}

static bool args_equal(const opgraft_arg *a, const opgraft_arg *b,
                       int32_t count);

static bool arg_equal(const opgraft_arg *a, const opgraft_arg *b) {
  if (a->kind != b->kind || (a->name == NULL) != (b->name == NULL) ||
      (a->name != NULL && strcmp(a->name, b->name) != 0))
    return false;
  switch (a->kind) {
    case OPGRAFT_ARG_NONE:
      return true;
    case OPGRAFT_ARG_VALUE:
    case OPGRAFT_ARG_SIZE:
      return a->value == b->value;
    case OPGRAFT_ARG_STR:
    case OPGRAFT_ARG_OTHER:
      return strcmp(a->s, b->s) == 0;
    case OPGRAFT_ARG_DTYPE:
      return og_dtype_equal(a->dtype, b->dtype);
    case OPGRAFT_ARG_LIST:
      return a->count == b->count && args_equal(a->list, b->list, a->count);
    default:
      return a->i == b->i;  // bit for bit, floats and devices too
  }
}

static bool args_equal(const opgraft_arg *a, const opgraft_arg *b,
                       int32_t count) {
  bool same = true;
  for (int32_t i = 0; same && i < count; ++i) same = arg_equal(&a[i], &b[i]);
  return same;
}

static uint64_t node_hash(const opgraft_graph *graph, const og_node *node) {
  uint64_t hash = mix(0, (uint64_t)node->op);
  for (int32_t i = 0; i < node->in_count; ++i)
    hash = mix(hash, (uint64_t)(uint32_t)node->in[i]);
  if (node->attrs != NULL)
    for (int32_t i = 0; i < og_op_attr_count(node->op); ++i)
      hash = arg_hash(hash, &node->attrs[i]);
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) continue;
    const og_value *value = &graph->values[node->out[r]];
    hash = mix(hash, (uint64_t)value->offset);
    for (int32_t d = 0; d < value->ndim; ++d)
      hash = mix(hash, (uint64_t)value->shape[d]);
  }
  return hash;
}

static bool results_equal(const opgraft_graph *graph, const og_node *a,
                          const og_node *b) {
  bool same = a->out_count == b->out_count;
  for (int32_t r = 0; same && r < a->out_count; ++r) {
    if (a->out[r] < 0 || b->out[r] < 0) {
      same = a->out[r] == b->out[r];
      continue;
    }
    const og_value *x = &graph->values[a->out[r]];
    const og_value *y = &graph->values[b->out[r]];
    same = og_value_same_place(x, y);
    for (int32_t d = 0; same && d < x->ndim; ++d)
      same = x->strides[d] == y->strides[d];
  }
  return same;
}

static bool origin_equal(const og_origin *a, const og_origin *b) {
  if (a == NULL || b == NULL) return a == b;
  return strcmp(a->name, b->name) == 0 && a->arg_count == b->arg_count &&
         args_equal(a->args, b->args, a->arg_count);
}

static bool node_equal(const opgraft_graph *graph, const og_node *a,
                       const og_node *b) {
  if (a->op != b->op || a->in_count != b->in_count) return false;
  for (int32_t i = 0; i < a->in_count; ++i)
    if (a->in[i] != b->in[i]) return false;
  if ((a->attrs == NULL) != (b->attrs == NULL)) return false;
  if (a->attrs != NULL &&
      !args_equal(a->attrs, b->attrs, og_op_attr_count(a->op)))
    return false;
  return (!og_op_is(a, OG_OP_FOREIGN) || origin_equal(a->origin, b->origin)) &&
         results_equal(graph, a, b);
}

// The roots that some node updates: its result may take their place where
// nobody else reads them.
static void updated_find(const opgraft_graph *graph, bool *is_updated) {
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || node->update == NULL) continue;
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0 && node->update[r] > 0)
        is_updated[graph->values[node->in[node->update[r] - 1]].root] = true;
  }
}

// Of foreign nodes only a module's: of others nothing is known. A result that
// is an output stays its own; so does a fill or a copy that is updated, since
// the update would need another copy.
static bool may_merge(const opgraft_graph *graph, const og_uses *uses,
                      const bool *is_updated, const og_node *node) {
  const uint32_t fixed = OG_OP_RANDOM | OG_OP_EFFECT | OG_OP_WRITE;
  if (node->is_removed || node->out_count == 0 ||
      ((og_ops[node->op].flags | node->flags) & fixed) != 0)
    return false;
  if (og_op_is(node, OG_OP_FOREIGN) && node->origin->module_op == NULL)
    return false;
  for (int32_t r = 0; r < node->out_count; ++r) {
    if (node->out[r] < 0) continue;
    const opgraft_value root = graph->values[node->out[r]].root;
    if (!og_op_is(node, OG_OP_VIEW) &&
        (uses->root_is_output[root] || uses->root_write[root] >= 0 ||
         (node->op == OG_IR_copy && is_updated[root])))
      return false;
  }
  return true;
}

static og_status merge_all(opgraft_graph *graph, const og_uses *uses,
                           const bool *is_updated, table *seen,
                           int32_t *out_changes, opgraft_error *error) {
  og_rewrite rewrite;
  OG_TRY(og_rewrite_init(&rewrite, graph, error));
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (!may_merge(graph, uses, is_updated, node)) continue;
    for (int32_t i = 0; i < node->in_count; ++i)
      node->in[i] = og_rewrite_get(&rewrite, node->in[i]);
    uint32_t at = (uint32_t)node_hash(graph, node) & seen->mask;
    while (seen->slots[at] >= 0 &&
           !node_equal(graph, &graph->nodes[seen->slots[at]], node))
      at = (at + 1) & seen->mask;
    if (seen->slots[at] < 0) {
      seen->slots[at] = n;
      continue;
    }
    const og_node *first = &graph->nodes[seen->slots[at]];
    for (int32_t r = 0; r < node->out_count; ++r)
      if (node->out[r] >= 0)
        og_rewrite_set(&rewrite, node->out[r], first->out[r]);
    node->is_removed = true;
    ++*out_changes;
  }
  return og_rewrite_apply(&rewrite, error);
}

static og_status cse_run(opgraft_graph *graph, int32_t *out_changes,
                         opgraft_error *error) {
  og_uses uses;
  table seen = {.mask = 63};
  while (seen.mask < 2 * (uint32_t)graph->node_count)
    seen.mask = seen.mask * 2 + 1;
  OG_TRY(og_uses_init(&uses, graph, error));
  const size_t bytes = ((size_t)seen.mask + 1) * sizeof *seen.slots;
  seen.slots = og_alloc(bytes);
  bool *is_updated =
      og_alloc_zeroed((size_t)graph->value_count + 1, sizeof *is_updated);
  og_status status;
  if (seen.slots == NULL || is_updated == NULL) {
    status = og_graph_no_memory(error);
  } else {
    memset(seen.slots, 0xff, bytes);
    updated_find(graph, is_updated);
    status = merge_all(graph, &uses, is_updated, &seen, out_changes, error);
  }
  og_free(seen.slots);
  og_free(is_updated);
  og_uses_reset(&uses);
  return status;
}

const og_pass og_pass_cse = {
    .name = "cse", .needs = OG_FACT_FUNCTIONAL, .run = cse_run};
