// SPDX-License-Identifier: Apache-2.0
// Offsets, CSR's indptr.

#include "check/sample/offsets.h"

#include "check/sample/eval.h"
#include "check/sample/types.h"
#include "check/sample/value.h"
#include "decl/parse/expr.h"
#include "decl/types.h"

// The dim of `name + 1` or `name - 1`, as `op` says; -1 for all else.
static int32_t next_to(const og_expr *expr, int32_t op) {
  if (expr->count != 3 || expr->code[2].op != op) return -1;
  const og_instruction *a = &expr->code[0], *b = &expr->code[1];
  if (op == OG_CODE_ADD_ && a->op == OG_CODE_CONST_) {
    a = b;
    b = &expr->code[0];
  }
  const bool is_one = b->op == OG_CODE_CONST_ && b->value == 1;
  return is_one && a->op == OG_CODE_DIM_ ? a->slot : -1;
}

static bool has_one_less(const og_item *items, int32_t count, int32_t dim) {
  for (int32_t i = 0; i < count; ++i)
    if (items[i].kind == OG_ITEM_EXPR &&
        next_to(&items[i].expr, OG_CODE_SUB_) == dim)
      return true;
  return false;
}

// Whether `dim - 1` is the size of something.
static bool is_one_more(const og_decl *decl, int32_t dim) {
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (has_one_less(decl->patterns[p].items, decl->patterns[p].item_count,
                     dim))
      return true;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (has_one_less(decl->shapes[i].items, decl->shapes[i].item_count, dim))
      return true;
  return false;
}

bool og_is_offsets_argument(const og_decl *decl, int32_t tensor) {
  const og_pattern *pattern = og_pattern_of(decl, tensor);
  const og_value_range *range = og_value_range_of(decl, tensor);
  if (range != NULL) return range->is_offsets;
  if (pattern == NULL || pattern->is_list || pattern->item_count != 1 ||
      !og_is_index_argument(decl, tensor))
    return false;
  const og_item *item = &pattern->items[0];
  if (item->kind == OG_ITEM_EXPR)
    return next_to(&item->expr, OG_CODE_ADD_) >= 0;
  return item->kind == OG_ITEM_DIM && item->attr < 0 &&
         is_one_more(decl, item->dim);
}

static bool begins_with(const og_item *items, int32_t count, int32_t dim) {
  return count > 0 && items[0].kind == OG_ITEM_DIM && items[0].attr < 0 &&
         items[0].dim == dim;
}

static bool names_dim(const og_expr *expr, int32_t dim) {
  for (int32_t i = 0; i < expr->count; ++i)
    if (expr->code[i].op == OG_CODE_DIM_ && expr->code[i].slot == dim)
      return true;
  return false;
}

bool og_bounds_values(const og_decl *decl, int32_t dim) {
  for (int32_t i = 0; i < decl->range_count; ++i)
    if (names_dim(&decl->ranges[i].begin, dim) ||
        names_dim(&decl->ranges[i].end, dim))
      return true;
  return og_is_offsets_total(decl, dim);
}

bool og_is_offsets_total(const og_decl *decl, int32_t dim) {
  bool has_offsets = false, is_first = false;
  for (int32_t i = 0; i < decl->range_count; ++i)
    if (decl->ranges[i].is_offsets && names_dim(&decl->ranges[i].end, dim))
      return true;
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const og_pattern *pattern = &decl->patterns[p];
    if (og_is_offsets_argument(decl, pattern->tensor))
      has_offsets |= og_value_range_of(decl, pattern->tensor) == NULL;
    else
      is_first |= begins_with(pattern->items, pattern->item_count, dim);
  }
  return has_offsets && is_first;
}

static bool is_result_dim(const og_decl *decl, int32_t dim) {
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (begins_with(decl->shapes[i].items, decl->shapes[i].item_count, dim))
      return true;
  return false;
}

// Whether the dim counts the groups themselves.
static bool is_group_dim(const og_decl *decl, int32_t dim) {
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_pattern *pattern = og_pattern_of(decl, t);
    if (og_is_offsets_argument(decl, t) && pattern != NULL &&
        pattern->item_count == 1 && pattern->items[0].kind == OG_ITEM_EXPR &&
        next_to(&pattern->items[0].expr, OG_CODE_ADD_) == dim)
      return true;
  }
  return false;
}

// The end that `where` says, or the size that the last offset may mean.
static int64_t total_of(const og_sample *sample, int32_t tensor) {
  const og_decl *decl = sample->op->decl;
  const og_value_range *range = og_value_range_of(decl, tensor);
  int64_t end;
  if (range != NULL)
    return og_sample_eval(sample, &range->end, &end) && end > 0 ? end : 0;
  int64_t totals[2 * OPGRAFT_DIM_MAX];
  int32_t count = 0;
  for (int32_t pass = 0; pass < 2; ++pass)
    for (int32_t d = 0; d < decl->dim_count; ++d)
      if (decl->dims[d].kind == OG_DIM_SIZE && !is_group_dim(decl, d) &&
          og_is_offsets_total(decl, d) && is_result_dim(decl, d) == (pass == 0))
        totals[count++] = sample->dim[d];
  const og_index_values values = sample->index_values;
  const int32_t turn = values == OG_INDEX_SORTED ? 1
                       : values == OG_INDEX_ZERO ? 2
                                                 : 0;
  return count > 0 ? totals[turn % count] : 0;
}

// From one offset to the next of `parts` that are left.
static int64_t step_to(og_index_values values, int64_t left, int64_t parts,
                       og_random *random) {
  if (parts == 1) return left;
  if (values == OG_INDEX_DISTINCT) return left / parts;
  if (values == OG_INDEX_ZERO) return 0;
  const int64_t step = og_random_below(random, 2 * left / parts + 1);
  return step < left ? step : left;
}

void og_offsets_fill(const og_sample *sample, int32_t tensor, og_dtype type,
                     void *data, int64_t count, og_random *random) {
  const int64_t total = total_of(sample, tensor);
  const size_t bytes = og_dtype_bytes(type);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0)
      at += step_to(sample->index_values, total - at, count - i, random);
    og_value_set(type, (char *)data + (size_t)i * bytes, 0, (double)at);
  }
}

bool og_has_fitting_integers(const og_decl *decl, int32_t tensor) {
  const og_value_range *range = og_value_range_of(decl, tensor);
  if (range != NULL) return range->is_offsets;
  return decl->record->sample != NULL || og_is_offsets_argument(decl, tensor);
}
