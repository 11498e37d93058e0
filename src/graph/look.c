// SPDX-License-Identifier: Apache-2.0
// What a program may ask of a graph that it did not build.

#include <opgraft/graph_file.h>
#include <string.h>

#include "base/sized.h"
#include "graph/graph.h"

int32_t opgraft_graph_input_count(const opgraft_graph *graph) {
  return graph->input_count;
}

int32_t opgraft_graph_output_count(const opgraft_graph *graph) {
  return graph->output_count;
}

og_status opgraft_graph_input(const opgraft_graph *graph, int32_t index,
                              opgraft_value_info *out_info,
                              opgraft_error *error) {
  OG_TRY(og_size_check("opgraft_value_info", out_info->struct_size,
                       sizeof(uint32_t), sizeof *out_info, error));
  if (index < 0 || index >= graph->input_count)
    return og_error_set(error, OG_INVALID, NULL, NULL,
                        "graph %s has %d input%s; there is no input %d",
                        graph->name, (int)graph->input_count,
                        og_plural(graph->input_count), (int)index);
  const og_input *input = &graph->inputs[index];
  opgraft_value_info info = {.ndim = -1};
  if (input->value >= 0) {
    const og_value *value = &graph->values[input->value];
    info.flags = value->flags;
    info.dtype = value->dtype;
    info.device = value->device;
    info.ndim = value->ndim;
    info.shape = value->shape;
    info.strides = value->strides;
  }
  og_fill_sized(&info, sizeof info, out_info);
  return OG_OK;
}

void opgraft_graph_written(const opgraft_graph *graph, uint8_t *out_written) {
  memset(out_written, 0, (size_t)graph->input_count);
  for (int32_t n = 0; n < graph->node_count; ++n) {
    const og_node *node = &graph->nodes[n];
    if (node->is_removed || og_op_is(node, OG_OP_VIEW)) continue;
    for (int32_t r = 0; r < node->out_count; ++r) {
      if (node->out[r] < 0) continue;
      const og_value *root = &graph->values[graph->values[node->out[r]].root];
      if (root->kind == OG_VALUE_INPUT) out_written[root->result] = 1;
    }
  }
}

const char *opgraft_graph_input_name(const opgraft_graph *graph,
                                     int32_t index) {
  return graph->inputs[index].name;
}

const char *opgraft_graph_output_name(const opgraft_graph *graph,
                                      int32_t index) {
  const opgraft_value value = graph->outputs[index].value;
  return value >= 0 ? graph->values[value].name : NULL;
}
