// SPDX-License-Identifier: Apache-2.0
// Values of arguments.

#include "check/run/fill.h"

#include <math.h>
#include <string.h>

#include "check/run/array.h"
#include "check/sample/callback.h"
#include "check/sample/eval.h"
#include "check/sample/offsets.h"
#include "check/sample/sample.h"
#include "check/sample/types.h"
#include "check/sample/value.h"

// Attributes that sizes of the results are made of bound an index as well.
static int64_t attr_bound(const og_sample *s, int64_t bound) {
  const og_decl *decl = s->op->decl;
  for (int32_t i = 0; i < decl->fresh_count; ++i)
    for (int32_t j = 0; j < decl->shapes[i].item_count; ++j) {
      const og_expr *expr = &decl->shapes[i].items[j].expr;
      for (int32_t c = 0; c < expr->count; ++c) {
        if (expr->code[c].op != OG_CODE_ATTR_) continue;
        const og_attr *a = &s->attr[expr->code[c].slot];
        if (a->kind == OG_ATTR_INT && a->i < bound) bound = a->i;
      }
    }
  return bound;
}

// An index below the smallest dim of the other arguments is in range whatever
// it picks from.
int64_t og_index_bound(const og_sample *s) {
  const og_decl *decl = s->op->decl;
  int64_t bound = 8;
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e)
      if (og_sample_has(s, t, e))
        for (int32_t d = 0; d < s->shape[t][e].rank; ++d)
          if (!og_is_index_argument(decl, t) && s->shape[t][e].size[d] < bound)
            bound = s->shape[t][e].size[d];
  bound = attr_bound(s, bound);
  return bound < 1 ? 1 : bound;
}

// Where an argument's indices begin, and how many there are: as `where` says,
// or those that are in range whatever they pick from.
typedef struct bounds {
  int64_t begin;
  int64_t count;
  bool is_said;
} bounds;

static bounds bounds_of(const og_sample *s, int32_t t) {
  bounds b = {0, og_index_bound(s), false};
  b.is_said = og_sample_range(s, t, &b.begin, &b.count);
  return b;
}

static double index_value(const og_sample *s, const bounds *b, int64_t i,
                          int64_t count, og_random *r) {
  switch (s->index_values) {
    case OG_INDEX_RANDOM:
      return (double)(b->begin + og_random_below(r, b->count));
    case OG_INDEX_DISTINCT:
      return (double)(b->begin + (i + (int64_t)(s->seed % 2)) % b->count);
    case OG_INDEX_SORTED:
      return (
          double)(b->begin +
                  (count > 1 ? i * (b->count - b->is_said) / (count - 1) : 0));
    default:
      return (double)b->begin;
  }
}

static double float_value(const og_sample *s, og_random *r) {
  const double normal = og_random_normal(r);
  switch (s->float_values) {
    case OG_FLOAT_POSITIVE:
      return fabs(normal) + 0.1;
    case OG_FLOAT_ZERO:
      return 0;
    case OG_FLOAT_UNIT:
      return og_random_unit(r);
    case OG_FLOAT_WIDE:
      return normal * exp2(6 * og_random_unit(r) - 3);
    case OG_FLOAT_COARSE:
      return og_value_coarse(normal);
    case OG_FLOAT_FILLED:
      return og_value_coarse(0.5 + 0.5 * og_random_unit(r));
    case OG_FLOAT_HALF:
      return og_value_coarse(copysign(200 + 200 * og_random_unit(r), normal));
    default:
      return normal;
  }
}

static double int_value(const og_sample *s, og_dtype type, og_random *r) {
  const bool is_signed = type.code == OG_CODE_INT;
  if (s->int_values == OG_INT_FULL && type.bits == 8)
    return (double)og_random_between(r, is_signed ? -128 : 0,
                                     is_signed ? 127 : 255);
  if (s->int_values == OG_INT_SMALL || s->int_values == OG_INT_FULL)
    return (double)og_random_between(r, is_signed ? -4 : 0, 9);
  if (s->int_values == OG_INT_FEW || og_random_chance(r, 50))
    return (double)og_random_below(r, 10);
  // Doubles hold integers of 52 bits.
  const int bits = type.bits > 52 ? 52 : type.bits - (type.code == OG_CODE_INT);
  return (double)og_random_below(r, (int64_t)1 << bits);
}

static void fill(og_array *a, const og_sample *s, int32_t t, uint64_t seed) {
  og_random r = {seed};
  const bounds bound = bounds_of(s, t);
  const bool is_index =
      bound.is_said ||
      (og_is_index_argument(s->op->decl, t) && a->type.bits > 8);
  const size_t bytes = og_dtype_bytes(a->type);
  for (int64_t i = 0; i < a->count; ++i)
    for (int32_t p = 0; p < og_parts(a->type); ++p) {
      double v;
      if (og_has_fractions(a->type))
        v = float_value(s, &r);
      else if (a->type.code == OG_CODE_BOOL)
        v = (double)og_random_below(&r, 2);
      else if (is_index)  // bytes are numbers, where nothing is said
        v = index_value(s, &bound, i, a->count, &r);
      else
        v = int_value(s, a->type, &r);
      og_value_set(a->type, a->data + (size_t)i * bytes, p, v);
    }
}

// Where the type holds it: else the two may rightly be told apart.
static void set_edge(og_array *a, double value, og_random *r) {
  char held[16] = {0};
  og_value_set(a->type, held, 0, value);
  if (a->count > 0 && og_value_get(a->type, held, 0) == value)
    og_value_set(a->type,
                 a->data + (size_t)og_random_below(r, a->count) *
                               og_dtype_bytes(a->type),
                 0, value);
}

static void set_edges(og_array *a, const og_sample *s, uint64_t seed) {
  og_random r = {og_seed_mix(seed, 91)};
  if (!og_is_floating(a->type)) return;
  for (int32_t k = 0; k < s->op->decl->attr_count; ++k) {
    if (s->attr[k].kind == OG_ATTR_FLOAT) set_edge(a, s->attr[k].f, &r);
    for (int64_t i = 0;
         s->attr[k].kind == OG_ATTR_FLOATS && i < s->attr[k].count; ++i)
      set_edge(a, s->floats[k][i], &r);
  }
}

// Infinities or NaN, of one kind in a call, at some places or in a whole row.
static void set_special(og_array *a, const og_sample *s) {
  static const double kinds[] = {-INFINITY, INFINITY, NAN};
  const double value = kinds[s->seed % 3];
  og_random r = {og_seed_mix(s->seed, 92)};
  const int64_t row = a->sizes.rank > 0 ? a->sizes.size[a->sizes.rank - 1] : 1;
  if (a->count == 0) return;
  const int64_t begin = og_random_below(&r, a->count / row) * row;
  const bool is_row = og_random_chance(&r, 50);
  for (int64_t i = 0; i < a->count; ++i)
    if (is_row ? i >= begin && i < begin + row : og_random_chance(&r, 15))
      og_array_set(a, i, value);
}

// Halves, which 8-bit results round by ties; smaller arguments scale them, or
// move them by whole numbers.
static void set_ties(og_array *a, bool is_largest, uint64_t seed) {
  og_random r = {og_seed_mix(seed, 93)};
  for (int64_t i = 0; i < a->count; ++i)
    og_array_set(a, i,
                 is_largest ? (double)og_random_between(&r, -64, 64) / 2
                            : (double)(1 << og_random_below(&r, 3)));
}

// The floating argument that the seed chooses, or the one with most elements;
// -1: none is one.
static int32_t float_argument(const og_inputs *inputs, const og_sample *s,
                              bool is_largest) {
  int32_t found = -1, count = 0;
  og_random r = {og_seed_mix(s->seed, 94)};
  for (int32_t t = 0; t < s->op->decl->tensor_count; ++t) {
    const og_array *a = &inputs->tensor[t][0];
    if (a->data == NULL || !og_is_floating(a->type)) continue;
    ++count;
    if (found < 0 || (is_largest ? a->count > inputs->tensor[found][0].count
                                 : og_random_below(&r, count) == 0))
      found = t;
  }
  return found;
}

static void set_kind(og_inputs *inputs, const og_sample *s) {
  const bool is_ties = s->float_values == OG_FLOAT_TIES;
  const int32_t chosen = float_argument(inputs, s, is_ties);
  if (chosen < 0) return;
  if (s->float_values == OG_FLOAT_SPECIAL)
    set_special(&inputs->tensor[chosen][0], s);
  for (int32_t t = 0; is_ties && t < s->op->decl->tensor_count; ++t) {
    og_array *a = &inputs->tensor[t][0];
    if (a->data != NULL && og_is_floating(a->type))
      set_ties(a, a->count == inputs->tensor[chosen][0].count,
               og_seed_mix(s->seed, (uint64_t)t));
  }
}

// What the operator itself has to say of its arguments' values.
static bool offer(og_inputs *inputs, const og_sample *sample) {
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST] = {{NULL}};
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
  for (int32_t t = 0; t < sample->op->decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      og_array *a = &inputs->tensor[t][e];
      if (a->data == NULL) continue;
      og_array_as_tensor(a, strides[t][e], &tensor[t][e]);
      entry[t][e] = &tensor[t][e];
    }
  return og_sample_offer(sample, entry);
}

bool og_inputs_fill(og_inputs *inputs, const og_sample *sample) {
  const og_decl *decl = sample->op->decl;
  memset(inputs, 0, sizeof *inputs);
  for (int32_t t = 0; t < decl->tensor_count; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      if (!og_sample_has(sample, t, e)) continue;
      og_array *a = &inputs->tensor[t][e];
      if (!og_array_create(a, sample->type[t], &sample->shape[t][e])) {
        og_inputs_reset(inputs);
        return false;
      }
      const uint64_t seed =
          og_seed_mix(sample->seed, (uint64_t)(t * OG_SAMPLE_LIST + e));
      og_random r = {seed};
      if (og_is_offsets_argument(decl, t))
        og_offsets_fill(sample, t, a->type, a->data, a->count, &r);
      else
        fill(a, sample, t, seed);
      if (sample->float_values == OG_FLOAT_EDGES) set_edges(a, sample, seed);
    }
  set_kind(inputs, sample);
  if (offer(inputs, sample)) return true;
  og_inputs_reset(inputs);
  return false;
}

static void make_equal(og_array *a, int32_t dim) {
  const size_t bytes = og_dtype_bytes(a->type);
  int64_t inner = 1;
  for (int32_t d = dim + 1; d < a->sizes.rank; ++d) inner *= a->sizes.size[d];
  for (int64_t i = 0; i < a->count; ++i) {
    const int64_t at = i / inner % a->sizes.size[dim];
    memcpy(a->data + (size_t)i * bytes,
           a->data + (size_t)(i - at * inner) * bytes, bytes);
  }
}

bool og_inputs_expand(og_inputs *inputs, const og_sample *sample, uint64_t seed,
                      int32_t out_dim[OPGRAFT_ARG_MAX]) {
  const og_decl *decl = sample->op->decl;
  og_random r = {seed};
  bool any = false;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    const og_param *param = &decl->params[decl->tensor_params[t]];
    og_array *a = &inputs->tensor[t][0];
    int32_t dims = a->sizes.rank;
    if (decl->strides[t] == OG_STRIDES_LAST) --dims;
    out_dim[t] = -1;
    if (param->is_mutated || param->is_list || a->data == NULL ||
        decl->strides[t] == OG_STRIDES_CONTIGUOUS || dims < 1 || a->count == 0)
      continue;
    out_dim[t] = (int32_t)og_random_below(&r, dims);
    make_equal(a, out_dim[t]);
    any = true;
  }
  return any;
}
