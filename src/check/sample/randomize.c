// SPDX-License-Identifier: Apache-2.0
// Random values for every name of a declaration.

#include "check/sample/randomize.h"

#include <string.h>

#include "check/sample/sample.h"

static int64_t choose(og_random *r, const int64_t *from, size_t count) {
  return from[og_random_below(r, (int64_t)count)];
}
#define CHOOSE(r, array) choose((r), (array), sizeof(array) / sizeof *(array))

int64_t og_sample_size(og_profile profile, og_random *random) {
  static const int64_t mixed[] = {0, 1,  2,  3,  4,  5,  7, 8,
                                  9, 16, 17, 31, 33, 64, 65};
  static const int64_t smooth[] = {1, 2, 3, 3, 4, 5, 6};
  static const int64_t tiny[] = {1, 2, 3, 4};
  switch (profile) {
    case OG_PROFILE_ONES:
      return og_random_chance(random, 80) ? 1 : 3;
    case OG_PROFILE_SMOOTH:
      return CHOOSE(random, smooth);
    case OG_PROFILE_MIXED:
    case OG_PROFILE_EDGE:
      return CHOOSE(random, mixed);
    default:
      return CHOOSE(random, tiny);
  }
}

static void draw_pack(og_dims *pack, og_profile profile, og_random *r) {
  static const int64_t ranks[] = {0, 1, 1, 2, 2, 3};
  static const int64_t small[] = {1, 2, 3, 5};
  pack->rank = (int32_t)CHOOSE(r, ranks);
  for (int32_t i = 0; i < pack->rank; ++i)
    pack->size[i] = pack->rank > 1 && profile == OG_PROFILE_MIXED
                        ? CHOOSE(r, small)
                        : og_sample_size(profile, r);
}

// --- Arguments that are not tensors ------------------------------------------

static int32_t list_length(const og_param *param, og_random *r) {
  if (param->list_size > 0 && param->list_size <= OG_SAMPLE_INTS)
    return param->list_size;
  return (int32_t)og_random_between(r, 1, 4);
}

static int64_t small_int(og_random *r) {
  static const int64_t ints[] = {0, 1, 1, 1, 2, 2, 3, 4, 5, -1};
  return CHOOSE(r, ints);
}

static double small_float(og_random *r) {
  static const double floats[] = {0.5, 1, 2, 0.25, 0.1, 1e-5, 0};
  return floats[og_random_below(r, 7)];
}

static const char *some_word(og_random *r) {
  static const char *const words[] = {"none", "mean", "sum", "max", ""};
  return words[og_random_below(r, 5)];
}

static og_dtype some_type(const og_sample *s, og_random *r) {
  static const og_dtype types[] = {{OG_CODE_FLOAT, 32, 1},
                                   {OG_CODE_FLOAT, 64, 1},
                                   {OG_CODE_INT, 64, 1},
                                   {OG_CODE_BFLOAT, 16, 1}};
  if (s->op->decl->tensor_count > 0 && og_random_chance(r, 40))
    return s->type[0];
  return types[og_random_below(r, 4)];
}

static og_attr scalar_attr(og_random *r) {
  if (og_random_chance(r, 30))
    return (og_attr){.kind = OG_ATTR_INT, .i = small_int(r)};
  return (og_attr){.kind = OG_ATTR_FLOAT, .f = small_float(r)};
}

static og_attr plain_attr(const og_sample *s, og_type type, og_random *r) {
  switch (type) {
    case OG_TYPE_FLOAT:
      return (og_attr){.kind = OG_ATTR_FLOAT, .f = small_float(r)};
    case OG_TYPE_BOOL:
      return (og_attr){.kind = OG_ATTR_BOOL, .i = og_random_below(r, 2)};
    case OG_TYPE_SCALAR:
      return scalar_attr(r);
    case OG_TYPE_SCALAR_TYPE:
      return (og_attr){.kind = OG_ATTR_DTYPE, .dtype = some_type(s, r)};
    case OG_TYPE_DEVICE:
      return (og_attr){.kind = OG_ATTR_DEVICE, .device = og_cpu};
    case OG_TYPE_STR: {
      const char *word = some_word(r);
      return (og_attr){
          .kind = OG_ATTR_STR, .s = word, .count = (int64_t)strlen(word)};
    }
    default:
      return (og_attr){.kind = OG_ATTR_INT, .i = small_int(r)};
  }
}

static void draw_list_attr(og_sample *s, const og_param *param, og_random *r) {
  static const char *const no_words[1] = {""};
  static const int64_t entries[] = {1, 1, 2, 2, 3, 0};
  const int32_t k = param->index;
  og_attr *a = &s->attr[k];
  a->count = list_length(param, r);
  a->kind = param->type == OG_TYPE_FLOAT  ? OG_ATTR_FLOATS
            : param->type == OG_TYPE_BOOL ? OG_ATTR_BOOLS
            : param->type == OG_TYPE_STR  ? OG_ATTR_STRS
                                          : OG_ATTR_INTS;
  if (a->kind == OG_ATTR_STRS) {
    a->count = 1;
    a->strs = no_words;
    return;
  }
  for (int64_t i = 0; i < a->count; ++i) {
    s->floats[k][i] = small_float(r);
    s->ints[k][i] = param->type == OG_TYPE_BOOL ? og_random_below(r, 2)
                                                : CHOOSE(r, entries);
  }
}

// A default list is copied, so that solving may change it.
static bool take_default(og_sample *s, const og_param *param) {
  const int32_t k = param->index;
  og_attr a = param->default_value;
  const bool has_ints = a.kind == OG_ATTR_INTS || a.kind == OG_ATTR_BOOLS;
  if ((has_ints || a.kind == OG_ATTR_FLOATS) && a.count > OG_SAMPLE_INTS)
    return false;
  for (int64_t i = 0; has_ints && i < a.count; ++i) s->ints[k][i] = a.ints[i];
  for (int64_t i = 0; a.kind == OG_ATTR_FLOATS && i < a.count; ++i)
    s->floats[k][i] = a.floats[i];
  s->attr[k] = a;
  return true;
}

static void draw_attr(og_sample *s, const og_param *param, og_random *r) {
  const int default_percent = param->type == OG_TYPE_STR ? 75 : 40;
  if (param->has_default && og_random_chance(r, default_percent) &&
      take_default(s, param))
    return;
  if (param->is_optional && og_random_chance(r, 35)) {
    s->attr[param->index] = (og_attr){.kind = OG_ATTR_NONE};
    return;
  }
  if (param->is_list)
    draw_list_attr(s, param, r);
  else
    s->attr[param->index] = plain_attr(s, param->type, r);
}

// --- What follows from packs -------------------------------------------------

static int64_t axis_draw(int64_t axis, int64_t rank, og_random *random) {
  return og_random_chance(random, 40) ? axis - rank : axis;
}

static void set_ints(og_sample *s, int32_t k, const int64_t *values,
                     int64_t count) {
  s->attr[k].kind = OG_ATTR_INTS;
  s->attr[k].count = count;
  for (int64_t i = 0; i < count; ++i) s->ints[k][i] = values[i];
}

static void shuffled_axes(int32_t rank, int64_t *axes, og_random *r) {
  for (int32_t i = 0; i < rank; ++i) axes[i] = i;
  for (int32_t i = rank - 1; i > 0; --i) {
    const int64_t j = og_random_below(r, i + 1);
    const int64_t held = axes[i];
    axes[i] = axes[j];
    axes[j] = held;
  }
  for (int32_t i = 0; i < rank; ++i) axes[i] = axis_draw(axes[i], rank, r);
}

// A permutation, or for drop and keep a subset, of a pack's dims; a place for a
// new one.
static void follow_result(og_sample *s, const og_item *item, og_random *r) {
  if (item->kind != OG_ITEM_PERMUTE && item->kind != OG_ITEM_DROP &&
      item->kind != OG_ITEM_KEEP && item->kind != OG_ITEM_INSERT)
    return;
  if (s->attr[item->attr].kind == OG_ATTR_NONE) return;
  int64_t axes[OG_SAMPLE_RANK];
  const int32_t rank = s->pack[item->packs[0]].rank;
  if (item->kind == OG_ITEM_INSERT) {
    s->attr[item->attr] =
        (og_attr){.kind = OG_ATTR_INT,
                  .i = axis_draw(og_random_between(r, 0, rank), rank + 1, r)};
    return;
  }
  shuffled_axes(rank, axes, r);
  const int64_t count =
      item->kind == OG_ITEM_PERMUTE ? rank : og_random_between(r, 0, rank);
  set_ints(s, item->attr, axes, count);
}

// D@attr: the axis is where D stands in its pattern.
static void follow_pattern(og_sample *s, const og_pattern *pattern,
                           og_random *r) {
  int64_t before = 0, rank = 0;
  int32_t attr = -1;
  if (!s->is_given[pattern->tensor]) return;
  for (int32_t i = 0; i < pattern->item_count; ++i) {
    const og_item *item = &pattern->items[i];
    if (item->kind == OG_ITEM_DIM && item->attr >= 0) {
      attr = item->attr;
      before = rank;
    }
    rank += item->kind == OG_ITEM_PACK ? s->pack[item->dim].rank
            : item->kind == OG_ITEM_ATTR_PACK
                ? (int64_t)s->attr[item->attr].count
                : 1;
  }
  if (attr < 0) return;
  s->attr[attr] =
      (og_attr){.kind = OG_ATTR_INT, .i = axis_draw(before, rank, r)};
}

void og_sample_follow(og_sample *sample, og_random *random) {
  const og_decl *decl = sample->op->decl;
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    follow_pattern(sample, &decl->patterns[p], random);
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    for (int32_t j = 0; j < decl->shapes[i].item_count; ++j)
      follow_result(sample, &decl->shapes[i].items[j], random);
}

// Packs that are broadcast together: each is the end of one shape, with some
// dims 1.
static void align_packs(og_sample *s, const og_item *item, og_random *r) {
  const og_dims base =
      s->pack[item->packs[og_random_below(r, item->pack_count)]];
  for (int32_t i = 0; i < item->pack_count; ++i) {
    og_dims *pack = &s->pack[item->packs[i]];
    const int32_t cut = og_random_chance(r, 35)
                            ? (int32_t)og_random_between(r, 0, base.rank)
                            : 0;
    pack->rank = base.rank - cut;
    for (int32_t d = 0; d < pack->rank; ++d)
      pack->size[d] = og_random_chance(r, 20) ? 1 : base.size[d + cut];
  }
}

static void align_items(og_sample *s, const og_item *items, int32_t count,
                        og_random *r) {
  for (int32_t i = 0; i < count; ++i)
    if (items[i].kind == OG_ITEM_BROADCAST) align_packs(s, &items[i], r);
}

// --- Tensors -----------------------------------------------------------------

static bool is_varying(const og_decl *decl, int32_t tensor) {
  const og_pattern *pattern = og_pattern_of(decl, tensor);
  for (int32_t i = 0; pattern != NULL && i < pattern->item_count; ++i)
    if (pattern->items[i].kind == OG_ITEM_DIM &&
        decl->dims[pattern->items[i].dim].kind == OG_DIM_VARY)
      return true;
  return false;
}

// Lists may be empty, and those of optional tensors have holes.
static void draw_list(og_sample *s, int32_t t, og_profile profile,
                      og_random *r) {
  const og_decl *decl = s->op->decl;
  const bool is_odd = profile != OG_PROFILE_SMOOTH;
  s->list_count[t] = is_odd && og_random_chance(r, 10)
                         ? 0
                         : (int32_t)og_random_between(r, 1, OG_SAMPLE_LIST);
  if (!decl->params[decl->tensor_params[t]].is_element_optional ||
      is_varying(decl, t) || !is_odd)
    return;
  for (int32_t e = 0; e < s->list_count[t]; ++e)
    if (og_random_chance(r, 25)) s->absent[t] |= 1u << e;
}

static void draw_presence(og_sample *s, og_profile profile, og_random *r) {
  const og_decl *decl = s->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_param *param = &decl->params[decl->tensor_params[t]];
    s->is_given[t] = !param->is_optional || og_random_chance(r, 65);
    s->list_count[t] = 1;
    if (param->is_list) draw_list(s, t, profile, r);
  }
}

// The end of a shape, with some dims 1: it broadcasts to the whole.
static void cut_shape(og_dims *shape, og_random *r) {
  const int32_t cut = (int32_t)og_random_between(r, 0, shape->rank);
  shape->rank -= cut;
  for (int32_t d = 0; d < shape->rank; ++d)
    shape->size[d] = og_random_chance(r, 20) ? 1 : shape->size[d + cut];
}

// Arguments without a pattern may have any shape. Mostly they belong together,
// so they get one shape, or such as broadcast to it.
static void draw_free_shapes(og_sample *s, og_profile profile, og_random *r) {
  const og_decl *decl = s->op->decl;
  const int64_t way = og_random_below(r, 100);
  const bool is_apart = way < 25, is_cut = way >= 25 && way < 45;
  og_dims base;
  draw_pack(&base, profile, r);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    if (og_pattern_of(decl, t) != NULL) continue;
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_dims *shape = &s->shape[t][e];
      *shape = base;
      if (is_apart) draw_pack(shape, profile, r);
      if (is_cut && og_random_chance(r, 50)) cut_shape(shape, r);
    }
  }
}

static void draw_dims(og_sample *s, og_profile profile, og_random *r) {
  const og_decl *decl = s->op->decl;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    s->dim[d] = og_sample_size(profile, r);
    if (decl->dims[d].kind == OG_DIM_PACK) draw_pack(&s->pack[d], profile, r);
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      s->vary[d][e] = og_sample_size(profile, r);
  }
}

// One dim is empty, or large.
static void draw_special(og_sample *s, og_profile profile, og_random *r) {
  static const int64_t large[] = {1000, 1023, 257, 511, 640};
  const og_decl *decl = s->op->decl;
  const int64_t size = profile == OG_PROFILE_ZERO ? 0 : CHOOSE(r, large);
  int32_t sized[OPGRAFT_DIM_MAX];
  int32_t count = 0;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    const og_dim_kind kind = decl->dims[d].kind;
    if (kind == OG_DIM_SIZE || kind == OG_DIM_VARY ||
        (kind == OG_DIM_PACK && s->pack[d].rank > 0))
      sized[count++] = d;
  }
  if (count == 0) return;
  const int32_t d = sized[og_random_below(r, count)];
  s->dim[d] = size;
  if (s->pack[d].rank > 0)
    s->pack[d].size[og_random_below(r, s->pack[d].rank)] = size;
  s->vary[d][og_random_below(r, OG_SAMPLE_LIST)] = size;
}

void og_sample_randomize(og_sample *sample, og_profile profile,
                         og_random *random) {
  const og_decl *decl = sample->op->decl;
  draw_presence(sample, profile, random);
  for (int32_t p = 0; p < decl->param_count; ++p)
    if (decl->params[p].type != OG_TYPE_TENSOR)
      draw_attr(sample, &decl->params[p], random);
  draw_dims(sample, profile, random);
  draw_free_shapes(sample, profile, random);
  if (profile == OG_PROFILE_ZERO || profile == OG_PROFILE_LARGE)
    draw_special(sample, profile, random);
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    align_items(sample, decl->shapes[i].items, decl->shapes[i].item_count,
                random);
  for (int32_t p = 0; p < decl->pattern_count; ++p)
    align_items(sample, decl->patterns[p].items, decl->patterns[p].item_count,
                random);
  og_sample_follow(sample, random);
}
