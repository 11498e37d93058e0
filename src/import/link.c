// SPDX-License-Identifier: Apache-2.0
// Foreign nodes get their operators from the graph's modules.

#include "import/link.h"

#include <opgraft/graph_file.h>
#include <string.h>

#include "import/formula.h"
#include "module/module.h"

static const opgraft_op *module_op_find(const opgraft_graph *graph,
                                        const char *name) {
  const char *dot = strchr(name, '.');
  if (dot == NULL) return NULL;
  for (int32_t m = 0; m < graph->module_count; ++m) {
    const char *module = opgraft_module_name(graph->modules[m]);
    if (strlen(module) != (size_t)(dot - name) ||
        memcmp(module, name, strlen(module)) != 0)
      continue;
    char op_name[256] = "";
    strncpy(op_name, dot + 1, sizeof op_name - 1);
    char *overload = strstr(op_name, ".default");
    if (overload != NULL && overload[8] == '\0') *overload = '\0';
    const opgraft_op *op = opgraft_module_find_op(graph->modules[m], op_name);
    if (op != NULL) return op;
  }
  return NULL;
}

// Results, without those that written arguments become.
static int32_t returns_count(const og_node *node) {
  int32_t count = 0;
  for (int32_t r = 0; r < node->out_count; ++r)
    count += node->update == NULL || node->update[r] == 0;
  return count;
}

// An operator that the engine can call itself: plain results, none with a size
// that only the kernel knows. The host names no result that is an argument,
// which is among the updates.
static bool can_call(const opgraft_op *op, const og_node *node,
                     const char **out_reason) {
  const og_decl *decl = op->decl;
  const int32_t returns = returns_count(node);
  *out_reason = NULL;
  if (decl->has_data_dependent_result)
    *out_reason = "the size of a result depends on data";
  if (decl->flags & OG_CAPTURE_NEVER)
    *out_reason = "it is declared as never captured";
  if (decl->fresh_count != decl->result_count && returns > decl->fresh_count)
    *out_reason = "a result is one of its arguments";
  for (int32_t r = 0; r < decl->result_count; ++r)
    if (decl->results[r].is_list) *out_reason = "a result is a list";
  if (returns < decl->fresh_count)
    *out_reason = "the host names too few results";
  return *out_reason == NULL;
}

static uint32_t module_flags(const opgraft_op *op) {
  uint32_t flags = 0;
  if (op->decl->flags & OG_RANDOM) flags |= OG_OP_RANDOM;
  if (op->decl->flags & OG_SIDE_EFFECT) flags |= OG_OP_EFFECT;
  return flags;
}

void og_foreign_link(const opgraft_graph *graph, og_node *node,
                     og_origin *origin) {
  const char *reason;
  const opgraft_op *op = module_op_find(graph, origin->name);
  if (op == NULL) return;
  node->flags |= module_flags(op);
  if (can_call(op, node, &reason)) origin->module_op = op;
  origin->reason = reason;
}

og_status opgraft_graph_add_module(opgraft_graph *graph, opgraft_module *module,
                                   opgraft_error *error) {
  OG_TRY(og_graph_hold(graph, module, error));
  for (int32_t n = 0; n < graph->node_count; ++n) {
    og_node *node = &graph->nodes[n];
    if (node->is_removed || !og_op_is(node, OG_OP_FOREIGN)) continue;
    // The origin is the graph's own, so it may change.
    og_origin *origin = (og_origin *)(uintptr_t)node->origin;
    if (origin->module_op != NULL) continue;
    int32_t added;
    og_foreign_link(graph, node, origin);
    OG_TRY(og_import_formula(graph, n, &added, error));
    n += added;
  }
  return OG_OK;
}
