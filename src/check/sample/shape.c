// SPDX-License-Identifier: Apache-2.0
// Shapes from names.

#include "check/sample/shape.h"

#include "check/sample/eval.h"

static bool sizes_add(og_dims *sizes, int64_t size) {
  if (sizes->rank >= OG_SAMPLE_RANK || size < 0) return false;
  sizes->size[sizes->rank++] = size;
  return true;
}

static bool sizes_add_all(og_dims *sizes, const int64_t *more, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!sizes_add(sizes, more[i])) return false;
  return true;
}

// Packs align at their last dims, sizes equal or 1.
static bool add_broadcast(const og_sample *s, const og_item *item,
                          og_dims *out) {
  og_dims joint = {0};
  for (int32_t i = 0; i < item->pack_count; ++i)
    if (s->pack[item->packs[i]].rank > joint.rank)
      joint.rank = s->pack[item->packs[i]].rank;
  for (int32_t d = 0; d < joint.rank; ++d) joint.size[d] = 1;
  for (int32_t i = 0; i < item->pack_count; ++i) {
    const og_dims *pack = &s->pack[item->packs[i]];
    int64_t *to = joint.size + (joint.rank - pack->rank);
    for (int32_t d = 0; d < pack->rank; ++d) {
      if (to[d] != 1 && pack->size[d] != 1 && to[d] != pack->size[d])
        return false;
      if (to[d] == 1) to[d] = pack->size[d];
    }
  }
  return sizes_add_all(out, joint.size, joint.rank);
}

// *permute, *drop and *keep of the dims that an argument names.
static bool add_rearranged(const og_sample *s, const og_item *item,
                           og_dims *out) {
  const og_dims *pack = &s->pack[item->packs[0]];
  const og_attr *attr = &s->attr[item->attr];
  const bool is_int = attr->kind == OG_ATTR_INT;
  const int64_t count = is_int ? 1 : attr->count;
  uint64_t named = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t d = is_int ? attr->i : s->ints[item->attr][i];
    if (d < 0) d += pack->rank;
    if (d < 0 || d >= pack->rank || named >> d & 1u) return false;
    named |= (uint64_t)1 << d;
    if (item->kind == OG_ITEM_PERMUTE && !sizes_add(out, pack->size[d]))
      return false;
  }
  if (item->kind == OG_ITEM_PERMUTE) return count == pack->rank;
  for (int32_t d = 0; d < pack->rank; ++d) {
    const bool is_named = count == 0 || (named >> d & 1u);
    if (is_named && item->kind == OG_ITEM_DROP) continue;
    if (!sizes_add(out, is_named ? 1 : pack->size[d])) return false;
  }
  return true;
}

static bool item_sizes(const og_sample *s, const og_item *item, int32_t entry,
                       og_dims *out) {
  int64_t value;
  const og_dims *pack = &s->pack[item->dim < 0 ? 0 : item->dim];
  switch (item->kind) {
    case OG_ITEM_DIM:
      return sizes_add(out, s->op->decl->dims[item->dim].kind == OG_DIM_VARY
                                ? s->vary[item->dim][entry]
                                : s->dim[item->dim]);
    case OG_ITEM_PACK:
      return sizes_add_all(out, pack->size, pack->rank);
    case OG_ITEM_EXPR:
      return og_sample_eval(s, &item->expr, &value) && sizes_add(out, value);
    case OG_ITEM_ATTR_PACK:
      return sizes_add_all(out, s->ints[item->attr], s->attr[item->attr].count);
    case OG_ITEM_BROADCAST:
      return add_broadcast(s, item, out);
    case OG_ITEM_PERMUTE:
    case OG_ITEM_DROP:
    case OG_ITEM_KEEP:
      return add_rearranged(s, item, out);
    default:
      return false;  // results only
  }
}

static bool pattern_build(og_sample *s, const og_pattern *pattern) {
  const int32_t t = pattern->tensor;
  for (int32_t e = 0; e < s->list_count[t]; ++e) {
    og_dims *out = &s->shape[t][e];
    out->rank = 0;
    for (int32_t i = 0; i < pattern->item_count; ++i)
      if (!item_sizes(s, &pattern->items[i], e, out)) return false;
  }
  return true;
}

bool og_sample_build(og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (sample->is_given[decl->patterns[p].tensor] &&
        !pattern_build(sample, &decl->patterns[p]))
      return false;
  return true;
}
