// SPDX-License-Identifier: Apache-2.0
// The dims of packs: bound, given by an int list, broadcast, permuted, dropped,
// inserted.

#include "decl/infer/packs.h"

#include <stdio.h>
#include <string.h>

#include "decl/infer/eval.h"
#include "decl/parse/names.h"
#include "decl/parse/parser.h"

typedef struct pack_call {
  const og_decl *decl;
  const og_item *item;
  const og_scope *scope;
  int64_t index;  // of a list result's entry
  opgraft_error *error;
} pack_call;

static og_status refuse(const pack_call *c, const char *format, ...)
    OG_PRINTF(2, 3);

static og_status refuse(const pack_call *c, const char *format, ...) {
  char text[400];
  va_list values;
  if (c->error == NULL) return OG_SHAPE;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  const og_item *item = c->item;
  return og_error_at(c->error, OG_SHAPE, c->decl->name, "shape", item->begin,
                     item->end, "%s: %.*s: %s", c->decl->name,
                     (int)(item->end - item->begin),
                     c->decl->record->shape + item->begin, text);
}

static const int64_t *pack(const pack_call *c, int32_t i, int32_t *out_rank) {
  const int32_t dim = c->item->packs[i];
  *out_rank = (int32_t)og_pack_rank(c->scope->binding, dim);
  return c->scope->binding->at[dim].pack.dims;
}

// The ints of the item's argument; a None is empty, one int a list of one.
static og_status attr_ints(const pack_call *c, const int64_t **out_ints,
                           int32_t *out_count) {
  const og_attr *attr = &c->scope->attr[c->item->attr];
  const char *name = og_attr_param(c->decl, c->item->attr)->name;
  *out_ints = attr->ints;
  *out_count = 0;
  switch (attr->kind) {
    case OG_ATTR_NONE:
      return OG_OK;
    case OG_ATTR_INT:
      *out_ints = &attr->i;
      *out_count = 1;
      return OG_OK;
    case OG_ATTR_INTS:
    case OG_ATTR_BOOLS:
      break;
    default:
      return refuse(c, "%s is not an int list, expected int[]", name);
  }
  if (attr->count < 0 || attr->count > OPGRAFT_RANK_MAX)
    return refuse(c, "%s has %lld entries, expected %d or fewer", name,
                  (long long)attr->count, OPGRAFT_RANK_MAX);
  *out_count = (int32_t)attr->count;
  return OG_OK;
}

static og_status attr_dims(const pack_call *c, int64_t *dims,
                           int32_t *out_rank) {
  const int64_t *ints;
  OG_TRY(attr_ints(c, &ints, out_rank));
  for (int32_t i = 0; i < *out_rank; ++i) {
    if (ints[i] < 0)
      return refuse(c, "entry %d is %lld, expected a size", (int)i,
                    (long long)ints[i]);
    dims[i] = ints[i];
  }
  return OG_OK;
}

static og_status broadcast_refuse(const pack_call *c) {
  char text[320] = "";
  for (int32_t i = 0; i < c->item->pack_count; ++i) {
    char dims[120];
    int32_t rank;
    const int64_t *sizes = pack(c, i, &rank);
    og_dims_text(sizes, rank, dims, sizeof dims);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s is %s", i > 0 ? ", " : "",
             c->decl->dims[c->item->packs[i]].name, dims);
  }
  return refuse(c, "%s; expected sizes that are equal or 1, from the last on",
                text);
}

static og_status broadcast(const pack_call *c, int64_t *dims,
                           int32_t *out_rank) {
  int32_t rank = 0, r;
  for (int32_t i = 0; i < c->item->pack_count; ++i) {
    pack(c, i, &r);
    if (r > rank) rank = r;
  }
  for (int32_t k = 0; k < rank; ++k) dims[k] = 1;
  for (int32_t i = 0; i < c->item->pack_count; ++i) {
    const int64_t *sizes = pack(c, i, &r);
    int64_t *to = dims + (rank - r);
    for (int32_t k = 0; k < r; ++k) {
      if (sizes[k] == to[k] || sizes[k] == 1) continue;
      if (to[k] != 1) return broadcast_refuse(c);
      to[k] = sizes[k];
    }
  }
  *out_rank = rank;
  return OG_OK;
}

// The dims that the argument names, each once, as bits.
static og_status named_dims(const pack_call *c, const int64_t *ints,
                            int32_t count, int32_t rank, uint64_t *out_named) {
  *out_named = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t at = ints[i] < 0 ? ints[i] + rank : ints[i];
    if (at < 0 || at >= rank)
      return refuse(c, "dim %lld of %d dim%s, expected %d to %d",
                    (long long)ints[i], (int)rank, og_plural(rank), (int)-rank,
                    (int)rank - 1);
    if (*out_named >> at & 1u)
      return refuse(c, "dim %lld is named twice, expected each once",
                    (long long)at);
    *out_named |= (uint64_t)1 << at;
  }
  return OG_OK;
}

static og_status permute(const pack_call *c, int64_t *dims, int32_t *out_rank) {
  const int64_t *ints;
  int32_t count, rank;
  uint64_t named;
  const int64_t *sizes = pack(c, 0, &rank);
  OG_TRY(attr_ints(c, &ints, &count));
  if (count != rank)
    return refuse(c, "%d dim%s named, expected %d, each once", (int)count,
                  count == 1 ? " is" : "s are", (int)rank);
  OG_TRY(named_dims(c, ints, count, rank, &named));
  for (int32_t i = 0; i < rank; ++i)
    dims[i] = sizes[ints[i] < 0 ? ints[i] + rank : ints[i]];
  *out_rank = rank;
  return OG_OK;
}

// drop, or keep with the named dims 1. None named is all of them.
static og_status drop(const pack_call *c, int64_t *dims, int32_t *out_rank) {
  const int64_t *ints;
  int32_t count, rank;
  uint64_t named;
  const bool keeps = c->item->kind == OG_ITEM_KEEP;
  const int64_t *sizes = pack(c, 0, &rank);
  OG_TRY(attr_ints(c, &ints, &count));
  OG_TRY(named_dims(c, ints, count, rank, &named));
  if (count == 0) named = UINT64_MAX;
  *out_rank = 0;
  for (int32_t i = 0; i < rank; ++i) {
    const bool is_named = named >> i & 1u;
    if (is_named && !keeps) continue;
    dims[(*out_rank)++] = is_named ? 1 : sizes[i];
  }
  return OG_OK;
}

// The pack with one more dim, which then stands where the argument says.
static og_status insert(const pack_call *c, int64_t *dims, int32_t *out_rank) {
  int32_t rank;
  int64_t size;
  const int64_t *sizes = pack(c, 0, &rank);
  const int64_t dim = c->scope->attr[c->item->attr].i;
  const int64_t at = dim < 0 ? dim + rank + 1 : dim;
  if (rank == OPGRAFT_RANK_MAX)
    return refuse(c, "a dim more than %d, expected %d or fewer", (int)rank,
                  OPGRAFT_RANK_MAX);
  if (at < 0 || at > rank)
    return refuse(c, "place %lld among %d dim%s, expected %d to %d",
                  (long long)dim, (int)rank, og_plural(rank), (int)-rank - 1,
                  (int)rank);
  OG_TRY(og_eval_or_refuse(c->decl, &c->item->expr, c->scope, c->index, &size,
                           c->error));
  if (size < 0)
    return refuse(c, "the new dim is %lld, expected 0 or more",
                  (long long)size);
  for (int32_t i = 0; i < rank; ++i) dims[i < at ? i : i + 1] = sizes[i];
  dims[at] = size;
  *out_rank = rank + 1;
  return OG_OK;
}

og_status og_pack_dims(const og_decl *decl, const og_item *item,
                       const og_scope *scope, int64_t index, int64_t *dims,
                       int32_t *out_rank, opgraft_error *error) {
  const pack_call c = {decl, item, scope, index, error};
  switch (item->kind) {
    case OG_ITEM_ATTR_PACK:
      return attr_dims(&c, dims, out_rank);
    case OG_ITEM_BROADCAST:
      return broadcast(&c, dims, out_rank);
    case OG_ITEM_PERMUTE:
      return permute(&c, dims, out_rank);
    case OG_ITEM_DROP:
    case OG_ITEM_KEEP:
      return drop(&c, dims, out_rank);
    case OG_ITEM_INSERT:
      return insert(&c, dims, out_rank);
    default:
      *out_rank = (int32_t)og_pack_rank(scope->binding, item->dim);
      if (*out_rank > 0)
        memcpy(dims, scope->binding->at[item->dim].pack.dims,
               (size_t)*out_rank * sizeof *dims);
      return OG_OK;
  }
}
