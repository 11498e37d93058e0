// SPDX-License-Identifier: Apache-2.0
// Values of arguments, and comparison of results.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/trial.h"
#include "check/value.h"

bool og_array_create(og_array *array, og_dtype type, const og_sizes *sizes) {
  *array = (og_array){.type = type, .sizes = *sizes, .count = 1};
  for (int32_t i = 0; i < sizes->rank; ++i) array->count *= sizes->size[i];
  array->data = calloc((size_t)array->count + 1, og_dtype_bytes(type));
  return array->data != NULL;
}

void og_array_as_tensor(const og_array *array, int64_t *strides,
                        og_tensor *out) {
  int64_t step = 1;
  for (int32_t d = array->sizes.rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= array->sizes.size[d];
  }
  *out = (og_tensor){.data = array->data,
                     .device = {OG_CPU, 0},
                     .ndim = array->sizes.rank,
                     .dtype = array->type,
                     .shape = (int64_t *)(uintptr_t)array->sizes.size,
                     .strides = strides};
}

void og_inputs_reset(og_inputs *inputs) {
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      free(inputs->tensor[t][e].data);
      inputs->tensor[t][e].data = NULL;
    }
}

void og_outputs_reset(og_outputs *outputs) {
  for (int32_t i = 0; i < outputs->count; ++i) free(outputs->array[i].data);
  outputs->count = 0;
}

bool og_inputs_copy(og_inputs *to, const og_inputs *from) {
  memset(to, 0, sizeof *to);
  for (int32_t t = 0; t < OPGRAFT_ARG_MAX; ++t)
    for (int32_t e = 0; e < OG_SAMPLE_LIST; ++e) {
      const og_array *a = &from->tensor[t][e];
      if (a->data == NULL) continue;
      og_array *b = &to->tensor[t][e];
      if (!og_array_create(b, a->type, &a->sizes)) {
        og_inputs_reset(to);
        return false;
      }
      memcpy(b->data, a->data, (size_t)a->count * og_dtype_bytes(a->type));
    }
  return true;
}

// --- Values ------------------------------------------------------------------

static bool is_index_argument(const og_decl *decl, int32_t t) {
  int32_t from = t;
  for (int32_t i = 0; i < OPGRAFT_ARG_MAX; ++i)
    if (decl->types[from].same_as >= 0) from = decl->types[from].same_as;
  const og_type_set set = decl->types[from].set;
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    if ((set >> i & 1u) && !og_is_integral(og_dtype_at(i))) return false;
  return decl->tensor_count > 1 || decl->attr_count > 0;
}

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
          if (!is_index_argument(decl, t) && s->shape[t][e].size[d] < bound)
            bound = s->shape[t][e].size[d];
  bound = attr_bound(s, bound);
  return bound < 1 ? 1 : bound;
}

static double index_value(const og_sample *s, int64_t bound, int64_t i,
                          int64_t count, og_random *r) {
  switch (s->index_values) {
    case OG_INDEX_RANDOM:
      return (double)og_random_below(r, bound);
    case OG_INDEX_DISTINCT:
      return (double)((i + (int64_t)s->seed % 2) % bound);
    case OG_INDEX_SORTED:
      return (double)(count > 1 ? i * bound / (count - 1) : 0);
    default:
      return 0;
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
    default:
      return normal;
  }
}

static double int_value(const og_sample *s, og_dtype type, og_random *r) {
  if (s->int_values == OG_INT_SMALL)
    return (double)og_random_between(r, type.code == OG_CODE_UINT ? 0 : -4, 9);
  if (s->int_values == OG_INT_FEW || og_random_chance(r, 50))
    return (double)og_random_below(r, 10);
  // Doubles hold integers of 52 bits.
  const int bits = type.bits > 52 ? 52 : type.bits - (type.code == OG_CODE_INT);
  return (double)og_random_below(r, (int64_t)1 << bits);
}

static void fill(og_array *a, const og_sample *s, bool is_index,
                 uint64_t seed) {
  og_random r = {seed};
  const int64_t bound = og_index_bound(s);
  const size_t bytes = og_dtype_bytes(a->type);
  for (int64_t i = 0; i < a->count; ++i)
    for (int32_t p = 0; p < og_parts(a->type); ++p) {
      double v;
      if (og_is_floating(a->type) || og_is_complex(a->type))
        v = float_value(s, &r);
      else if (a->type.code == OG_CODE_BOOL)
        v = (double)og_random_below(&r, 2);
      else if (is_index)
        v = index_value(s, bound, i, a->count, &r);
      else
        v = int_value(s, a->type, &r);
      og_value_set(a->type, a->data + (size_t)i * bytes, p, v);
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
      fill(a, sample, is_index_argument(decl, t),
           og_seed_mix(sample->seed, (uint64_t)(t * OG_SAMPLE_LIST + e)));
    }
  if (offer(inputs, sample)) return true;
  og_inputs_reset(inputs);
  return false;
}

// --- Expanded arguments ------------------------------------------------------

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

// --- Comparison --------------------------------------------------------------

void og_name_of(const opgraft_op *op, og_buffer_role role, int32_t index,
                int32_t entry, char *out, size_t size) {
  const og_decl *decl = op->decl;
  static const char *const arrays[OG_ARRAY_COUNT] = {
      [OG_ARRAY_IN] = "in",           [OG_ARRAY_OUT] = "out",
      [OG_ARRAY_IN_LIST] = "in_list", [OG_ARRAY_OUT_LIST] = "out_list",
      [OG_ARRAY_ATTR] = "attr",       [OG_ARRAY_DIM] = "dim"};
  if (role == OG_BUFFER_WORKSPACE) {
    snprintf(out, size, "workspace");
    return;
  }
  if (role == OG_BUFFER_ARRAY) {
    snprintf(out, size, "call->%s", arrays[index]);
    return;
  }
  if (role == OG_BUFFER_ATTR_LIST) {
    snprintf(out, size, "%s",
             op->decl->params[op->decl->attr_params[index]].name);
    return;
  }
  const bool is_result = role == OG_BUFFER_RESULT;
  const int32_t result = is_result ? decl->fresh_results[index] : -1;
  const char *name = is_result ? decl->results[result].name
                               : decl->params[decl->tensor_params[index]].name;
  const bool is_list = is_result
                           ? decl->results[result].is_list
                           : decl->params[decl->tensor_params[index]].is_list;
  char plain[56];
  if (name[0] != '\0')
    snprintf(plain, sizeof plain, "%s", name);
  else if (decl->fresh_count > 1)
    snprintf(plain, sizeof plain, "result_%d", (int)result);
  else
    snprintf(plain, sizeof plain, "result");
  if (is_list)
    snprintf(out, size, "%s[%d]", plain, (int)entry);
  else
    snprintf(out, size, "%s", plain);
}

bool og_sizes_equal(const og_sizes *a, const og_sizes *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (a->size[i] != b->size[i]) return false;
  return true;
}

// "3" becomes "0, 3" for a matrix of some width.
static void index_text(const og_sizes *sizes, int64_t flat, char *out,
                       size_t size) {
  int64_t at[OG_SAMPLE_RANK];
  for (int32_t d = sizes->rank - 1; d >= 0; --d) {
    at[d] = flat % sizes->size[d];
    flat /= sizes->size[d];
  }
  size_t used = 0;
  out[0] = '\0';
  for (int32_t d = 0; d < sizes->rank && used < size; ++d)
    used += (size_t)snprintf(out + used, size - used, "%s%lld",
                             d > 0 ? ", " : "", (long long)at[d]);
}

static bool pair_differs(const og_array *a, const og_array *b, double slack,
                         og_verdict *out) {
  if (!og_sizes_equal(&a->sizes, &b->sizes)) {
    snprintf(out->text, sizeof out->text, "another size");
    return true;
  }
  if (slack < 0) {
    const double sa = og_value_slack(a->type), sb = og_value_slack(b->type);
    slack = sa > sb ? sa : sb;
  }
  const bool is_exact = slack == 0 && og_dtype_equal(a->type, b->type);
  const og_difference d =
      is_exact ? og_compare_bits(a->type, a->data, b->data, a->count)
               : og_compare_near(a->type, a->data, b->type, b->data, a->count,
                                 slack);
  if (d.count == 0) return false;
  out->is_integral = og_is_integral(a->type);
  out->is_same_type = og_dtype_equal(a->type, b->type);
  out->count = d.count;
  out->total = a->count;
  char where[96];
  index_text(&a->sizes, d.first, where, sizeof where);
  snprintf(out->text, sizeof out->text,
           "element [%s] is %.6g, not %.6g (%lld of %lld differ)", where, d.a,
           d.b, (long long)d.count, (long long)a->count);
  return true;
}

og_verdict og_outputs_compare(const opgraft_op *op, const og_outputs *found,
                              const og_outputs *wanted, double slack) {
  og_verdict verdict = {.differs = false};
  for (int32_t i = 0; i < found->count && i < wanted->count; ++i) {
    if (!pair_differs(&found->array[i], &wanted->array[i], slack, &verdict))
      continue;
    verdict.differs = true;
    og_name_of(op, found->role[i], found->index[i], found->entry[i],
               verdict.name, sizeof verdict.name);
    return verdict;
  }
  return verdict;
}
