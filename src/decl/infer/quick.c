// SPDX-License-Identifier: Apache-2.0
// The short way through inference, for the rules that most operators have.
//
// Where every pattern is plain and every result is made of dims and packs, the
// tables are packed into a few cache lines at load, and a call whose arguments
// fit takes one loop over them. It decides nothing by itself: whatever does not
// fit, or needs words, is left to the general way, which starts afresh.
//
// Invariant: where this returns true, the general way would have filled the
// frame alike (tests/unit/decl_infer.c compares them).

#include "decl/infer/quick.h"

#include <string.h>

#include "decl/infer/eval.h"
#include "decl/infer/result.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"

// What stands for an item: a dim, or a pack with this bit.
enum { QUICK_PACK = 0x80, QUICK_NO_PATTERN = 0xff };

typedef struct quick_tensor {
  og_type_set set;
  int8_t variable;     // or -1
  uint8_t item_count;  // or QUICK_NO_PATTERN
  uint8_t single_count;
  uint8_t has_pack;
  uint8_t has_first_type;  // the type is the first argument's, always given
  const uint8_t *items;
} quick_tensor;

typedef struct quick_result {
  og_dtype dtype;
  int32_t type_tensor;  // whose type it has, -1: dtype, -2: ask the rule
  int32_t item_count;
  const og_item *items;
} quick_result;

typedef struct og_quick {
  uint64_t dims;  // all of them, as bits
  const quick_tensor *tensors;
  const quick_result *results;
} og_quick;

// --- At load -----------------------------------------------------------------

static bool result_fits(const og_decl *decl, int32_t i) {
  const og_shape_rule *rule = &decl->shapes[i];
  if (rule->kind != OG_SHAPE_ITEMS) return false;
  for (int32_t k = 0; k < rule->item_count; ++k) {
    const og_item *item = &rule->items[k];
    const bool is_quick_expr =
        item->kind == OG_ITEM_EXPR && !item->expr.needs_packs;
    if (item->kind != OG_ITEM_DIM && item->kind != OG_ITEM_PACK &&
        item->kind != OG_ITEM_BROADCAST && !is_quick_expr)
      return false;
  }
  return true;
}

static bool decl_fits(const og_decl *decl) {
  if (decl->has_lists || decl->has_expr_items || decl->tensor_count == 0 ||
      decl->has_data_dependent_result || decl->record->infer != NULL)
    return false;
  for (int32_t i = 0; i < decl->pattern_count; ++i)
    if (!decl->patterns[i].is_plain) return false;
  for (int32_t i = 0; i < decl->condition_count; ++i)
    if (decl->conditions[i].expr.needs_packs) return false;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    if (!result_fits(decl, i)) return false;
  return true;
}

static bool pack_pattern(og_decl *decl, const og_pattern *pattern,
                         quick_tensor *out) {
  const size_t count = (size_t)pattern->item_count;
  uint8_t *items = og_arena_array(&decl->arena, count, sizeof *items);
  if (items == NULL) return false;
  for (size_t k = 0; k < count; ++k) {
    const og_item *item = &pattern->items[k];
    items[k] =
        (uint8_t)(item->dim | (item->kind == OG_ITEM_PACK ? QUICK_PACK : 0));
  }
  out->items = items;
  out->item_count = (uint8_t)count;
  out->single_count = (uint8_t)(pattern->item_count - pattern->pack_count);
  out->has_pack = pattern->pack_count > 0;
  return true;
}

// Whether the rule leaves tensor t no other type than the first one's.
static bool has_first_type(const og_decl *decl, int32_t t) {
  const og_type_rule *first = &decl->types[0], *rule = &decl->types[t];
  const bool is_single = (rule->set & (rule->set - 1)) == 0;
  return t > 0 && !og_tensor_param(decl, 0)->is_optional &&
         (rule->variable >= 0 ? rule->variable == first->variable
                              : is_single && rule->set == first->set);
}

static bool pack_tables(og_decl *decl, og_quick *quick) {
  og_arena *arena = &decl->arena;
  quick_tensor *tensors =
      og_arena_array(arena, (size_t)decl->tensor_count, sizeof *tensors);
  quick_result *results =
      og_arena_array(arena, (size_t)decl->fresh_count, sizeof *results);
  if (tensors == NULL || results == NULL) return false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    tensors[t].set = decl->types[t].set;
    tensors[t].variable = (int8_t)decl->types[t].variable;
    tensors[t].item_count = QUICK_NO_PATTERN;
    tensors[t].has_first_type = has_first_type(decl, t);
  }
  for (int32_t i = 0; i < decl->pattern_count; ++i)
    if (!pack_pattern(decl, &decl->patterns[i],
                      &tensors[decl->patterns[i].tensor]))
      return false;
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    const og_out_type *type = &decl->out_types[i];
    results[i] = (quick_result){
        .dtype = type->dtype,
        .type_tensor = type->kind == OG_OUT_TYPE_SAME    ? type->tensor
                       : type->kind == OG_OUT_TYPE_FIXED ? -1
                                                         : -2,
        .item_count = decl->shapes[i].item_count,
        .items = decl->shapes[i].items};
  }
  quick->dims = decl->dim_count > 0 ? UINT64_MAX >> (64 - decl->dim_count) : 0;
  quick->tensors = tensors;
  quick->results = results;
  return true;
}

og_status og_quick_create(og_decl *decl, opgraft_error *error) {
  if (!decl_fits(decl)) return OG_OK;
  og_quick *quick = og_arena_alloc(&decl->arena, sizeof *quick);
  if (quick == NULL || !pack_tables(decl, quick))
    return og_error_set(error, OG_MEMORY, decl->name, NULL,
                        "%s: out of memory while its tables were made",
                        decl->name);
  decl->quick = quick;
  return OG_OK;
}

// --- At a call ---------------------------------------------------------------

typedef struct quick_call {
  uint64_t bound;
  const int64_t *dims[OPGRAFT_DIM_MAX];  // of packs
  int32_t rank[OPGRAFT_DIM_MAX];
} quick_call;

static inline bool same_dims(const int64_t *a, const int64_t *b, int32_t rank) {
  for (int32_t i = 0; i < rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

static inline bool bind_pack(quick_call *c, int64_t *dim, uint32_t d,
                             const int64_t *dims, int32_t rank) {
  if (c->bound >> d & 1u)
    return c->rank[d] == rank && same_dims(c->dims[d], dims, rank);
  int64_t product = 1;
  for (int32_t i = 0; i < rank; ++i)
    if (OG_UNLIKELY(!og_i64_mul(product, dims[i], &product))) return false;
  c->bound |= (uint64_t)1 << d;
  c->dims[d] = dims;
  c->rank[d] = rank;
  dim[d] = product;
  return true;
}

static inline bool match(const quick_tensor *q, const og_tensor *tensor,
                         quick_call *c, int64_t *dim) {
  const int64_t *shape = tensor->shape;
  const int32_t rest = tensor->ndim - q->single_count;
  if (OG_UNLIKELY(q->has_pack ? rest < 0 : rest != 0)) return false;
  for (uint32_t i = 0; i < q->item_count; ++i) {
    const uint32_t d = q->items[i];
    if (d & QUICK_PACK) {
      if (!bind_pack(c, dim, d & ~(uint32_t)QUICK_PACK, shape, rest))
        return false;
      shape += rest;
    } else if (c->bound >> d & 1u) {
      if (dim[d] != *shape++) return false;
    } else {
      c->bound |= (uint64_t)1 << d;
      dim[d] = *shape++;
    }
  }
  return true;
}

// A type that the rule allows, the same for all that share a variable.
static inline bool type_fits(const quick_tensor *q, og_dtype dtype,
                             int8_t *type) {
  const int32_t index = og_dtype_index(dtype);
  if (index < 0 || !(q->set >> index & 1u)) return false;
  if (q->variable < 0) return true;
  if (type[q->variable] >= 0 && type[q->variable] != index) return false;
  type[q->variable] = (int8_t)index;
  return true;
}

// Types, devices and shapes of the arguments; the first one is *out_first.
static inline bool match_all(const og_decl *decl, const opgraft_frame *frame,
                             quick_call *c, int64_t *dim,
                             const og_tensor **out_first) {
  int8_t type[OG_VARIABLE_MAX];
  const og_tensor *first = NULL;
  const quick_tensor *q = decl->quick->tensors;
  const int32_t count = decl->tensor_count;
  memset(type, -1, sizeof type);
  for (int32_t t = 0; t < count; ++t, ++q) {
    const og_tensor *tensor = frame->in[t];
    if (tensor == NULL) {
      if (!og_tensor_param(decl, t)->is_optional) return false;
      continue;
    }
    if (first == NULL) first = tensor;
    if (q->has_first_type ? !og_dtype_equal(first->dtype, tensor->dtype)
                          : !type_fits(q, tensor->dtype, type))
      return false;
    if (first->device.type != tensor->device.type ||
        first->device.id != tensor->device.id ||
        (uint32_t)tensor->ndim > OPGRAFT_RANK_MAX)
      return false;
    if (q->item_count != QUICK_NO_PATTERN && !match(q, tensor, c, dim))
      return false;
  }
  *out_first = first;
  return first != NULL && c->bound == decl->quick->dims;
}

// The dims of *broadcast(A, B) where all are equal; else NULL.
static const int64_t *equal_packs(const og_item *item, const quick_call *c,
                                  int32_t *out_rank) {
  const int32_t d = item->packs[0];
  *out_rank = c->rank[d];
  for (int32_t i = 1; i < item->pack_count; ++i) {
    const int32_t e = item->packs[i];
    if (c->rank[e] != *out_rank ||
        !same_dims(c->dims[d], c->dims[e], *out_rank))
      return NULL;
  }
  return c->dims[d];
}

// Writes one item's dims at `to`, or is false.
static inline bool add_item(const og_item *item, const opgraft_frame *frame,
                            const quick_call *c, int64_t *to, int32_t room,
                            int32_t *out_rank) {
  const int64_t *from = &frame->dim[item->dim >= 0 ? item->dim : 0];
  const char *why;
  int64_t value;
  *out_rank = 1;
  if (item->kind == OG_ITEM_PACK) {
    from = c->dims[item->dim];
    *out_rank = c->rank[item->dim];
  } else if (item->kind == OG_ITEM_BROADCAST) {
    from = equal_packs(item, c, out_rank);
  } else if (item->kind == OG_ITEM_EXPR) {
    const og_scope scope = og_scope_of(frame, NULL);
    if (!og_eval(&item->expr, &scope, 0, &value, &why)) return false;
    from = &value;
  }
  if (OG_UNLIKELY(from == NULL || *out_rank > room)) return false;
  for (int32_t k = 0; k < *out_rank; ++k) {
    if (OG_UNLIKELY(from[k] < 0)) return false;
    to[k] = from[k];
  }
  return true;
}

static inline bool fill_strides(const int64_t *dims, int64_t *strides,
                                int32_t rank, size_t item_bytes) {
  int64_t bytes;
  const int64_t span = og_row_major(dims, rank, strides);
  return span > 0 && og_i64_mul(span, (int64_t)item_bytes, &bytes);
}

static inline bool set_result(const og_decl *decl, int32_t i,
                              opgraft_frame *frame, const quick_call *c,
                              og_device device) {
  const quick_result *q = &decl->quick->results[i];
  og_tensor *fresh = &frame->fresh[i];
  int64_t *dims = frame->sizes + frame->sizes_used;
  const int32_t left = (OPGRAFT_SIZES_MAX - frame->sizes_used) / 2;
  const int32_t room = left < OPGRAFT_RANK_MAX ? left : OPGRAFT_RANK_MAX;
  int32_t rank = 0;
  for (int32_t k = 0; k < q->item_count; ++k) {
    int32_t count;
    if (!add_item(&q->items[k], frame, c, dims + rank, room - rank, &count))
      return false;
    rank += count;
  }
  frame->sizes_used += 2 * rank;
  fresh->data = NULL;
  fresh->device = device;
  fresh->ndim = rank;
  if (q->type_tensor >= 0)
    fresh->dtype = frame->in[q->type_tensor]->dtype;
  else if (q->type_tensor == -1)
    fresh->dtype = q->dtype;
  else if (og_result_type(decl, frame, &decl->out_types[i], &fresh->dtype,
                          NULL) != OG_OK)
    return false;
  fresh->shape = dims;
  fresh->strides = dims + rank;
  fresh->byte_offset = 0;
  return fill_strides(dims, dims + rank, rank, og_dtype_bytes(fresh->dtype));
}

static bool conditions_hold(const og_decl *decl, const opgraft_frame *frame) {
  const og_scope scope = og_scope_of(frame, NULL);
  const char *why;
  int64_t holds;
  for (int32_t i = 0; i < decl->condition_count; ++i)
    if (!og_eval(&decl->conditions[i].expr, &scope, 0, &holds, &why) || !holds)
      return false;
  return true;
}

bool og_quick_infer(const og_decl *decl, opgraft_frame *frame) {
  quick_call c;
  const og_tensor *first;
  c.bound = 0;
  if (!match_all(decl, frame, &c, frame->dim, &first)) return false;
  if (decl->condition_count > 0 && !conditions_hold(decl, frame)) return false;
  frame->sizes_used = 0;
  frame->fresh_count = decl->fresh_count;
  og_tensor **out = frame->out;
  for (int32_t j = 0; j < decl->mutated_count; ++j)
    *out++ = (og_tensor *)(uintptr_t)frame->in[decl->mutated_tensors[j]];
  for (int32_t i = 0; i < decl->fresh_count; ++i) {
    *out++ = &frame->fresh[i];
    if (!set_result(decl, i, frame, &c, first->device)) return false;
  }
  return true;
}
