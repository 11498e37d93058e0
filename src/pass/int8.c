// SPDX-License-Identifier: Apache-2.0
// Mode max-autotune: int8_matmul over a weight that stays becomes a matmul of
// the int8 numbers themselves, whose packed form stays too, and a product with
// the columns' scales, which runs on its tiles.

#include "pass/pass.h"
#include "pass/rebuild.h"

enum { X, WEIGHT, SCALES };

static bool is_taken(const opgraft_graph *graph, const og_node *node) {
  if (node->is_removed || node->op != OG_IR_int8_matmul || node->out[0] < 0 ||
      node->update != NULL)
    return false;
  const og_value *weight = &graph->values[node->in[WEIGHT]];
  const og_value *root = &graph->values[weight->root];
  return weight->ndim == 2 && weight->device.type == OG_CPU &&
         graph->values[node->in[X]].ndim == 2 &&
         (root->kind == OG_VALUE_CONSTANT ||
          (root->flags & OPGRAFT_INPUT_STATIC) != 0);
}

static og_status product_split(og_rebuild *list, const og_node *node) {
  opgraft_graph *graph = list->graph;
  const og_dtype f32 = {OG_CODE_FLOAT, 32, 1};
  const og_value x = graph->values[node->in[X]];
  const og_value w = graph->values[node->in[WEIGHT]];
  const og_value y = graph->values[node->out[0]];
  const og_view_layout turned = {.ndim = 2,
                                 .shape = {w.shape[1], w.shape[0]},
                                 .strides = {w.strides[1], w.strides[0]},
                                 .offset = w.offset};
  opgraft_value in[2] = {node->in[X]}, product;
  if (!og_dtype_equal(x.dtype, f32)) {
    OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, f32, x.device, 2, x.shape,
                              NULL, &in[0], list->error));
    OG_TRY(og_rebuild_node(list, node, OG_IR_copy, &node->in[X], 1, &in[0], 1,
                           NULL, 0));
  }
  OG_TRY(og_rebuild_view(list, node, node->in[WEIGHT], &turned, &in[1]));
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, f32, y.device, 2, y.shape,
                            NULL, &product, list->error));
  OG_TRY(
      og_rebuild_node(list, node, OG_IR_matmul, in, 2, &product, 1, NULL, 0));
  in[0] = product;
  in[1] = node->in[SCALES];
  return og_rebuild_node(list, node, OG_IR_mul, in, 2, &node->out[0], 1, NULL,
                         0);
}

static og_status node_put(og_rebuild *list, const og_node *node,
                          int32_t *changes) {
  if (!is_taken(list->graph, node)) return og_rebuild_put(list, node);
  ++*changes;
  return product_split(list, node);
}

static og_status int8_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  return og_rebuild_each(graph, node_put, out_changes, error);
}

const og_pass og_pass_int8 = {
    .name = "int8", .needs = OG_FACT_FUNCTIONAL, .run = int8_run};
