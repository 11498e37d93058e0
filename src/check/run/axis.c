// SPDX-License-Identifier: Apache-2.0
// Axes of dims, and tensors reordered along them.

#include "check/run/axis.h"

#include <stdlib.h>
#include <string.h>

#include "check/run/array.h"
#include "check/sample/sample.h"
#include "check/sample/valid.h"

bool og_expr_names(const og_expr *expr, int32_t d) {
  for (int32_t i = 0; i < expr->count; ++i)
    if (expr->code[i].op == OG_CODE_DIM_ && expr->code[i].slot == d)
      return true;
  return false;
}

int32_t og_item_rank(const og_sample *s, const og_item *item) {
  switch (item->kind) {
    case OG_ITEM_DIM:
    case OG_ITEM_EXPR:
    case OG_ITEM_FOUND:
      return 1;
    case OG_ITEM_PACK:
      return s->pack[item->dim].rank;
    default:
      return OG_ANY_RANK;
  }
}

// The axes of the one item that may stand for any number of them; false where
// there are several.
static bool free_rank(const og_sample *s, const og_item *items, int32_t count,
                      int32_t rank, int32_t *out_rank) {
  int32_t known = 0, unknown = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t one = og_item_rank(s, &items[i]);
    known += one == OG_ANY_RANK ? 0 : one;
    unknown += one == OG_ANY_RANK;
  }
  *out_rank = rank - known;
  return unknown == 0 ? *out_rank == 0 : unknown == 1 && *out_rank >= 0;
}

bool og_axes_of(const og_sample *s, const og_item *items, int32_t count,
                int32_t rank, int32_t d, uint32_t *out_axes) {
  int32_t rest, at = 0;
  *out_axes = 0;
  if (!free_rank(s, items, count, rank, &rest)) return false;
  for (int32_t i = 0; i < count; ++i) {
    const og_item *item = &items[i];
    const int32_t one = og_item_rank(s, item);
    const bool is_name =
        item->kind == OG_ITEM_DIM || item->kind == OG_ITEM_PACK;
    if (!is_name && og_expr_names(&item->expr, d)) return false;
    if (item->kind == OG_ITEM_DIM && item->attr >= 0) return false;
    if (item->kind == OG_ITEM_DIM && item->dim == d) *out_axes |= 1u << at;
    at += one == OG_ANY_RANK ? rest : one;
  }
  return true;
}

bool og_argument_axes(const og_sample *s, int32_t tensor, int32_t d,
                      uint32_t *out_axes) {
  const og_pattern *pattern = og_pattern_of(s->op->decl, tensor);
  *out_axes = 0;
  return pattern != NULL && !pattern->is_list &&
         og_axes_of(s, pattern->items, pattern->item_count,
                    s->shape[tensor][0].rank, d, out_axes);
}

bool og_output_axes(const og_sample *s, const og_outputs *out, int32_t i,
                    int32_t d, uint32_t *out_axes) {
  if (out->role[i] == OG_ROLE_MUTATED)
    return og_argument_axes(s, out->index[i], d, out_axes);
  const og_shape_rule *rule = &s->op->decl->shapes[out->index[i]];
  if (rule->kind == OG_SHAPE_LIKE)
    return og_argument_axes(s, rule->like_tensor, d, out_axes);
  return rule->kind == OG_SHAPE_ITEMS &&
         og_axes_of(s, rule->items, rule->item_count, out->array[i].sizes.rank,
                    d, out_axes);
}

// Bytes of one place of an axis, and how often its places come.
static size_t place_bytes(const og_array *a, int32_t axis, int64_t *out_outer) {
  size_t inner = og_dtype_bytes(a->type);
  *out_outer = 1;
  for (int32_t d = 0; d < axis; ++d) *out_outer *= a->sizes.size[d];
  for (int32_t d = axis + 1; d < a->sizes.rank; ++d)
    inner *= (size_t)a->sizes.size[d];
  return inner;
}

static void reorder_axis(const og_array *from, int32_t axis,
                         const int32_t *order, char *to) {
  int64_t outer;
  const size_t inner = place_bytes(from, axis, &outer);
  const int64_t size = from->sizes.size[axis];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < size; ++i)
      memcpy(to + (size_t)(o * size + order[i]) * inner,
             from->data + (size_t)(o * size + i) * inner, inner);
}

bool og_array_reorder(og_array *array, uint32_t axes, const int32_t *order) {
  if (array->count == 0) return true;
  const size_t bytes = (size_t)array->count * og_dtype_bytes(array->type);
  for (int32_t d = 0; d < array->sizes.rank; ++d) {
    if (!(axes >> d & 1u)) continue;
    char *to = malloc(bytes);
    if (to == NULL) return false;
    reorder_axis(array, d, order, to);
    free(array->data);
    array->data = to;
  }
  return true;
}

// --- Parts of an axis --------------------------------------------------------

bool og_array_slice(const og_array *from, int32_t axis, int64_t begin,
                    int64_t count, og_array *out) {
  og_dims sizes = from->sizes;
  int64_t outer;
  sizes.size[axis] = count;
  if (!og_array_create(out, from->type, &sizes)) return false;
  const size_t inner = place_bytes(from, axis, &outer);
  const size_t bytes = (size_t)count * inner;
  const size_t step = (size_t)from->sizes.size[axis] * inner;
  for (size_t o = 0; o < (size_t)outer; ++o)
    memcpy(out->data + o * bytes, from->data + o * step + (size_t)begin * inner,
           bytes);
  return true;
}

void og_array_place(og_array *to, int32_t axis, int64_t begin,
                    const og_array *part) {
  int64_t outer;
  const size_t inner = place_bytes(to, axis, &outer);
  const size_t bytes = (size_t)part->sizes.size[axis] * inner;
  const size_t step = (size_t)to->sizes.size[axis] * inner;
  for (size_t o = 0; o < (size_t)outer; ++o)
    memcpy(to->data + o * step + (size_t)begin * inner, part->data + o * bytes,
           bytes);
}

int32_t og_only_axis(uint32_t axes) {
  if (axes == 0) return OG_NO_AXIS;
  int32_t axis = 0;
  while (!(axes >> axis & 1u)) ++axis;
  return axes >> axis == 1u ? axis : OG_SEVERAL_AXES;
}

int32_t og_argument_axis(const og_sample *s, int32_t tensor, int32_t d) {
  uint32_t axes;
  return og_argument_axes(s, tensor, d, &axes) ? og_only_axis(axes)
                                               : OG_SEVERAL_AXES;
}

int32_t og_output_axis(const og_sample *s, const og_outputs *out, int32_t i,
                       int32_t d) {
  uint32_t axes;
  return og_output_axes(s, out, i, d, &axes) ? og_only_axis(axes)
                                             : OG_SEVERAL_AXES;
}

bool og_inputs_slice(const og_sample *s, const og_inputs *inputs, int32_t d,
                     int64_t begin, int64_t count, og_inputs *out) {
  if (!og_inputs_copy(out, inputs)) return false;
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    og_array *a = &out->tensor[t][0], part;
    const int32_t axis = og_argument_axis(s, t, d);
    if (a->data == NULL || axis == OG_NO_AXIS) continue;
    if (axis == OG_SEVERAL_AXES ||
        !og_array_slice(a, axis, begin, count, &part)) {
      og_inputs_reset(out);
      return false;
    }
    free(a->data);
    *a = part;
  }
  return true;
}

bool og_outputs_cut(const og_sample *s, og_outputs *out, int32_t d,
                    int64_t count) {
  for (int32_t i = 0; i < out->count; ++i) {
    og_array part;
    const int32_t axis = og_output_axis(s, out, i, d);
    if (axis == OG_NO_AXIS) continue;
    if (axis == OG_SEVERAL_AXES ||
        !og_array_slice(&out->array[i], axis, 0, count, &part))
      return false;
    free(out->array[i].data);
    out->array[i] = part;
  }
  return true;
}

// --- A long dim --------------------------------------------------------------

enum { LONG_SIZE = 3000, LONG_ELEMENTS = 1 << 16 };

static bool is_in_outputs(const og_sample *s, const og_outputs *base,
                          int32_t d) {
  for (int32_t i = 0; i < base->count; ++i) {
    uint32_t axes;
    if (!og_output_axes(s, base, i, d, &axes) || axes != 0) return true;
  }
  return false;
}

bool og_sample_lengthen(const og_sample *s, const og_outputs *base,
                        og_sample *out) {
  const og_decl *decl = s->op->decl;
  opgraft_error error;
  for (int32_t pass = 0; pass < 2; ++pass)
    for (int32_t d = 0; d < decl->dim_count; ++d) {
      if (decl->dims[d].kind != OG_DIM_SIZE ||
          is_in_outputs(s, base, d) != (pass == 1))
        continue;
      *out = *s;
      out->dim[d] = LONG_SIZE;
      if (og_sample_is_valid(out, LONG_ELEMENTS, &error) &&
          out->dim[d] == LONG_SIZE)
        return true;
    }
  *out = *s;
  return false;
}
