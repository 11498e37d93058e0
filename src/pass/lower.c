// SPDX-License-Identifier: Apache-2.0
// Operators as others for which the engine has fast kernels or row programs.
// glu becomes a product with a sigmoid, a transposed convolution of stride s a
// plain one that computes the s phases of each dim as channels, which the
// operator interleave puts beside each other, and a selection of places that an
// iota counts a copy of a view, and index_add of rows of f32, or scatter_add
// with one place for each row, an index_put that adds. Counts these.
//
// With t = s j + r and v + padding = s m + r, a transposed convolution's
//   y[v] = sum of x[m - j] w[s j + r]
// is, for each r, a plain one of stride 1. Weights are reordered by nodes of
// their own, which pass steady keeps the results of.

#include "graph/op.h"
#include "pass/pass.h"
#include "pass/rebuild.h"
#include "scalar/element.h"

static bool is_single(const og_value *v) {
  return og_dtype_class(v->dtype) == OG_CLASS_F32 &&
         og_device_equal(v->device, og_cpu);
}

// Whether two values have equal sizes in all dims but one.
static bool is_same_but(const og_value *a, const og_value *b, int32_t dim) {
  bool same = a->ndim == b->ndim;
  for (int32_t d = 0; same && d < a->ndim; ++d)
    same = d == dim || a->shape[d] == b->shape[d];
  return same;
}

static bool is_places(const og_value *v) {
  return og_dtype_class(v->dtype) == OG_CLASS_I64;
}

static bool number_get(const opgraft_graph *graph, const opgraft_arg *arg,
                       int64_t otherwise, int64_t *out) {
  *out = arg->kind == OPGRAFT_ARG_NONE ? otherwise : arg->i;
  return arg->kind == OPGRAFT_ARG_NONE || arg->kind == OPGRAFT_ARG_INT ||
         arg->kind == OPGRAFT_ARG_BOOL ||
         (arg->kind == OPGRAFT_ARG_SIZE &&
          og_size_get(&graph->sizes, arg->size, out));
}

static opgraft_arg int_arg(int64_t i) {
  return (opgraft_arg){.kind = OPGRAFT_ARG_INT, .i = i};
}

// --- glu ---------------------------------------------------------------------

static bool is_glu(opgraft_graph *graph, const og_node *node,
                   int64_t *out_dim) {
  if (node->is_removed || node->op != OG_IR_glu || node->update != NULL ||
      node->out[0] < 0)
    return false;
  const og_value *x = &graph->values[node->in[0]];
  if (!number_get(graph, og_node_attr(node, 0), -1, out_dim)) return false;
  if (*out_dim < 0) *out_dim += x->ndim;
  const og_value *y = &graph->values[node->out[0]];
  if (x->kind == OG_VALUE_LITERAL || *out_dim < 0 || *out_dim >= x->ndim ||
      !is_single(x) || !og_dtype_equal(x->dtype, y->dtype) ||
      !is_same_but(x, y, (int32_t)*out_dim))
    return false;
  opgraft_size twice;
  const opgraft_size half = y->shape[*out_dim];
  return og_size_make(&graph->sizes, OG_SIZE_ADD, half, half, &twice, NULL) ==
             OG_OK &&
         twice == x->shape[*out_dim];
}

static og_status half_view(og_rebuild *list, const og_node *node, int32_t dim,
                           bool is_second, opgraft_value *out) {
  og_sizes *sizes = &list->graph->sizes;
  const og_value x = list->graph->values[node->in[0]];
  const opgraft_size half = list->graph->values[node->out[0]].shape[dim];
  og_view_layout l = {.ndim = x.ndim, .offset = x.offset};
  opgraft_size apart;
  for (int32_t d = 0; d < l.ndim; ++d) {
    l.shape[d] = d == dim ? half : x.shape[d];
    l.strides[d] = x.strides[d];
  }
  if (is_second) {
    OG_TRY(og_size_make(sizes, OG_SIZE_MUL, half, x.strides[dim], &apart,
                        list->error));
    OG_TRY(og_size_make(sizes, OG_SIZE_ADD, l.offset, apart, &l.offset,
                        list->error));
  }
  return og_rebuild_view(list, node, node->in[0], &l, out);
}

// The gate is f32: it is not rounded in between.
static og_status glu_lower(og_rebuild *list, const og_node *node, int32_t dim) {
  const og_value y = list->graph->values[node->out[0]];
  opgraft_value in[2], second;
  OG_TRY(half_view(list, node, dim, false, &in[0]));
  OG_TRY(half_view(list, node, dim, true, &second));
  OG_TRY(og_graph_add_value(list->graph, OG_VALUE_RESULT,
                            (og_dtype){OG_CODE_FLOAT, 32, 1}, y.device, y.ndim,
                            y.shape, NULL, &in[1], list->error));
  OG_TRY(og_rebuild_node(list, node, OG_IR_sigmoid, &second, 1, &in[1], 1, NULL,
                         0));
  return og_rebuild_node(list, node, OG_IR_mul, in, 2, node->out, 1, NULL, 0);
}

// --- Places that are counted -------------------------------------------------

typedef struct counted {
  int32_t dim;
  int64_t start, step;
} counted;

static bool is_counted(const opgraft_graph *graph, const og_node *node,
                       counted *out) {
  int64_t dim, count, size;
  if (node->is_removed || node->op != OG_IR_index_select ||
      node->update != NULL || node->out[0] < 0)
    return false;
  const og_value *x = &graph->values[node->in[0]];
  const og_value *places = &graph->values[node->in[1]];
  const og_value *y = &graph->values[node->out[0]];
  if (places->node < 0 || graph->nodes[places->node].op != OG_IR_iota ||
      places->ndim != 1 || places->root != node->in[1] || !is_places(places) ||
      !og_dtype_equal(x->dtype, y->dtype) || x->kind == OG_VALUE_LITERAL ||
      !number_get(graph, og_node_attr(node, 0), 0, &dim))
    return false;
  const og_node *iota = &graph->nodes[places->node];
  if (dim < 0) dim += x->ndim;
  if (dim < 0 || dim >= x->ndim || !is_same_but(x, y, (int32_t)dim) ||
      y->shape[dim] != places->shape[0] ||
      !number_get(graph, og_node_attr(iota, 0), 0, &out->start) ||
      !number_get(graph, og_node_attr(iota, 1), 1, &out->step) ||
      !og_size_get(&graph->sizes, places->shape[0], &count) ||
      !og_size_get(&graph->sizes, x->shape[dim], &size))
    return false;
  out->dim = (int32_t)dim;
  return out->start >= 0 && out->step >= 1 && count > 0 && size > out->start &&
         (size - 1 - out->start) / out->step >= count - 1;
}

static og_status counted_lower(og_rebuild *list, const og_node *node,
                               const counted *at) {
  og_sizes *sizes = &list->graph->sizes;
  const og_value x = list->graph->values[node->in[0]];
  const og_value y = list->graph->values[node->out[0]];
  og_view_layout l = {.ndim = x.ndim, .offset = x.offset};
  opgraft_size number;
  opgraft_value view;
  for (int32_t d = 0; d < l.ndim; ++d) {
    l.shape[d] = y.shape[d];
    l.strides[d] = x.strides[d];
  }
  OG_TRY(og_size_const(sizes, at->start, &number, list->error));
  OG_TRY(og_size_make(sizes, OG_SIZE_MUL, number, x.strides[at->dim], &number,
                      list->error));
  OG_TRY(og_size_make(sizes, OG_SIZE_ADD, l.offset, number, &l.offset,
                      list->error));
  OG_TRY(og_size_const(sizes, at->step, &number, list->error));
  OG_TRY(og_size_make(sizes, OG_SIZE_MUL, number, x.strides[at->dim],
                      &l.strides[at->dim], list->error));
  OG_TRY(og_rebuild_view(list, node, node->in[0], &l, &view));
  return og_rebuild_node(list, node, OG_IR_copy, &view, 1, node->out, 1, NULL,
                         0);
}

// --- Rows that are added -----------------------------------------------------

// Whether an index has one place for each of what a dim counts.
static bool is_along(const opgraft_graph *graph, const og_node *node,
                     int32_t dim) {
  const og_value *index = &graph->values[node->in[1]];
  const og_value *added = &graph->values[node->in[2]];
  const og_value *y = &graph->values[node->out[0]];
  if (!is_places(index)) return false;
  if (node->op == OG_IR_index_add)
    return index->ndim == 1 && is_same_but(added, y, dim) &&
           added->shape[dim] == index->shape[0];
  if (!og_value_same_shape(index, added)) return false;
  for (int32_t d = 0; d < y->ndim; ++d)
    if (d != dim &&
        (added->shape[d] != y->shape[d] ||
         (index->strides[d] != OG_SIZE_ZERO && index->shape[d] != OG_SIZE_ONE)))
      return false;
  return true;
}

static bool is_added(opgraft_graph *graph, const og_node *node, int32_t *out) {
  int64_t dim, alpha = 1;
  if (node->is_removed || node->out[0] < 0 ||
      (node->op != OG_IR_index_add && node->op != OG_IR_scatter_add) ||
      !number_get(graph, og_node_attr(node, 0), 0, &dim) ||
      (node->op == OG_IR_index_add &&
       !number_get(graph, og_node_attr(node, 1), 1, &alpha)) ||
      alpha != 1)
    return false;
  const og_value *y = &graph->values[node->out[0]];
  const og_value *all[] = {&graph->values[node->in[0]],
                           &graph->values[node->in[2]], y};
  for (int32_t i = 0; i < 3; ++i)
    if (!is_single(all[i]) || all[i]->dtype.bits != 32 ||
        all[i]->kind == OG_VALUE_LITERAL || !og_value_is_dense(graph, all[i]) ||
        all[i]->ndim != y->ndim)
      return false;
  if (!og_value_same_shape(all[0], y)) return false;
  if (dim < 0) dim += y->ndim;
  *out = (int32_t)dim;
  return dim >= 0 && dim < y->ndim && is_along(graph, node, *out);
}

static og_status added_lower(og_rebuild *list, const og_node *node,
                             int32_t dim) {
  const size_t count = (size_t)dim + 3;
  og_arena *arena = &list->graph->arena;
  og_node made = *node;
  made.in = og_arena_array(arena, count, sizeof *made.in);
  opgraft_arg *attrs = og_arena_array(arena, 2, sizeof *attrs);
  if (made.in == NULL || attrs == NULL) return og_graph_no_memory(list->error);
  made.in[0] = node->in[0];
  made.in[1] = node->in[2];
  for (int32_t d = 0; d < dim; ++d) made.in[d + 2] = -1;
  made.in[dim + 2] = node->in[1];
  if (node->op == OG_IR_scatter_add) {
    const og_value index = list->graph->values[node->in[1]];
    og_view_layout l = {.ndim = 1, .offset = index.offset};
    l.shape[0] = index.shape[dim];
    l.strides[0] = index.strides[dim];
    OG_TRY(og_rebuild_view(list, node, node->in[1], &l, &made.in[dim + 2]));
  }
  made.in_count = (int32_t)count;
  attrs[0] = attrs[1] = int_arg(1);
  made.attrs = attrs;
  made.op = OG_IR_index_put;
  made.is_as_recorded = false;
  return og_rebuild_put(list, &made);
}

// --- Transposed convolutions -------------------------------------------------

enum { STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS, ATTRS };
enum { SPACE = 3, TAPS_MOST = 65536, RANK = 3 + 2 * SPACE };
// Of so few positions each weight is read for little, and a host reads it once
// for all images.
enum { POSITIONS_LEAST = 64 };

// Of a transposed convolution, by spatial dim.
typedef struct phases {
  int32_t space;
  int64_t taps[SPACE], stride[SPACE];
  int64_t reach[SPACE];    // taps of a phase
  int64_t padding[SPACE];  // of the plain convolution
  int64_t crop[SPACE];     // of the phases: positions before the result's first
  int64_t groups, in_channels, out_channels;  // of a group
  int64_t all;                                // phases
} phases;

static bool list_get(const opgraft_graph *graph, const og_node *node,
                     int32_t attr, int32_t space, int64_t otherwise,
                     int64_t *out) {
  const opgraft_arg *list = og_node_attr(node, attr);
  const bool is_list = list->kind == OPGRAFT_ARG_LIST && list->count > 0;
  if (is_list && list->count != 1 && list->count != space) return false;
  for (int32_t d = 0; d < space; ++d) {
    out[d] = otherwise;
    if (is_list && !number_get(graph, &list->list[list->count == 1 ? 0 : d],
                               otherwise, &out[d]))
      return false;
  }
  return true;
}

// Whether a value is made of parameters and constants alone.
static bool is_lasting(const opgraft_graph *graph, opgraft_value v,
                       int32_t depth) {
  if (v < 0) return true;
  const og_value *value = &graph->values[v];
  const og_value *root = &graph->values[value->root];
  if (root->kind == OG_VALUE_INPUT)
    return (root->flags & OPGRAFT_INPUT_STATIC) != 0;
  if (root->kind != OG_VALUE_RESULT) return true;
  if (value->node < 0 || depth == 0) return false;
  const og_node *node = &graph->nodes[value->node];
  for (int32_t i = 0; i < node->in_count; ++i)
    if (!is_lasting(graph, node->in[i], depth - 1)) return false;
  return !og_op_is(node, OG_OP_FOREIGN) && !og_op_is(node, OG_OP_RANDOM);
}

// Whether the spatial dims are one run.
static bool is_planes(opgraft_graph *graph, const og_value *x) {
  opgraft_size expected = OG_SIZE_ONE;
  for (int32_t d = x->ndim - 1; d >= 2; --d) {
    if (x->strides[d] != expected ||
        og_size_make(&graph->sizes, OG_SIZE_MUL, x->shape[d], expected,
                     &expected, NULL) != OG_OK)
      return false;
  }
  return true;
}

static bool is_small(const opgraft_graph *graph, const og_value *y,
                     const phases *p) {
  int64_t positions = 1, size;
  for (int32_t d = 0; d < p->space; ++d) {
    if (!og_size_get(&graph->sizes, y->shape[d + 2], &size)) return false;
    positions *= (size + p->stride[d] - 1) / p->stride[d];
  }
  return positions < POSITIONS_LEAST;
}

static bool phases_cut(phases *p, const int64_t *padding) {
  double wanted = 1, done = 1;
  int64_t steps = p->in_channels;
  p->all = 1;
  for (int32_t d = 0; d < p->space; ++d) {
    const int64_t s = p->stride[d];
    if (s < 1 || s > TAPS_MOST || padding[d] < 0 || p->taps[d] < 1 ||
        p->taps[d] > TAPS_MOST)
      return false;
    p->reach[d] = (p->taps[d] + s - 1) / s;
    p->padding[d] = p->reach[d] - 1 - padding[d] / s;
    p->crop[d] = padding[d] % s;
    p->all *= s;
    steps *= p->reach[d];
    wanted *= (double)p->taps[d];
    done *= (double)(p->reach[d] * s);
    if (p->padding[d] < 0 || p->all > TAPS_MOST || steps > TAPS_MOST)
      return false;
  }
  // Where phases have fewer taps than others, zeros are multiplied.
  return done <= 2.5 * wanted;
}

static bool is_bias(const opgraft_graph *graph, opgraft_value bias,
                    const og_value *y) {
  if (bias < 0) return true;
  const og_value *b = &graph->values[bias];
  const og_class of = og_dtype_class(b->dtype);
  return b->ndim == 1 && b->shape[0] == y->shape[1] &&
         (of == OG_CLASS_F32 || of == OG_CLASS_F64);
}

static bool is_transposed(opgraft_graph *graph, const og_node *node,
                          phases *p) {
  int64_t transposed, dilation[SPACE], padding[SPACE];
  if (node->is_removed || node->op != OG_IR_convolution ||
      node->update != NULL || node->out[0] < 0 || node->attrs == NULL ||
      !number_get(graph, og_node_attr(node, TRANSPOSED), 0, &transposed) ||
      transposed == 0)
    return false;
  const og_value *x = &graph->values[node->in[0]];
  const og_value *w = &graph->values[node->in[1]];
  const og_value *y = &graph->values[node->out[0]];
  const og_value *all[] = {x, w, y};
  for (int32_t i = 0; i < 3; ++i)
    if (!is_single(all[i]) || all[i]->dtype.bits != 32 ||
        all[i]->ndim != x->ndim)
      return false;
  *p = (phases){.space = x->ndim - 2};
  if (p->space < 1 || p->space > SPACE || !is_planes(graph, x) ||
      y->root != node->out[0] || !og_value_is_dense(graph, y) ||
      !list_get(graph, node, STRIDE, p->space, 1, p->stride) ||
      !list_get(graph, node, PADDING, p->space, 0, padding) ||
      !list_get(graph, node, DILATION, p->space, 1, dilation) ||
      !number_get(graph, og_node_attr(node, GROUPS), 1, &p->groups) ||
      !og_size_get(&graph->sizes, w->shape[0], &p->in_channels) ||
      !og_size_get(&graph->sizes, w->shape[1], &p->out_channels) ||
      p->groups < 1 || p->in_channels % p->groups != 0 ||
      p->in_channels < p->groups || p->out_channels < 1 ||
      !is_bias(graph, node->in[2], y) || !is_lasting(graph, node->in[1], 8))
    return false;
  p->in_channels /= p->groups;
  for (int32_t d = 0; d < p->space; ++d)
    if (dilation[d] != 1 ||
        !og_size_get(&graph->sizes, w->shape[d + 2], &p->taps[d]))
      return false;
  return (p->space < SPACE || p->groups == 1 || p->in_channels > 1) &&
         phases_cut(p, padding) && !is_small(graph, y, p);
}

// A result of known sizes, row-major.
static og_status result_make(og_rebuild *list, const og_node *node,
                             int32_t ndim, const int64_t *shape,
                             opgraft_value *out) {
  opgraft_size sizes[RANK];
  const og_value w = list->graph->values[node->in[1]];
  for (int32_t d = 0; d < ndim; ++d)
    OG_TRY(
        og_size_const(&list->graph->sizes, shape[d], &sizes[d], list->error));
  return og_graph_add_value(list->graph, OG_VALUE_RESULT, w.dtype, w.device,
                            ndim, sizes, NULL, out, list->error);
}

static og_status view_make(og_rebuild *list, const og_node *node,
                           opgraft_value of, int32_t ndim, const int64_t *shape,
                           const int64_t *strides, opgraft_value *out) {
  og_view_layout l = {.ndim = ndim, .offset = OG_SIZE_ZERO};
  og_sizes *sizes = &list->graph->sizes;
  for (int32_t d = 0; d < ndim; ++d) {
    OG_TRY(og_size_const(sizes, shape[d], &l.shape[d], list->error));
    OG_TRY(og_size_const(sizes, strides[d], &l.strides[d], list->error));
  }
  return og_rebuild_view(list, node, of, &l, out);
}

// A list of so many numbers, `each` where they are NULL.
static og_status ints_arg(og_rebuild *list, const int64_t *numbers,
                          int64_t each, int32_t count, opgraft_arg *out) {
  opgraft_arg *all =
      og_arena_array(&list->graph->arena, (size_t)count, sizeof *all);
  if (all == NULL) return og_graph_no_memory(list->error);
  for (int32_t d = 0; d < count; ++d)
    all[d] = int_arg(numbers != NULL ? numbers[d] : each);
  *out = (opgraft_arg){.kind = OPGRAFT_ARG_LIST, .list = all, .count = count};
  return OG_OK;
}

// Zeros behind the taps of dim d, up to whole strides.
static og_status taps_fill(og_rebuild *list, const og_node *node,
                           const phases *p, int32_t d, int64_t *shape,
                           opgraft_value *weight) {
  const int64_t taps = p->reach[d] * p->stride[d];
  opgraft_value in[2] = {*weight}, zero;
  const opgraft_arg dim = int_arg(d + 2);
  if (taps == p->taps[d]) return OG_OK;
  shape[d + 2] = taps - p->taps[d];
  OG_TRY(og_graph_literal_float(list->graph, 0, &zero, list->error));
  OG_TRY(result_make(list, node, p->space + 2, shape, &in[1]));
  OG_TRY(og_rebuild_node(list, node, OG_IR_copy, &zero, 1, &in[1], 1, NULL, 0));
  shape[d + 2] = taps;
  OG_TRY(result_make(list, node, p->space + 2, shape, weight));
  return og_rebuild_node(list, node, OG_IR_cat, in, 2, weight, 1, &dim, 1);
}

// [in channels, out channels, taps] -> [group, out channel, phases, in channel,
// taps of a phase], both from the last to the first.
static og_status weight_order(og_rebuild *list, const og_node *node,
                              const phases *p, opgraft_value *out) {
  const int32_t space = p->space, ndim = 3 + 2 * space;
  int64_t shape[RANK], strides[RANK], dims[SPACE], step = 1;
  int64_t whole[SPACE + 2] = {p->groups * p->in_channels, p->out_channels};
  opgraft_value weight = node->in[1], flipped, apart;
  opgraft_arg attr;
  for (int32_t d = 0; d < space; ++d) {
    whole[d + 2] = p->taps[d];
    dims[d] = d + 2;
  }
  for (int32_t d = 0; d < space; ++d)
    OG_TRY(taps_fill(list, node, p, d, whole, &weight));
  OG_TRY(ints_arg(list, dims, 0, space, &attr));
  OG_TRY(result_make(list, node, space + 2, whole, &flipped));
  OG_TRY(og_rebuild_node(list, node, OG_IR_flip, &weight, 1, &flipped, 1, &attr,
                         1));
  for (int32_t d = space - 1; d >= 0; --d) {
    shape[2 + d] = p->stride[d];
    strides[2 + d] = step;
    shape[3 + space + d] = p->reach[d];
    strides[3 + space + d] = step * p->stride[d];
    step *= whole[d + 2];
  }
  shape[0] = p->groups;
  strides[0] = p->in_channels * p->out_channels * step;
  shape[1] = p->out_channels;
  strides[1] = step;
  shape[2 + space] = p->in_channels;
  strides[2 + space] = p->out_channels * step;
  OG_TRY(view_make(list, node, flipped, ndim, shape, strides, &apart));
  OG_TRY(result_make(list, node, ndim, shape, &weight));
  OG_TRY(
      og_rebuild_node(list, node, OG_IR_copy, &apart, 1, &weight, 1, NULL, 0));
  whole[0] = p->groups * p->out_channels * p->all;
  whole[1] = p->in_channels;
  step = 1;
  for (int32_t d = space + 1; d >= 0; --d) {
    if (d > 1) whole[d] = p->reach[d - 2];
    strides[d] = step;
    step *= whole[d];
  }
  return view_make(list, node, weight, space + 2, whole, strides, out);
}

// The plain convolution's result: as many positions of each phase as the
// result's reach.
static og_status phases_make(og_rebuild *list, const og_node *node,
                             const phases *p, opgraft_value *out) {
  og_sizes *sizes = &list->graph->sizes;
  const og_value y = list->graph->values[node->out[0]];
  opgraft_size shape[SPACE + 2] = {y.shape[0]}, number;
  OG_TRY(og_size_const(sizes, p->groups * p->out_channels * p->all, &shape[1],
                       list->error));
  for (int32_t d = 0; d < p->space; ++d) {
    OG_TRY(og_size_const(sizes, p->crop[d], &number, list->error));
    OG_TRY(og_size_make(sizes, OG_SIZE_ADD, y.shape[d + 2], number,
                        &shape[d + 2], list->error));
    OG_TRY(og_size_const(sizes, p->stride[d], &number, list->error));
    OG_TRY(og_size_make(sizes, OG_SIZE_CEIL_DIV, shape[d + 2], number,
                        &shape[d + 2], list->error));
  }
  return og_graph_add_value(list->graph, OG_VALUE_RESULT, y.dtype, y.device,
                            y.ndim, shape, NULL, out, list->error);
}

static og_status transposed_lower(og_rebuild *list, const og_node *node,
                                  const phases *p) {
  const int32_t space = p->space;
  const opgraft_value y = node->out[0], bias = node->in[2];
  opgraft_value in[3] = {node->in[0], -1, p->all == 1 ? bias : -1}, apart = y;
  opgraft_arg attrs[ATTRS], beside[2];
  OG_TRY(weight_order(list, node, p, &in[1]));
  OG_TRY(ints_arg(list, NULL, 1, space, &attrs[STRIDE]));
  OG_TRY(ints_arg(list, p->padding, 0, space, &attrs[PADDING]));
  OG_TRY(ints_arg(list, NULL, 1, space, &attrs[DILATION]));
  attrs[TRANSPOSED] = (opgraft_arg){.kind = OPGRAFT_ARG_BOOL};
  OG_TRY(ints_arg(list, NULL, 0, space, &attrs[OUTPUT_PADDING]));
  attrs[GROUPS] = int_arg(p->groups);
  if (p->all > 1) OG_TRY(phases_make(list, node, p, &apart));
  OG_TRY(og_rebuild_node(list, node, OG_IR_convolution, in, 3, &apart, 1, attrs,
                         ATTRS));
  if (p->all == 1) return OG_OK;
  OG_TRY(ints_arg(list, p->stride, 0, space, &beside[0]));
  OG_TRY(ints_arg(list, p->crop, 0, space, &beside[1]));
  if (bias < 0)
    return og_rebuild_node(list, node, OG_IR_interleave, &apart, 1, &y, 1,
                           beside, 2);
  const og_value like = list->graph->values[y];
  OG_TRY(og_graph_add_value(list->graph, OG_VALUE_RESULT, like.dtype,
                            like.device, like.ndim, like.shape, NULL, &in[0],
                            list->error));
  OG_TRY(og_rebuild_node(list, node, OG_IR_interleave, &apart, 1, in, 1, beside,
                         2));
  OG_TRY(og_rebuild_channels(list, node, bias, like.ndim, &in[1]));
  return og_rebuild_node(list, node, OG_IR_add, in, 2, &y, 1, NULL, 0);
}

// --- The pass ----------------------------------------------------------------

static og_status node_lower(og_rebuild *list, const og_node *node,
                            int32_t *changes) {
  opgraft_graph *graph = list->graph;
  phases p;
  counted at;
  int64_t gated;
  int32_t dim;
  ++*changes;
  if (is_glu(graph, node, &gated)) return glu_lower(list, node, (int32_t)gated);
  if (is_counted(graph, node, &at)) return counted_lower(list, node, &at);
  if (is_added(graph, node, &dim)) return added_lower(list, node, dim);
  if (is_transposed(graph, node, &p)) return transposed_lower(list, node, &p);
  --*changes;
  return og_rebuild_put(list, node);
}

static og_status lower_run(opgraft_graph *graph, int32_t *out_changes,
                           opgraft_error *error) {
  return og_rebuild_each(graph, node_lower, out_changes, error);
}

const og_pass og_pass_lower = {
    .name = "lower", .needs = OG_FACT_FUNCTIONAL, .run = lower_run};
