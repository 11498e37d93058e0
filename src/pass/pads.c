// SPDX-License-Identifier: Apache-2.0
// Constant padding in front of a convolution, which pads by itself. Where both
// sides of each dim have as much, the host's operator can do it as well. Else
// `padding` counts the elements before, and the result's size says how many
// stand behind: no host has that form, so it is made for our own kernels alone.
//
// A view of padded or concatenated rows that reads one part of each alone, as
// the shift of relative positions does, is a view of that part. Counts both.

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

static bool is_zeros(const opgraft_graph *graph, opgraft_value v) {
  const og_node *fill = og_maker_of(graph, v);
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

static bool is_size(const opgraft_graph *graph, const opgraft_arg *arg,
                    opgraft_size size) {
  int64_t own, number;
  if (arg->kind == OPGRAFT_ARG_SIZE) return arg->size == size;
  return number_get(graph, arg, &own) &&
         og_size_get(&graph->sizes, size, &number) && own == number;
}

// The strides of the spatial dims in a row-major tensor, where the node's own
// strides are such a tensor's: the inner tensor lies in one run of each dim.
static bool strides_read(opgraft_graph *graph, const og_node *pad,
                         const og_value *whole, int64_t *out) {
  const opgraft_arg *strides = og_node_attr(pad, STRIDES);
  opgraft_size expected = OG_SIZE_ONE;
  if (strides->kind != OPGRAFT_ARG_LIST || strides->count != whole->ndim)
    return false;
  for (int32_t d = whole->ndim - 1; d >= 0; --d)
    if (!is_size(graph, &strides->list[d], expected) ||
        (d >= 2 && !og_size_get(&graph->sizes, expected, &out[d - 2])) ||
        (d > 0 && og_size_make(&graph->sizes, OG_SIZE_MUL, whole->shape[d],
                               expected, &expected, NULL) != OG_OK))
      return false;
  return true;
}

// What stands before the inner tensor in each spatial dim, of its position.
static bool before_read(opgraft_graph *graph, const og_node *pad,
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

static bool pads_find(opgraft_graph *graph, const og_node *node, pads *out) {
  const og_value *whole = &graph->values[node->in[0]];
  const og_node *pad = og_maker_of(graph, node->in[0]);
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
         x->ndim <= 4 && taps <= TAPS_MOST && og_dtype_is_f32(x->dtype) &&
         og_dtype_is_f32(w->dtype) &&
         og_dtype_is_f32(graph->values[node->out[0]].dtype) &&
         (node->in[2] < 0 ||
          og_dtype_is_f32(graph->values[node->in[2]].dtype)) &&
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

// --- Views past padding ------------------------------------------------------

// Columns [first, first + width) of a row-major tensor's rows are those of x.
typedef struct part {
  opgraft_value x;
  int64_t first, width, all;
} part;

static bool last_get(const opgraft_graph *graph, const og_value *v,
                     int64_t *out) {
  return v->ndim > 0 &&
         og_size_get(&graph->sizes, v->shape[v->ndim - 1], out) && *out > 0;
}

static bool is_row_part(opgraft_graph *graph, const og_value *whole,
                        const part *p) {
  const og_value *x = &graph->values[p->x];
  if (x->kind == OG_VALUE_LITERAL || x->ndim != whole->ndim ||
      !og_dtype_equal(x->dtype, whole->dtype) || !og_value_is_dense(graph, x))
    return false;
  for (int32_t d = 0; d < x->ndim - 1; ++d)
    if (x->shape[d] != whole->shape[d]) return false;
  return true;
}

// What begins at the first element of the result's first row but for columns.
static bool is_scattered(const opgraft_graph *graph, const og_node *maker,
                         const og_value *whole, part *out) {
  const opgraft_arg *strides = og_node_attr(maker, STRIDES);
  out->x = maker->in[1];
  if (!number_get(graph, og_node_attr(maker, OFFSET), &out->first) ||
      out->first < 0 || strides->kind != OPGRAFT_ARG_LIST ||
      strides->count != whole->ndim ||
      !last_get(graph, &graph->values[out->x], &out->width) ||
      out->width > out->all - out->first)
    return false;
  for (int32_t d = 0; d < whole->ndim; ++d) {
    int64_t asked, own;
    if (!number_get(graph, &strides->list[d], &asked) ||
        !og_size_get(&graph->sizes, whole->strides[d], &own) || asked != own)
      return false;
  }
  return true;
}

// The view of a part that is this view of the whole; false where it reads other
// elements. A stride of q rows and c columns stays one of them: no sum of
// columns leaves the part.
static bool view_find(const opgraft_graph *graph, const og_value *view,
                      const part *p, int64_t *strides, int64_t *out_offset) {
  int64_t offset, size;
  if (!og_size_get(&graph->sizes, view->offset, &offset) || offset < 0)
    return false;
  int64_t least = offset % p->all - p->first, most = least;
  *out_offset = offset / p->all * p->width + least;
  for (int32_t d = 0; d < view->ndim; ++d) {
    if (!og_size_get(&graph->sizes, view->shape[d], &size) || size < 1 ||
        !og_size_get(&graph->sizes, view->strides[d], &strides[d]) ||
        strides[d] < 0 || strides[d] > INT64_MAX - p->all)
      return false;
    const int64_t rows = (strides[d] + p->all / 2) / p->all;
    const int64_t columns = strides[d] - rows * p->all;
    int64_t far, *end = columns < 0 ? &least : &most;
    if (__builtin_mul_overflow(columns, size - 1, &far) ||
        __builtin_add_overflow(*end, far, end))
      return false;
    strides[d] = rows * p->width + columns;
  }
  return least >= 0 && most < p->width;
}

static og_status view_move(opgraft_graph *graph, og_node *node, const part *p,
                           const int64_t *strides, int64_t offset,
                           opgraft_error *error) {
  const og_value x = graph->values[p->x];
  og_value *view = &graph->values[node->out[0]];
  opgraft_size *list =
      og_arena_array(&graph->arena, (size_t)view->ndim + 1, sizeof *list);
  if (list == NULL) return og_graph_no_memory(error);
  for (int32_t d = 0; d < view->ndim; ++d)
    OG_TRY(og_size_const(&graph->sizes, strides[d], &list[d], error));
  OG_TRY(og_size_const(&graph->sizes, offset, &view->offset, error));
  OG_TRY(og_size_make(&graph->sizes, OG_SIZE_ADD, view->offset, x.offset,
                      &view->offset, error));
  view->strides = list;
  view->root = x.root;
  node->in[0] = p->x;
  return OG_OK;
}

// Whether a view of this one stays in its storage.
static bool is_viewed(const opgraft_graph *graph, opgraft_value v) {
  for (int32_t n = 0; n < graph->node_count; ++n)
    if (!graph->nodes[n].is_removed && og_op_is(&graph->nodes[n], OG_OP_VIEW) &&
        graph->nodes[n].in[0] == v)
      return true;
  return false;
}

static og_status part_try(opgraft_graph *graph, og_node *node, const part *p,
                          const og_uses *uses, bool *out_moved,
                          opgraft_error *error) {
  int64_t strides[OPGRAFT_RANK_MAX], offset;
  *out_moved =
      is_row_part(graph, &graph->values[node->in[0]], p) &&
      !is_viewed(graph, node->out[0]) &&
      uses->root_write[graph->values[p->x].root] < 0 &&
      view_find(graph, &graph->values[node->out[0]], p, strides, &offset);
  return *out_moved ? view_move(graph, node, p, strides, offset, error) : OG_OK;
}

static og_status view_pass(opgraft_graph *graph, og_node *node,
                           const og_uses *uses, int32_t *changes,
                           opgraft_error *error) {
  const og_node *maker = og_maker_of(graph, node->in[0]);
  const og_value *whole = &graph->values[node->in[0]];
  part p = {.x = -1};
  int64_t dim;
  bool moved = false;
  if (maker == NULL || whole->root != node->in[0] ||
      uses->root_write[node->in[0]] >= 0 ||
      uses->root_is_output[graph->values[node->out[0]].root] ||
      !og_value_is_dense(graph, whole) || !last_get(graph, whole, &p.all))
    return OG_OK;
  if (maker->op == OG_IR_scatter_view && is_scattered(graph, maker, whole, &p))
    OG_TRY(part_try(graph, node, &p, uses, &moved, error));
  if (maker->op == OG_IR_cat &&
      number_get(graph, og_node_attr(maker, 0), &dim) &&
      (dim == -1 || dim == whole->ndim - 1))
    for (int32_t i = 0; i < maker->in_count && !moved; ++i) {
      p.x = maker->in[i];
      p.first += p.width;
      if (!last_get(graph, &graph->values[p.x], &p.width)) break;
      OG_TRY(part_try(graph, node, &p, uses, &moved, error));
    }
  *changes += moved;
  return OG_OK;
}

static og_status pads_run(opgraft_graph *graph, int32_t *out_changes,
                          opgraft_error *error) {
  og_uses uses;
  og_status status = og_uses_init(&uses, graph, error);
  for (int32_t n = 0; n < graph->node_count && status == OG_OK; ++n) {
    og_node *node = &graph->nodes[n];
    pads p;
    if (!node->is_removed && og_op_is(node, OG_OP_VIEW)) {
      status = view_pass(graph, node, &uses, out_changes, error);
      continue;
    }
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
