// SPDX-License-Identifier: Apache-2.0
// What handlers make: results of the record, nodes with its source line.

#include "import/emit.h"

#include <string.h>

#include "import/origin.h"

og_status og_give_up(og_import *import, const char *reason) {
  import->reason = reason;
  return OG_UNSUPPORTED;
}

og_status og_result_make(og_import *import, int32_t index) {
  const opgraft_value_info *info = &import->record->results[index];
  import->out[index] = -1;
  if (info->ndim < 0) return OG_OK;  // the host's way to say None
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, info->dtype,
                            info->device, info->ndim, info->shape,
                            info->strides, &import->out[index], import->error));
  import->graph->values[import->out[index]].host_offset = info->offset;
  return OG_OK;
}

og_status og_results(og_import *import) {
  for (int32_t r = 0; r < import->record->result_count; ++r)
    OG_TRY(og_result_make(import, r));
  return OG_OK;
}

static og_status source_keep(og_import *import, int32_t node) {
  const opgraft_record *record = import->record;
  opgraft_graph *graph = import->graph;
  if (record->file == NULL) return OG_OK;
  // Nodes in a row mostly come from one file.
  const char *before = graph->last_file;
  if (before == NULL || strcmp(before, record->file) != 0) {
    char *copy =
        og_arena_strndup(&graph->arena, record->file, strlen(record->file));
    if (copy == NULL) return og_graph_no_memory(import->error);
    for (char *at = copy; *at != '\0'; ++at)
      if ((unsigned char)*at < 32) *at = '?';
    graph->last_file = copy;
  }
  graph->nodes[node].file = graph->last_file;
  graph->nodes[node].line = record->line;
  return OG_OK;
}

og_status og_append(og_import *import, int32_t op, const opgraft_value *in,
                    int32_t in_count, const opgraft_value *out,
                    int32_t out_count, const opgraft_arg *attrs) {
  int32_t node;
  OG_TRY(og_graph_append(import->graph, op, in, in_count, out, out_count, attrs,
                         &node, import->error));
  if (op != OG_IR_view) {
    og_origin *origin = NULL;
    OG_TRY(og_origin_get(import, &origin));
    import->graph->nodes[node].origin = origin;
  }
  return source_keep(import, node);
}

og_status og_emit(og_import *import, int32_t op, const opgraft_value *in,
                  int32_t in_count, const opgraft_arg *attrs) {
  const og_op_info *info = &og_ops[op];
  const int32_t count = import->record->result_count;
  if (info->out_count >= 0 && count != info->out_count)
    return og_give_up(import, "it has another count of results here");
  if (in_count < info->in_min || (info->in_max >= 0 && in_count > info->in_max))
    return og_give_up(import, "it has another count of operands here");
  OG_TRY(og_results(import));
  OG_TRY(og_append(import, op, in, in_count, import->out, count, attrs));
  return og_origin_say(import);
}

og_status og_emit_new(og_import *import, int32_t op, const opgraft_value *in,
                      int32_t in_count, const opgraft_arg *attrs,
                      og_dtype dtype, int32_t ndim, const opgraft_size *shape,
                      opgraft_value *out) {
  opgraft_value result;  // `out` may be one of `in`
  OG_TRY(og_graph_add_value(import->graph, OG_VALUE_RESULT, dtype,
                            import->record->results[0].device, ndim, shape,
                            NULL, &result, import->error));
  OG_TRY(og_append(import, op, in, in_count, &result, 1, attrs));
  *out = result;
  return OG_OK;
}

og_status og_emit_view(og_import *import, opgraft_value base, int32_t index) {
  opgraft_graph *graph = import->graph;
  opgraft_size shift;
  if (base < 0 || base >= graph->value_count ||
      graph->values[base].kind == OG_VALUE_LITERAL)
    return og_give_up(import, "it views no tensor");
  if (!og_dtype_equal(graph->values[base].dtype,
                      import->record->results[index].dtype))
    return og_give_up(import, "a view of another type");
  OG_TRY(og_result_make(import, index));
  const opgraft_value id = import->out[index];
  if (id < 0) return OG_OK;
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_SUB, graph->values[id].host_offset,
                      graph->values[base].host_offset, &shift, import->error));
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_ADD, graph->values[base].offset,
                      shift, &graph->values[id].offset, import->error));
  graph->values[id].root = graph->values[base].root;
  graph->values[id].is_host_view = true;
  return og_append(import, OG_IR_view, &base, 1, &id, 1, NULL);
}
