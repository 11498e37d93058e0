// SPDX-License-Identifier: Apache-2.0
// Names' values from the shapes of arguments.

#include "check/sample/bind.h"

#include "check/sample/sample.h"

// How many dims the packs of a pattern that have no length yet share.
static int32_t rest_of(const og_sample *s, const og_pattern *pattern,
                       const bool *is_bound, int32_t rank) {
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind == OG_ITEM_PACK)
      rank -= is_bound[item->dim] ? s->pack[item->dim].rank : 0;
    else if (item->kind == OG_ITEM_ATTR_PACK)
      rank -= (int32_t)s->attr[item->attr].count;
    else
      --rank;
  }
  return rank;
}

// Where the pattern picks its dim by an axis: how many dims stand before it.
static int32_t picked_axis(const og_sample *s, const og_pattern *pattern,
                           int32_t rank) {
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind != OG_ITEM_DIM || item->attr < 0) continue;
    const int64_t axis = s->attr[item->attr].i;
    return (int32_t)(axis < 0 ? axis + rank : axis);
  }
  return -1;
}

static void bind_pattern(og_sample *s, const og_pattern *pattern, int32_t e,
                         bool *is_bound) {
  const og_dims *sizes = &s->shape[pattern->tensor][e];
  const int32_t axis = picked_axis(s, pattern, sizes->rank);
  int32_t rest = rest_of(s, pattern, is_bound, sizes->rank);
  int32_t at = 0;
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind == OG_ITEM_ATTR_PACK) {
      at += (int32_t)s->attr[item->attr].count;
      continue;
    }
    if (item->kind == OG_ITEM_DIM && at < sizes->rank) {
      s->dim[item->dim] = sizes->size[at];
      s->vary[item->dim][e] = sizes->size[at];
    }
    if (item->kind != OG_ITEM_PACK) {
      ++at;
      continue;
    }
    og_dims *pack = &s->pack[item->dim];
    if (!is_bound[item->dim]) {
      pack->rank = axis >= at && axis - at <= rest ? axis - at : rest;
      rest -= pack->rank;
      for (int32_t d = 0; d < pack->rank && at + d < sizes->rank; ++d)
        pack->size[d] = sizes->size[at + d];
      is_bound[item->dim] = true;
    }
    at += pack->rank;
  }
}

void og_sample_bind(og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  bool is_bound[OPGRAFT_DIM_MAX] = {false};
  for (int32_t p = 0; p < decl->pattern_count; ++p) {
    const int32_t t = decl->patterns[p].tensor;
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(sample, t, e))
        bind_pattern(sample, &decl->patterns[p], e, is_bound);
  }
}
