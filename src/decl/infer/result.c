// SPDX-License-Identifier: Apache-2.0
// Sizes and types of the fresh results.

#include "decl/infer/result.h"

#include <stdio.h>
#include <string.h>

#include "base/float_env.h"
#include "decl/infer/eval.h"
#include "decl/infer/infer.h"
#include "decl/infer/packs.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"
#include "decl/types.h"

// --- Types -------------------------------------------------------------------

static og_status type_of(const og_decl *decl, const opgraft_frame *frame,
                         int32_t t, og_dtype *out, opgraft_error *error) {
  const og_tensor *source = og_frame_tensor(decl, frame, t);
  if (OG_UNLIKELY(source == NULL)) {
    const char *name = og_tensor_param(decl, t)->name;
    return og_error_set(error, OG_DTYPE, decl->name, name,
                        "%s: %s has no tensor whose type a result could have, "
                        "expected one entry or more",
                        decl->name, name);
  }
  *out = source->dtype;
  return OG_OK;
}

static void promote_param(const og_decl *decl, const opgraft_frame *frame,
                          const og_param *param, og_promotion *state) {
  (void)decl;
  if (param->type != OG_TYPE_TENSOR) {
    og_promotion_number(state, frame->attr[param->index].kind);
    return;
  }
  if (!param->is_list) {
    const og_tensor *t = frame->in[param->index];
    if (t != NULL) og_promotion_tensor(state, t->dtype, t->ndim);
    return;
  }
  const og_tensor_list *list = &frame->in_list[param->index];
  for (int64_t i = 0; i < list->count; ++i)
    if (list->tensors[i] != NULL)
      og_promotion_tensor(state, list->tensors[i]->dtype,
                          list->tensors[i]->ndim);
}

static og_status promoted(const og_decl *decl, const opgraft_frame *frame,
                          const og_out_type *rule, og_dtype *out,
                          opgraft_error *error) {
  og_promotion state = OG_PROMOTION_INIT;
  for (int32_t i = 0; i < rule->param_count; ++i)
    promote_param(decl, frame, &decl->params[rule->params[i]], &state);
  const int32_t type = og_promotion_result(&state);
  if (type < 0)
    return og_error_set(error, OG_DTYPE, decl->name, NULL,
                        "%s: the types of its arguments have no common type to "
                        "promote to; convert one of them",
                        decl->name);
  *out = og_dtype_at(type);
  return OG_OK;
}

static og_status attr_type(const og_decl *decl, const opgraft_frame *frame,
                           const og_out_type *rule, og_dtype *out,
                           opgraft_error *error) {
  const og_attr *attr = &frame->attr[rule->attr];
  const char *name = og_attr_param(decl, rule->attr)->name;
  if (attr->kind == OG_ATTR_NONE && rule->tensor >= 0)
    return type_of(decl, frame, rule->tensor, out, error);
  if (attr->kind != OG_ATTR_DTYPE || og_dtype_index(attr->dtype) < 0)
    return og_error_set(error, OG_DTYPE, decl->name, name,
                        "%s: %s is not a type of the library, expected one "
                        "such as float32",
                        decl->name, name);
  *out = attr->dtype;
  return OG_OK;
}

og_status og_result_type(const og_decl *decl, const opgraft_frame *frame,
                         const og_out_type *rule, og_dtype *out,
                         opgraft_error *error) {
  switch (rule->kind) {
    case OG_OUT_TYPE_FIXED:
      *out = rule->dtype;
      return OG_OK;
    case OG_OUT_TYPE_SAME:
      return type_of(decl, frame, rule->tensor, out, error);
    case OG_OUT_TYPE_PROMOTE:
      return promoted(decl, frame, rule, out, error);
    default:
      return attr_type(decl, frame, rule, out, error);
  }
}

og_status og_type_results(const og_decl *decl, opgraft_frame *frame,
                          og_device device, opgraft_error *error) {
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    og_tensor *fresh = &frame->fresh[i];
    *fresh = (og_tensor){.device = device};
    frame->fresh_list[i] = (og_tensor_list){0};
    OG_TRY(
        og_result_type(decl, frame, &decl->out_types[i], &fresh->dtype, error));
  }
  return OG_OK;
}

// --- Sizes -------------------------------------------------------------------

// The results of one call; `scope` is of its frame.
typedef struct sizer {
  const og_decl *decl;
  opgraft_frame *frame;
  const og_scope *scope;
  opgraft_error *error;
} sizer;

// Where a result's dims go: at most `room` of them.
typedef struct dims_out {
  int32_t result;
  int32_t rank;
  int32_t room;
  int64_t *dims;
} dims_out;

static og_status refuse_room(const og_decl *decl, int32_t i,
                             opgraft_error *error) {
  return og_error_set(
      error, OG_UNSUPPORTED, decl->name, NULL,
      "%s: result %d: its dims do not fit; expected %d or fewer, "
      "and %d sizes and strides in all results",
      decl->name, (int)i, OPGRAFT_RANK_MAX, OPGRAFT_SIZES_MAX);
}

static og_status add_pack(const sizer *s, const og_item *item, int64_t index,
                          dims_out *out) {
  int64_t scratch[OPGRAFT_RANK_MAX];
  const int64_t *dims = scratch;
  int32_t rank;
  if (item->kind == OG_ITEM_PACK) {
    rank = (int32_t)og_pack_rank(s->scope->binding, item->dim);
    dims = s->scope->binding->at[item->dim].pack.dims;
  } else {
    OG_TRY(
        og_pack_dims(s->decl, item, s->scope, index, scratch, &rank, s->error));
  }
  if (OG_UNLIKELY(rank > out->room - out->rank))
    return refuse_room(s->decl, out->result, s->error);
  for (int32_t k = 0; k < rank; ++k) out->dims[out->rank++] = dims[k];
  return OG_OK;
}

static og_status refuse_negative(const sizer *s, const og_item *item,
                                 const og_expr *expr, int64_t size) {
  char values[300] = "";
  const og_decl *decl = s->decl;
  if (expr != NULL) og_expr_values(decl, expr, s->scope, values, sizeof values);
  return og_error_at(
      s->error, OG_SHAPE, decl->name, "shape", item->begin, item->end,
      "%s: shape: the result's dim %.*s is %lld, expected 0 or "
      "more%s%s%s",
      decl->name, (int)(item->end - item->begin),
      decl->record->shape + item->begin, (long long)size,
      values[0] != '\0' ? " (" : "", values, values[0] != '\0' ? ")" : "");
}

static og_status add_item(const sizer *s, const og_item *item, int64_t index,
                          dims_out *out) {
  int64_t size;
  const og_expr *expr = NULL;
  switch (item->kind) {
    case OG_ITEM_DIM:
      size = s->frame->dim[item->dim];
      break;
    case OG_ITEM_EXPR:
    case OG_ITEM_FOUND:
      expr = &item->expr;
      OG_TRY(
          og_eval_or_refuse(s->decl, expr, s->scope, index, &size, s->error));
      if (item->kind == OG_ITEM_FOUND) s->frame->dim[item->dim] = size;
      break;
    default:
      return add_pack(s, item, index, out);
  }
  if (OG_UNLIKELY(size < 0)) return refuse_negative(s, item, expr, size);
  if (OG_UNLIKELY(out->rank == out->room))
    return refuse_room(s->decl, out->result, s->error);
  out->dims[out->rank++] = size;
  return OG_OK;
}

static og_status fill_strides(const og_decl *decl, int32_t i,
                              const int64_t *dims, int64_t *strides,
                              int32_t rank, og_dtype dtype,
                              opgraft_error *error) {
  int64_t bytes;
  const int64_t span = og_row_major(dims, rank, strides);
  const bool fits =
      span > 0 && og_i64_mul(span, (int64_t)og_dtype_bytes(dtype), &bytes);
  if (OG_LIKELY(fits)) return OG_OK;
  return og_error_set(error, OG_SHAPE, decl->name, NULL,
                      "%s: result %d: its size in bytes is beyond 64 bits",
                      decl->name, (int)i);
}

static int32_t room_left(const opgraft_frame *frame) {
  const int32_t room = (OPGRAFT_SIZES_MAX - frame->sizes_used) / 2;
  return room < OPGRAFT_RANK_MAX ? room : OPGRAFT_RANK_MAX;
}

// The result's dims stand at the end of what is used; its strides follow.
static og_status finish_plain(const og_decl *decl, opgraft_frame *frame,
                              int32_t i, int32_t rank, opgraft_error *error) {
  og_tensor *fresh = &frame->fresh[i];
  int64_t *dims = frame->sizes + frame->sizes_used;
  fresh->ndim = rank;
  fresh->shape = dims;
  fresh->strides = dims + rank;
  frame->sizes_used += 2 * rank;
  return fill_strides(decl, i, dims, dims + rank, rank, fresh->dtype, error);
}

static og_status size_items(const sizer *s, int32_t i) {
  const og_shape_rule *rule = &s->decl->shapes[i];
  dims_out out = {i, 0, room_left(s->frame),
                  s->frame->sizes + s->frame->sizes_used};
  for (int32_t k = 0; k < rule->item_count; ++k)
    OG_TRY(add_item(s, &rule->items[k], 0, &out));
  return finish_plain(s->decl, s->frame, i, out.rank, s->error);
}

// Whether the strides fill a block of memory without gaps and overlaps.
static bool is_dense(const og_tensor *t) {
  int64_t expected = 1;
  uint64_t left = t->ndim > 0 ? UINT64_MAX >> (64 - t->ndim) : 0;
  for (int32_t k = 0; k < t->ndim; ++k) {
    if (t->shape[k] == 0) return true;
    if (t->shape[k] == 1) left &= ~((uint64_t)1 << k);
  }
  while (left != 0) {
    int32_t next = 0;
    while (next < t->ndim &&
           (!(left >> next & 1u) || t->strides[next] != expected))
      ++next;
    if (next == t->ndim || !og_i64_mul(expected, t->shape[next], &expected))
      return false;
    left &= ~((uint64_t)1 << next);
  }
  return true;
}

static og_status size_like(const og_decl *decl, opgraft_frame *frame, int32_t i,
                           opgraft_error *error) {
  const og_tensor *like = frame->in[decl->shapes[i].like_tensor];
  const int32_t rank = like->ndim;
  int64_t *dims = frame->sizes + frame->sizes_used;
  if (rank > room_left(frame)) return refuse_room(decl, i, error);
  for (int32_t k = 0; k < rank; ++k) dims[k] = like->shape[k];
  OG_TRY(finish_plain(decl, frame, i, rank, error));
  if (like->strides == NULL || !is_dense(like)) return OG_OK;
  for (int32_t k = 0; k < rank; ++k)
    frame->fresh[i].strides[k] = like->strides[k];
  return OG_OK;
}

// --- Lists -------------------------------------------------------------------

enum { LIST_MAX = 1 << 20 };

typedef struct list_block {
  og_frame_block header;
  og_tensor *entries[];  // then the tensors, then their sizes and strides
} list_block;

// A block for `count` tensors of up to `rank` dims, chained to the frame.
static og_status list_alloc(const og_decl *decl, opgraft_frame *frame,
                            int64_t count, int32_t rank, list_block **out,
                            opgraft_error *error) {
  size_t bytes;
  const size_t each = sizeof(og_tensor *) + sizeof(og_tensor) +
                      2 * (size_t)rank * sizeof(int64_t);
  if (!og_size_mul((size_t)count, each, &bytes) ||
      !og_size_add(bytes, sizeof(list_block), &bytes) ||
      (*out = og_alloc(bytes)) == NULL)
    return og_error_set(error, OG_MEMORY, decl->name, NULL,
                        "%s: out of memory for a list of %lld results",
                        decl->name, (long long)count);
  (*out)->header.next = frame->heap;
  frame->heap = *out;
  return OG_OK;
}

static og_status list_count(const sizer *s, int32_t i, int64_t *out_count) {
  const og_decl *decl = s->decl;
  const og_expr *expr = &decl->shapes[i].list_count;
  OG_TRY(og_eval_or_refuse(decl, expr, s->scope, 0, out_count, s->error));
  if (*out_count >= 0 && *out_count <= LIST_MAX) return OG_OK;
  return og_error_at(
      s->error, OG_SHAPE, decl->name, "shape", expr->begin, expr->end,
      "%s: shape: the list has %lld result%s, expected 0 to %d", decl->name,
      (long long)*out_count, og_plural(*out_count), LIST_MAX);
}

// Every entry has the same count of dims: only sizes may name the index.
static og_status size_list(const sizer *s, int32_t i) {
  const og_shape_rule *rule = &s->decl->shapes[i];
  opgraft_frame *frame = s->frame;
  int64_t count, dims[OPGRAFT_RANK_MAX];
  list_block *block = NULL;
  og_tensor *tensors = NULL;
  int64_t *sizes = NULL;
  OG_TRY(list_count(s, i, &count));
  for (int64_t n = 0; n < count; ++n) {
    dims_out out = {i, 0, OPGRAFT_RANK_MAX, dims};
    for (int32_t k = 0; k < rule->item_count; ++k)
      OG_TRY(add_item(s, &rule->items[k], n, &out));
    if (block == NULL) {
      OG_TRY(list_alloc(s->decl, frame, count, out.rank, &block, s->error));
      tensors = (og_tensor *)(void *)(block->entries + count);
      sizes = (int64_t *)(void *)(tensors + count);
    }
    og_tensor *t = block->entries[n] = &tensors[n];
    *t = frame->fresh[i];
    t->ndim = out.rank;
    t->shape = sizes;
    t->strides = sizes + out.rank;
    sizes += 2 * out.rank;
    if (out.rank > 0) memcpy(t->shape, dims, (size_t)out.rank * sizeof *dims);
    OG_TRY(fill_strides(s->decl, i, t->shape, t->strides, out.rank, t->dtype,
                        s->error));
  }
  frame->fresh[i] = (og_tensor){0};
  frame->fresh_list[i].count = count;
  frame->fresh_list[i].tensors = block != NULL ? block->entries : NULL;
  return OG_OK;
}

// --- The operator's own callback ---------------------------------------------

static og_status check_callback_dims(const og_decl *decl, int32_t i,
                                     const int64_t *dims, int32_t rank,
                                     opgraft_error *error) {
  if (rank < 0 || rank > OPGRAFT_RANK_MAX)
    return og_error_set(error, OG_SHAPE, decl->name, "infer",
                        "%s: infer: result %d has %d dims, expected 0 to %d",
                        decl->name, (int)i, (int)rank, OPGRAFT_RANK_MAX);
  for (int32_t k = 0; k < rank; ++k)
    if (dims[k] < 0)
      return og_error_set(
          error, OG_SHAPE, decl->name, "infer",
          "%s: infer: dim %d of result %d is %lld, expected 0 or "
          "more",
          decl->name, (int)k, (int)i, (long long)dims[k]);
  return OG_OK;
}

static og_status size_by_callback(const og_decl *decl, opgraft_frame *frame,
                                  opgraft_error *error) {
  int64_t dims[OPGRAFT_OUT_MAX][OPGRAFT_RANK_MAX];
  int64_t *shape[OPGRAFT_OUT_MAX];
  int32_t ndim[OPGRAFT_OUT_MAX] = {0};
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    shape[i] = dims[i];
    memset(dims[i], 0, sizeof dims[i]);
  }
  const og_infer_call call = {.struct_size = sizeof call,
                              .in = frame->in,
                              .in_list = frame->in_list,
                              .attr = frame->attr,
                              .shape = shape,
                              .ndim = ndim};
  const og_float_env env = og_float_env_get();
  const og_status status = decl->record->infer(&call);
  og_float_env_set(env);
  if (status != OG_OK)
    return og_error_set(error, status, decl->name, "infer",
                        "%s: infer: its callback refused the arguments: %s",
                        decl->name, opgraft_status_text(status));
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    OG_TRY(check_callback_dims(decl, i, dims[i], ndim[i], error));
    if (ndim[i] > room_left(frame)) return refuse_room(decl, i, error);
    memcpy(frame->sizes + frame->sizes_used, dims[i],
           (size_t)ndim[i] * sizeof(int64_t));
    OG_TRY(finish_plain(decl, frame, i, ndim[i], error));
  }
  return OG_OK;
}

og_status og_size_results(const og_decl *decl, opgraft_frame *frame,
                          const og_binding *binding, opgraft_error *error) {
  if (OG_UNLIKELY(decl->record->infer != NULL))
    return size_by_callback(decl, frame, error);
  const og_scope scope = og_scope_of(frame, binding);
  const sizer s = {decl, frame, &scope, error};
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    switch (decl->shapes[i].kind) {
      case OG_SHAPE_LIKE:
        OG_TRY(size_like(decl, frame, i, error));
        break;
      case OG_SHAPE_LIST:
        OG_TRY(size_list(&s, i));
        break;
      default:
        OG_TRY(size_items(&s, i));
    }
  }
  return OG_OK;
}
