// SPDX-License-Identifier: Apache-2.0
// Samples: shapes from names, the question to og_infer, text, smaller ones.

#include "check/sample.h"

#include <string.h>

enum {
  ELEMENT_LIMIT = 1 << 17,
  DRAW_TRIES = 60,
  LOOKED_MAX = 1 << 12,  // combinations of types
};

// --- Shapes from names -------------------------------------------------------

static bool sizes_add(og_sizes *sizes, int64_t size) {
  if (sizes->rank >= OG_SAMPLE_RANK || size < 0) return false;
  sizes->size[sizes->rank++] = size;
  return true;
}

static bool sizes_add_all(og_sizes *sizes, const int64_t *more, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!sizes_add(sizes, more[i])) return false;
  return true;
}

// Packs align at their last dims, sizes equal or 1.
static bool add_broadcast(const og_sample *s, const og_item *item,
                          og_sizes *out) {
  og_sizes joint = {0};
  for (int32_t i = 0; i < item->pack_count; ++i)
    if (s->pack[item->packs[i]].rank > joint.rank)
      joint.rank = s->pack[item->packs[i]].rank;
  for (int32_t d = 0; d < joint.rank; ++d) joint.size[d] = 1;
  for (int32_t i = 0; i < item->pack_count; ++i) {
    const og_sizes *pack = &s->pack[item->packs[i]];
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
                           og_sizes *out) {
  const og_sizes *pack = &s->pack[item->packs[0]];
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
                       og_sizes *out) {
  int64_t value;
  const og_sizes *pack = &s->pack[item->dim < 0 ? 0 : item->dim];
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
    og_sizes *out = &s->shape[t][e];
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

static int64_t sizes_numel(const og_sizes *sizes) {
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

// --- The question to og_infer ------------------------------------------------

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

// Tensors without memory: og_infer looks at shapes only. `infer` callbacks
// may look at data; they get elements that are zero.
static int64_t nothing[64];

static void tensor_sketch(const og_sample *s, int32_t t, int32_t e,
                          int64_t *strides, og_tensor *out) {
  const og_sizes *sizes = &s->shape[t][e];
  int64_t step = 1;
  for (int32_t i = sizes->rank - 1; i >= 0; --i) {
    strides[i] = step;
    if (!og_i64_mul(step, sizes->size[i], &step)) step = 1;
  }
  *out = (og_tensor){.data = nothing,
                     .device = {OG_CPU, 0},
                     .ndim = sizes->rank,
                     .dtype = s->type[t],
                     .shape = (int64_t *)(uintptr_t)sizes->size,
                     .strides = strides};
}

typedef struct sketch {
  opgraft_frame frame;
  og_tensor tensor[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  og_tensor *entry[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST];
  int64_t strides[OPGRAFT_ARG_MAX][OG_SAMPLE_LIST][OG_SAMPLE_RANK];
} sketch;

static void sketch_fill(sketch *k, const og_sample *s) {
  const og_decl *decl = s->op->decl;
  opgraft_frame_init(&k->frame, s->op);
  og_sample_attrs(s, k->frame.attr);
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    k->frame.in[t] = NULL;
    k->frame.in_list[t] = (og_tensor_list){0};
    if (!s->is_given[t]) continue;
    for (int32_t e = 0; e < s->list_count[t]; ++e) {
      k->entry[t][e] = NULL;
      if (!og_sample_has(s, t, e)) continue;
      tensor_sketch(s, t, e, k->strides[t][e], &k->tensor[t][e]);
      k->entry[t][e] = &k->tensor[t][e];
    }
    if (decl->params[decl->tensor_params[t]].is_list)
      k->frame.in_list[t] = (og_tensor_list){s->list_count[t], k->entry[t]};
    else
      k->frame.in[t] = &k->tensor[t][0];
  }
}

static int64_t fresh_numel(const opgraft_frame *frame) {
  int64_t n = 0;
  for (int32_t i = 0; i < frame->fresh_count; ++i) {
    const og_decl *decl = frame->op->decl;
    if (decl->results[decl->fresh_results[i]].is_list) {
      for (int64_t e = 0; e < frame->fresh_list[i].count; ++e)
        n += og_numel(frame->fresh_list[i].tensors[e]);
    } else {
      int64_t one = 1;
      for (int32_t d = 0; d < frame->fresh[i].ndim; ++d)
        if (!og_i64_mul(one, frame->fresh[i].shape[d], &one)) return INT64_MAX;
      if (!og_i64_add(n, one, &n)) return INT64_MAX;
    }
  }
  return n;
}

bool og_sample_is_valid(og_sample *sample, int64_t element_limit,
                        opgraft_error *error) {
  if (!og_sample_settle(sample, error)) return false;
  if (!og_sample_build(sample)) {
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "the shape rule has no value for a sampled call");
    return false;
  }
  if (og_sample_numel(sample) > element_limit) return false;
  sketch *k = og_alloc(sizeof *k);
  if (k == NULL) {
    og_error_set(error, OG_MEMORY, sample->op->decl->name, NULL,
                 "not enough memory to sample calls");
    return false;
  }
  sketch_fill(k, sample);
  bool ok = og_infer(sample->op->decl, &k->frame, error) == OG_OK;
  if (ok && fresh_numel(&k->frame) > element_limit) {
    og_error_set(error, OG_SHAPE, sample->op->decl->name, NULL,
                 "the results of sampled calls are too large");
    ok = false;
  }
  opgraft_frame_reset(&k->frame);
  og_free(k);
  return ok;
}

bool og_sample_draw(const opgraft_op *op, og_profile profile,
                    const int32_t types[OG_VARIABLE_MAX], uint64_t seed,
                    og_sample *out, opgraft_error *error) {
  const int64_t limit = profile == OG_PROFILE_SMOOTH ? 1 << 12 : ELEMENT_LIMIT;
  for (uint64_t i = 0; i < DRAW_TRIES; ++i) {
    og_random random = {og_seed_mix(seed, i)};
    memset(out, 0, sizeof *out);
    out->op = op;
    out->seed = og_random_next(&random);
    out->structure_seed = out->seed;
    og_sample_set_types(out, types);
    og_sample_randomize(out, profile, &random);
    if (og_sample_solve(out, profile, &random) &&
        og_sample_is_valid(out, limit, error))
      return true;
    // What is hard to meet at an edge or far out is tried in the middle.
    if (i == DRAW_TRIES / 2 && profile != OG_PROFILE_SMOOTH)
      profile = OG_PROFILE_TINY;
  }
  return false;
}

// --- Types -------------------------------------------------------------------

static bool kernel_takes(const opgraft_op *op, int32_t k,
                         const int32_t *types) {
  const og_decl *decl = op->decl;
  const og_type_set *sets = decl->kernel_types + (size_t)k * OG_VARIABLE_MAX;
  if (decl->kernels[k].device != OG_CPU || !op->kernel_available[k])
    return false;
  for (int32_t v = 0; v < decl->type_variable_count; ++v)
    if (!(sets[v] >> types[v] & 1u)) return false;
  return true;
}

static bool has_kernel(const opgraft_op *op, const int32_t *types) {
  for (int32_t k = 0; k < op->decl->kernel_count; ++k)
    if (kernel_takes(op, k, types)) return true;
  return false;
}

static bool variable_accepts(const opgraft_op *op, int32_t v, int32_t type) {
  return op->decl->types[op->variable_tensor[v]].set >> type & 1u;
}

// The first type from `from` on that free type v may have; the table's length
// if there is none.
static int32_t next_type(const opgraft_op *op, int32_t v, int32_t from) {
  while (from < og_dtype_table_count() && !variable_accepts(op, v, from))
    ++from;
  return from;
}

bool og_sample_has_types(const opgraft_op *op, const int32_t *types) {
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v)
    if (!variable_accepts(op, v, types[v])) return false;
  return has_kernel(op, types);
}

// The next combination in the order of the type table; false behind the last.
static bool next_types(const opgraft_op *op, int32_t *now) {
  for (int32_t v = 0; v < op->decl->type_variable_count; ++v) {
    now[v] = next_type(op, v, now[v] + 1);
    if (now[v] < og_dtype_table_count()) return true;
    now[v] = next_type(op, v, 0);
  }
  return false;
}

static bool is_one_type(const opgraft_op *op, const int32_t *types) {
  for (int32_t v = 1; v < op->decl->type_variable_count; ++v)
    if (types[v] != types[0]) return false;
  return true;
}

// How many combinations there are with one type, and with several.
static bool count_types(const opgraft_op *op, int32_t *first,
                        int32_t *out_one_type, int32_t *out_mixed) {
  const int32_t variables = op->decl->type_variable_count;
  *out_one_type = *out_mixed = 0;
  for (int32_t v = 0; v < variables; ++v) {
    first[v] = next_type(op, v, 0);
    if (first[v] == og_dtype_table_count()) return false;
  }
  int32_t now[OG_VARIABLE_MAX];
  memcpy(now, first, sizeof now);
  int32_t looked = 0;
  do {
    if (has_kernel(op, now))
      ++*(is_one_type(op, now) ? out_one_type : out_mixed);
  } while (++looked < LOOKED_MAX && next_types(op, now));
  return true;
}

int32_t og_sample_types(const opgraft_op *op, int32_t max,
                        int32_t (*out_types)[OG_VARIABLE_MAX]) {
  int32_t now[OG_VARIABLE_MAX] = {0};
  int32_t one_type, mixed;
  if (!count_types(op, now, &one_type, &mixed)) return 0;
  // Where there are too many, those with one type come first, and of the
  // others so many as there is room for, evenly.
  const int32_t kept_one =
      one_type + mixed <= max || one_type < max / 2 ? one_type : max / 2;
  const int32_t room = max - kept_one < mixed ? max - kept_one : mixed;
  int32_t count = 0, ones = 0, others = 0, looked = 0;
  do {
    if (!has_kernel(op, now)) continue;
    bool is_kept = false;
    if (is_one_type(op, now)) {
      is_kept = ones++ < kept_one;
    } else {
      is_kept =
          (int64_t)(others + 1) * room / mixed > (int64_t)others * room / mixed;
      ++others;
    }
    if (is_kept) memcpy(out_types[count++], now, sizeof now);
  } while (++looked < LOOKED_MAX && next_types(op, now));
  return count;
}

static int32_t first_type(og_type_set set) {
  for (int32_t i = 0; i < og_dtype_table_count(); ++i)
    if (set >> i & 1u) return i;
  return 0;
}

void og_sample_set_types(og_sample *sample,
                         const int32_t types[OG_VARIABLE_MAX]) {
  const og_decl *decl = sample->op->decl;
  for (int32_t t = 0; t < decl->tensor_count; ++t) {
    int32_t from = t;
    for (int32_t i = 0; i < OPGRAFT_ARG_MAX; ++i)
      if (decl->types[from].same_as >= 0) from = decl->types[from].same_as;
    const int32_t v = decl->types[from].variable;
    sample->type[t] =
        og_dtype_at(v >= 0 ? types[v] : first_type(decl->types[from].set));
  }
}

// --- Text --------------------------------------------------------------------

static void describe_sizes(const og_sizes *sizes, og_text *out) {
  og_text_add(out, "[");
  for (int32_t i = 0; i < sizes->rank; ++i)
    og_text_addf(out, "%s%lld", i > 0 ? ", " : "", (long long)sizes->size[i]);
  og_text_add(out, "]");
}

static void describe_tensor(const og_sample *s, int32_t t, bool is_list,
                            og_text *out) {
  og_text_addf(out, " %s", og_dtype_name(s->type[t]));
  if (is_list) og_text_add(out, "{");
  for (int32_t e = 0; e < s->list_count[t]; ++e) {
    if (e > 0) og_text_add(out, ", ");
    if (og_sample_has(s, t, e))
      describe_sizes(&s->shape[t][e], out);
    else
      og_text_add(out, "None");
  }
  if (is_list) og_text_add(out, "}");
}

static void describe_list(const og_sample *s, int32_t k, og_text *out) {
  const og_attr *a = &s->attr[k];
  og_text_add(out, "[");
  for (int64_t i = 0; i < a->count; ++i) {
    if (i > 0) og_text_add(out, ", ");
    if (a->kind == OG_ATTR_FLOATS)
      og_text_addf(out, "%g", s->floats[k][i]);
    else
      og_text_addf(out, "%lld", (long long)s->ints[k][i]);
  }
  og_text_add(out, "]");
}

static void describe_attr(const og_sample *s, int32_t k, og_text *out) {
  const og_attr *a = &s->attr[k];
  switch (a->kind) {
    case OG_ATTR_NONE:
      og_text_add(out, "None");
      break;
    case OG_ATTR_FLOAT:
      og_text_addf(out, "%g", a->f);
      break;
    case OG_ATTR_COMPLEX:
      og_text_addf(out, "%g+%gj", a->f, a->imag);
      break;
    case OG_ATTR_BOOL:
      og_text_add(out, a->i ? "True" : "False");
      break;
    case OG_ATTR_STR:
      og_text_addf(out, "\"%s\"", a->s);
      break;
    case OG_ATTR_DTYPE:
      og_text_add(out, og_dtype_name(a->dtype));
      break;
    case OG_ATTR_DEVICE:
      og_text_add(out, "cpu");
      break;
    case OG_ATTR_INT:
      og_text_addf(out, "%lld", (long long)a->i);
      break;
    default:
      describe_list(s, k, out);
      break;
  }
}

void og_sample_describe(const og_sample *sample, og_text *out) {
  const og_decl *decl = sample->op->decl;
  for (int32_t p = 0; p < decl->param_count; ++p) {
    const og_param *param = &decl->params[p];
    if (p > 0) og_text_add(out, ", ");
    og_text_add(out, param->name);
    if (param->type != OG_TYPE_TENSOR) {
      og_text_add(out, "=");
      describe_attr(sample, param->index, out);
    } else if (!sample->is_given[param->index]) {
      og_text_add(out, "=None");
    } else {
      describe_tensor(sample, param->index, param->is_list, out);
    }
  }
}

// --- Smaller samples ---------------------------------------------------------

// What a size may become, smallest first.
static bool smaller_size(int64_t *size, int32_t way) {
  const int64_t ways[] = {0, 1, 2, *size / 2, *size - 1};
  const int64_t next = ways[way];
  if (next >= *size || next < 0) return false;
  *size = next;
  return true;
}

enum { SIZE_WAYS = 5 };

bool og_sample_shrink(const og_sample *sample, int32_t step, og_sample *out) {
  const og_decl *decl = sample->op->decl;
  const int32_t way = step % SIZE_WAYS;
  int32_t at = step / SIZE_WAYS;
  *out = *sample;
  for (int32_t d = 0; d < decl->dim_count; ++d) {
    if (decl->dims[d].kind == OG_DIM_SIZE && at-- == 0) {
      smaller_size(&out->dim[d], way);
      return true;
    }
    for (int32_t i = 0; i < sample->pack[d].rank; ++i)
      if (decl->dims[d].kind == OG_DIM_PACK && at-- == 0) {
        smaller_size(&out->pack[d].size[i], way);
        return true;
      }
    for (int32_t i = 0; i < OG_SAMPLE_LIST; ++i)
      if (decl->dims[d].kind == OG_DIM_VARY && at-- == 0) {
        smaller_size(&out->vary[d][i], way);
        return true;
      }
  }
  for (int32_t k = 0; k < decl->attr_count; ++k)
    if (sample->attr[k].kind == OG_ATTR_INT && at-- == 0) {
      smaller_size(&out->attr[k].i, way);
      return true;
    }
  return false;
}
