// SPDX-License-Identifier: Apache-2.0
// Shapes from names.

#include "check/sample/shape.h"

#include "check/sample/eval.h"
#include "decl/infer/packs.h"

static bool sizes_add(og_dims *sizes, const int64_t *more, int32_t count) {
  if (count > OG_SAMPLE_RANK - sizes->rank) return false;
  for (int32_t i = 0; i < count; ++i) {
    if (more[i] < 0) return false;
    sizes->size[sizes->rank++] = more[i];
  }
  return true;
}

// The sizes of one item of the pattern of a tensor, or of entry e of a list.
static bool item_add(const og_sample *s, const og_scope *scope,
                     const og_item *item, int32_t e, og_dims *out) {
  int64_t sizes[OPGRAFT_RANK_MAX];
  const og_decl *decl = s->op->decl;
  const char *why;
  int32_t count;
  switch (item->kind) {
    case OG_ITEM_DIM:
      return sizes_add(out,
                       decl->dims[item->dim].kind == OG_DIM_VARY
                           ? &s->vary[item->dim][e]
                           : &s->dim[item->dim],
                       1);
    case OG_ITEM_EXPR:
      return og_eval(&item->expr, scope, 0, sizes, &why) &&
             sizes_add(out, sizes, 1);
    default:
      return og_pack_dims(decl, item, scope, 0, sizes, &count, NULL) == OG_OK &&
             sizes_add(out, sizes, count);
  }
}

static bool pattern_build(og_sample *s, const og_scope *scope,
                          const og_pattern *pattern) {
  const int32_t t = pattern->tensor;
  for (int32_t e = 0; e < s->list_count[t]; ++e) {
    og_dims *out = &s->shape[t][e];
    out->rank = 0;
    for (int32_t i = 0; i < pattern->item_count; ++i)
      if (!item_add(s, scope, &pattern->items[i], e, out)) return false;
  }
  return true;
}

bool og_sample_build(og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  og_sample_names names;
  if (!og_sample_names_init(&names, sample)) return false;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    if (sample->is_given[decl->patterns[p].tensor] &&
        !pattern_build(sample, &names.scope, &decl->patterns[p]))
      return false;
  return true;
}
