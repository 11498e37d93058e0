// SPDX-License-Identifier: Apache-2.0
// Constant padding in front of a convolution, which pads by itself. Where both
// sides of each dim have as much, the host's operator can do it as well. Else
// `padding` counts the elements before, and the result's size says how many
// stand behind: no host has that form, so it is made for our own kernels alone.
// Counts the convolutions.

#include <string.h>

#include "graph/op.h"
#include "pass/pass.h"
#include "pass/uses.h"
#include "scalar/element.h"

enum { PADDING = 1, TRANSPOSED = 3, ATTRS = 6, SPACE_MOST = 3 };
enum { OFFSET = 0, STRIDES = 1 };              // of scatter_view
enum { HOST_PADDING = 4, TAPS_MOST = 65536 };  // of a channel's sum

typedef struct pads {
  opgraft_value inner;
  int64_t before[SPACE_MOST];
  bool is_even;
} pads;

static const og_node *maker_of(const opgraft_graph *graph, opgraft_value v) {
  const int32_t n = v >= 0 ? graph->values[v].node : -1;
  return n >= 0 ? &graph->nodes[n] : NULL;
}

static bool is_zeros(const opgraft_graph *graph, opgraft_value v) {
  const og_node *fill = maker_of(graph, v);
  if (fill == NULL || fill->op != OG_IR_copy) return false;
  const og_value *from = &graph->values[fill->in[0]];
  return from->kind == OG_VALUE_LITERAL &&
         (from->dtype.code == OG_CODE_FLOAT ? from->number.f == 0
                                            : from->number.i == 0);
}

static bool number_get(const opgraft_graph *graph, const opgraft_arg *arg,
                       int64_t *out) {
  *out = arg->i;
  return arg->kind == OPGRAFT_ARG_INT || arg->kind == OPGRAFT_ARG_BOOL ||
         (arg->kind == OPGRAFT_ARG_SIZE &&
          og_size_get(&graph->sizes, arg->size, out));
}

// The strides of the spatial dims in a row-major tensor, where they are the
// node's own: the inner tensor lies in one run of each dim.
static bool strides_read(const opgraft_graph *graph, const og_node *pad,
                         const og_value *whole, int64_t *out) {
  const opgraft_arg *strides = og_node_attr(pad, STRIDES);
  int64_t own, size = 1, stride = 1;
  if (strides->kind != OPGRAFT_ARG_LIST || strides->count != whole->ndim)
    return false;
  for (int32_t d = whole->ndim - 1; d >= 2; --d) {
    if (!number_get(graph, &strides->list[d], &own) || own != stride)
      return false;
    out[d - 2] = stride;
    if (d > 2 && !og_size_get(&graph->sizes, whole->shape[d], &size))
      return false;
    stride *= size;
  }
  return true;
}

// What stands before the inner tensor in each spatial dim, of its position.
static bool before_read(const opgraft_graph *graph, const og_node *pad,
                        const og_value *whole, pads *out) {
  const og_value *inner = &graph->values[out->inner];
  int64_t offset, strides[SPACE_MOST], more, less;
  if (!number_get(graph, og_node_attr(pad, OFFSET), &offset) ||
      !strides_read(graph, pad, whole, strides) || offset < 0 ||
      inner->shape[0] != whole->shape[0] || inner->shape[1] != whole->shape[1])
    return false;
  out->is_even = true;
  for (int32_t d = 0; d < whole->ndim - 2; ++d) {
    if (strides[d] <= 0) return false;
    out->before[d] = offset / strides[d];
    offset %= strides[d];
    const bool is_known =
        og_size_get(&graph->sizes, whole->shape[d + 2], &more) &&
        og_size_get(&graph->sizes, inner->shape[d + 2], &less);
    if (is_known && more - less < out->before[d]) return false;
    out->is_even &= is_known && more - less == 2 * out->before[d];
  }
  return true;
}

static bool pads_find(const opgraft_graph *graph, const og_node *node,
                      pads *out) {
  const og_value *whole = &graph->values[node->in[0]];
  const og_node *pad = maker_of(graph, node->in[0]);
  int64_t transposed;
  if (pad == NULL || pad->op != OG_IR_scatter_view ||
      whole->root != node->in[0] || !is_zeros(graph, pad->in[0]) ||
      whole->ndim < 3 || whole->ndim > SPACE_MOST + 2 || node->attrs == NULL ||
      !number_get(graph, og_node_attr(node, TRANSPOSED), &transposed) ||
      transposed != 0)
    return false;
  *out = (pads){.inner = pad->in[1]};
  const og_value *inner = &graph->values[out->inner];
  return inner->kind != OG_VALUE_LITERAL && inner->ndim == whole->ndim &&
         og_dtype_equal(inner->dtype, whole->dtype) &&
         before_read(graph, pad, whole, out);
}

static bool is_f32(const og_value *v) {
  return v->dtype.code == OG_CODE_FLOAT && v->dtype.bits == 32;
}

// Whether the fast kernel takes the convolution of the inner tensor.
static bool is_ours(const opgraft_graph *graph, const og_node *node,
                    const pads *p) {
  const og_value *x = &graph->values[p->inner],
                 *w = &graph->values[node->in[1]];
  int64_t taps = 1, size;
  for (int32_t d = 1; d < w->ndim; ++d) {
    if (!og_size_get(&graph->sizes, w->shape[d], &size)) return false;
    taps *= size;
  }
  const int32_t last = x->ndim - 1;
  return (graph->option_flags & OPGRAFT_OPTION_MAX_AUTOTUNE) != 0 &&
         x->ndim <= 4 && taps <= TAPS_MOST && is_f32(x) && is_f32(w) &&
         is_f32(&graph->values[node->out[0]]) &&
         (node->in[2] < 0 || is_f32(&graph->values[node->in[2]])) &&
         x->strides[last] == OG_SIZE_ONE &&
         (last == 2 || x->strides[last - 1] == x->shape[last]) &&
         og_value_is_dense((opgraft_graph *)(uintptr_t)graph, w);
}

// --- Folding -----------------------------------------------------------------

// The list with what the convolution itself pads added; NULL: not known, or no
// memory.
static const opgraft_arg *padding_make(opgraft_graph *graph,
                                       const opgraft_arg *own, int32_t rank,
                                       const pads *p) {
  int64_t number;
  opgraft_arg *list = og_arena_array(&graph->arena, (size_t)rank, sizeof *list);
  if (list == NULL || own->kind != OPGRAFT_ARG_LIST ||
      (own->count != 1 && own->count != rank))
    return NULL;
  for (int32_t d = 0; d < rank; ++d) {
    if (!number_get(graph, &own->list[own->count == 1 ? 0 : d], &number))
      return NULL;
    list[d] =
        (opgraft_arg){.kind = OPGRAFT_ARG_INT, .i = number + p->before[d]};
  }
  return list;
}

static og_status origin_pad(opgraft_graph *graph, og_node *node,
                            const opgraft_arg *padding, opgraft_error *error) {
  const og_origin *old = node->origin;
  og_origin *origin = og_arena_alloc(&graph->arena, sizeof *origin);
  opgraft_arg *args =
      og_arena_array(&graph->arena, (size_t)old->arg_count, sizeof *args);
  if (origin == NULL || args == NULL) return og_graph_no_memory(error);
  memcpy(args, old->args, (size_t)old->arg_count * sizeof *args);
  const char *name = args[HOST_PADDING].name;
  args[HOST_PADDING] = *padding;
  args[HOST_PADDING].name = name;
  *origin = *old;
  origin->args = args;
  node->origin = origin;
  return OG_OK;
}

static og_status node_fold(opgraft_graph *graph, og_node *node, const pads *p,
                           int32_t *changes, opgraft_error *error) {
  const int32_t rank = graph->values[p->inner].ndim - 2;
  const opgraft_arg *list =
      padding_make(graph, og_node_attr(node, PADDING), rank, p);
  opgraft_arg *attrs = og_arena_array(&graph->arena, ATTRS, sizeof *attrs);
  if (list == NULL) return OG_OK;
  if (attrs == NULL) return og_graph_no_memory(error);
  memcpy(attrs, node->attrs, ATTRS * sizeof *attrs);
  attrs[PADDING].list = list;
  attrs[PADDING].count = rank;
  if (!p->is_even) {
    node->is_as_recorded = false;
  } else if (node->is_as_recorded && node->origin != NULL) {
    if (node->origin->arg_count <= HOST_PADDING) return OG_OK;
    OG_TRY(origin_pad(graph, node, &attrs[PADDING], error));
  }
  node->attrs = attrs;
  node->in[0] = p->inner;
  ++*changes;
  return OG_OK;
}

static og_status pads_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  og_uses uses;
  og_status status = og_uses_init(&uses, graph, error);
  for (int32_t n = 0; n < graph->node_count && status == OG_OK; ++n) {
    og_node *node = &graph->nodes[n];
    pads p;
    if (node->is_removed || node->op != OG_IR_convolution ||
        !pads_find(graph, node, &p) ||
        (!p.is_even && !is_ours(graph, node, &p)))
      continue;
    const int32_t write = uses.root_write[graph->values[p.inner].root];
    if (write < 0 || write > n)
      status = node_fold(graph, node, &p, out_changes, error);
  }
  og_uses_reset(&uses);
  return status;
}

const og_pass og_pass_pads = {
    .name = "pads", .needs = OG_FACT_FUNCTIONAL, .run = pads_run};
