// SPDX-License-Identifier: Apache-2.0
// ATen operators that select, join and write parts of tensors.

#include <string.h>

#include "import/args.h"
#include "import/emit.h"
#include "import/numbers.h"

static const og_value *value_of(const og_import *import, opgraft_value id) {
  return &import->graph->values[id];
}

static og_status dim_read(og_import *import, const opgraft_arg *arg,
                          int32_t rank, int32_t *out) {
  int64_t dim = 0;
  if (arg != NULL && !og_arg_int(import, arg, &dim))
    return og_give_up(import, "its dim depends on sizes");
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return og_give_up(import, "its dim is wrong");
  *out = (int32_t)dim;
  return OG_OK;
}

// --- cat, triangle, embedding ------------------------------------------------

// Parts of another type than the result are converted first.
og_status og_import_cat(og_import *import) {
  og_spec_args args;
  const opgraft_arg *list = og_arg_at(import, 0);
  const og_dtype dtype = import->record->results[0].dtype;
  OG_TRY(og_spec_read(import, &args));
  if (list == NULL || list->kind != OPGRAFT_ARG_LIST ||
      list->count > OG_IMPORT_OPERANDS)
    return og_give_up(import, "it joins no list of tensors, or too many");
  for (int32_t i = 0; i < list->count; ++i) {
    if (list->list[i].kind != OPGRAFT_ARG_VALUE)
      return og_give_up(import, "it joins no list of tensors");
    args.in[i] = list->list[i].value;
    const og_value part = *value_of(import, args.in[i]);
    if (!og_dtype_equal(part.dtype, dtype))
      OG_TRY(og_emit_new(import, OG_IR_copy, &args.in[i], 1, NULL, dtype,
                         part.ndim, part.shape, &args.in[i]));
  }
  return og_emit(import, OG_IR_cat, args.in, list->count, args.attrs);
}

og_status og_import_triangle(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const bool upper = strncmp(import->row->name, "triu", 4) == 0;
  args.attrs[0] = (opgraft_arg){.kind = OPGRAFT_ARG_BOOL, .i = upper};
  return og_emit(import, OG_IR_triangle, args.in, 1, args.attrs);
}

og_status og_import_triangle_indices(og_import *import) {
  og_spec_args args;
  OG_TRY(og_spec_read(import, &args));
  const bool upper = strncmp(import->row->name, "triu", 4) == 0;
  args.attrs[3] = (opgraft_arg){.kind = OPGRAFT_ARG_BOOL, .i = upper};
  return og_emit(import, OG_IR_triangle_indices, NULL, 0, args.attrs);
}

// `scaled` is the position of the flag that scales gradients by frequency.
static og_status embedding_backward(og_import *import, int32_t op,
                                    int32_t in_count, int32_t scaled) {
  og_spec_args args;
  int64_t scales = 0;
  const opgraft_arg *flag = og_arg_at(import, scaled);
  OG_TRY(og_spec_read(import, &args));
  if (flag != NULL && (!og_arg_int(import, flag, &scales) || scales != 0))
    return og_give_up(import, "gradients scaled by frequency");
  return og_emit(import, op, args.in, in_count, args.attrs);
}

og_status og_import_embedding_backward(og_import *import) {
  return embedding_backward(import, OG_IR_embedding_backward, 2, 4);
}

// The host is offered it only where its kernel gives what its shape function
// says; results that only the gradient reads differ elsewhere.
og_status og_import_embedding_bag(og_import *import) {
  og_spec_args args;
  int64_t has_last = 0;
  const bool is_forward_only = strstr(import->row->name, "forward") != NULL;
  OG_TRY(og_spec_read(import, &args));
  const og_dtype dtype = import->record->results[0].dtype;
  og_arg_int(import, og_arg_at(import, 7), &has_last);
  if (dtype.bits <= 32 && !(is_forward_only && has_last))
    return og_emit(import, OG_IR_embedding_bag, args.in, 4, args.attrs);
  OG_TRY(og_results(import));
  return og_append(import, OG_IR_embedding_bag, args.in, 4, import->out, 4,
                   args.attrs);
}

og_status og_import_embedding_bag_backward(og_import *import) {
  return embedding_backward(import, OG_IR_embedding_bag_backward, 6, 6);
}

// --- Indices -----------------------------------------------------------------

// The value to write, as a view of one element that has the index's shape.
og_status og_import_scatter_value(og_import *import) {
  og_spec_args args;
  opgraft_graph *graph = import->graph;
  og_spec_args number = {.in_count = 1};
  opgraft_value one;
  const opgraft_arg *value = og_arg_at(import, 3);
  opgraft_size zeros[OPGRAFT_RANK_MAX] = {OG_SIZE_ZERO};
  OG_TRY(og_spec_read(import, &args));
  if (value == NULL || value->kind == OPGRAFT_ARG_VALUE)
    return og_give_up(import, "it writes no number");
  const og_value index = *value_of(import, args.in[1]);
  OG_TRY(og_operand(import, value, &number.in[0]));
  OG_TRY(og_numbers_convert(import, &number));
  OG_TRY(og_emit_new(import, OG_IR_copy, number.in, 1, NULL,
                     import->record->results[0].dtype, 0, NULL, &one));
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, graph->values[one].dtype,
                            graph->values[one].device, index.ndim, index.shape,
                            zeros, &args.in[2], import->error));
  graph->values[args.in[2]].root = one;
  OG_TRY(og_append(import, OG_IR_view, &one, 1, &args.in[2], 1, NULL));
  return og_emit(import, OG_IR_scatter, args.in, 3, args.attrs);
}

// Indices are a list, in which None stands for a whole dim.
og_status og_import_index(og_import *import) {
  og_spec_args args;
  bool has_index = false;
  const opgraft_arg *list = og_arg_at(import, 1);
  OG_TRY(og_spec_read(import, &args));
  if (list == NULL || list->kind != OPGRAFT_ARG_LIST ||
      list->count + args.in_count > OG_IMPORT_OPERANDS)
    return og_give_up(import, "its indices are not a list");
  for (int32_t i = 0; i < list->count; ++i) {
    const opgraft_arg *item = &list->list[i];
    if (item->kind != OPGRAFT_ARG_VALUE && item->kind != OPGRAFT_ARG_NONE)
      return og_give_up(import, "an index is not a tensor");
    const opgraft_value index =
        item->kind == OPGRAFT_ARG_VALUE ? item->value : -1;
    if (index >= 0 && value_of(import, index)->dtype.code != OG_CODE_INT)
      return og_give_up(import, "an index is a mask");
    has_index |= index >= 0;
    args.in[args.in_count++] = index;
  }
  if (!has_index) return og_give_up(import, "it has no index");
  return og_emit(import, import->row->op, args.in, args.in_count, args.attrs);
}

// A tensor without dims is written as a vector of one element.
static og_status one_write(og_import *import, og_spec_args *args,
                           opgraft_value index) {
  const og_value x = *value_of(import, args->in[0]);
  const opgraft_size one = OG_SIZE_ONE;
  opgraft_value written;
  OG_TRY(og_emit_new(import, OG_IR_view, args->in, 1, NULL, x.dtype, 1, &one,
                     &args->in[0]));
  import->graph->values[args->in[0]].root = x.root;
  import->graph->values[args->in[0]].offset = x.offset;
  args->in[args->in_count++] = index;
  OG_TRY(og_emit_new(import, import->row->op, args->in, args->in_count,
                     args->attrs, x.dtype, 1, &one, &written));
  return og_emit_view(import, written, 0);
}

// index_copy(x, dim, index, source) and index_fill(x, dim, index, value): an
// index_put with one index.
og_status og_import_index_along(og_import *import) {
  og_spec_args args;
  int32_t dim = 0;
  const opgraft_value_info *info = &import->record->results[0];
  const opgraft_arg *index = og_arg_at(import, 2);
  OG_TRY(og_spec_read(import, &args));
  OG_TRY(dim_read(import, og_arg_at(import, 1), info->ndim > 0 ? info->ndim : 1,
                  &dim));
  if (index == NULL || index->kind != OPGRAFT_ARG_VALUE ||
      value_of(import, index->value)->ndim != 1 ||
      value_of(import, index->value)->dtype.code != OG_CODE_INT ||
      value_of(import, index->value)->dtype.bits != 64)
    return og_give_up(import, "its index is not a vector of i64");
  const og_value value = *value_of(import, args.in[1]);
  if (value.kind == OG_VALUE_LITERAL)
    OG_TRY(og_emit_new(import, OG_IR_copy, &args.in[1], 1, NULL, info->dtype, 0,
                       NULL, &args.in[1]));
  else if (!og_dtype_equal(value.dtype, info->dtype))
    return og_give_up(import, "what it writes has another type");
  if (info->ndim == 0) return one_write(import, &args, index->value);
  for (int32_t d = 0; d < dim; ++d) args.in[args.in_count++] = -1;
  args.in[args.in_count++] = index->value;
  return og_emit(import, import->row->op, args.in, args.in_count, args.attrs);
}

// --- Writes into a part ------------------------------------------------------
// scatter_view takes the part's place in a row-major tensor of the result's
// shape.

typedef struct part {
  opgraft_value whole, piece;
  opgraft_size strides[OPGRAFT_RANK_MAX];  // of the result, row-major
  opgraft_size offset;
} part;

static og_status size_make(og_import *import, og_size_op op, opgraft_size a,
                           opgraft_size b, opgraft_size *out) {
  return og_size_make(&import->graph->sizes, op, a, b, out, import->error);
}

static og_status multiply(og_import *import, opgraft_size a, opgraft_size b,
                          opgraft_size *out) {
  return size_make(import, OG_SIZE_MUL, a, b, out);
}

// The whole: an argument, or the number that fills it.
static og_status part_begin(og_import *import, part *out) {
  og_spec_args args;
  const opgraft_value_info *info = &import->record->results[0];
  OG_TRY(og_spec_read(import, &args));
  out->whole = args.in[0];
  out->piece = args.in[1];
  out->offset = OG_SIZE_ZERO;
  if (info->ndim < 0 || info->ndim > OPGRAFT_RANK_MAX)
    return og_give_up(import, "its result has too many dims");
  if (out->piece < 0 ||
      value_of(import, out->piece)->kind == OG_VALUE_LITERAL ||
      !og_dtype_equal(value_of(import, out->piece)->dtype, info->dtype))
    return og_give_up(import, "what it writes has another type");
  if (value_of(import, out->whole)->kind == OG_VALUE_LITERAL)
    OG_TRY(og_emit_new(import, OG_IR_copy, &out->whole, 1, NULL, info->dtype,
                       info->ndim, info->shape, &out->whole));
  return og_graph_strides(import->graph, info->shape, info->ndim, out->strides,
                          import->error);
}

static og_status part_emit(og_import *import, const part *p,
                           const opgraft_size *strides, int32_t count) {
  opgraft_arg items[OPGRAFT_RANK_MAX];
  opgraft_arg attrs[OG_OP_ATTR_MAX] = {{.kind = OPGRAFT_ARG_NONE}};
  const opgraft_value in[2] = {p->whole, p->piece};
  for (int32_t d = 0; d < count; ++d)
    items[d] = (opgraft_arg){.kind = OPGRAFT_ARG_SIZE, .size = strides[d]};
  attrs[0] = (opgraft_arg){.kind = OPGRAFT_ARG_SIZE, .size = p->offset};
  attrs[1] =
      (opgraft_arg){.kind = OPGRAFT_ARG_LIST, .count = count, .list = items};
  // Not as recorded: the host's operator would copy the whole first.
  OG_TRY(og_results(import));
  return og_append(import, OG_IR_scatter_view, in, 2, import->out, 1, attrs);
}

// A position along a dim, of which negative ones count from the end: `at` less
// min(max(at, -1), 0), which is -1 or 0, lengths.
static og_status position_read(og_import *import, const opgraft_arg *arg,
                               opgraft_size length, opgraft_size *out) {
  opgraft_size minus, sign;
  *out = OG_SIZE_ZERO;
  if (arg == NULL) return OG_OK;
  OG_TRY(og_arg_size(import, arg, out));
  OG_TRY(og_size_const(&import->graph->sizes, -1, &minus, import->error));
  OG_TRY(size_make(import, OG_SIZE_MAX, *out, minus, &sign));
  OG_TRY(size_make(import, OG_SIZE_MIN, sign, OG_SIZE_ZERO, &sign));
  OG_TRY(multiply(import, sign, length, &sign));
  return size_make(import, OG_SIZE_SUB, *out, sign, out);
}

// Where a slice begins: no position goes beyond the dim.
static og_status start_read(og_import *import, const opgraft_arg *arg,
                            opgraft_size length, opgraft_size *out) {
  OG_TRY(position_read(import, arg, length, out));
  OG_TRY(size_make(import, OG_SIZE_MAX, *out, OG_SIZE_ZERO, out));
  return size_make(import, OG_SIZE_MIN, *out, length, out);
}

// Whether what a slice of these known sizes takes is not the piece's length,
// which ATen refuses and its shape function does not.
static bool is_misfit(og_import *import, const part *p, int32_t dim,
                      opgraft_size start, opgraft_size stop,
                      opgraft_size step) {
  const og_sizes *sizes = &import->graph->sizes;
  const og_value *piece = value_of(import, p->piece);
  int64_t from, to, by, found;
  if (!og_size_get(sizes, start, &from) || !og_size_get(sizes, stop, &to) ||
      !og_size_get(sizes, step, &by) ||
      !og_size_get(sizes, piece->shape[dim], &found) || by < 1)
    return false;
  return found != (to > from ? (to - from + by - 1) / by : 0);
}

// slice_scatter(x, src, dim=0, start, end, step=1) and
// slice_backward(grad, sizes, dim, start, end, step).
og_status og_import_slice_scatter(og_import *import) {
  part p;
  int32_t dim = 0;
  opgraft_size start, stop, step = OG_SIZE_ONE;
  const opgraft_value_info *info = &import->record->results[0];
  OG_TRY(part_begin(import, &p));
  OG_TRY(dim_read(import, og_arg_find(import, 2, "dim"), info->ndim, &dim));
  stop = info->shape[dim];
  const opgraft_arg *end = og_arg_find(import, 4, "end");
  if (end != NULL) OG_TRY(start_read(import, end, info->shape[dim], &stop));
  OG_TRY(start_read(import, og_arg_find(import, 3, "start"), info->shape[dim],
                    &start));
  const opgraft_arg *given = og_arg_find(import, 5, "step");
  if (given != NULL) OG_TRY(og_arg_size(import, given, &step));
  if (is_misfit(import, &p, dim, start, stop, step))
    return og_give_up(import, "what it writes has another length");
  OG_TRY(multiply(import, start, p.strides[dim], &p.offset));
  OG_TRY(multiply(import, step, p.strides[dim], &p.strides[dim]));
  return part_emit(import, &p, p.strides, info->ndim);
}

// select_scatter(x, src, dim, index), select_backward(grad, sizes, dim, index)
og_status og_import_select_scatter(og_import *import) {
  part p;
  int32_t dim = 0;
  opgraft_size index;
  const opgraft_value_info *info = &import->record->results[0];
  OG_TRY(part_begin(import, &p));
  OG_TRY(dim_read(import, og_arg_at(import, 2), info->ndim, &dim));
  OG_TRY(position_read(import, og_arg_at(import, 3), info->shape[dim], &index));
  OG_TRY(multiply(import, index, p.strides[dim], &p.offset));
  for (int32_t d = dim; d + 1 < info->ndim; ++d)
    p.strides[d] = p.strides[d + 1];
  return part_emit(import, &p, p.strides, info->ndim - 1);
}

// diagonal_scatter(x, src, offset=0, dim1=0, dim2=1) and
// diagonal_backward(grad, sizes, offset, dim1, dim2). The diagonal is the last
// dim of what is written.
og_status og_import_diagonal_scatter(og_import *import) {
  part p;
  int32_t dims[2] = {0, 0};
  int64_t offset = 0;
  opgraft_size start, strides[OPGRAFT_RANK_MAX];
  int32_t count = 0;
  const opgraft_value_info *info = &import->record->results[0];
  const opgraft_arg one = {.kind = OPGRAFT_ARG_INT, .i = 1};
  const opgraft_arg *shift = og_arg_find(import, 2, "offset");
  const opgraft_arg *second = og_arg_find(import, 4, "dim2");
  OG_TRY(part_begin(import, &p));
  OG_TRY(
      dim_read(import, og_arg_find(import, 3, "dim1"), info->ndim, &dims[0]));
  OG_TRY(
      dim_read(import, second != NULL ? second : &one, info->ndim, &dims[1]));
  if (shift != NULL && !og_arg_int(import, shift, &offset))
    return og_give_up(import, "its offset depends on sizes");
  OG_TRY(og_size_const(&import->graph->sizes, offset < 0 ? -offset : offset,
                       &start, import->error));
  OG_TRY(multiply(import, start, p.strides[dims[offset >= 0]], &p.offset));
  for (int32_t d = 0; d < info->ndim; ++d)
    if (d != dims[0] && d != dims[1]) strides[count++] = p.strides[d];
  OG_TRY(size_make(import, OG_SIZE_ADD, p.strides[dims[0]], p.strides[dims[1]],
                   &strides[count++]));
  return part_emit(import, &p, strides, count);
}

// as_strided_scatter(x, src, size, stride, offset): only where x is row-major,
// since its strides are those of the storage.
og_status og_import_strided_scatter(og_import *import) {
  part p;
  const opgraft_arg *strides = og_arg_at(import, 3);
  const opgraft_arg *offset = og_arg_find(import, 4, "storage_offset");
  opgraft_size list[OPGRAFT_RANK_MAX];
  OG_TRY(part_begin(import, &p));
  if (strides == NULL || strides->kind != OPGRAFT_ARG_LIST ||
      strides->count > OPGRAFT_RANK_MAX ||
      !og_value_is_dense(import->graph, value_of(import, p.whole)))
    return og_give_up(import, "it writes into a tensor that has gaps");
  for (int32_t d = 0; d < strides->count; ++d)
    OG_TRY(og_arg_size(import, &strides->list[d], &list[d]));
  if (offset != NULL) OG_TRY(og_arg_size(import, offset, &p.offset));
  return part_emit(import, &p, list, strides->count);
}

// What is left of the piece where `before` and `after` elements of a dim are
// cut off.
static og_status piece_cut(og_import *import, opgraft_value *piece, int32_t dim,
                           int64_t before, int64_t after) {
  opgraft_graph *graph = import->graph;
  const og_value whole = *value_of(import, *piece);
  opgraft_size shape[OPGRAFT_RANK_MAX], less, shift;
  memcpy(shape, whole.shape, (size_t)whole.ndim * sizeof *shape);
  OG_TRY(og_size_const(&graph->sizes, before + after, &less, import->error));
  OG_TRY(size_make(import, OG_SIZE_SUB, shape[dim], less, &shape[dim]));
  OG_TRY(og_size_const(&graph->sizes, before, &shift, import->error));
  OG_TRY(multiply(import, shift, whole.strides[dim], &shift));
  const opgraft_value base = *piece;
  OG_TRY(og_graph_add_value(graph, OG_VALUE_RESULT, whole.dtype, whole.device,
                            whole.ndim, shape, whole.strides, piece,
                            import->error));
  OG_TRY(size_make(import, OG_SIZE_ADD, whole.offset, shift,
                   &graph->values[*piece].offset));
  graph->values[*piece].root = whole.root;
  return og_append(import, OG_IR_view, &base, 1, piece, 1, NULL);
}

// The padding of one dim: what is negative cuts off, of the piece.
static og_status pad_dim(og_import *import, part *p, int32_t dim,
                         int64_t before, int64_t after) {
  opgraft_size shift;
  const int64_t cut_before = before < 0 ? -before : 0;
  const int64_t cut_after = after < 0 ? -after : 0;
  int64_t size;
  if (cut_before + cut_after > 0) {
    const bool is_known = og_size_get(
        &import->graph->sizes, value_of(import, p->piece)->shape[dim], &size);
    if (!is_known || size < cut_before + cut_after)
      return og_give_up(import, "padding that cuts off more than there is");
    OG_TRY(piece_cut(import, &p->piece, dim, cut_before, cut_after));
  }
  OG_TRY(og_size_const(&import->graph->sizes, before > 0 ? before : 0, &shift,
                       import->error));
  OG_TRY(multiply(import, shift, p->strides[dim], &shift));
  return size_make(import, OG_SIZE_ADD, p->offset, shift, &p->offset);
}

// constant_pad_nd(x, [before last, after last, before last but one, ...], v)
og_status og_import_pad(og_import *import) {
  part p;
  int64_t amounts[2];
  const opgraft_arg *pads = og_arg_at(import, 1);
  const opgraft_value_info *info = &import->record->results[0];
  OG_TRY(part_begin(import, &p));
  if (pads == NULL || pads->kind != OPGRAFT_ARG_LIST || pads->count % 2 != 0 ||
      pads->count > 2 * info->ndim)
    return og_give_up(import, "its padding is not a list of pairs");
  bool is_any = false;
  for (int32_t i = 0; i < pads->count; i += 2) {
    if (!og_arg_int(import, &pads->list[i], &amounts[0]) ||
        !og_arg_int(import, &pads->list[i + 1], &amounts[1]))
      return og_give_up(import, "padding that depends on sizes");
    is_any |= amounts[0] != 0 || amounts[1] != 0;
    OG_TRY(pad_dim(import, &p, info->ndim - 1 - i / 2, amounts[0], amounts[1]));
  }
  if (!is_any) {
    OG_TRY(og_results(import));
    return og_append(import, OG_IR_copy, &p.piece, 1, import->out, 1, NULL);
  }
  return part_emit(import, &p, p.strides, info->ndim);
}
