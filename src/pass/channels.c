// SPDX-License-Identifier: Apache-2.0
// What works on the planes of channels, in forms that row programs have, so
// that it is fused with what stands around it. Batch norm with given statistics
// becomes a factor for each channel, and
//   y = (x - mean) * factor + bias;
// group norm a layer norm of rows, one for each group, and the same factor and
// bias; a reduction over planes one over rows of pixels. Counts these.

#include "graph/op.h"
#include "pass/fuse.h"
#include "pass/pass.h"
#include "pass/rebuild.h"
#include "pass/uses.h"
#include "scalar/element.h"

// --- Batch norm --------------------------------------------------------------

enum { X, WEIGHT, BIAS, MEAN, VARIANCE, OPERANDS };

static bool is_single(const og_value *v) {
  return og_dtype_class(v->dtype) == OG_CLASS_F32 &&
         og_device_equal(v->device, og_cpu);
}

static bool is_split(const opgraft_graph *graph, const og_node *node) {
  if (node->is_removed || node->op != OG_IR_batch_norm || node->out[0] < 0 ||
      node->update != NULL || og_node_attr(node, 0)->kind != OPGRAFT_ARG_FLOAT)
    return false;
  const og_value *values = graph->values;
  const og_value *x = &values[node->in[X]];
  if (x->ndim < 2 || !is_single(x) || !is_single(&values[node->out[0]]))
    return false;
  for (int32_t i = WEIGHT; i < OPERANDS; ++i)
    if (node->in[i] >= 0 &&
        (values[node->in[i]].ndim != 1 || !is_single(&values[node->in[i]])))
      return false;
  return node->in[MEAN] >= 0 && node->in[VARIANCE] >= 0;
}

static og_status channels_view(og_rebuild *list, const og_node *node,
                               opgraft_value vector, opgraft_value *out) {
  return og_rebuild_channels(list, node, vector,
                             list->graph->values[node->in[X]].ndim, out);
}

static og_status factor_make(og_rebuild *list, const og_node *node,
                             opgraft_value *out) {
  opgraft_value variance, eps, sum, weight;
  OG_TRY(channels_view(list, node, node->in[VARIANCE], &variance));
  OG_TRY(og_graph_literal_float(list->graph, og_node_attr(node, 0)->f, &eps,
                                list->error));
  OG_TRY(og_rebuild_pointwise(list, node, OG_IR_add, variance, eps, variance,
                              &sum));
  OG_TRY(og_rebuild_pointwise(list, node, OG_IR_rsqrt, sum, -1, variance, out));
  if (node->in[WEIGHT] < 0) return OG_OK;
  OG_TRY(channels_view(list, node, node->in[WEIGHT], &weight));
  return og_rebuild_pointwise(list, node, OG_IR_mul, *out, weight, variance,
                              out);
}

static og_status norm_split(og_rebuild *list, const og_node *node) {
  opgraft_value mean, factor, bias, apart, last;
  const opgraft_value y = node->out[0];
  OG_TRY(factor_make(list, node, &factor));
  OG_TRY(channels_view(list, node, node->in[MEAN], &mean));
  OG_TRY(og_rebuild_pointwise(list, node, OG_IR_sub, node->in[X], mean, y,
                              &apart));
  opgraft_value in[2] = {apart, factor};
  if (node->in[BIAS] < 0)
    return og_rebuild_node(list, node, OG_IR_mul, in, 2, &y, 1, NULL, 0);
  OG_TRY(og_rebuild_pointwise(list, node, OG_IR_mul, apart, factor, y, &last));
  OG_TRY(channels_view(list, node, node->in[BIAS], &bias));
  in[0] = last;
  in[1] = bias;
  return og_rebuild_node(list, node, OG_IR_add, in, 2, &y, 1, NULL, 0);
}

static bool dim_get(const opgraft_graph *graph, const opgraft_arg *arg,
                    int32_t ndim, int64_t *out) {
  *out = arg->i;
  if (arg->kind == OPGRAFT_ARG_SIZE) {
    if (!og_size_get(&graph->sizes, arg->size, out)) return false;
  } else if (arg->kind != OPGRAFT_ARG_INT) {
    return false;
  }
  if (*out < 0) *out += ndim;
  return true;
}

// --- Group norm --------------------------------------------------------------

// Its rows have so many elements at most: longer ones are in no row program.
enum { GROUP_MOST = OG_FUSE_ROW_BYTES_MAX / 4 / 4 };

// A result that nobody reads: by value, how often each is.
static bool is_unread(const int32_t *reads, opgraft_value v) {
  return v < 0 || reads[v] == 0;
}

// The elements of a group; 0 where the node stays.
static int64_t group_of(const opgraft_graph *graph, const og_node *node,
                        const int32_t *reads, int64_t *out_groups) {
  if (node->is_removed || node->op != OG_IR_group_norm || node->out[0] < 0 ||
      node->update != NULL || !is_unread(reads, node->out[1]) ||
      !is_unread(reads, node->out[2]) || node->in[WEIGHT] < 0 ||
      node->in[BIAS] < 0)
    return 0;
  const og_value *values = graph->values, *x = &values[node->in[X]];
  int64_t elements = 1, size;
  for (int32_t i = X; i <= BIAS; ++i)
    if (!is_single(&values[node->in[i]])) return 0;
  if (x->ndim < 2 || !is_single(&values[node->out[0]]) ||
      !og_value_is_dense((opgraft_graph *)(uintptr_t)graph, x) ||
      !og_value_is_dense((opgraft_graph *)(uintptr_t)graph,
                         &values[node->out[0]]) ||
      !dim_get(graph, og_node_attr(node, 0), 0, out_groups) || *out_groups <= 0)
    return 0;
  for (int32_t d = 1; d < x->ndim; ++d) {
    if (!og_size_get(&graph->sizes, x->shape[d], &size) || size <= 0) return 0;
    elements *= size;
    if (elements > GROUP_MOST * *out_groups) return 0;
  }
  return elements / *out_groups;
}

static og_status rows_normalise(og_rebuild *list, const og_node *node,
                                int64_t groups, int64_t elements,
                                opgraft_value *out) {
  opgraft_graph *graph = list->graph;
  const og_value x = graph->values[node->in[X]];
  const og_dtype single = {OG_CODE_FLOAT, 32, 1};  // not rounded in between
  og_view_layout l = {.ndim = 3, .offset = x.offset};
  opgraft_value rows, results[3] = {-1, -1, -1};
  l.shape[0] = x.shape[0];
  l.strides[0] = x.strides[0];
  l.strides[2] = OG_SIZE_ONE;
  OG_TRY(og_size_const(&graph->sizes, groups, &l.shape[1], list->error));
  OG_TRY(og_size_const(&graph->sizes, elements, &l.shape[2], list->error));
  l.strides[1] = l.shape[2];
  OG_TRY(og_rebuild_view(list, node, node->in[X], &l, &rows));
  for (int32_t r = 0; r < 3; ++r) {
    if (r > 0) l.shape[2] = OG_SIZE_ONE;
    OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, single, x.device, 3,
                              l.shape, NULL, &results[r], list->error));
  }
  const opgraft_value in[3] = {rows, -1, -1};
  const opgraft_arg attrs[2] = {{.kind = OPGRAFT_ARG_INT, .i = 1},
                                *og_node_attr(node, 1)};
  *out = results[0];
  return og_rebuild_node(list, node, OG_IR_layer_norm, in, 3, results, 3, attrs,
                         2);
}

static og_status groups_split(og_rebuild *list, const og_node *node,
                              int64_t groups, int64_t elements) {
  const opgraft_value y = node->out[0];
  const og_value like = list->graph->values[y];
  og_view_layout l = {.ndim = like.ndim, .offset = OG_SIZE_ZERO};
  opgraft_value rows, apart, factor, bias, last;
  for (int32_t r = 1; r < 3; ++r)
    if (node->out[r] >= 0) list->graph->values[node->out[r]].node = -1;
  OG_TRY(rows_normalise(list, node, groups, elements, &rows));
  for (int32_t d = 0; d < l.ndim; ++d) {
    l.shape[d] = like.shape[d];
    l.strides[d] = like.strides[d];
  }
  OG_TRY(og_rebuild_view(list, node, rows, &l, &apart));
  OG_TRY(channels_view(list, node, node->in[WEIGHT], &factor));
  OG_TRY(channels_view(list, node, node->in[BIAS], &bias));
  OG_TRY(
      og_rebuild_pointwise(list, node, OG_IR_mul, apart, factor, apart, &last));
  const opgraft_value in[2] = {last, bias};
  return og_rebuild_node(list, node, OG_IR_add, in, 2, &y, 1, NULL, 0);
}

// --- Reductions over planes --------------------------------------------------

static bool is_reduction(int32_t op) {
  return op == OG_IR_mean || op == OG_IR_sum || op == OG_IR_amax ||
         op == OG_IR_amin;
}

// Whether the dims are the last two, which are one run.
static bool is_plane(opgraft_graph *graph, const og_node *node) {
  const opgraft_arg *dims = og_node_attr(node, 0);
  if (node->is_removed || !is_reduction(node->op) || node->update != NULL ||
      node->out_count != 1 || node->out[0] < 0 || node->in[0] < 0 ||
      dims->kind != OPGRAFT_ARG_LIST || dims->count != 2)
    return false;
  const og_value *x = &graph->values[node->in[0]];
  const og_value *y = &graph->values[node->out[0]];
  const int32_t last = x->ndim - 1;
  int64_t sum = 0;
  for (int32_t i = 0; i < 2; ++i) {
    int64_t d;
    if (!dim_get(graph, &dims->list[i], x->ndim, &d) || d < last - 1)
      return false;
    sum += d;
  }
  return last > 1 && sum == 2 * last - 1 && is_single(x) && is_single(y) &&
         y->root == node->out[0] && og_value_is_dense(graph, y) &&
         x->strides[last] == OG_SIZE_ONE &&
         x->strides[last - 1] == x->shape[last];
}

static og_status plane_reduce(og_rebuild *list, const og_node *node) {
  opgraft_graph *graph = list->graph;
  const og_value x = graph->values[node->in[0]];
  const opgraft_value old = node->out[0];
  const opgraft_arg last = {.kind = OPGRAFT_ARG_INT, .i = -1};
  opgraft_arg *dim = og_arena_array(&graph->arena, 1, sizeof *dim);
  opgraft_value rows, sums;
  og_view_layout l = {.ndim = x.ndim - 1, .offset = x.offset};
  if (dim == NULL) return og_graph_no_memory(list->error);
  *dim = last;
  for (int32_t d = 0; d < l.ndim - 1; ++d) {
    l.shape[d] = x.shape[d];
    l.strides[d] = x.strides[d];
  }
  l.strides[l.ndim - 1] = OG_SIZE_ONE;
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_MUL, x.shape[x.ndim - 2],
                      x.shape[x.ndim - 1], &l.shape[l.ndim - 1], list->error));
  OG_TRY(og_rebuild_view(list, node, node->in[0], &l, &rows));
  const og_value y = graph->values[old];
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, y.dtype, y.device,
                            l.ndim - 1, l.shape, NULL, &sums, list->error));
  const opgraft_arg attr = {.kind = OPGRAFT_ARG_LIST, .list = dim, .count = 1};
  OG_TRY(og_rebuild_node(list, node, node->op, &rows, 1, &sums, 1, &attr, 1));
  for (int32_t v = 0; v < graph->value_count; ++v)
    if (graph->values[v].root == old) graph->values[v].root = sums;
  return og_rebuild_node(list, node, OG_IR_view, &sums, 1, &old, 1, NULL, 0);
}

// --- The pass ----------------------------------------------------------------

static og_status channels_run(opgraft_graph *graph, int32_t *out_changes,
                              opgraft_error *error) {
  og_rebuild list = {.graph = graph, .error = error};
  og_status status = OG_OK;
  og_uses uses;
  if ((graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) == 0) return OG_OK;
  OG_TRY(og_uses_init(&uses, graph, error));
  for (int32_t n = 0; n < graph->node_count && status == OG_OK; ++n) {
    const og_node node = graph->nodes[n];
    int64_t groups = 0;
    const int64_t group = group_of(graph, &node, uses.count, &groups);
    const bool splits = is_split(graph, &node),
               reduces = is_plane(graph, &node);
    status = splits      ? norm_split(&list, &node)
             : group > 0 ? groups_split(&list, &node, groups, group)
             : reduces   ? plane_reduce(&list, &node)
                         : og_rebuild_put(&list, &node);
    *out_changes += splits || reduces || group > 0;
  }
  og_uses_reset(&uses);
  if (status == OG_OK && *out_changes > 0) og_rebuild_finish(&list);
  og_rebuild_reset(&list);
  return status;
}

const og_pass og_pass_channels = {
    .name = "channels", .needs = OG_FACT_FUNCTIONAL, .run = channels_run};
