// SPDX-License-Identifier: Apache-2.0
// A sample as data.

#include "check/sample/sample.h"

#include "check/sample/value.h"

static int64_t sizes_numel(const og_dims *sizes) {
  int64_t n = 1;
  for (int32_t i = 0; i < sizes->rank; ++i)
    if (!og_i64_mul(n, sizes->size[i], &n)) return INT64_MAX / 64;
  return n;
}

int64_t og_sample_numel(const og_sample *sample) {
  int64_t n = 0;
  for (int32_t t = 0; t < sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(sample, t, e))
        if (!og_i64_add(n, sizes_numel(&sample->shape[t][e]), &n))
          return INT64_MAX;
  return n;
}

void og_sample_attrs(const og_sample *sample, og_attr *out_attr) {
  const og_decl *decl = sample->op->decl;
  for (int32_t k = 0; k < decl->attr_count; ++k) {
    out_attr[k] = sample->attr[k];
    if (out_attr[k].kind == OG_ATTR_INTS || out_attr[k].kind == OG_ATTR_BOOLS)
      out_attr[k].ints = sample->ints[k];
    if (out_attr[k].kind == OG_ATTR_FLOATS)
      out_attr[k].floats = sample->floats[k];
  }
}

int32_t og_sample_tensor_of(const og_sample *sample, int32_t d) {
  const og_decl *decl = sample->op->decl;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    for (int32_t i = 0; i < decl->patterns[p].item_count; ++i) {
      const og_item *item = &decl->patterns[p].items[i];
      if (item->kind == OG_ITEM_DIM && item->dim == d)
        return decl->patterns[p].tensor;
    }
  return -1;
}

bool og_sample_dim(const og_sample *sample, int32_t d, int64_t *out_value) {
  const og_dims *pack = &sample->pack[d];
  const og_dim_kind kind = sample->op->decl->dims[d].kind;
  int32_t t;
  bool fits = true;
  switch (kind) {
    case OG_DIM_PACK:
      *out_value = 1;
      for (int32_t i = 0; i < pack->rank && fits; ++i)
        fits = og_i64_mul(*out_value, pack->size[i], out_value);
      return fits;
    case OG_DIM_VARY:
      *out_value = 0;
      t = og_sample_tensor_of(sample, d);
      for (int32_t e = 0; t >= 0 && e < sample->list_count[t] && fits; ++e)
        fits = og_i64_add(*out_value, sample->vary[d][e], out_value);
      return fits;
    default:
      *out_value = sample->dim[d];
      return true;
  }
}

bool og_sample_has_index_hazard(const og_sample *s) {
  const og_decl *decl = s->op->decl;
  bool has_index = false, has_empty = false;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      if (!og_sample_has(s, t, e)) continue;
      int64_t n = 1;
      for (int32_t d = 0; d < s->shape[t][e].rank; ++d)
        n *= s->shape[t][e].size[d];
      const bool is_int = og_is_integral(s->type[t]);
      has_index |= is_int && n > 0;
      has_empty |= !is_int && n == 0;
    }
  return has_index && has_empty;
}
